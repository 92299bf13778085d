//! Which events: the same set for every arm, in every tracer's own words.
//!
//! The default is what a tracer of virtual machines records: who has a CPU, who wakes whom, system calls,
//! interrupts, and KVM's entries and exits. Arms with the same `events` trace the same tracepoints, so that the
//! difference between two arms is the tracers'. `README.md` of the tracers has each tracer's syntax.

use std::fmt;
use transect_bench_core::{Fault, Kind, Refusal, protocol::Param};
use transect_tracefs::Tracefs;

/// A tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// `sched`.
    pub(crate) system: String,
    /// `sched_switch`.
    pub(crate) name: String,
}

impl fmt::Display for Event {
    /// As transect, trace-cmd, perf and tracefs's `set_event` take it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.system, self.name)
    }
}

/// Words for several events. Of these, what a kernel lacks is left out.
pub const GROUPS: &[(&str, &[(&str, &str)])] = &[
    ("sched", &[("sched", "sched_switch"), ("sched", "sched_waking")]),
    ("syscalls", &[("raw_syscalls", "sys_enter"), ("raw_syscalls", "sys_exit")]),
    ("irq", &[("irq", "irq_handler_entry"), ("irq", "irq_handler_exit")]),
    ("kvm", &[("kvm", "kvm_entry"), ("kvm", "kvm_exit")]),
];

/// What is traced if the plan does not say.
pub const DEFAULT_EVENTS: &str = "sched,syscalls,irq,kvm";

/// The parameter, as arms declare it.
pub(crate) fn param() -> (&'static str, Param, &'static str) {
    let about = "groups (sched, syscalls, irq, kvm) and SYSTEM:EVENT, comma-separated";
    ("events", Param::Text(DEFAULT_EVENTS.to_owned()), about)
}

/// The events meant, and which of them the kernel may lack.
fn parse(words: &str) -> Result<Vec<(Event, bool)>, String> {
    let mut events: Vec<(Event, bool)> = Vec::new();
    let mut add = |system: &str, name: &str, may_lack| {
        let event = Event { system: system.to_owned(), name: name.to_owned() };
        if !events.iter().any(|(known, _)| *known == event) {
            events.push((event, may_lack));
        }
    };
    for word in words.split(',').map(str::trim) {
        if let Some((_, group)) = GROUPS.iter().find(|(name, _)| *name == word) {
            group.iter().for_each(|(system, name)| add(system, name, true));
            continue;
        }
        let plain = |part: &str| {
            !part.is_empty()
                && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
        };
        match word.split_once(':') {
            Some((system, name)) if plain(system) && plain(name) => add(system, name, false),
            _ => {
                return Err(format!(
                    "{word:?} is neither a group (sched, syscalls, irq, kvm) nor SYSTEM:EVENT"
                ));
            }
        }
    }
    Ok(events)
}

/// The events of this kernel that `words` means.
///
/// # Errors
/// The words are wrong ([`Kind::Plan`]), or the kernel lacks an event that was named ([`Kind::NotHere`]).
pub(crate) fn present(arm: &str, tracefs: &Tracefs, words: &str) -> Result<Vec<Event>, Refusal> {
    let what = format!("tracer {arm}");
    let wished = parse(words).map_err(|why| Refusal::new(Kind::Plan, &what, why))?;
    let mut events = Vec::new();
    for (event, may_lack) in wished {
        if tracefs.path(&format!("events/{}/{}/enable", event.system, event.name)).exists() {
            events.push(event);
        } else if !may_lack {
            return Err(Refusal::new(
                Kind::NotHere,
                what,
                format!("this kernel has no event {event}"),
            )
            .mend("load the module that defines it, or remove it from `events`"));
        }
    }
    if events.is_empty() {
        return Err(Refusal::new(
            Kind::NotHere,
            what,
            format!("this kernel has none of the events {words:?}"),
        ));
    }
    Ok(events)
}

/// tracefs, mounted if nobody has yet.
pub(crate) fn tracefs(arm: &str) -> Result<Tracefs, Refusal> {
    Tracefs::find().map_err(|why| {
        Refusal::new(Kind::NotHere, format!("tracer {arm}"), why.to_string())
            .mend("run as root on a kernel with CONFIG_FTRACE")
    })
}

/// [`tracefs`] and [`present`] at once, for starting.
pub(crate) fn here(arm: &str, words: &str) -> Result<(Tracefs, Vec<Event>), Fault> {
    let tracefs = tracefs(arm)?;
    let events = present(arm, &tracefs, words)?;
    Ok((tracefs, events))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn words_name_groups_and_events_and_nothing_else() {
        let names = |words| {
            let events = parse(words).unwrap();
            events.iter().map(|(event, _)| event.to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names("irq"), "irq:irq_handler_entry irq:irq_handler_exit");
        assert_eq!(names("sched:sched_switch, sched"), "sched:sched_switch sched:sched_waking");
        assert_eq!(names(DEFAULT_EVENTS).split(' ').count(), 8);
        for wrong in ["", "sched,", "net", "a:b:c", "sched:*", "x:$(y)"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_a_kernel_lacks_is_left_out_of_groups_and_refused_by_name() {
        let root = tempfile::tempdir().unwrap();
        for event in ["sched/sched_switch", "irq/irq_handler_entry"] {
            let folder = root.path().join("events").join(event);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("enable"), "0").unwrap();
        }
        let tracefs = Tracefs::at(root.path().to_owned());
        let found = present("x", &tracefs, DEFAULT_EVENTS).unwrap();
        assert_eq!(found.len(), 2);
        let named = present("x", &tracefs, "sched,kvm:kvm_exit").unwrap_err();
        assert_eq!((named.kind, named.why.contains("kvm:kvm_exit")), (Kind::NotHere, true));
        assert_eq!(present("x", &tracefs, "kvm").unwrap_err().kind, Kind::NotHere);
        assert_eq!(present("x", &tracefs, "nonsense").unwrap_err().kind, Kind::Plan);
    }
}
