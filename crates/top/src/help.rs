//! Texts: the keys, and what is missing.

use crate::who::machine_name;
use transect_live::Snapshot;

const KEYS: &[(&str, &str)] = &[
    ("up down j k", "move; PgUp PgDn g G further"),
    ("Enter", "down: VM > vCPU > who was in its way; group > thread"),
    ("Esc", "clear the filter, then back up"),
    ("Tab", "to the next list of a vCPU or thread"),
    ("c C", "CPU 0, then the next or the one before"),
    ("t", "all threads"),
    ("/", "show only rows whose name holds a text"),
    ("< >  r", "sort by the column to the left or right; reverse"),
    ("space", "pause, go on; of a log: play, stop"),
    ("left right h l", "one window back or forth ([ ] ten)"),
    ("L", "to the newest window"),
    ("m", "what is missing here, and why"),
    ("q", "quit (here: close)"),
];

const NOTES: &[&str] = &[
    "Shares are of one CPU: a VM with four vCPUs can have 400 %. The first column of a pair is the last \
     window, the second one the last ten.",
    "CPU% on a CPU; WAIT% wanted to run and did not; WAITING the same, window by window, a full bar is 100 %; \
     BEHIND who had the CPU most of that time.",
    "Yellow: waited 5 % or more; red: 20 % or more, or rows were lost.",
];

/// The keys.
pub(crate) fn keys(width: usize) -> Vec<String> {
    let mut lines: Vec<String> =
        KEYS.iter().flat_map(|(key, does)| indented(&format!("{key:<15}"), does, width)).collect();
    for note in NOTES {
        lines.push(String::new());
        lines.extend(indented("", note, width));
    }
    lines
}

/// What cannot be had in this window, and why.
pub(crate) fn missing(snapshot: &Snapshot, width: usize) -> Vec<String> {
    if snapshot.missing.is_empty() {
        return vec!["Nothing is missing here.".to_owned()];
    }
    let mut lines = indented("", "Not to be had here (shown as a dash, never as 0):", width);
    for missing in &snapshot.missing {
        let of = missing.machine_id.map(|id| format!(" of {}", machine_name(snapshot, id)));
        lines.push(String::new());
        lines.push(format!("{}{}", missing.metric, of.unwrap_or_default()));
        lines.extend(indented("  ", &missing.why, width));
    }
    lines
}

/// Wraps text behind its first word's column.
fn indented(first: &str, text: &str, width: usize) -> Vec<String> {
    let indent = if first.len() * 2 > width { 1 } else { first.len() };
    let mut lines = vec![first.to_owned()];
    for word in text.split_whitespace() {
        let Some(line) = lines.last_mut() else { break };
        let is_begun = line.trim().len() > first.trim().len() || line.len() > indent;
        if line.chars().count() + 1 + word.chars().count() > width && is_begun {
            lines.push(format!("{}{word}", " ".repeat(indent)));
        } else {
            if !line.is_empty() && !line.ends_with(' ') {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use transect_live::{Metric, Missing};

    #[test]
    fn texts_fit_the_width() {
        let why = "it comes from kvm:kvm_exit: KVM is not loaded, and will not be";
        let snapshot = Snapshot {
            missing: vec![Missing::everywhere(Metric::Exits, why)],
            ..Snapshot::default()
        };
        for width in [20, 40, 80, 200] {
            for line in keys(width).into_iter().chain(missing(&snapshot, width)) {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
            let all = missing(&snapshot, width).join(" ");
            let words: Vec<&str> = all.split_whitespace().collect();
            assert!(words.join(" ").ends_with(why), "{words:?}");
        }
        assert_eq!(keys(80).iter().filter(|line| line.starts_with("Enter")).count(), 1);
    }
}
