//! Texts: the keys, and what is missing.

use crate::who::machine_name;
use transect_live::Snapshot;

const KEYS: &[(&str, &str)] = &[
    ("up down j k", "move the cursor; PgUp PgDn half a page, g G to the ends"),
    ("Enter", "open: VM > vCPU > its antagonist; group > thread"),
    ("Esc", "clear the filter, then go back one level"),
    ("Tab", "next list of a vCPU or thread"),
    ("c C", "CPU 0, then the next or the previous CPU"),
    ("t", "all threads"),
    ("f", "findings: the rules that hold in this window, with remedies"),
    ("/", "show only rows whose name contains a text"),
    ("< >  r", "sort by the column to the left or right; reverse"),
    ("space", "pause or resume; in a log: play or stop"),
    ("left right h l", "previous or next window ([ ]: ten windows)"),
    ("L", "newest window"),
    ("m", "missing metrics and their reasons"),
    ("q", "quit (here: close)"),
];

const NOTES: &[&str] = &[
    "Shares are of one CPU: a VM with four vCPUs can reach 400 %. The first column of a pair covers the last \
     window, the second one the last ten.",
    "CPU%: on a CPU. WAIT%: runnable, but not on a CPU. WAITING: WAIT% window by window, a full bar is 100 %. \
     ANTAGONIST: the actor that had the CPU for most of that time.",
    "Yellow: waited 5 % or more; red: 20 % or more, or lost rows.",
    "BLOCK%: asleep or halted. RUNS/s: times switched in. MOVES/s: migrations to another CPU. HELD%: throttled by its \
     own limit (cpu.max).",
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
        return vec!["No metric is missing on this host.".to_owned()];
    }
    let mut lines =
        indented("", "Not available on this host (shown as a dash, never as 0):", width);
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
        let why = "needs kvm:kvm_exit: KVM is not loaded, and will not be";
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
