//! When snapshots are taken without anybody asking.

mod comparison;
mod condition;
mod found;
mod of;

use super::config::values::{duration, duration_text};
use condition::Condition;
use of::Of;
use std::collections::BTreeMap;
use std::time::Duration;
use transect_live::{FindingWindow, Snapshot};
use transect_model::ids::{MachineId, VcpuId};

/// A rule: whose column, compared with what, or which finding; for how long.
#[derive(Clone, Debug, PartialEq)]
pub struct Trigger {
    pub(crate) name: String,
    pub(crate) of: Of,
    pub(crate) matches: String,
    pub(crate) when: Condition,
    pub(crate) lasting: Duration,
    pub(crate) cooldown: Duration,
    /// How much of the past the snapshot has.
    pub(crate) seconds: u64,
}

impl Trigger {
    /// Of its settings by name.
    ///
    /// # Errors
    /// The setting, and what is wrong with it.
    pub(crate) fn new<'t>(
        get: &dyn Fn(&str) -> Option<&'t str>,
    ) -> Result<Self, (&'static str, String)> {
        let name = get("name").ok_or(("name", "it is required".to_owned()))?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) {
            let what = "letters, digits, '-', '_' and '.', 64 at most";
            return Err(("name", format!("{name:?}; it must be {what}")));
        }
        let of = get("of").unwrap_or("vcpu");
        let of =
            Of::ALL.iter().find(|(word, _)| *word == of).map(|(_, of)| *of).ok_or_else(|| {
                ("of", format!("{of:?}; it must be \"vcpu\", \"vm\" or \"cgroup\""))
            })?;
        let when =
            get("when").ok_or(("when", "it is required, as in \"waited_ns > 20%\"".to_owned()))?;
        let when = Condition::parse(when, of).map_err(|what| ("when", what))?;
        let time = |field: &'static str, default: u64| match get(field) {
            None => Ok(Duration::from_secs(default)),
            Some(text) => {
                duration(text).filter(|time| *time <= Duration::from_secs(86_400)).ok_or_else(
                    || (field, format!("{text:?}; it must be a duration up to a day, as \"3s\"")),
                )
            }
        };
        let seconds = get("seconds").unwrap_or("10");
        let seconds = seconds.parse().ok().filter(|seconds| (1..=600).contains(seconds));
        Ok(Trigger {
            name: name.to_owned(),
            of,
            matches: get("match").unwrap_or("*").to_owned(),
            when,
            lasting: time("for", 0)?,
            cooldown: time("cooldown", 300)?,
            seconds: seconds
                .ok_or(("seconds", "it must be a whole number from 1 to 600".to_owned()))?,
        })
    }

    /// As a file has it.
    pub(crate) fn print(&self) -> String {
        let Trigger { name, matches, when, lasting, cooldown, seconds, .. } = self;
        format!(
            "[[trigger]]\nname = {name:?}\nof = {:?}\nmatch = {matches:?}\nwhen = {:?}\nfor = {:?}\n\
             cooldown = {:?}\nseconds = {seconds}\n",
            self.of.word(),
            when.text(),
            duration_text(*lasting),
            duration_text(*cooldown),
        )
    }
}

/// Whom a row is about.
type Who = (MachineId, Option<VcpuId>, Option<String>);

/// A trigger and what it has seen.
pub(crate) struct Watch {
    pub(crate) trigger: Trigger,
    /// Since when it holds, of whom: ns of the windows in which it did.
    held_ns: BTreeMap<Who, i64>,
    /// When it fired last, ns since 1970.
    pub(crate) fired_unix_ns: Option<u64>,
    pub(crate) fired: u64,
    /// Whom it fired for last.
    pub(crate) last: Option<String>,
    /// Why it cannot fire: what it looks at cannot be had here.
    pub(crate) cannot: Option<String>,
    /// Those for whom it holds now.
    pub(crate) holding: usize,
}

impl Watch {
    pub(crate) fn new(trigger: Trigger) -> Self {
        let (held_ns, cannot) = (BTreeMap::new(), None);
        Watch { trigger, held_ns, fired_unix_ns: None, fired: 0, last: None, cannot, holding: 0 }
    }

    /// Looks at a window and its findings; if it fires, for whom and why.
    pub(crate) fn look(&mut self, window: &Snapshot, findings: &[FindingWindow]) -> Option<String> {
        if window.missed_windows > 0 {
            self.held_ns.clear();
        }
        let mut now = BTreeMap::new();
        let mut said = Vec::new();
        let Trigger { of, matches: pattern, when, lasting, .. } = &self.trigger;
        let fits = |name: &str| matches(pattern, name);
        for holds in when.holding(*of, (window, findings), &fits) {
            let who = (holds.machine, holds.vcpu, holds.cgroup);
            let held_ns = self.held_ns.get(&who).copied().unwrap_or(0).checked_add(holds.dur)?;
            if u128::try_from(held_ns).is_ok_and(|ns| ns >= lasting.as_nanos()) {
                said.push(holds.said);
            }
            now.insert(who, held_ns);
        }
        self.held_ns = now;
        self.holding = self.held_ns.len();
        self.cannot = self.trigger.when.cannot(window);
        let cool = |last: u64| {
            let since = window.ended_unix_ns.saturating_sub(last);
            u128::from(since) >= self.trigger.cooldown.as_nanos()
        };
        if said.is_empty() || !self.fired_unix_ns.is_none_or(cool) {
            return None;
        }
        let more = said.len().saturating_sub(3);
        said.truncate(3);
        let mut why = format!("{}: {}", self.trigger.name, said.join(", "));
        if more > 0 {
            why.push_str(&format!(" and {more} more"));
        }
        self.fired_unix_ns = Some(window.ended_unix_ns);
        self.fired += 1;
        self.last = Some(why.clone());
        Some(why)
    }
}

/// Does a text match a pattern, in which `*` stands for anything and `?` for one character?
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // Where to go on if it does not fit: behind the last star, one character later.
    let mut again: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some('*') => {
                again = Some((p + 1, t));
                p += 1;
            }
            Some(c) if *c == '?' || *c == text[t] => (p, t) = (p + 1, t + 1),
            _ => match &mut again {
                Some((star, from)) => {
                    *from += 1;
                    (p, t) = (*star, *from);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests report by failing")]
    use super::*;
    use transect_history::synthetic::Made;
    use transect_live::{Metric, Missing};

    fn trigger(settings: &[(&str, &'static str)]) -> Trigger {
        let get = |name: &str| settings.iter().find(|(n, _)| *n == name).map(|(_, v)| *v);
        Trigger::new(&get).unwrap()
    }

    #[test]
    fn it_fires_when_it_held_for_long_enough_and_then_after_the_cool_down() {
        let made = &mut Made::new(2, 0);
        let settings = [
            ("name", "starved"),
            ("match", "vm?"),
            ("when", "waited_ns > 20%"),
            ("for", "3s"),
            ("cooldown", "20s"),
        ];
        let mut watch = Watch::new(trigger(&settings));
        // vm1 waits 30 % in windows 6 to 11 of every 12.
        let fired: Vec<(usize, String)> = (0..48)
            .filter_map(|number| Some((number, watch.look(&made.next_window(), &[])?)))
            .collect();
        assert_eq!(fired.iter().map(|(n, _)| *n).collect::<Vec<_>>(), [8, 32]);
        assert_eq!(fired[0].1, "starved: vm1 vCPU 0: waited_ns is 30.0% of the time");
        assert_eq!((watch.fired, watch.holding), (2, 1));
        // Only windows that follow each other count.
        let mut watch = Watch::new(trigger(&settings));
        let mut made = Made::new(2, 0);
        made.skip(6);
        for _ in 0..6 {
            let mut window = made.next_window();
            window.missed_windows = 1;
            assert_eq!(watch.look(&window, &[]), None);
        }
    }

    #[test]
    fn a_finding_fires_it_with_its_sentence() {
        let made = &mut Made::new(2, 0);
        let settings =
            [("name", "slow"), ("match", "vm1"), ("when", "starved >= 20%"), ("for", "2s")];
        let mut watch = Watch::new(trigger(&settings));
        // The antagonist of vm1 has its CPU for most of the waits of windows 6 to 11.
        let mut look = |number: usize| {
            let mut window = made.next_window();
            if number >= 6 {
                window.antagonists[0].ns = 290_000_000;
            }
            let findings = window.findings();
            watch.look(&window, &findings)
        };
        let fired: Vec<_> = (0..12).filter_map(|n| Some((n, look(n)?))).collect();
        let why = "slow: vm1 vcpu0 waited 290 ms (72.5 % of the time that it wanted a CPU) behind vm2 vcpu0";
        assert_eq!(fired, [(7, why.to_owned())]);
        // Shorter windows have none, and that is told.
        let mut window = made.next_window();
        window.dur = 500_000_000;
        assert_eq!(watch.look(&window, &window.findings()), None);
        let told = watch.cannot.as_deref();
        assert_eq!(told, Some("findings need windows of 1 s or more (interval)"));
    }

    #[test]
    fn others_do_not_fire_it() {
        for (of, pattern) in [("vcpu", "web*"), ("cgroup", "/user.slice/*"), ("vm", "vm2")] {
            let mut watch = Watch::new(trigger(&[
                ("name", "a"),
                ("of", of),
                ("match", pattern),
                ("when", "waited_ns > 20%"),
            ]));
            let mut made = Made::new(2, 2);
            assert!(
                (0..24).all(|_| watch.look(&made.next_window(), &[]).is_none()),
                "{of} {pattern}"
            );
        }
    }

    #[test]
    fn what_cannot_be_had_is_told_and_does_not_fire() {
        let mut watch = Watch::new(trigger(&[("name", "a"), ("when", "exits < 1000000")]));
        let mut window = Made::new(1, 0).next_window();
        assert!(watch.look(&window, &[]).is_some() && watch.cannot.is_none());
        window.missing.push(Missing::everywhere(Metric::Exits, "no such event"));
        assert_eq!(watch.look(&window, &[]), None);
        assert_eq!(watch.cannot.as_deref(), Some("exits is not available here: no such event"));
    }

    #[test]
    fn patterns() {
        for (pattern, text) in
            [("*", ""), ("a*c", "abcbc"), ("?b*", "abx"), ("web1", "web1"), ("*x*", "axb")]
        {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("", "a"), ("a?", "a"), ("a*c", "abcb"), ("web", "web1")] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
        // No time that grows with powers of the length.
        assert!(!matches(&"*a".repeat(50), &"a".repeat(49)));
    }
}
