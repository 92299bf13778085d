//! How a row reads on the timeline: its name, its category, its other columns.

use super::item::{Item, Metric, Row};
use super::layout::Layout;
use super::names::Names;
use crate::{Note, Sample};
use transect_model::state::EffectiveState;
use transect_model::table::*;

/// Labels rows.
pub(crate) struct Labels<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) names: Names<'a>,
    pub(crate) layout: &'a Layout,
}

type Notes<'n> = Vec<(&'static str, Note<'n>)>;

/// A number where there is one.
fn maybe<T: Copy>(
    notes: &mut Notes<'_>,
    name: &'static str,
    value: Option<T>,
    note: impl Fn(T) -> Note<'static>,
) {
    notes.extend(value.map(|value| (name, note(value))));
}

fn id(value: u32) -> Note<'static> {
    Note::Uint(u64::from(value))
}

fn tid(value: transect_model::ids::Tid) -> Note<'static> {
    Note::Int(i64::from(value.0))
}

impl Labels<'_> {
    /// Hands the item's label to `write`.
    pub(crate) fn with<R>(&self, item: &Item, write: impl FnOnce(&Sample<'_>) -> R) -> R {
        match item.row {
            Row::VcpuState(at) => self.vcpu_state(&self.tables.vcpu_states[at as usize], write),
            Row::DomainState(at) => {
                let state = self.tables.domain_states[at as usize].state;
                write(&plain(state.as_str(), "domain_states", &[]))
            }
            Row::Exit(at) => self.exit(&self.tables.exits[at as usize], write),
            Row::CpuSlice(at) => self.cpu_slice(&self.tables.cpu_slices[at as usize], write),
            Row::GuestSlice(at) => self.guest_slice(&self.tables.cpu_slices[at as usize], write),
            Row::ThreadState(at) => {
                self.thread_state(&self.tables.thread_states[at as usize], write)
            }
            Row::Wakeup(at) => self.wakeup(at, &self.tables.wakeups[at as usize], write),
            Row::Irq(at) => irq(&self.tables.irqs[at as usize], write),
            Row::Syscall(at) => syscall(&self.tables.syscalls[at as usize], write),
            Row::Lost(at) => lost(&self.tables.lost[at as usize], write),
            Row::Window(..) => write(&plain("window", "windows", &[])),
        }
    }

    /// The value of a counter row.
    pub(crate) fn value(&self, at: u32, metric: Metric) -> i64 {
        let row = &self.tables.windows[at as usize];
        match metric {
            Metric::Gotten => row.gotten_ns,
            Metric::Waited => row.waited_ns,
            Metric::Blocked => row.blocked_ns,
            Metric::Unknown => row.unknown_ns,
            // Counts of events in one window: 2^63 of them do not fit any recording.
            Metric::Exits => i64::try_from(row.exits).unwrap_or(i64::MAX),
            Metric::Io => i64::try_from(row.io_count).unwrap_or(i64::MAX),
        }
    }

    fn vcpu_state<R>(&self, row: &VcpuStateRow, write: impl FnOnce(&Sample<'_>) -> R) -> R {
        let by = row.by_tid.filter(|tid| !tid.is_idle());
        let host = self.names.parent(row.machine_id).or(row.by_machine_id);
        let by = by.zip(host).map(|(tid, host)| self.names.host_thread(host, tid));
        let reason = row.reason.map(|reason| reason.name());
        let mut notes = Notes::new();
        maybe(&mut notes, "cpu", row.cpu, |cpu| id(cpu.0));
        if let Some(reason) = &reason {
            notes.push(("reason", Note::Str(reason)));
        }
        maybe(&mut notes, "by_machine_id", row.by_machine_id, |machine| id(machine.0));
        maybe(&mut notes, "by_tid", row.by_tid, tid);
        if let Some(by) = &by {
            notes.push(("by", Note::Str(by)));
        }
        write(&plain(row.state.as_str(), "vcpu_states", &notes))
    }

    fn exit<R>(&self, row: &Exit, write: impl FnOnce(&Sample<'_>) -> R) -> R {
        let name = row.reason.name();
        let mut notes = vec![("rip", Note::Pointer(row.rip)), ("to_user", Note::Bool(row.to_user))];
        maybe(&mut notes, "handling_ns", row.handling_ns, Note::Int);
        maybe(&mut notes, "detail", row.detail, Note::Uint);
        write(&plain(&name, "exits", &notes))
    }

    fn cpu_slice<R>(&self, row: &CpuSlice, write: impl FnOnce(&Sample<'_>) -> R) -> R {
        let name = row.tid.map_or_else(
            || "unknown".to_owned(),
            |tid| self.names.host_thread(row.machine_id, tid),
        );
        let mut notes = Notes::new();
        maybe(&mut notes, "tid", row.tid, tid);
        maybe(&mut notes, "vcpu_machine_id", row.vcpu_machine_id, |machine| id(machine.0));
        maybe(&mut notes, "vcpu", row.vcpu, |vcpu| id(vcpu.0));
        write(&plain(&name, "cpu_slices", &notes))
    }

    fn guest_slice<R>(&self, row: &CpuSlice, write: impl FnOnce(&Sample<'_>) -> R) -> R {
        let name = row.tid.map_or_else(String::new, |tid| self.names.thread(row.machine_id, tid));
        let mut notes = vec![("machine_id", id(row.machine_id.0)), ("cpu", id(row.cpu.0))];
        maybe(&mut notes, "tid", row.tid, tid);
        write(&plain(&name, "guest_cpu_slices", &notes))
    }

    fn thread_state<R>(&self, row: &ThreadStateRow, write: impl FnOnce(&Sample<'_>) -> R) -> R {
        let state = row.state.as_str();
        let name = match row.effective {
            Some(effective) if effective != EffectiveState::Running => {
                format!("{state}: {}", effective.as_str())
            }
            _ => state.to_owned(),
        };
        let reason = row.reason.map(String::from);
        let mut notes = vec![("state", Note::Str(state))];
        maybe(&mut notes, "cpu", row.cpu, |cpu| id(cpu.0));
        maybe(&mut notes, "effective", row.effective, |e| Note::Str(e.as_str()));
        if let Some(reason) = &reason {
            notes.push(("reason", Note::Str(reason)));
        }
        maybe(&mut notes, "waker_tid", row.waker_tid, tid);
        maybe(&mut notes, "waker_context", row.waker_context, |c| Note::Str(c.as_str()));
        let flow_in = self.layout.flow_ends.get(&(row.machine_id, row.tid, row.ts)).copied();
        let runs = row.state == transect_model::state::ThreadState::Running;
        write(&Sample {
            name: &name,
            category: "thread_states",
            flow_out: None,
            flow_in: flow_in.filter(|_| runs),
            notes: &notes,
        })
    }

    fn wakeup<R>(&self, at: u32, row: &Wakeup, write: impl FnOnce(&Sample<'_>) -> R) -> R {
        let name = format!("wakes {}", self.names.host_thread(row.machine_id, row.tid));
        let mut notes = vec![("tid", tid(row.tid)), ("waker_cpu", id(row.waker_cpu.0))];
        maybe(&mut notes, "waker_tid", row.waker_tid, tid);
        maybe(&mut notes, "context", row.context, |context| Note::Str(context.as_str()));
        maybe(&mut notes, "source", row.source, |source| Note::Str(source.as_str()));
        maybe(&mut notes, "vector", row.vector, |vector| Note::Int(vector.into()));
        maybe(&mut notes, "dur", row.dur, Note::Int);
        maybe(&mut notes, "cpu", row.cpu, |cpu| id(cpu.0));
        let flow = u64::from(at) + 1;
        let end = row.dur.and_then(|dur| row.ts.checked_add(dur));
        let key = end.map(|end| (row.machine_id, row.tid, end));
        // Of wakeups that end in the same moment only one has the arrow.
        let arrives = key.and_then(|key| self.layout.flow_ends.get(&key)) == Some(&flow);
        write(&Sample {
            name: &name,
            category: "wakeups",
            flow_out: arrives.then_some(flow),
            flow_in: None,
            notes: &notes,
        })
    }
}

fn plain<'s>(
    name: &'s str,
    category: &'static str,
    notes: &'s [(&'static str, Note<'s>)],
) -> Sample<'s> {
    Sample { name, category, flow_out: None, flow_in: None, notes }
}

fn irq<R>(row: &Irq, write: impl FnOnce(&Sample<'_>) -> R) -> R {
    let name = row.source.name(row.vector);
    let notes = [
        ("softirq", Note::Bool(row.softirq)),
        ("source", Note::Str(row.source.as_str())),
        ("vector", Note::Int(i64::from(row.vector))),
    ];
    write(&plain(&name, "irqs", &notes))
}

fn syscall<R>(row: &Syscall, write: impl FnOnce(&Sample<'_>) -> R) -> R {
    let name = format!("syscall {}", row.nr);
    let mut notes = vec![("nr", Note::Int(row.nr))];
    maybe(&mut notes, "ret", row.ret, Note::Int);
    write(&plain(&name, "syscalls", &notes))
}

fn lost<R>(row: &Lost, write: impl FnOnce(&Sample<'_>) -> R) -> R {
    let mut notes = Notes::new();
    maybe(&mut notes, "cpu", row.cpu, |cpu| id(cpu.0));
    maybe(&mut notes, "count", row.count, Note::Uint);
    write(&plain(&row.cause, "lost", &notes))
}
