//! From a row of sums to the key that its track shows it as.

use crate::row::{Row, id, int, text, tid};
use std::collections::HashMap;
use transect_timeline::{Class, Key, Kind, View, vector_name};

/// By whom or whose: machine, vCPU, thread.
type Whose = (Option<u32>, Option<u32>, Option<i32>);
const NOBODY: Whose = (None, None, None);

/// What tells a key from others, as the tables say it.
pub(super) struct Known {
    class: Option<Class>,
    state: String,
    reason: String,
    whose: Whose,
    /// Does the vCPU of who has the CPU follow from the other two?
    vcpu_follows: bool,
}

impl Known {
    fn new(class: Class, state: &str, reason: &str) -> Self {
        let (class, state, reason) = (Some(class), state.to_owned(), reason.to_owned());
        Known { class, state, reason, whose: NOBODY, vcpu_follows: false }
    }

    fn of(self, whose: Whose) -> Self {
        Known { whose, ..self }
    }

    /// Of a row of sums; none for idle time, which no track shows.
    pub(super) fn of_row(kind: Kind, row: &Row) -> Option<Self> {
        Some(match kind {
            Kind::Cpu => return of_cpu(row, id(row, "machine_id")),
            Kind::CpuGuest => return of_cpu(row, id(row, "vm")),
            Kind::Vcpu => of_vcpu(row, "state", "reason"),
            Kind::Thread if row.get("vcpu_state").is_some_and(|state| !state.is_null()) => {
                of_vcpu(row, "vcpu_state", "vcpu_reason")
            }
            Kind::Thread => {
                let (is, really) = (text(row, "state"), text(row, "effective"));
                let reason = text(row, "reason");
                let shown = if really.is_empty() { is } else { really };
                Known::new(Class::of_thread_state(is, really, reason), shown, reason)
            }
            Kind::Domain => {
                let state = text(row, "state");
                Known::new(Class::of_domain_state(state), state, "")
            }
            Kind::Exits => Known::new(Class::Exit, "exit", text(row, "reason")),
            Kind::Syscall => Known::new(Class::Syscall, "syscall", &int(row, "nr")?.to_string()),
            Kind::Irq => {
                let is_soft = row.get("softirq")?.as_bool()?;
                let name = vector_name(is_soft, i32::try_from(int(row, "vector")?).ok()?);
                let soft = (Class::Softirq, "softirq");
                let (class, state) = if is_soft { soft } else { (Class::Irq, "irq") };
                Known::new(class, state, &name)
            }
            Kind::Block => {
                let whose = (id(row, "machine_id"), None, tid(row, "tid"));
                Known::new(Class::Block, text(row, "op"), "").of(whose)
            }
            Kind::Net => Known::new(Class::Net, text(row, "direction"), ""),
            Kind::Work => {
                let function = row.get("function")?.as_u64()?;
                Known::new(Class::Running, "work", &format!("{function:#x}"))
            }
            Kind::Lost => Known::new(Class::Lost, "lost", text(row, "cause")),
            // One key of whatever class; its state is the event's name.
            _ => Known { class: None, ..Known::new(Class::Others, text(row, "name"), "") },
        })
    }

    fn is(&self, key: &Key) -> bool {
        let vcpu = if self.vcpu_follows { None } else { key.vcpu };
        self.class.is_none_or(|class| key.class == class)
            && key.state == self.state
            && key.reason.as_deref().unwrap_or_default() == self.reason
            && (key.machine_id, vcpu, key.tid) == self.whose
    }

    /// Its number, and what people call it.
    pub(super) fn find(&self, keys: &Keys<'_>) -> (Option<usize>, String) {
        let place = (self.state.as_str(), self.reason.as_str(), self.whose.0, self.whose.2);
        let likely = keys.places.get(&place).map_or(&[][..], Vec::as_slice);
        let key = likely.iter().copied().find(|key| self.is(&keys.view.keys()[*key]));
        let plain = || format!("{} {}", self.state, self.reason).trim_end().to_owned();
        (key, key.map_or_else(plain, |key| keys.view.keys()[key].label.clone()))
    }

    pub(super) fn into_state(self) -> String {
        self.state
    }
}

/// State, reason, machine and thread.
type Place<'v> = (&'v str, &'v str, Option<u32>, Option<i32>);

/// A view's keys, by what most of them differ in: there may be thousands, and as many sums.
pub(super) struct Keys<'v> {
    view: &'v View,
    places: HashMap<Place<'v>, Vec<usize>>,
}

impl<'v> Keys<'v> {
    pub(super) fn new(view: &'v View) -> Self {
        let mut places: HashMap<_, Vec<usize>> = HashMap::new();
        for (number, key) in view.keys().iter().enumerate() {
            let reason = key.reason.as_deref().unwrap_or_default();
            let place = (key.state.as_str(), reason, key.machine_id, key.tid);
            places.entry(place).or_default().push(number);
        }
        Keys { view, places }
    }
}

fn of_vcpu(row: &Row, state: &str, reason: &str) -> Known {
    let whose = (id(row, "by_machine_id"), None, tid(row, "by_tid"));
    let state = text(row, state);
    let known = Known::new(Class::of_vcpu_state(state), state, text(row, reason)).of(whose);
    Known { vcpu_follows: true, ..known }
}

fn of_cpu(row: &Row, machine: Option<u32>) -> Option<Known> {
    let (vm, vcpu) = (id(row, "vcpu_machine_id"), id(row, "vcpu"));
    match (vm, vcpu, tid(row, "tid")) {
        (Some(_), Some(_), tid) => Some(Known::new(Class::Vcpu, "vcpu", "").of((vm, vcpu, tid))),
        (_, _, Some(0)) => None,
        (_, _, tid @ Some(_)) => {
            Some(Known::new(Class::Thread, "thread", "").of((machine, None, tid)))
        }
        _ => Some(Known::new(Class::Unknown, "unknown", "")),
    }
}
