//! A small text for event streams, and the tables' rows as text: so that a test reads as a story.
//!
//! ```text
//! vm web vcpu=0 tid=162            a VM (machine 1, 2, … in order) and its vCPU's host thread
//! vm web dom=1 vcpu=0              a domain of Xen and a vCPU of it
//! host 0 1000 162 kvm_entry vcpu=0     machine, CPU, stamp, current thread, event, fields
//! web 0 1200 42 sched_switch 42 S 43   prev, prev's state letter, next
//! host 1 lost count=3                  a hole in that CPU's stream
//! ```
//! Lines are put into their streams in the order given; `#` starts a comment.

#![allow(unreachable_pub, reason = "a module of tests")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a broken story is a broken test"
)]

pub mod random;

use std::collections::BTreeMap;
use transect_engine::{
    Engine, Input, LostCause, LostEvents, Options, StreamItem, StreamKey, Summary, ToTrace,
    Topology,
    topology::{MachineInfo, VcpuInfo},
};
use transect_model::{
    event::{Access, BlockOp, BlockRequest, Comm, CoreEvent, PrevState},
    exit::{ExitReason, Isa},
    ids::{CpuId, MachineId, Tid, VcpuId},
    interrupt::{Context, VectorSource},
    stack::StackPoint,
    table::Tables,
    time::{Source, Timestamp, Trace},
};

/// Stamps that are trace time already.
#[derive(Clone, Copy, Debug)]
pub struct Nanoseconds;

impl ToTrace for Nanoseconds {
    fn to_trace(&self, ts: Timestamp<Source>) -> Option<Timestamp<Trace>> {
        i64::try_from(ts.get()).ok().map(Timestamp::new)
    }
}

/// A parsed story.
#[derive(Default)]
pub struct Story {
    pub topology: Topology,
    pub streams: BTreeMap<StreamKey, Vec<StreamItem>>,
}

impl Story {
    pub fn parse(text: &str) -> Self {
        let mut story = Story::default();
        story.topology.machines.push(MachineInfo::host(MachineId(0), "host"));
        for line in text.lines() {
            let line = line.split('#').next().unwrap();
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.first() {
                None => {}
                Some(&"vm") => story.vm(&words[1..]),
                Some(_) => story.event(&words),
            }
        }
        story
    }

    fn machine(&self, name: &str) -> MachineId {
        let found = self.topology.machines.iter().find(|m| m.name == name);
        found.unwrap_or_else(|| panic!("no machine {name}")).id
    }

    fn vm(&mut self, words: &[&str]) {
        let name = words[0];
        if !self.topology.machines.iter().any(|m| m.name == name) {
            let id = MachineId(self.topology.machines.len() as u32);
            let domid = field(words, "dom").map(|domid| domid as u32);
            let guest = MachineInfo::guest(id, MachineId(0), name);
            self.topology.machines.push(MachineInfo { domid, ..guest });
        }
        let machine = self.machine(name);
        if let Some(vcpu) = field(words, "vcpu") {
            let vcpu = vcpu as u32;
            self.topology.vcpus.push(VcpuInfo {
                machine,
                vcpu: VcpuId(vcpu),
                vmm_tid: field(words, "tid").map(|tid| Tid(tid as i32)),
                guest_cpu: CpuId(vcpu),
            });
        }
    }

    fn event(&mut self, words: &[&str]) {
        let key =
            StreamKey { machine: self.machine(words[0]), cpu: CpuId(words[1].parse().unwrap()) };
        let item = if words[2] == "lost" {
            StreamItem::Lost(LostEvents {
                count: field(words, "count").map(|n| n as u64),
                cause: LostCause::BufferOverrun,
            })
        } else {
            let ts = Timestamp::new(words[2].parse().unwrap());
            let tid = Tid(words[3].parse().unwrap());
            match core_event(&words[4..]) {
                Some(event) => StreamItem::Event { ts, tid, quiet: 0, event },
                None => StreamItem::Other { ts, tid, quiet: 0 },
            }
        };
        self.streams.entry(key).or_default().push(item);
    }

    pub fn run(self) -> (Tables, Summary) {
        self.run_with(Options::default())
    }

    pub fn run_with(self, options: Options) -> (Tables, Summary) {
        self.run_by(|engine| engine, options)
    }

    pub fn run_by(
        self,
        change: impl FnOnce(Engine) -> Engine,
        options: Options,
    ) -> (Tables, Summary) {
        let mut tables = Tables::default();
        let engine = change(Engine::new(self.topology.clone(), options));
        let summary = engine.run(self.inputs(), &mut tables).unwrap();
        (tables, summary)
    }

    pub fn inputs(self) -> Vec<Input<std::vec::IntoIter<StreamItem>, Nanoseconds>> {
        let stream = |(key, items): (_, Vec<_>)| Input {
            key,
            stream: items.into_iter(),
            clock: Nanoseconds,
        };
        self.streams.into_iter().map(stream).collect()
    }
}

fn field(words: &[&str], name: &str) -> Option<i64> {
    words.iter().find_map(|w| w.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
}

/// `in=softirq`, of a waking; none: it is not told.
fn context(words: &[&str]) -> Option<Context> {
    let told = words.iter().find_map(|word| word.strip_prefix("in="))?;
    let all = [Context::Task, Context::Softirq, Context::Irq, Context::Nmi];
    Some(all.into_iter().find(|context| context.as_str() == told).unwrap())
}

fn core_event(words: &[&str]) -> Option<CoreEvent> {
    let num = |at: usize| words[at].parse::<i64>().unwrap();
    let tid = |at: usize| Tid(num(at) as i32);
    let comm = Comm::default();
    let vcpu = field(words, "vcpu").map(|v| VcpuId(v as u32));
    let cpu = CpuId(field(words, "cpu").unwrap_or(0) as u32);
    Some(match words[0] {
        "sched_switch" => CoreEvent::SchedSwitch {
            prev: tid(1),
            prev_comm: comm,
            prev_prio: 120,
            prev_state: PrevState(match words[2] {
                "R" => 0x100,
                "S" => 1,
                "D" => 2,
                "X" => 0x10,
                "Z" => 0x20,
                other => panic!("state {other}"),
            }),
            next: tid(3),
            next_comm: comm,
            next_prio: 120,
        },
        "sched_waking" => CoreEvent::SchedWaking {
            tid: tid(1),
            comm,
            prio: 120,
            target_cpu: cpu,
            context: context(words),
        },
        "sched_wakeup" => CoreEvent::SchedWakeup {
            tid: tid(1),
            comm,
            prio: 120,
            target_cpu: cpu,
            context: context(words),
        },
        "sched_wakeup_new" => {
            CoreEvent::SchedWakeupNew { tid: tid(1), comm, prio: 120, target_cpu: cpu }
        }
        "sched_migrate_task" => {
            CoreEvent::SchedMigrate { tid: tid(1), orig_cpu: CpuId(0), dest_cpu: cpu }
        }
        "sched_process_fork" => CoreEvent::SchedFork {
            parent: tid(1),
            child: tid(2),
            child_pid: None,
            child_comm: comm,
        },
        "task_rename" => {
            CoreEvent::TaskRename { tid: tid(1), new_comm: Comm::new(words[2].as_bytes()) }
        }
        "sched_process_exec" => CoreEvent::SchedExec { tid: tid(1), old_tid: tid(2) },
        "kvm_entry" => CoreEvent::KvmEntry { vcpu, rip: None },
        "kvm_exit" => {
            CoreEvent::KvmExit { vcpu, reason: reason(words[1]), rip: 0, info1: 0, info2: 0 }
        }
        "kvm_userspace_exit" => CoreEvent::KvmUserspaceExit { reason: 2, errno: 0 },
        "kvm_vcpu_wakeup" => CoreEvent::KvmVcpuWakeup {
            ns: field(words, "ns").unwrap() as u64,
            waited: words[1] == "wait",
            valid: true,
        },
        "kvm_halt_poll_ns" => CoreEvent::KvmHaltPollNs {
            vcpu: VcpuId(0),
            new_ns: field(words, "new").unwrap() as u32,
            old_ns: field(words, "old").unwrap_or(0) as u32,
        },
        "kvm_hypercall" => CoreEvent::KvmHypercall { nr: num(1) as u64, args: [0; 4] },
        "kvm_pio" => CoreEvent::KvmPio {
            access: Access::Write,
            port: num(1) as u32,
            size: 1,
            count: 1,
            value: None,
        },
        "kvm_fast_mmio" => CoreEvent::KvmFastMmio { gpa: field(words, "gpa").unwrap_or(0) as u64 },
        "kvm_mmio" => {
            CoreEvent::KvmMmio { access: Access::Write, gpa: num(1) as u64, len: 2, value: Some(0) }
        }
        "kvm_msi" => CoreEvent::KvmMsi { address: num(1) as u64, data: num(2) as u64 },
        "kvm_accept" => CoreEvent::KvmAccept {
            vcpu: VcpuId(field(words, "vcpu").unwrap() as u32),
            vector: num(1) as u32,
            mode: field(words, "mode").unwrap_or(0) as u32,
            hardware: words.contains(&"hardware"),
            context: context(words),
        },
        "kvm_inj_virq" => {
            CoreEvent::KvmInjVirq { vector: num(1) as u32, reinjected: words.contains(&"again") }
        }
        "irq_entry" => CoreEvent::IrqEntry { irq: num(1) as i32, name: Comm::default() },
        "irq_exit" => CoreEvent::IrqExit { irq: num(1) as i32, handled: true },
        "timer_entry" => CoreEvent::VectorEntry { source: VectorSource::LocalTimer, vector: 236 },
        "timer_exit" => CoreEvent::VectorExit { source: VectorSource::LocalTimer, vector: 236 },
        "reschedule_entry" => {
            CoreEvent::VectorEntry { source: VectorSource::Reschedule, vector: 253 }
        }
        "softirq_raise" => {
            CoreEvent::SoftirqRaise { vector: num(1) as u32, context: context(words) }
        }
        "softirq_entry" => CoreEvent::SoftirqEntry { vector: num(1) as u32 },
        "softirq_exit" => CoreEvent::SoftirqExit { vector: num(1) as u32 },
        "sys_enter" => CoreEvent::SyscallEnter { nr: num(1) },
        "sys_exit" => CoreEvent::SyscallExit { nr: num(1), ret: num(2) },
        "block_insert" => CoreEvent::BlockInsert(request(words)),
        "block_issue" => CoreEvent::BlockIssue(request(words)),
        "block_complete" => CoreEvent::BlockComplete {
            request: request(words),
            error: field(words, "error").unwrap_or(0) as i32,
        },
        "net_xmit" => CoreEvent::NetXmit {
            skb: field(words, "skb").unwrap_or(1) as u64,
            device: Comm::new(words[1].as_bytes()),
            bytes: num(2) as u32,
            code: field(words, "code").unwrap_or(0) as i32,
        },
        "net_receive" => CoreEvent::NetReceive {
            skb: field(words, "skb").unwrap_or(1) as u64,
            device: Comm::new(words[1].as_bytes()),
            bytes: num(2) as u32,
        },
        "net_packet" => {
            let sent = words.contains(&"sent");
            let skb = field(words, "skb").unwrap_or(1) as u64;
            CoreEvent::NetPacket { skb, flow: num(1) as u32, seq: num(2) as u32, sent }
        }
        "stack" => CoreEvent::Stack {
            point: StackPoint::ALL.into_iter().find(|point| point.as_str() == words[1]).unwrap(),
            kernel: field(words, "kernel").map(|stack| stack as u32),
            user: field(words, "user").map(|stack| stack as u32),
            woken: field(words, "woken").map(|tid| Tid(tid as i32)),
        },
        "lock_begin" => CoreEvent::LockBegin {
            lock: num(1) as u64,
            flags: field(words, "flags").unwrap_or(0) as u32,
            owner: field(words, "owner").map(|tid| Tid(tid as i32)),
        },
        "lock_end" => {
            let ret = field(words, "ret").unwrap_or(0) as i32;
            CoreEvent::LockEnd { lock: num(1) as u64, ret }
        }
        "throttle" => CoreEvent::Throttle { cgroup: num(1) as u64, cpu },
        "unthrottle" => CoreEvent::Unthrottle { cgroup: num(1) as u64, cpu },
        "reclaim" => CoreEvent::ReclaimBegin { memcg: words.contains(&"memcg"), order: 0 },
        "reclaimed" => {
            CoreEvent::ReclaimEnd { memcg: words.contains(&"memcg"), pages: num(1) as u64 }
        }
        "work_queue" => CoreEvent::WorkQueue {
            work: num(1) as u64,
            function: num(2) as u64,
            context: context(words),
        },
        "work_start" => CoreEvent::WorkStart { work: num(1) as u64, function: num(2) as u64 },
        "work_end" => CoreEvent::WorkEnd { work: num(1) as u64, function: num(2) as u64 },
        "other" => return None,
        unknown => panic!("event {unknown}"),
    })
}

/// `EVENT OP SECTOR+SECTORS`, on device 254:0 unless `minor=` says otherwise.
fn request(words: &[&str]) -> BlockRequest {
    let op = match words[1] {
        "R" => BlockOp::Read,
        "W" => BlockOp::Write,
        "F" => BlockOp::Flush,
        other => panic!("operation {other}"),
    };
    let (sector, sectors) = words[2].split_once('+').unwrap();
    BlockRequest {
        device: 254 << 20 | field(words, "minor").unwrap_or(0) as u32,
        sector: sector.parse().unwrap(),
        sectors: sectors.parse().unwrap(),
        op,
        id: None,
    }
}

/// SVM's names, as far as the stories use them.
pub fn reason(name: &str) -> ExitReason {
    let code = match name {
        "hlt" => 0x78,
        "msr" => 0x7c,
        "io" => 0x7b,
        "intr" => 0x60,
        "npf" => 0x400,
        "hypercall" => 0x81,
        other => panic!("reason {other}"),
    };
    ExitReason { isa: Isa::Svm, code }
}

fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or("-".into(), |v| v.to_string())
}

/// `vcpu_states` of one vCPU: `ts+dur state[:reason] [cN] [by m/tid]`.
pub fn vcpu_states(tables: &Tables, machine: u32, vcpu: u32) -> Vec<String> {
    let mine = tables.vcpu_states.iter();
    mine.filter(|r| r.machine_id.0 == machine && r.vcpu.0 == vcpu)
        .map(|r| {
            let mut text = format!("{}+{} {}", r.ts, r.dur, r.state.as_str());
            if let Some(reason) = r.reason {
                text += &format!(":{reason}");
            }
            if let Some(cpu) = r.cpu {
                text += &format!(" c{cpu}");
            }
            if let Some(tid) = r.by_tid {
                text += &format!(" by {}/{tid}", or_dash(r.by_machine_id));
            }
            text
        })
        .collect()
}

/// `thread_states` of one thread in order of time: `ts+dur state[/effective] [letter] [waker]`.
pub fn thread_states(tables: &Tables, machine: u32, tid: i32) -> Vec<String> {
    let mut rows: Vec<_> = tables
        .thread_states
        .iter()
        .filter(|r| r.machine_id.0 == machine && r.tid.0 == tid)
        .collect();
    rows.sort_by_key(|r| r.ts);
    rows.into_iter()
        .map(|r| {
            let mut text = format!("{}+{} {}", r.ts, r.dur, r.state.as_str());
            if let Some(effective) = r.effective {
                text += &format!("/{}", effective.as_str());
            }
            if let Some(letter) = r.reason {
                text += &format!(" {letter}");
            }
            if let Some(waker) = r.waker_tid {
                text += &format!(" by {waker}");
            } else if let Some(context) = r.waker_context {
                text += &format!(" by {}", context.as_str());
            }
            text
        })
        .collect()
}

/// `cpu_slices` of one CPU: `ts+dur tid|idle|unknown [vm/vcpu]`.
pub fn slices(tables: &Tables, machine: u32, cpu: u32) -> Vec<String> {
    let mine = tables.cpu_slices.iter();
    mine.filter(|r| r.machine_id.0 == machine && r.cpu.0 == cpu)
        .map(|r| {
            let who = match r.tid {
                None => "unknown".to_owned(),
                Some(tid) if tid.is_idle() => "idle".to_owned(),
                Some(tid) => tid.to_string(),
            };
            let vcpu =
                r.vcpu.map_or(String::new(), |v| format!(" vm{}/{v}", or_dash(r.vcpu_machine_id)));
            format!("{}+{} {who}{vcpu}", r.ts, r.dur)
        })
        .collect()
}

/// `exits`: `ts+dur reason [handling=] [user] [detail=]`.
pub fn exits(tables: &Tables) -> Vec<String> {
    let row = |r: &transect_model::table::Exit| {
        let mut text = format!("{}+{} {}", r.ts, or_dash(r.dur), r.reason);
        text += &format!(" handling={}", or_dash(r.handling_ns));
        if r.to_user {
            text += " user";
        }
        if let Some(detail) = r.detail {
            text += &format!(" detail={detail}");
        }
        text
    };
    tables.exits.iter().map(row).collect()
}

/// `wakeups`: `ts+dur tid by waker on cpu`; an interrupt as `by irq[: name]`.
pub fn wakeups(tables: &Tables) -> Vec<String> {
    let row = |r: &transect_model::table::Wakeup| {
        let (dur, cpu) = (or_dash(r.dur), or_dash(r.cpu));
        let interrupt = || {
            let handler = r.source.zip(r.vector).map(|(source, vector)| source.name(vector));
            let context = r.context.map_or("?", Context::as_str);
            handler.map_or(context.to_owned(), |handler| format!("{context}: {handler}"))
        };
        let waker = r.waker_tid.map_or_else(interrupt, |tid| tid.to_string());
        format!("{}+{dur} {} by {waker} on c{cpu}", r.ts, r.tid)
    };
    tables.wakeups.iter().map(row).collect()
}

/// `causes` but those of plain wakeups: `ts+dur kind from → to [id=] evidence`, where an end is
/// `machine:thread`, or the context or vCPU if it is none.
pub fn causes(tables: &Tables) -> Vec<String> {
    let end = |machine: MachineId, tid: Option<Tid>, else_: String| {
        format!("{machine}:{}", tid.map_or(else_, |tid| tid.to_string()))
    };
    let row = |r: &transect_model::table::Cause| {
        let interrupt = || {
            let context = r.context.map_or("?", Context::as_str);
            r.vector.map_or(context.to_owned(), |vector| format!("{context} {vector}"))
        };
        let from = end(r.machine_id, r.tid, interrupt());
        let vcpu = r.to_vcpu.map(|vcpu| format!("vcpu{vcpu}"));
        let to = end(r.to_machine_id, r.to_tid, vcpu.unwrap_or_else(|| "-".to_owned()));
        let id = r.id.map_or(String::new(), |id| format!(" id={id}"));
        let evidence = r.evidence.as_str();
        let kind = r.kind.as_str();
        format!("{}+{} {kind} {from} → {to}{id} {evidence}/{}", r.ts, r.dur, r.candidates)
    };
    let told = tables.causes.iter();
    told.filter(|r| r.kind != transect_model::cause::CauseKind::Wakeup).map(row).collect()
}

/// `block_io`: `ts+dur op device sector bytes by tid issue= [error=] [on cN]`.
pub fn block_io(tables: &Tables) -> Vec<String> {
    let row = |r: &transect_model::table::BlockIo| {
        let mut text = format!("{}+{} {} {}", r.ts, or_dash(r.dur), r.op.as_str(), r.device);
        text += &format!(" {} {} by {}", r.sector, r.bytes, r.tid);
        text += &format!(" issue={}", or_dash(r.issue_ns));
        if let Some(error) = r.error.filter(|error| *error != 0) {
            text += &format!(" error={error}");
        }
        if let Some(cpu) = r.complete_cpu {
            text += &format!(" on c{cpu}");
        }
        text
    };
    tables.block_io.iter().map(row).collect()
}

/// `counters`: `ts name [vm/vcpu] [device] value`.
pub fn counters(tables: &Tables) -> Vec<String> {
    let row = |r: &transect_model::table::Counter| {
        let mut text = format!("{} {}", r.ts, r.name.as_str());
        if let Some(vcpu) = r.vcpu {
            text += &format!(" {}/{vcpu}", r.machine_id);
        }
        if let Some(device) = r.device {
            text += &format!(" {device}");
        }
        text + " " + &or_dash(r.value)
    };
    tables.counters.iter().map(row).collect()
}

/// `work_items`: `ts+dur function by tid on cpu`.
pub fn work_items(tables: &Tables) -> Vec<String> {
    let row = |r: &transect_model::table::WorkItem| {
        format!("{}+{} {} by {} on c{}", r.ts, or_dash(r.dur), r.function, r.tid, r.cpu)
    };
    tables.work_items.iter().map(row).collect()
}

/// `net_io`: `ts direction device bytes by tid on cpu [code=]`.
pub fn net_io(tables: &Tables) -> Vec<String> {
    let row = |r: &transect_model::table::NetIo| {
        let direction = r.direction.as_str();
        let mut text = format!("{} {direction} {}", r.ts, r.device.to_str());
        text += &format!(" {} by {} on c{}", r.bytes, r.tid, r.cpu);
        r.code.map_or(text.clone(), |code| text + &format!(" code={code}"))
    };
    tables.net_io.iter().map(row).collect()
}

/// Intervals that must tile [start, end).
pub fn assert_tiles(what: &str, mut intervals: Vec<(i64, i64)>, start: i64, end: i64) {
    intervals.sort_unstable();
    let mut at = start;
    for (ts, dur) in &intervals {
        assert_eq!(*ts, at, "{what}: gap or overlap in {intervals:?}");
        assert!(*dur > 0, "{what}: empty row in {intervals:?}");
        at += dur;
    }
    assert_eq!(at, end, "{what}: {intervals:?} does not reach the end");
}

/// The intervals of every vCPU, CPU and thread, in order of time.
pub fn per_actor(tables: &Tables) -> BTreeMap<String, Vec<(i64, i64)>> {
    let mut actors: BTreeMap<String, Vec<(i64, i64)>> = BTreeMap::new();
    let mut add = |actor: String, interval| actors.entry(actor).or_default().push(interval);
    for row in &tables.vcpu_states {
        add(format!("vCPU {} of {}", row.vcpu, row.machine_id), (row.ts, row.dur));
    }
    for row in &tables.cpu_slices {
        add(format!("CPU {} of {}", row.cpu, row.machine_id), (row.ts, row.dur));
    }
    for row in &tables.thread_states {
        add(format!("thread {} of {}", row.tid, row.machine_id), (row.ts, row.dur));
    }
    actors.values_mut().for_each(|intervals| intervals.sort_unstable());
    actors
}
