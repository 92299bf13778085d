//! Recordings that never happened: a host with any number of VMs and events, for measuring.
//!
//! **What.** A [`Plan`] says how many host CPUs, VMs, vCPUs and events; it gives streams for the
//! engine, or writes a compact file. The same plan always gives the same events.
//!
//! **How real.** Every CPU runs a story of its own ([`cpu`]): idle time, vCPU threads that enter
//! and leave guest mode for the usual reasons, halt, kick and go to user space, and ordinary threads
//! that make system calls and wake each other; interrupts and softirqs fall into all of it. Events
//! are consistent with each other (who runs is who was switched to, who is woken slept), so the
//! state machines do what they do on real recordings. Not modelled: migration between CPUs, and
//! time that depends on anything but chance.
//!
//! ```
//! use transect_engine::{Engine, Options, synthetic::Plan};
//! use transect_model::table::Tables;
//! let plan = Plan { vms: 3, events: 10_000, ..Plan::default() };
//! let mut tables = Tables::default();
//! let summary =
//!     Engine::new(plan.topology(), Options::default()).run(plan.streams(), &mut tables)?;
//! assert_eq!((summary.events, summary.contradictions), (10_000, 0));
//! assert!(!tables.exits.is_empty() && tables.vcpus.len() == 6);
//! # Ok::<(), transect_engine::EngineError>(())
//! ```

mod cpu;
mod planned;

use crate::{
    align::{Input, ToTrace},
    stream::{EventStream, StreamItem, StreamKey},
    topology::{MachineInfo, ThreadInfo, Topology, VcpuInfo},
};
pub use cpu::Story;
use planned::Planned;
use std::io::{self, Write};
use transect_compact::{BlockWriter, FileHeader, LogId, LogTotals, LogWriter, Names, Totals};
use transect_model::{
    event::Comm,
    exit::Isa,
    ids::{CpuId, MachineId, Tid, VcpuId},
    setting::ThreadSettings,
    time::{Source, Timestamp, Trace},
};

/// What to make up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// CPUs of the host, one stream each.
    pub cpus: u32,
    /// VMs; 0 for a host without.
    pub vms: u32,
    /// vCPUs of each VM.
    pub vcpus: u32,
    /// Events of all streams together.
    pub events: u64,
    /// Another number, other events of the same kind.
    pub seed: u64,
}

impl Default for Plan {
    fn default() -> Self {
        Plan { cpus: 4, vms: 4, vcpus: 2, events: 1_000_000, seed: 1 }
    }
}

/// Ordinary threads of each CPU.
const TASKS: u32 = 12;
/// The first vCPU thread's number; the others follow VM by VM.
const FIRST_VCPU_TID: u32 = 10_000;
/// Events of one CPU written before it is the next one's turn.
const TURN_EVENTS: usize = 4096;

/// Stamps that are nanoseconds of trace time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nanoseconds;

impl ToTrace for Nanoseconds {
    fn to_trace(&self, ts: Timestamp<Source>) -> Option<Timestamp<Trace>> {
        i64::try_from(ts.get()).ok().map(Timestamp::new)
    }
}

impl Plan {
    /// Who there is: machine 0 is the host, the VMs follow.
    pub fn topology(&self) -> Topology {
        let mut topology = Topology::default();
        topology.machines.push(MachineInfo {
            clock: Some("mono".into()),
            ..MachineInfo::host(MachineId(0), "host")
        });
        for vm in 0..self.vms {
            let vmm = self.vcpu_tid(vm, 0);
            topology.machines.push(MachineInfo {
                vmm_pid: Some(vmm),
                ..MachineInfo::guest(MachineId(vm + 1), MachineId(0), format!("vm{vm}"))
            });
            for vcpu in 0..self.vcpus {
                topology.vcpus.push(VcpuInfo {
                    machine: MachineId(vm + 1),
                    vcpu: VcpuId(vcpu),
                    vmm_tid: Some(self.vcpu_tid(vm, vcpu)),
                    guest_cpu: CpuId(vcpu),
                });
            }
        }
        for thread in (0..self.cpus).flat_map(|cpu| self.threads_of(cpu)) {
            topology.threads.push(ThreadInfo {
                machine: MachineId(0),
                tid: thread.tid,
                pid: thread.vcpu.map(|(vm, _)| self.vcpu_tid(vm, 0)),
                name: thread.name(),
                cgroup: None,
                born: None,
                settings: ThreadSettings::default(),
            });
        }
        topology
    }

    /// The streams of all CPUs.
    pub fn streams(&self) -> Vec<Input<Story, Nanoseconds>> {
        let input = |cpu| Input {
            key: StreamKey { machine: MachineId(0), cpu: CpuId(cpu) },
            stream: self.story(cpu),
            clock: Nanoseconds,
        };
        (0..self.cpus).map(input).collect()
    }

    /// Writes the same events as a compact file. Returns what `to` then is.
    ///
    /// # Errors
    /// `to` cannot be written.
    pub fn write_compact<W: Write>(&self, to: W) -> io::Result<W> {
        let mut file = BlockWriter::new(to, &FileHeader::new(self.cpus, Isa::Svm, "synthetic"))?;
        let mut names = Names::default();
        for thread in (0..self.cpus).flat_map(|cpu| self.threads_of(cpu)) {
            names.thread(thread.tid, Comm::new(thread.name().as_bytes()));
        }
        file.names(&names)?;
        let log = |cpu| LogWriter::new(LogId { cpu: CpuId(cpu), side: 0 });
        let mut logs: Vec<_> = (0..self.cpus).map(|cpu| (self.story(cpu), log(cpu))).collect();
        let mut batch = Vec::new();
        let mut left = logs.len();
        while left > 0 {
            left = 0;
            for (story, log) in &mut logs {
                batch.clear();
                story.next_batch(&mut batch, TURN_EVENTS);
                left += usize::from(!batch.is_empty());
                for item in &batch {
                    if let StreamItem::Event { ts, tid, event, .. } = item {
                        log.event(ts.get(), *tid, event, &mut file)?;
                    }
                }
            }
        }
        let mut totals = Totals::default();
        for (cpu, (_, log)) in (0..).zip(&mut logs) {
            log.finish(&mut file)?;
            let bytes = log.position();
            totals.logs.push(LogTotals { cpu, bytes, ..LogTotals::default() });
        }
        file.finish(&totals)
    }

    fn story(&self, cpu: u32) -> Story {
        let (share, rest) =
            (self.events / u64::from(self.cpus), self.events % u64::from(self.cpus));
        let events = share + u64::from(u64::from(cpu) < rest);
        Story::new(self.seed, cpu, self.threads_of(cpu), events)
    }

    /// The threads that live on a CPU: vCPU threads are dealt out, the others are its own.
    fn threads_of(&self, cpu: u32) -> Vec<Planned> {
        let tasks = (0..TASKS).map(|n| Planned { tid: tid(100 + cpu * TASKS + n), vcpu: None });
        let vcpus = (0..self.vms).flat_map(|vm| (0..self.vcpus).map(move |vcpu| (vm, vcpu)));
        let mine = vcpus.filter(|(vm, vcpu)| (vm * self.vcpus + vcpu) % self.cpus == cpu);
        let vcpus =
            mine.map(|(vm, vcpu)| Planned { tid: self.vcpu_tid(vm, vcpu), vcpu: Some((vm, vcpu)) });
        tasks.chain(vcpus).collect()
    }

    fn vcpu_tid(&self, vm: u32, vcpu: u32) -> Tid {
        tid(FIRST_VCPU_TID + vm * (self.vcpus + 2) + vcpu)
    }
}

fn tid(number: u32) -> Tid {
    Tid(i32::try_from(number).unwrap_or(i32::MAX))
}
