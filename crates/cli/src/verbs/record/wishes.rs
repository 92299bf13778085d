//! `-e` and `--filter`, in the order given: a bare filter belongs to the `-e` before it.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, error::ErrorKind};
use transect_recorder::Narrow;
use transect_tracefs::{Condition, EventRequest};

/// What events were asked for by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wishes {
    /// Each `-e`, with the filter that followed it.
    pub(crate) events: Vec<EventRequest>,
    /// Each `--filter` that names its event.
    pub(crate) filters: Vec<Condition>,
    /// `--filter vm=NAME` and its like, for the compact collector.
    pub(crate) narrow: Narrow,
}

impl Args for Wishes {
    fn augment_args(cmd: Command) -> Command {
        cmd.arg(
            Arg::new("event")
                .short('e')
                .long("event")
                .value_name("SYS:EVENT")
                .action(ArgAction::Append)
                .help_heading("Events and duration")
                .help("Record this event, repeatable; SYS alone: all events of SYS; * and ? match")
                .long_help(
                    "Record this event, repeatable. SYS alone selects all events of SYS; * matches \
                     any characters, ? one. Without --profile, only these events are recorded; with \
                     --profile, they are recorded in addition to it",
                ),
        )
        .arg(
            Arg::new("filter")
                .long("filter")
                .value_name("EXPR")
                .action(ArgAction::Append)
                .help_heading("Events and duration")
                .help("Record only matching events, repeatable: vm=NAME, cgroup=PATH, pid=N, tid=N, dur>=T (compact collector); in kernel filter syntax (full collector): 'SYS:EVENT if EXPR', or EXPR for the preceding -e [default: no filter]"),
        )
    }

    fn augment_args_for_update(cmd: Command) -> Command {
        Self::augment_args(cmd)
    }
}

impl FromArgMatches for Wishes {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given: Vec<(usize, bool, &String)> = Vec::new();
        for (id, is_event) in [("event", true), ("filter", false)] {
            let values = matches.get_many::<String>(id).into_iter().flatten();
            let places = matches.indices_of(id).into_iter().flatten();
            given.extend(places.zip(values).map(|(place, value)| (place, is_event, value)));
        }
        given.sort_by_key(|(place, ..)| *place);
        let mut wishes = Wishes::default();
        for (_, is_event, value) in given {
            let added = if is_event { wishes.add_event(value) } else { wishes.add_filter(value) };
            added
                .map_err(|why| clap::Error::raw(ErrorKind::ValueValidation, format!("{why}\n")))?;
        }
        Ok(wishes)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Wishes {
    fn add_event(&mut self, spec: &str) -> Result<(), String> {
        let request = EventRequest::parse(spec).map_err(|e| e.to_string())?;
        self.events.push(request);
        Ok(())
    }

    fn add_filter(&mut self, spec: &str) -> Result<(), String> {
        if let Some(taken) = self.narrow.take(spec) {
            return taken;
        }
        let condition = Condition::parse(spec).map_err(|e| e.to_string())?;
        if condition.event.is_some() {
            self.filters.push(condition);
            return Ok(());
        }
        match self.events.last_mut() {
            Some(last) => {
                last.filter = Some(condition.expression);
                Ok(())
            }
            None => Err(format!(
                "--filter {spec:?} follows no -e; write --filter 'SYSTEM:EVENT if {spec}'"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Wishes, clap::Error> {
        let cmd = Wishes::augment_args(Command::new("t").no_binary_name(true));
        Wishes::from_arg_matches(&cmd.try_get_matches_from(words)?)
    }

    #[test]
    fn a_bare_filter_belongs_to_the_event_before_it() {
        let wishes = parse(&[
            "-e",
            "sched:sched_switch",
            "--filter",
            "next_prio < 100",
            "-e",
            "irq",
            "--filter",
            "kvm:kvm_exit if vcpu_id == 0",
        ])
        .unwrap();
        assert_eq!(wishes.events[0].filter.as_deref(), Some("next_prio < 100"));
        assert_eq!(wishes.events[1].filter, None);
        assert_eq!(wishes.filters.len(), 1);
    }

    #[test]
    fn a_filter_without_an_event_is_refused() {
        let error = parse(&["--filter", "x == 1", "-e", "irq"]).unwrap_err().to_string();
        assert!(error.contains("follows no -e"), "{error}");
    }
}
