//! Made-up traces of any size with rising time, for benchmarks and tests.
//!
//! A small model of a Xen host: every pCPU has its own vCPUs, PV and PVH in turn, which run until
//! their slice ends or they block, and are woken after a while. What it writes per turn, and in
//! which order, is what Xen 4.17 with credit2 wrote under `xentrace -e all`, so that xenalyze and
//! we have the same work as on a recording.

use crate::{
    event::{IDLE_DOMAIN, Runstate, XenEvent, XenVcpu},
    hypercall::{Hypercall, op},
    write::{WriteError, Writer},
};
use std::{collections::VecDeque, io::Write};
use transect_model::ids::CpuId;

/// What to make up.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// At least so many records in all; the turn that reaches them is finished.
    pub records: u64,
    /// pCPUs.
    pub cpus: u16,
    /// Domains of one vCPU each, numbered from 1, spread over the pCPUs.
    pub domains: u16,
    /// Start of the random numbers.
    pub seed: u64,
    /// Bytes of a window.
    pub window_bytes: usize,
}

impl Default for Spec {
    fn default() -> Spec {
        Spec {
            records: 1_000_000,
            cpus: 2,
            domains: 6,
            seed: 1,
            window_bytes: crate::write::DEFAULT_WINDOW_BYTES,
        }
    }
}

/// What was made up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Records, without CPU_CHANGE.
    pub records: u64,
    /// Stamp of the first one.
    pub first_tsc: u64,
    /// Stamp of the last one.
    pub last_tsc: u64,
}

/// A TSC of 2.5 GHz that has been up for a while.
const BEGIN_TSC: u64 = 25_000_000_000;

/// Writes a trace.
///
/// # Errors
/// If the output fails.
pub fn write<W: Write>(out: W, spec: &Spec) -> Result<(W, Made), WriteError> {
    let mut writer = Writer::new(out, spec.window_bytes);
    let mut cpus: Vec<Cpu> = (0..spec.cpus.max(1)).map(|cpu| Cpu::new(cpu, spec)).collect();
    let mut made = Made { first_tsc: u64::MAX, ..Made::default() };
    while made.records < spec.records {
        // The CPU that is furthest back goes on, so that windows of all of them are spread evenly.
        let Some(cpu) = cpus.iter_mut().min_by_key(|cpu| cpu.tsc) else { break };
        made.first_tsc = made.first_tsc.min(cpu.tsc);
        cpu.turn(&mut writer)?;
        made.records += std::mem::take(&mut cpu.records);
        made.last_tsc = made.last_tsc.max(cpu.tsc);
    }
    Ok((writer.finish()?, made))
}

/// splitmix64: enough to make no two turns alike.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % bound.max(1)
    }
}

struct Cpu {
    id: CpuId,
    tsc: u64,
    records: u64,
    random: Random,
    idle: XenVcpu,
    current: XenVcpu,
    runnable: VecDeque<XenVcpu>,
    /// Who sleeps, and until when.
    blocked: VecDeque<(u64, XenVcpu)>,
    started: bool,
}

fn is_pvh(vcpu: XenVcpu) -> bool {
    vcpu.dom / 2 % 2 == 1
}

impl Cpu {
    fn new(cpu: u16, spec: &Spec) -> Cpu {
        let own = (1..=spec.domains).filter(|dom| dom % spec.cpus.max(1) == cpu);
        Cpu {
            id: CpuId(u32::from(cpu)),
            tsc: BEGIN_TSC + u64::from(cpu) * 1_000,
            records: 0,
            random: Random(spec.seed ^ u64::from(cpu) << 32),
            idle: XenVcpu { dom: IDLE_DOMAIN, vcpu: cpu },
            current: XenVcpu { dom: IDLE_DOMAIN, vcpu: cpu },
            runnable: own.map(|dom| XenVcpu { dom, vcpu: 0 }).collect(),
            blocked: VecDeque::new(),
            started: false,
        }
    }

    fn put<W: Write>(
        &mut self,
        writer: &mut Writer<W>,
        event: &XenEvent,
    ) -> Result<(), WriteError> {
        self.tsc += 400 + self.random.below(4_000);
        self.records += 1;
        writer.event(self.id, self.tsc, event)
    }

    fn raw<W: Write>(
        &mut self,
        writer: &mut Writer<W>,
        event: u32,
        words: &[u32],
    ) -> Result<(), WriteError> {
        self.tsc += 400 + self.random.below(2_000);
        self.records += 1;
        writer.record(self.id, Some(self.tsc), event, words)
    }

    /// One stay of one vCPU on this CPU, and the switch to the next.
    fn turn<W: Write>(&mut self, writer: &mut Writer<W>) -> Result<(), WriteError> {
        if self.started {
            self.run(writer)?;
            self.wake(writer)?;
        }
        self.started = true;
        self.switch(writer)
    }

    fn run<W: Write>(&mut self, writer: &mut Writer<W>) -> Result<(), WriteError> {
        let current = self.current;
        if current == self.idle {
            self.tsc += 50_000 + self.random.below(500_000);
            return Ok(());
        }
        for _ in 0..8 + self.random.below(24) {
            self.tsc += self.random.below(60_000);
            if is_pvh(current) {
                self.pvh_exit(writer)?;
            } else {
                self.pv_entry(writer)?;
            }
        }
        Ok(())
    }

    fn pv_entry<W: Write>(&mut self, writer: &mut Writer<W>) -> Result<(), WriteError> {
        let rip = 0xffff_ffff_8102_2506 + self.random.below(4096);
        let none = [None; 6];
        let event = match self.random.below(100) {
            0..35 => XenEvent::PvPrivop { rip },
            35..65 => XenEvent::Hypercall(Hypercall::new(23, none)),
            65..75 => {
                let arguments = [None, Some(4), None, None, None, None];
                XenEvent::Hypercall(Hypercall::new(26, arguments))
            }
            75..85 => {
                let arguments = [Some(7), Some(0), None, None, None, None];
                XenEvent::Hypercall(Hypercall::new(op::VCPU_OP, arguments))
            }
            85..90 => XenEvent::Hypercall(Hypercall::new(op::EVENT_CHANNEL_OP, none)),
            90..95 => XenEvent::PvPageFault { rip, addr: rip >> 1, error_code: 6 },
            _ => XenEvent::PvMathState,
        };
        self.put(writer, &event)
    }

    fn pvh_exit<W: Write>(&mut self, writer: &mut Writer<W>) -> Result<(), WriteError> {
        let rip = 0xffff_ffff_81a5_92ea - self.random.below(4096);
        // VMX: external interrupt, CPUID, VMCALL.
        let (reason, handler): (u32, (u32, &[u32])) = match self.random.below(3) {
            0 => (1, (0x0008_200f, &[0xf3])),
            1 => (10, (0x0008_200e, &[0x4000_0001, 0, 1, 2, 3, 4])),
            _ => (18, (0x0008_2012, &[24])),
        };
        self.put(writer, &XenEvent::VmExit { reason, rip, nested: false, isa: None })?;
        self.records += 1;
        writer.record(self.id, None, handler.0, handler.1)?;
        self.put(writer, &XenEvent::VmEntry { nested: false })
    }

    /// Wakes whose time has come.
    fn wake<W: Write>(&mut self, writer: &mut Writer<W>) -> Result<(), WriteError> {
        while let Some(&(until, vcpu)) = self.blocked.front() {
            let idle = self.current == self.idle && self.runnable.is_empty();
            if until > self.tsc && !idle {
                break;
            }
            self.tsc = self.tsc.max(until);
            self.blocked.pop_front();
            let (old, new) = (Runstate::Blocked, Runstate::Runnable);
            self.put(writer, &XenEvent::RunstateChange { vcpu, old, new })?;
            self.raw(writer, 0x0002_220d, &[vcpu.to_packed(), self.id.0, 9_868_922])?;
            self.put(writer, &XenEvent::Wake { vcpu })?;
            self.runnable.push_back(vcpu);
        }
        Ok(())
    }

    fn switch<W: Write>(&mut self, writer: &mut Writer<W>) -> Result<(), WriteError> {
        let prev = self.current;
        let blocks = prev != self.idle && self.random.below(3) == 0;
        if blocks && !is_pvh(prev) {
            let arguments = [Some(1), None, None, None, None, None];
            self.put(writer, &XenEvent::Hypercall(Hypercall::new(op::SCHED_OP, arguments)))?;
        }
        if blocks {
            self.put(writer, &XenEvent::Block { vcpu: prev })?;
        }
        self.schedule(writer, prev)?;
        if !blocks && prev != self.idle {
            self.runnable.push_back(prev);
        }
        let next = self.runnable.pop_front().unwrap_or(self.idle);
        if next == prev {
            return self.continues(writer);
        }
        let ran_ns = 600_000;
        let slice_ns = (next != self.idle).then_some(8_858_658);
        self.put(writer, &XenEvent::SwitchInfPrev { vcpu: prev, ran_ns })?;
        self.put(writer, &XenEvent::SwitchInfNext { vcpu: next, waited_ns: 500_000, slice_ns })?;
        self.put(writer, &XenEvent::Switch { prev, next })?;
        let new = if blocks { Runstate::Blocked } else { Runstate::Runnable };
        self.put(writer, &XenEvent::RunstateChange { vcpu: prev, old: Runstate::Running, new })?;
        let (old, new) = (Runstate::Runnable, Runstate::Running);
        self.put(writer, &XenEvent::RunstateChange { vcpu: next, old, new })?;
        if blocks {
            let until = self.tsc + 200_000 + self.random.below(20_000_000);
            let at = self.blocked.partition_point(|&(other, _)| other <= until);
            self.blocked.insert(at, (until, prev));
        }
        self.current = next;
        if next != self.idle && is_pvh(next) {
            self.put(writer, &XenEvent::VmEntry { nested: false })?;
        }
        Ok(())
    }

    fn continues<W: Write>(&mut self, writer: &mut Writer<W>) -> Result<(), WriteError> {
        let vcpu = self.current;
        let slice_ns = (vcpu != self.idle).then_some(2_000_000);
        self.put(writer, &XenEvent::SwitchInfCont { vcpu, ran_ns: 700_000, slice_ns })?;
        self.put(writer, &XenEvent::ContinueRunning { vcpu })?;
        if vcpu != self.idle && is_pvh(vcpu) {
            self.put(writer, &XenEvent::VmEntry { nested: false })?;
        }
        Ok(())
    }

    /// What credit2 says of a run of the scheduler.
    fn schedule<W: Write>(
        &mut self,
        writer: &mut Writer<W>,
        prev: XenVcpu,
    ) -> Result<(), WriteError> {
        self.raw(writer, 0x0002_2215, &[self.id.0, 0])?;
        self.raw(writer, 0x0002_2203, &[prev.to_packed(), 9_868_922, 0x8000_0000, 631_078])?;
        self.raw(writer, 0x0002_2209, &[])?;
        self.raw(writer, 0x0002_220c, &[400_864, 0, 400_870, 0, 2 | 18 << 24, 0])?;
        self.raw(writer, 0x0002_2214, &[prev.to_packed(), 0xffff_ffff, 8_858_658])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{XenTrace, XenVersion};

    #[test]
    fn what_is_made_is_read() {
        let spec =
            Spec { records: 20_000, cpus: 3, domains: 7, window_bytes: 4_096, ..Spec::default() };
        let (file, made) = write(Vec::new(), &spec).unwrap();
        let trace = XenTrace::parse(&file, XenVersion::Unknown).unwrap();
        assert!(trace.problems().is_empty());
        let mut records = 0;
        for cpu in trace.cpus() {
            let mut stream = trace.stream(cpu);
            let last = stream.by_ref().last().unwrap();
            assert!(last.tsc <= made.last_tsc);
            assert_eq!(stream.problems(), []);
            records += stream.totals().records;
        }
        assert_eq!(records, made.records);
        assert!(records >= spec.records);
    }
}
