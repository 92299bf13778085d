//! The hot loop: words of one log in, stamped core events out.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "bit fields: every narrowing here takes exactly the bits the format gives"
)]

use crate::{
    error::What,
    exits::{Exits, ToldExit},
    kind::*,
    other::unpack,
    record::{
        ADDRESS_BITS, PRIO_UNKNOWN, REASON_INVALID, VCPU_UNKNOWN, VCPU_UNKNOWN_INJ, VCPU_UNKNOWN_S,
        access_of, bits, context_of, op_of, prio_of, signed, source_of, state_of,
    },
    sink::{Lost, LostCause, Sink},
};
use transect_model::{
    event::{BlockRequest, Comm, CoreEvent, DeviceName},
    exit::{ExitReason, Isa},
    ids::{CpuId, Tid, VcpuId},
    interrupt::VectorSource,
    stack::MAX_STACKS,
    time::Timestamp,
};

/// What a log's words mean beyond themselves: from the file's header and names.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) isa: Isa,
    /// Words per record by kind, the file's own kinds included; 0 = not known.
    pub(crate) words: [u8; KINDS],
    /// Names of network devices by number; empty where unknown.
    pub(crate) devices: Vec<DeviceName>,
    /// Added to the numbers of stacks.
    pub(crate) stacks_from: u32,
}

impl Context {
    pub(crate) fn name_device(&mut self, number: u64, name: DeviceName) {
        let number = (number & 0x3fff) as usize;
        if self.devices.len() <= number {
            self.devices.resize(number + 1, Comm::default());
        }
        self.devices[number] = name;
    }

    /// An event with numbers that are the recording's, not the file's.
    fn in_recording(&self, event: CoreEvent) -> CoreEvent {
        let CoreEvent::Stack { point, kernel, user, woken } = event else { return event };
        let number = |stack: Option<u32>| {
            stack.filter(|stack| *stack < MAX_STACKS)?.checked_add(self.stacks_from)
        };
        CoreEvent::Stack { point, kernel: number(kernel), user: number(user), woken }
    }

    fn device(&self, number: u64) -> DeviceName {
        match self.devices.get(number as usize) {
            Some(name) if !name.as_bytes().is_empty() => *name,
            _ => Comm::new(format!("#{number}").as_bytes()),
        }
    }
}

/// What one record says of those after it.
#[derive(Clone, Debug)]
pub(crate) struct State {
    /// Running time of the log.
    now_ns: u64,
    current: Tid,
    current_prio: i32,
    /// High half of the last full rip in this chunk, in place.
    rip_high: u64,
    /// VM exits that this chunk has told.
    exits: Exits,
    /// LOST counts told since the log's `lost` was last taken over.
    pub(crate) lost_told: u64,
    /// The next SYNC takes `lost` over: nothing before it was read.
    fresh: bool,
    /// That SYNC was the last record: a LOST after it is counted in already.
    just_synced: bool,
    /// The END of a folded record that lies beyond where decoding was to stop.
    end: Option<(u64, CoreEvent)>,
}

/// Where to stop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    /// After so many events (one more if the last is an interval).
    pub(crate) events: usize,
    /// Before the first event later than this.
    pub(crate) until_ns: u64,
}

/// Why decoding stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// No more words.
    End,
    /// A limit was reached.
    Limit,
    /// The words at hand cannot be a record.
    Bad(What),
}

impl State {
    pub(crate) fn new() -> Self {
        State {
            now_ns: 0,
            current: Tid::IDLE,
            current_prio: PRIO_UNKNOWN,
            rip_high: 0,
            exits: Exits::default(),
            lost_told: 0,
            fresh: true,
            just_synced: false,
            end: None,
        }
    }

    /// After a hole: nothing is known until the next SYNC.
    pub(crate) fn forget(&mut self) {
        *self = State { end: self.end, ..State::new() };
    }

    /// Decodes from `words[*at]` on; `made` counts the events given to the sink.
    #[inline]
    pub(crate) fn decode<S: Sink>(
        &mut self,
        context: &mut Context,
        words: &[[u8; 8]],
        at: &mut usize,
        limit: Limit,
        made: &mut usize,
        sink: &mut S,
    ) -> Stop {
        if let Some((ts_ns, event)) = self.end {
            if ts_ns > limit.until_ns {
                return Stop::Limit;
            }
            self.end = None;
            sink.event(Timestamp::new(ts_ns), self.current, event);
            *made += 1;
        }
        let mut now_ns = self.now_ns;
        let mut pos = *at;
        let mut count = *made;
        let stop = 'stop: loop {
            if count >= limit.events {
                break Stop::Limit;
            }
            let Some(first) = words.get(pos) else { break Stop::End };
            let w0 = u64::from_le_bytes(*first);
            let kind = (w0 & 63) as u8;
            let a = w0 >> 30;
            macro_rules! word {
                ($n:literal) => {
                    match words.get(pos + $n) {
                        Some(word) => u64::from_le_bytes(*word),
                        None => break 'stop Stop::Bad(What::CutRecord { kind }),
                    }
                };
            }
            macro_rules! stamp {
                () => {{
                    let Some(ts_ns) = now_ns.checked_add((w0 >> 6) & 0xff_ffff) else {
                        break 'stop Stop::Bad(What::Stamp);
                    };
                    if ts_ns > limit.until_ns {
                        break 'stop Stop::Limit;
                    }
                    ts_ns
                }};
            }
            macro_rules! event {
                ($words:literal, $event:expr) => {{
                    let ts_ns = stamp!();
                    let event = $event;
                    sink.event(Timestamp::new(ts_ns), self.current, event);
                    now_ns = ts_ns;
                    count += 1;
                    pos += $words;
                }};
            }
            macro_rules! folded {
                ($words:literal, $dur:expr, $begin:expr, $end:expr) => {{
                    let ts_ns = stamp!();
                    let Some(end_ns) = ts_ns.checked_add($dur) else {
                        break 'stop Stop::Bad(What::Stamp);
                    };
                    sink.event(Timestamp::new(ts_ns), self.current, $begin);
                    now_ns = end_ns;
                    count += 1;
                    pos += $words;
                    if end_ns > limit.until_ns {
                        self.end = Some((end_ns, $end));
                        break 'stop Stop::Limit;
                    }
                    sink.event(Timestamp::new(end_ns), self.current, $end);
                    count += 1;
                }};
            }
            match kind {
                SYNC => {
                    let (ns, lost) = (word!(1), word!(2));
                    now_ns = ns;
                    self.sync(a, lost);
                    pos += 3;
                    continue;
                }
                TIME => {
                    now_ns = word!(1);
                    pos += 2;
                    continue;
                }
                LOST => {
                    let (first_ns, last_ns) = (word!(1), word!(2));
                    sink.lost(self.lost(a, first_ns, last_ns));
                    now_ns = last_ns;
                    pos += 3;
                }
                SWITCH => {
                    let ts_ns = stamp!();
                    let prev = self.current;
                    let event = self.switch(a, prev, self.current_prio);
                    sink.event(Timestamp::new(ts_ns), prev, event);
                    now_ns = ts_ns;
                    count += 1;
                    pos += 1;
                }
                SWITCH_FROM => {
                    let w1 = word!(1);
                    let prev = Tid(w1 as u32 as i32);
                    let ts_ns = stamp!();
                    let event = self.switch(a, prev, (w1 >> 32) as u32 as i32);
                    sink.event(Timestamp::new(ts_ns), prev, event);
                    now_ns = ts_ns;
                    count += 1;
                    pos += 2;
                }
                WAKING => event!(
                    1,
                    CoreEvent::SchedWaking {
                        tid: tid(a),
                        comm: Comm::default(),
                        prio: PRIO_UNKNOWN,
                        target_cpu: cpu(bits(a, 22, 12)),
                        context: None,
                    }
                ),
                WAKING_IN => event!(
                    1,
                    CoreEvent::SchedWaking {
                        tid: tid(a),
                        comm: Comm::default(),
                        prio: PRIO_UNKNOWN,
                        target_cpu: cpu(bits(a, 22, 10)),
                        context: Some(context_of(bits(a, 32, 2))),
                    }
                ),
                WAKEUP_NEW => event!(
                    1,
                    CoreEvent::SchedWakeupNew {
                        tid: tid(a),
                        comm: Comm::default(),
                        prio: PRIO_UNKNOWN,
                        target_cpu: cpu(bits(a, 22, 12)),
                    }
                ),
                MIGRATE => event!(
                    2,
                    CoreEvent::SchedMigrate {
                        tid: tid(a),
                        orig_cpu: cpu(word!(1)),
                        dest_cpu: cpu(bits(a, 22, 12)),
                    }
                ),
                FORK => event!(
                    2,
                    CoreEvent::SchedFork {
                        parent: Tid((word!(1) >> 32) as u32 as i32),
                        child: tid(a),
                        child_pid: Some(Tid(word!(1) as u32 as i32)).filter(|pid| pid.0 > 0),
                        child_comm: Comm::default(),
                    }
                ),
                EXEC => event!(
                    2,
                    CoreEvent::SchedExec { tid: tid(a), old_tid: Tid(word!(1) as u32 as i32) }
                ),
                EXIT => event!(1, CoreEvent::SchedExit { tid: tid(a), comm: Comm::default() }),
                NAME => event!(
                    3,
                    CoreEvent::TaskRename { tid: tid(a), new_comm: name(word!(1), word!(2)) }
                ),
                KVM_ENTRY => event!(1, CoreEvent::KvmEntry { vcpu: vcpu(a), rip: None }),
                KVM_EXIT => {
                    let (rip, info1) = (word!(1), word!(2));
                    event!(3, {
                        self.rip_high = rip & HIGH;
                        if let Some(exit) = ToldExit::of_long(a, rip, info1) {
                            self.exits.take(exit);
                        }
                        kvm_exit(context.isa, a, rip, info1)
                    });
                }
                KVM_EXIT_S => {
                    let rip = word!(1);
                    event!(2, {
                        self.rip_high = rip & HIGH;
                        self.exits.take(ToldExit::of_short(a, rip));
                        short_exit(context.isa, a, rip, bits(a, 24, 10))
                    });
                }
                KVM_EXIT_ENTRY => {
                    let (rip, w2) = (word!(1), word!(2));
                    folded!(
                        3,
                        w2 & LOW,
                        {
                            self.rip_high = rip & HIGH;
                            self.exits.take(ToldExit::of_folded(a, rip, w2 >> 32));
                            short_exit(context.isa, a, rip, w2 >> 32)
                        },
                        short_entry(a)
                    );
                }
                KVM_EXIT_ENTRY_S => {
                    let w1 = word!(1);
                    let rip = self.rip_high | w1 >> 32;
                    folded!(
                        2,
                        w1 & LOW,
                        {
                            self.exits.take(ToldExit::of_short(a, rip));
                            short_exit(context.isa, a, rip, bits(a, 24, 10))
                        },
                        short_entry(a)
                    );
                }
                KVM_EXIT_R => {
                    let Some(exit) = self.exits.get(a) else {
                        break Stop::Bad(What::UntoldExit { kind });
                    };
                    event!(1, told_exit(context.isa, exit));
                }
                KVM_EXIT_ENTRY_R => {
                    let Some(exit) = self.exits.get(a) else {
                        break Stop::Bad(What::UntoldExit { kind });
                    };
                    folded!(
                        1,
                        bits(a, 4, 30),
                        told_exit(context.isa, exit),
                        short_entry(exit.what)
                    );
                }
                KVM_INJ_ENTRY => {
                    let vcpu = Some(bits(a, 8, 8)).filter(|vcpu| *vcpu != VCPU_UNKNOWN_INJ);
                    folded!(
                        1,
                        bits(a, 16, 18),
                        CoreEvent::KvmInjVirq { vector: bits(a, 0, 8) as u32, reinjected: false },
                        CoreEvent::KvmEntry {
                            vcpu: vcpu.map(|vcpu| VcpuId(vcpu as u32)),
                            rip: None
                        }
                    );
                }
                KVM_HYPERCALL => event!(1, CoreEvent::KvmHypercall { nr: a, args: [0; 4] }),
                KVM_HYPERCALL_A => {
                    let mut nr = a;
                    let mut args = [word!(1), word!(2), 0, 0];
                    let mut length = 3;
                    if let Some([m0, m1, m2, ..]) = words.get(pos + 3..)
                        && m0[0] & 63 == MORE
                    {
                        nr |= u64::from_le_bytes(*m0) >> 30 << 34;
                        args[2] = u64::from_le_bytes(*m1);
                        args[3] = u64::from_le_bytes(*m2);
                        length = 6;
                    }
                    event!(0, CoreEvent::KvmHypercall { nr, args });
                    pos += length;
                }
                KVM_USERSPACE_EXIT => event!(
                    1,
                    CoreEvent::KvmUserspaceExit {
                        reason: bits(a, 0, 16) as u32,
                        errno: signed(a, 16, 16) as i32,
                    }
                ),
                KVM_HALT_POLL => {
                    let w1 = word!(1);
                    event!(
                        2,
                        CoreEvent::KvmHaltPollNs {
                            vcpu: VcpuId(bits(a, 0, 16) as u32),
                            new_ns: w1 as u32,
                            old_ns: (w1 >> 32) as u32,
                        }
                    );
                }
                KVM_VCPU_WAKEUP => event!(
                    1,
                    CoreEvent::KvmVcpuWakeup {
                        ns: a & LOW,
                        waited: bits(a, 32, 1) != 0,
                        valid: bits(a, 33, 1) != 0,
                    }
                ),
                KVM_PIO => event!(
                    1,
                    CoreEvent::KvmPio {
                        access: access_of(bits(a, 0, 2)),
                        port: bits(a, 4, 16) as u32,
                        size: 1 << bits(a, 2, 2),
                        count: bits(a, 20, 14) as u32,
                        value: None,
                    }
                ),
                KVM_MMIO => event!(
                    2,
                    CoreEvent::KvmMmio {
                        access: access_of(bits(a, 0, 2)),
                        gpa: word!(1),
                        len: bits(a, 2, 8) as u32,
                        value: None,
                    }
                ),
                KVM_FAST_MMIO => event!(2, CoreEvent::KvmFastMmio { gpa: word!(1) }),
                KVM_PAGE_FAULT => {
                    event!(2, CoreEvent::KvmPageFault { gpa: word!(1), error_code: a })
                }
                KVM_PAGE_FAULT_L => {
                    event!(3, CoreEvent::KvmPageFault { gpa: word!(1), error_code: word!(2) })
                }
                KVM_SET_IRQ => {
                    event!(1, CoreEvent::KvmSetIrq { gsi: a as u32, level: bits(a, 32, 1) as i32 })
                }
                KVM_MSI => event!(3, CoreEvent::KvmMsi { address: word!(1), data: word!(2) }),
                KVM_INJ_VIRQ => {
                    event!(1, CoreEvent::KvmInjVirq { vector: a as u32, reinjected: false })
                }
                KVM_ACCEPT => event!(
                    1,
                    CoreEvent::KvmAccept {
                        vcpu: VcpuId(bits(a, 8, 16) as u32),
                        vector: bits(a, 0, 8) as u32,
                        mode: bits(a, 24, 3) as u32,
                        hardware: bits(a, 27, 1) != 0,
                        context: None,
                    }
                ),
                KVM_TSC_OFFSET => event!(
                    3,
                    CoreEvent::KvmWriteTscOffset {
                        vcpu: VcpuId(bits(a, 0, 16) as u32),
                        previous: word!(1),
                        next: word!(2),
                    }
                ),
                IRQ_ENTRY => event!(1, irq_entry(a as u32 as i32)),
                IRQ_EXIT => event!(
                    1,
                    CoreEvent::IrqExit { irq: a as u32 as i32, handled: bits(a, 32, 1) != 0 }
                ),
                IRQ => {
                    let irq = bits(a, 0, 13) as i32;
                    let handled = bits(a, 13, 1) != 0;
                    folded!(
                        1,
                        bits(a, 14, 20),
                        irq_entry(irq),
                        CoreEvent::IrqExit { irq, handled }
                    );
                }
                SOFTIRQ_RAISE => {
                    event!(1, CoreEvent::SoftirqRaise { vector: vector(a), context: None })
                }
                SOFTIRQ_ENTRY => event!(1, CoreEvent::SoftirqEntry { vector: vector(a) }),
                SOFTIRQ_EXIT => event!(1, CoreEvent::SoftirqExit { vector: vector(a) }),
                SOFTIRQ => {
                    let vector = vector(a);
                    folded!(
                        1,
                        bits(a, 4, 30),
                        CoreEvent::SoftirqEntry { vector },
                        CoreEvent::SoftirqExit { vector }
                    );
                }
                VECTOR_ENTRY => {
                    let (source, vector) = vectored(a);
                    event!(1, CoreEvent::VectorEntry { source, vector });
                }
                VECTOR_EXIT => {
                    let (source, vector) = vectored(a);
                    event!(1, CoreEvent::VectorExit { source, vector });
                }
                VECTOR => {
                    let (source, vector) = vectored(a);
                    folded!(
                        1,
                        bits(a, 12, 22),
                        CoreEvent::VectorEntry { source, vector },
                        CoreEvent::VectorExit { source, vector }
                    );
                }
                SYS_ENTER => event!(1, CoreEvent::SyscallEnter { nr: signed(a, 0, 32) }),
                SYS_EXIT => {
                    event!(2, CoreEvent::SyscallExit { nr: signed(a, 0, 32), ret: word!(1) as i64 })
                }
                SYS_EXIT_S => event!(
                    1,
                    CoreEvent::SyscallExit { nr: bits(a, 0, 10) as i64, ret: signed(a, 10, 24) }
                ),
                SYSCALL => {
                    let nr = bits(a, 0, 10) as i64;
                    let ret = word!(1) as i64;
                    folded!(
                        2,
                        bits(a, 10, 24),
                        CoreEvent::SyscallEnter { nr },
                        CoreEvent::SyscallExit { nr, ret }
                    );
                }
                SYSCALL_S => {
                    let nr = bits(a, 0, 9) as i64;
                    let ret = bits(a, 24, 10) as i64 - 64;
                    folded!(
                        1,
                        bits(a, 9, 15),
                        CoreEvent::SyscallEnter { nr },
                        CoreEvent::SyscallExit { nr, ret }
                    );
                }
                BLOCK_INSERT => {
                    event!(3, CoreEvent::BlockInsert(request(a, word!(1), word!(2))))
                }
                BLOCK_ISSUE => {
                    event!(3, CoreEvent::BlockIssue(request(a, word!(1), word!(2))))
                }
                BLOCK_COMPLETE => {
                    let w2 = word!(2);
                    event!(
                        3,
                        CoreEvent::BlockComplete {
                            request: request(a, word!(1), w2),
                            error: (w2 >> 32) as u32 as i32,
                        }
                    );
                }
                NET_XMIT => {
                    let w1 = word!(1);
                    event!(
                        2,
                        CoreEvent::NetXmit {
                            skb: signed(w1, 0, ADDRESS_BITS) as u64,
                            bytes: bits(a, 0, 20) as u32,
                            device: context.device(bits(a, 20, 14)),
                            code: signed(w1, ADDRESS_BITS, 8) as i32,
                        }
                    );
                }
                NET_RECEIVE => event!(
                    2,
                    CoreEvent::NetReceive {
                        skb: signed(word!(1), 0, ADDRESS_BITS) as u64,
                        bytes: bits(a, 0, 20) as u32,
                        device: context.device(bits(a, 20, 14)),
                    }
                ),
                DEVICE_NAME => {
                    let (low, high) = (word!(1), word!(2));
                    now_ns = stamp!();
                    context.name_device(bits(a, 0, 14), name(low, high));
                    pos += 3;
                }
                WORK_START => {
                    event!(3, CoreEvent::WorkStart { work: word!(1), function: word!(2) })
                }
                WORK_END => event!(3, CoreEvent::WorkEnd { work: word!(1), function: word!(2) }),
                OTHER => {
                    let (w1, w2) = (word!(1), word!(2));
                    match unpack(a, w1, w2) {
                        Some(told) => event!(3, context.in_recording(told)),
                        // Of a later version.
                        None => {
                            now_ns = stamp!();
                            pos += 3;
                        }
                    }
                }
                CURRENT => {
                    now_ns = stamp!();
                    self.current = tid(a);
                    self.current_prio = PRIO_UNKNOWN;
                    pos += 1;
                }
                PAD if w0 == 0 => {
                    pos += 1;
                    continue;
                }
                _ => {
                    // A kind of a later version, or MORE after a record it tells nothing about.
                    let length = usize::from(context.words[usize::from(kind)]);
                    if length == 0 || kind == PAD {
                        break Stop::Bad(What::UnknownKind { kind });
                    }
                    if words.len() - pos < length {
                        break Stop::Bad(What::CutRecord { kind });
                    }
                    now_ns = stamp!();
                    pos += length;
                }
            }
            self.just_synced = false;
        };
        self.now_ns = now_ns;
        *at = pos;
        *made = count;
        stop
    }

    fn sync(&mut self, a: u64, lost: u64) {
        let current = tid(a);
        if current != self.current {
            self.current = current;
            self.current_prio = PRIO_UNKNOWN;
        }
        self.rip_high = 0;
        self.exits.clear();
        if self.fresh {
            self.lost_told = lost;
            self.fresh = false;
            self.just_synced = true;
        }
    }

    fn lost(&mut self, count: u64, first_ns: u64, last_ns: u64) -> Lost {
        if !self.just_synced {
            self.lost_told = self.lost_told.wrapping_add(count);
        }
        Lost {
            count: Some(count),
            span: Some((Timestamp::new(first_ns), Timestamp::new(last_ns))),
            cause: LostCause::LogFull,
        }
    }

    #[inline(always)]
    fn switch(&mut self, a: u64, prev: Tid, prev_prio: i32) -> CoreEvent {
        let next = tid(a);
        let next_prio = prio_of(bits(a, 26, 8));
        self.current = next;
        self.current_prio = next_prio;
        CoreEvent::SchedSwitch {
            prev,
            prev_comm: Comm::default(),
            prev_prio,
            prev_state: state_of(bits(a, 22, 4)),
            next,
            next_comm: Comm::default(),
            next_prio,
        }
    }
}

/// The low and high half of a word.
const LOW: u64 = 0xffff_ffff;
const HIGH: u64 = !LOW;

#[inline(always)]
fn tid(a: u64) -> Tid {
    Tid(bits(a, 0, 22) as i32)
}

#[inline(always)]
fn cpu(number: u64) -> CpuId {
    CpuId(number as u32)
}

#[inline(always)]
fn vector(a: u64) -> u32 {
    bits(a, 0, 4) as u32
}

/// Source and number of one of the CPU's own vectors.
#[inline(always)]
fn vectored(a: u64) -> (VectorSource, u32) {
    (source_of(bits(a, 8, 4)), bits(a, 0, 8) as u32)
}

#[inline(always)]
fn vcpu(a: u64) -> Option<VcpuId> {
    Some(bits(a, 0, 16)).filter(|vcpu| *vcpu != VCPU_UNKNOWN).map(|vcpu| VcpuId(vcpu as u32))
}

#[inline(always)]
fn short_vcpu(a: u64) -> Option<VcpuId> {
    Some(bits(a, 12, 12)).filter(|vcpu| *vcpu != VCPU_UNKNOWN_S).map(|vcpu| VcpuId(vcpu as u32))
}

#[inline(always)]
fn kvm_exit(isa: Isa, a: u64, rip: u64, info1: u64) -> CoreEvent {
    let code = match bits(a, 0, 16) {
        REASON_INVALID => u32::MAX,
        code => code as u32 | (bits(a, 32, 1) as u32) << 31,
    };
    let isa = if bits(a, 33, 1) != 0 && isa == Isa::Arm64 { Isa::Arm64Ret } else { isa };
    CoreEvent::KvmExit {
        vcpu: vcpu(a >> 16),
        reason: ExitReason { isa, code },
        rip,
        info1,
        info2: 0,
    }
}

#[inline(always)]
fn short_exit(isa: Isa, a: u64, rip: u64, info1: u64) -> CoreEvent {
    let reason = ExitReason { isa, code: bits(a, 0, 12) as u32 };
    CoreEvent::KvmExit { vcpu: short_vcpu(a), reason, rip, info1, info2: 0 }
}

#[inline(always)]
fn told_exit(isa: Isa, exit: ToldExit) -> CoreEvent {
    short_exit(isa, exit.what, exit.rip, exit.what >> 24)
}

#[inline(always)]
fn short_entry(a: u64) -> CoreEvent {
    CoreEvent::KvmEntry { vcpu: short_vcpu(a), rip: None }
}

#[inline(always)]
fn irq_entry(irq: i32) -> CoreEvent {
    CoreEvent::IrqEntry { irq, name: Comm::default() }
}

#[inline(always)]
fn request(a: u64, sector: u64, w2: u64) -> BlockRequest {
    BlockRequest {
        device: w2 as u32,
        sector,
        sectors: bits(a, 0, 24) as u32,
        op: op_of(bits(a, 24, 8)),
        id: None,
    }
}

pub(crate) fn name(low: u64, high: u64) -> Comm {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&low.to_le_bytes());
    bytes[8..].copy_from_slice(&high.to_le_bytes());
    Comm::new(&bytes)
}
