//! Causes: what let an actor go on.
//!
//! ```text
//!   raise ─▶ softirq          queue ─▶ work item         send ─▶ receive (another machine)
//!   wakings, with what their interrupt is about: a request that is done, a packet, a timer, an IPI
//!
//!   guest:  issue ─▶ doorbell ─ kick ─▶ back end … message interrupt ─▶ accept
//!                                                                        │ injection
//!   guest:  handler of the line ◀─ line ─ kvm_inj_virq ◀─────────────────┘
//! ```
//! A row is written when the effect comes. What joins the two is told with it: a number that both
//! carry, the place in which both happened, or nothing but time.
//!
//! Facts about kernels this rests on (Linux 6.1):
//! - `kvm_apic_accept_irq` is the first statement of `__apic_accept_irq` (arch/x86/kvm/lapic.c) and
//!   runs in the context of whoever sends the interrupt, right behind `kvm_msi_set_irq` if it is a
//!   message. Interrupts that a vCPU has accepted and not got yet are one bit per vector: one
//!   injection answers all of them.
//! - Which interrupt line a vector runs is the guest's choice, per CPU; the handlers that follow
//!   injections tell it ([`delivery`]).
//!
//! **Boundary state.** What has been seen as a cause and not yet had its effect, per CPU
//! ([`OnCpu`]), per vCPU ([`delivery::Delivery`]) and by number. A hole anywhere makes all of it forgotten:
//! an effect behind the hole may have a cause inside it. While it lasts, nothing new is remembered of its
//! machine either, but within a CPU: what seems to be the cause may have had its effect unseen.

pub(crate) mod delivery;
pub(crate) mod on_cpu;
mod origin;
pub(crate) mod queued;

pub(crate) use on_cpu::OnCpu;
pub(crate) use origin::{Edge, Effect, Origin};
pub(crate) use queued::Queued;

use delivery::{Delivery, Queues};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use transect_model::event::Comm;

/// Names of interrupt lines kept at most, of one machine.
const MAX_NAMES: usize = 1 << 13;

/// What causes of a recording are on their way, besides those within a CPU.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Causes {
    pub(crate) queued: Queued,
    /// By the index of the vCPU.
    delivery: Vec<Delivery>,
    /// By the index of the VM.
    pub(crate) queues: BTreeMap<usize, Queues>,
    /// By machine, the names of its interrupt lines.
    names: BTreeMap<usize, BTreeMap<i32, String>>,
    /// By machine, until when events of it are missing.
    hidden_until: BTreeMap<usize, i64>,
}

impl Causes {
    /// The vCPU of that index.
    pub(crate) fn of_vcpu(&mut self, v: usize) -> &mut Delivery {
        if self.delivery.len() <= v {
            self.delivery.resize_with(v + 1, Delivery::default);
        }
        &mut self.delivery[v]
    }

    /// The same, to look at.
    pub(crate) fn vcpu(&self, v: usize) -> Option<&Delivery> {
        self.delivery.get(v)
    }

    /// Do what other CPUs of the machine did at that time, or take part in, events tell?
    pub(crate) fn is_hidden(&self, m: usize, t: i64) -> bool {
        self.hidden_until.get(&m).is_some_and(|until| t < *until)
    }

    /// A line's name, of what is known from outside of the events.
    pub(crate) fn know_line(&mut self, m: usize, irq: i32, name: String) {
        let names = self.names.entry(m).or_default();
        if names.len() < MAX_NAMES {
            names.insert(irq, name);
        }
    }

    /// A line's name, as an event has it: at most 15 bytes of it.
    pub(crate) fn see_line(&mut self, m: usize, irq: i32, name: Comm) {
        let names = self.names.entry(m).or_default();
        if !name.as_bytes().is_empty() && names.len() < MAX_NAMES && !names.contains_key(&irq) {
            names.insert(irq, name.to_str().into_owned());
        }
    }

    /// A line's name; empty if it is not known.
    pub(crate) fn name(&self, m: usize, irq: i32) -> String {
        self.names.get(&m).and_then(|names| names.get(&irq)).cloned().unwrap_or_default()
    }

    /// The lines of a machine whose names are known.
    pub(crate) fn lines(&self, m: usize) -> impl Iterator<Item = (i32, &str)> {
        self.names.get(&m).into_iter().flatten().map(|(irq, name)| (*irq, name.as_str()))
    }

    /// Events of a machine are missing, until then: what follows may have its cause among them. What was
    /// learned stays.
    pub(crate) fn lose(&mut self, m: usize, until: i64) {
        let hidden = self.hidden_until.entry(m).or_insert(until);
        *hidden = until.max(*hidden);
        self.queued.lose();
        self.delivery.iter_mut().for_each(Delivery::lose);
        self.queues.values_mut().for_each(Queues::lose);
    }
}
