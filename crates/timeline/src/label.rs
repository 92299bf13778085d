//! Names of tracks and keys for people.

use crate::key::{Class, RawKey};
use crate::names::{Machine, Names};
use crate::track::{Actor, Kind};
use crate::view::Key;

impl Names {
    /// A machine's group.
    pub(crate) fn group(&self, machine: &Machine, kind: Kind) -> String {
        let name = match kind {
            Kind::Cpus if machine.kind == "guest" => "CPUs, guest's view",
            Kind::Cpus => "CPUs",
            Kind::Vcpus => "vCPUs",
            Kind::Threads => "threads",
            Kind::Io => "I/O",
            Kind::Counters => "counters",
            Kind::Events => "events",
            _ => return machine.name.clone(),
        };
        name.to_owned()
    }

    /// A track.
    pub(crate) fn track(&self, actor: &Actor, lane: u32) -> String {
        let name = match actor.kind {
            // What a guest's kernel runs, it believes to run all the time.
            Kind::Cpu if self.machine(actor.machine).is_some_and(|m| m.kind == "guest") => {
                format!("{}, guest's view", numbered("CPU", actor.cpu))
            }
            Kind::Cpu => numbered("CPU", actor.cpu),
            Kind::CpuGuest => "inside".to_owned(),
            Kind::Irq => "interrupts".to_owned(),
            Kind::Domain => "domain".to_owned(),
            Kind::Vcpu => numbered("vCPU", actor.vcpu),
            Kind::Exits => "exits".to_owned(),
            Kind::Thread => self.thread_of(actor.machine, actor.tid.unwrap_or(0)),
            Kind::Syscall => "system calls".to_owned(),
            Kind::Work => numbered("work, CPU", actor.cpu),
            Kind::Counter => self.counter(actor),
            Kind::Lost => match actor.cpu {
                Some(cpu) => format!("lost, CPU {cpu}"),
                None => "lost".to_owned(),
            },
            _ => actor.what.clone(),
        };
        if lane == 0 { name } else { format!("{name} · {}", lane + 1) }
    }

    /// A thread of a VMM that runs a vCPU is known by the vCPU, for all VMMs call theirs the same.
    fn thread_of(&self, machine: u32, tid: i32) -> String {
        let name = self.thread(machine, tid);
        match self.runs(machine, tid) {
            Some((vm, vcpu)) => format!("{} vCPU {vcpu}: {name}", vm.name),
            None => name,
        }
    }

    fn counter(&self, actor: &Actor) -> String {
        match (actor.vcpu, actor.cpu) {
            (Some(vcpu), _) => format!("{}, vCPU {vcpu}", actor.what),
            (_, Some(cpu)) => format!("{}, CPU {cpu}", actor.what),
            _ => actor.what.clone(),
        }
    }

    /// A key.
    pub(crate) fn key(&self, raw: &RawKey, state: &str, reason: &str) -> Key {
        Key {
            class: raw.class,
            state: state.to_owned(),
            label: self.label(raw, state, reason),
            machine_id: raw.machine,
            vcpu: raw.vcpu.or_else(|| self.vcpu_of(raw.machine?, raw.tid?)),
            tid: raw.tid,
            reason: (!reason.is_empty()).then(|| reason.to_owned()),
        }
    }

    fn label(&self, raw: &RawKey, state: &str, reason: &str) -> String {
        match (raw.class, raw.machine, raw.vcpu, raw.tid) {
            (Class::Vcpu, Some(machine), Some(vcpu), _) => {
                format!("{} vCPU {vcpu}", self.machine_name(machine))
            }
            (Class::Thread, Some(machine), _, Some(tid)) => self.thread(machine, tid),
            (Class::Preempted | Class::Waking, Some(machine), _, tid) => {
                self.waiting(state, machine, tid)
            }
            (Class::Block, Some(machine), _, Some(tid)) => {
                format!("{state} by {}", self.thread(machine, tid))
            }
            _ => match (state, reason) {
                ("exit" | "irq" | "softirq" | "syscall" | "work" | "lost", reason)
                    if !reason.is_empty() =>
                {
                    format!("{state} {reason}")
                }
                (state, "") => state.replace('_', " "),
                (state, reason) => format!("{} ({reason})", state.replace('_', " ")),
            },
        }
    }

    /// Who has the CPU meanwhile: a guest is named with its vCPU's thread, which is the host's.
    fn waiting(&self, state: &str, machine: u32, tid: Option<i32>) -> String {
        // Who has the CPU is not who woke it.
        let lead = if state == "preempted" {
            "preempted by".to_owned()
        } else {
            format!("{state}; antagonist")
        };
        let known = self.machine(machine);
        let host = known.and_then(|machine| machine.parent_id);
        if let Some(vcpu) = tid.and_then(|tid| self.vcpu_of(machine, tid)) {
            return format!("{lead} {} vCPU {vcpu}", self.machine_name(machine));
        }
        match (tid, host) {
            (Some(0), _) => format!("{state}, CPU leaves idle"),
            (Some(tid), Some(host)) => {
                format!("{lead} {}, {}", self.machine_name(machine), self.thread(host, tid))
            }
            (Some(tid), None) => format!("{lead} {}", self.thread(machine, tid)),
            (None, _) => format!("{lead} {}", self.machine_name(machine)),
        }
    }
}

fn numbered(what: &str, number: Option<u32>) -> String {
    number.map_or_else(|| what.to_owned(), |number| format!("{what} {number}"))
}
