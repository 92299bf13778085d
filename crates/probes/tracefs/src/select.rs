//! From what was asked for (a profile, `-e`, `--filter`) to the events this kernel has.

use crate::{Instance, Tracefs, TracefsError, profile::Profile};
use std::{collections::BTreeMap, fs};

/// How an event is named on the command line, for error texts.
const EVENT_SPEC: &str = "SYSTEM:EVENT or SYSTEM, e.g. sched:sched_switch, 'kvm:kvm_*' or block";
/// How a filter is.
const FILTER_SPEC: &str = "'SYSTEM:EVENT if EXPRESSION', e.g. 'sched:sched_switch if next_prio < 100', or after -e only the expression";

/// One wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRequest {
    /// The tracepoint's system; may hold `*` and `?`.
    pub system: String,
    /// Its name; may hold `*` and `?`; `*` for the whole system.
    pub event: String,
    /// A kernel filter for it.
    pub filter: Option<String>,
    /// Asked for by name: it is an error if the kernel has none that matches.
    pub required: bool,
}

impl EventRequest {
    /// Parses `SYSTEM:EVENT`, `SYSTEM/EVENT` or `SYSTEM`, as `-e` takes them.
    pub fn parse(spec: &str) -> Result<Self, TracefsError> {
        let error =
            |reason| TracefsError::Spec { spec: spec.to_owned(), reason, expected: EVENT_SPEC };
        let (system, event) = spec.split_once([':', '/']).unwrap_or((spec, "*"));
        for part in [system, event] {
            if part.is_empty() {
                return Err(error("a system or event without a name"));
            }
            if !part.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.*?".contains(&b)) {
                return Err(error("not the name of an event"));
            }
            if part.starts_with('.') {
                return Err(error("not the name of an event"));
            }
        }
        Ok(EventRequest {
            system: system.to_owned(),
            event: event.to_owned(),
            filter: None,
            required: true,
        })
    }

    /// Every event of a profile; those a kernel lacks are not an error.
    pub fn from_profile(profile: Profile) -> impl Iterator<Item = Self> {
        profile.events().map(|(system, event)| EventRequest {
            system: system.to_owned(),
            event: event.to_owned(),
            filter: None,
            required: false,
        })
    }

    fn pattern(&self) -> String {
        format!("{}:{}", self.system, self.event)
    }
}

/// `SYSTEM:EVENT if EXPRESSION`: an event and a condition on its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Where it applies; none: to whatever it follows on the command line.
    pub event: Option<(String, String)>,
    /// In the kernel's filter syntax.
    pub expression: String,
}

impl Condition {
    /// Parses `SYSTEM:EVENT if EXPRESSION` or a bare expression.
    pub fn parse(spec: &str) -> Result<Self, TracefsError> {
        let error =
            |reason| TracefsError::Spec { spec: spec.to_owned(), reason, expected: FILTER_SPEC };
        let expression = |text: &str| match text.trim() {
            "" => Err(error("no expression")),
            text if text.contains('\n') => Err(error("an expression of several lines")),
            text => Ok(text.to_owned()),
        };
        match spec.split_once(" if ") {
            None => Ok(Condition { event: None, expression: expression(spec)? }),
            Some((event, condition)) => {
                let request = EventRequest::parse(event.trim())?;
                if !event.contains([':', '/']) {
                    return Err(error("the condition lacks SYSTEM:EVENT"));
                }
                Ok(Condition {
                    event: Some((request.system, request.event)),
                    expression: expression(condition)?,
                })
            }
        }
    }
}

/// One event that will be recorded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SelectedEvent {
    /// System.
    pub system: String,
    /// Name.
    pub event: String,
    /// Its filter.
    pub filter: Option<String>,
}

/// What a set of wishes comes to on this kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// To be enabled, sorted, each once.
    pub events: Vec<SelectedEvent>,
    /// Wanted by a profile and not there.
    pub absent: Vec<String>,
}

impl Selection {
    /// Looks the wishes up in tracefs. A later wish for the same event replaces its filter.
    ///
    /// # Errors
    /// A required wish that matches nothing.
    pub fn resolve(tracefs: &Tracefs, requests: &[EventRequest]) -> Result<Self, TracefsError> {
        let mut found: BTreeMap<(String, String), Option<String>> = BTreeMap::new();
        let mut absent = Vec::new();
        for request in requests {
            let matches = matching(tracefs, request);
            if matches.is_empty() && request.required {
                return Err(no_event(tracefs, request));
            }
            if matches.is_empty() {
                absent.push(request.pattern());
            }
            for key in matches {
                let filter = found.entry(key).or_default();
                if request.filter.is_some() {
                    filter.clone_from(&request.filter);
                }
            }
        }
        let events = found
            .into_iter()
            .map(|((system, event), filter)| SelectedEvent { system, event, filter })
            .collect();
        Ok(Selection { events, absent })
    }

    /// Adds a filter to every selected event its condition names.
    ///
    /// # Errors
    /// None of them is selected: a filter that filters nothing is a mistake.
    pub fn filter(&mut self, condition: &Condition) -> Result<(), TracefsError> {
        let Some((system, event)) = &condition.event else { return Ok(()) };
        let mut applied = false;
        for selected in &mut self.events {
            if glob(system, &selected.system) && glob(event, &selected.event) {
                selected.filter = Some(condition.expression.clone());
                applied = true;
            }
        }
        if applied {
            return Ok(());
        }
        Err(TracefsError::NoEvent {
            pattern: format!("{system}:{event}"),
            near: format!(" among the recorded events: add -e {system}:{event} to filter it"),
        })
    }

    /// Sets filters, then enables every event.
    pub fn enable(&self, instance: &Instance) -> Result<(), TracefsError> {
        for selected in &self.events {
            if let Some(filter) = &selected.filter {
                instance.set_filter(&selected.system, &selected.event, filter)?;
            }
        }
        for selected in &self.events {
            instance.enable(&selected.system, Some(&selected.event))?;
        }
        Ok(())
    }
}

fn names(tracefs: &Tracefs, dir: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(tracefs.path(dir)) else { return Vec::new() };
    entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect()
}

fn matching(tracefs: &Tracefs, request: &EventRequest) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for system in names_matching(tracefs, "events", &request.system) {
        // Formats of the function tracers' own records: never enabled by hand.
        if system == "ftrace" {
            continue;
        }
        let dir = format!("events/{system}");
        for event in names_matching(tracefs, &dir, &request.event) {
            if tracefs.path(&dir).join(&event).join("enable").exists() {
                found.push((system.clone(), event));
            }
        }
    }
    found
}

/// Names in `dir` that match; a plain name is looked up without listing.
fn names_matching(tracefs: &Tracefs, dir: &str, pattern: &str) -> Vec<String> {
    if pattern.contains(['*', '?']) {
        let mut names = names(tracefs, dir);
        names.retain(|name| glob(pattern, name));
        return names;
    }
    if tracefs.path(dir).join(pattern).is_dir() { vec![pattern.to_owned()] } else { Vec::new() }
}

fn no_event(tracefs: &Tracefs, request: &EventRequest) -> TracefsError {
    let systems = names(tracefs, "events");
    let near = if request.system == "kvm" && !systems.iter().any(|s| s == "kvm") {
        ": the kvm module is not loaded; modprobe kvm_intel (or kvm_amd)".to_owned()
    } else if systems.contains(&request.system) {
        let events = names(tracefs, &format!("events/{}", request.system));
        format!("; {} has {}", request.system, nearest(&request.event, events))
    } else {
        format!("; this kernel has the systems {}", nearest(&request.system, systems))
    };
    TracefsError::NoEvent { pattern: request.pattern(), near }
}

/// The names most like `wanted` (longest common prefix first), at most a dozen.
fn nearest(wanted: &str, mut names: Vec<String>) -> String {
    let common = |name: &str| wanted.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
    names.sort_by(|a, b| common(b).cmp(&common(a)).then_with(|| a.cmp(b)));
    let more = names.len().checked_sub(12).filter(|more| *more > 0);
    names.truncate(12);
    let mut text = names.join(", ");
    if let Some(more) = more {
        text.push_str(&format!(", and {more} more"));
    }
    text
}

/// Does `name` match `pattern` of plain characters, `*` and `?`?
fn glob(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    // Where to go on if the last star has to swallow one more byte.
    let mut retry: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p + 1, n));
                p += 1;
            }
            Some(b) if *b == b'?' || *b == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match retry {
                Some((after_star, from)) => {
                    retry = Some((after_star, from + 1));
                    p = after_star;
                    n = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|b| *b == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fake() -> (tempfile::TempDir, Tracefs) {
        let dir = tempfile::tempdir().unwrap();
        for event in ["sched/sched_switch", "sched/sched_waking", "kvm/kvm_exit", "ftrace/print"] {
            let path = dir.path().join("events").join(event);
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("enable"), "0").unwrap();
        }
        let tracefs = Tracefs::at(dir.path().to_owned());
        (dir, tracefs)
    }

    #[test]
    fn requests_resolve_to_what_is_there() {
        let (_dir, tracefs) = fake();
        let requests =
            [EventRequest::parse("sched").unwrap(), EventRequest::parse("k*:*").unwrap()];
        let selection = Selection::resolve(&tracefs, &requests).unwrap();
        let names: Vec<_> = selection.events.iter().map(|e| e.event.as_str()).collect();
        assert_eq!(names, ["kvm_exit", "sched_switch", "sched_waking"]);
    }

    #[test]
    fn absent_events_of_a_profile_are_told_and_named_ones_refused() {
        let (_dir, tracefs) = fake();
        let requests: Vec<_> = EventRequest::from_profile(Profile::Vm).collect();
        let selection = Selection::resolve(&tracefs, &requests).unwrap();
        assert_eq!(selection.events.len(), 3);
        assert!(selection.absent.contains(&"kvm:kvm_entry".to_owned()));
        let named = [EventRequest::parse("sched:sched_swich").unwrap()];
        let error = Selection::resolve(&tracefs, &named).unwrap_err().to_string();
        assert!(error.contains("sched has sched_switch, sched_waking"), "{error}");
    }

    #[test]
    fn filters_go_to_the_events_they_name() {
        let (_dir, tracefs) = fake();
        let requests = [EventRequest::parse("sched").unwrap()];
        let mut selection = Selection::resolve(&tracefs, &requests).unwrap();
        let condition = Condition::parse("sched:sched_switch if next_prio < 100").unwrap();
        selection.filter(&condition).unwrap();
        assert_eq!(selection.events[0].filter.as_deref(), Some("next_prio < 100"));
        assert_eq!(selection.events[1].filter, None);
        let other = Condition::parse("kvm:kvm_exit if vcpu_id == 0").unwrap();
        assert!(selection.filter(&other).unwrap_err().to_string().contains("add -e kvm:kvm_exit"));
    }

    #[test]
    fn specifications_that_make_no_sense_say_so() {
        for bad in ["", ":x", "x:", "a b", "../etc", "sched:sched_switch if"] {
            assert!(EventRequest::parse(bad).is_err(), "{bad:?}");
        }
        for bad in ["", "sched if x", "sched:sched_switch if ", "a\nb"] {
            assert!(Condition::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn globs() {
        assert!(glob("kvm_*", "kvm_exit") && glob("*", "") && glob("k?m*t", "kvm_exit"));
        assert!(!glob("kvm_?", "kvm_exit") && !glob("", "x") && !glob("*x", "kvm_exi"));
    }

    proptest! {
        #[test]
        fn a_name_matches_itself_and_any_split_by_a_star(name in "[a-z_]{0,20}", at in 0usize..21) {
            let at = at.min(name.len());
            prop_assert!(glob(&name, &name));
            let starred = format!("{}*{}", &name[..at], &name[at..]);
            prop_assert!(glob(&starred, &name));
            let longer = format!("{name}x");
            prop_assert!(!glob(&name, &longer));
        }
    }
}
