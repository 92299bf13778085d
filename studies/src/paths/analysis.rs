//! What `transect` says of a recording: for each stage the stacks with which it began.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use anyhow::{Result, ensure};

use super::plan::{Platform, STAGES};
use crate::asked::table;
use crate::csv;

/// The columns of `stages.csv`; `events` are the packets of which the event is known, `found` those with a stack, and the last two are
/// of the stack that most of them have: how many, and its functions, the innermost first.
pub const COLUMNS: [&str; 8] =
    ["platform", "stage", "machine", "thread", "events", "found", "same", "stack"];

/// The sender's packets that left by the host: those of its most frequent flow.
const PACKETS: &str = "WITH own AS (SELECT p.* FROM packets p JOIN machines m ON m.machine_id = p.machine_id \
                       WHERE m.name = 'SENDER' AND p.send_ts IS NOT NULL AND p.to_machine_id IS NULL) \
                       SELECT send_ts, kick_ts, host_receive_ts, host_send_ts, backend_tid FROM own \
                       WHERE flow = (SELECT flow FROM own GROUP BY flow ORDER BY count(*) DESC LIMIT 1) ORDER BY ts";

const SAMPLES: &str = "SELECT s.stage_ts, s.point, m.name AS machine, s.tid, t.name AS thread, s.kernel_stack_id, \
                       s.woken_tid FROM stack_samples s JOIN machines m ON m.machine_id = s.machine_id \
                       LEFT JOIN threads t ON t.machine_id = s.machine_id AND t.tid = s.tid \
                       WHERE s.stage_ts IS NOT NULL";

const STACKS: &str = "SELECT stack_id, symbol FROM stacks ORDER BY stack_id, depth";

/// A stage in one packet: the machine, the thread and the stack.
type Seen = (String, String, String);

/// The lines of `stages.csv` for the recording of a platform.
///
/// # Errors
/// If `transect` cannot read it, or it has no packet with stacks.
pub fn lines(transect: &Path, recording: &Path, platform: &Platform) -> Result<String> {
    let packets = table(transect, recording, &PACKETS.replace("SENDER", platform.sender))?;
    let samples = table(transect, recording, SAMPLES)?;
    let mut stacks: HashMap<&str, String> = HashMap::new();
    let frames = table(transect, recording, STACKS)?;
    for row in frames.rows() {
        let stack = stacks.entry(row.text("stack_id")?).or_default();
        *stack += if stack.is_empty() { "" } else { " " };
        // A space in a name would be a border.
        *stack += &row.text("symbol")?.replace(' ', "_");
    }
    // By time and point: the thread that is woken, and what was seen.
    let mut at: HashMap<(&str, &str), Vec<(&str, Seen)>> = HashMap::new();
    for row in samples.rows() {
        let stack = stacks.get(row.text("kernel_stack_id")?).cloned().unwrap_or_default();
        let thread = if row.text("tid")? == "0" { "idle" } else { row.text("thread")? };
        let seen = (row.text("machine")?.to_owned(), thread_kind(thread), stack);
        let key = (row.text("stage_ts")?, row.text("point")?);
        at.entry(key).or_default().push((row.text("woken_tid")?, seen));
    }
    let mut text = String::new();
    for stage in STAGES {
        let (mut events, mut all) = (0_usize, BTreeMap::<Seen, usize>::new());
        for packet in packets.rows() {
            let ts = packet.text(&format!("{}_ts", stage.name))?;
            if ts.is_empty() {
                continue;
            }
            events += 1;
            let back_end = packet.text("backend_tid")?;
            let found = at.get(&(ts, stage.point)).and_then(|found| {
                let is_it = |woken: &str| stage.name != "kick" || woken == back_end;
                found.iter().find(|(woken, _)| is_it(woken))
            });
            if let Some((_, seen)) = found.filter(|(_, (_, _, stack))| !stack.is_empty()) {
                *all.entry(seen.clone()).or_default() += 1;
            }
        }
        let found: usize = all.values().sum();
        let Some(((machine, thread, stack), same)) =
            all.into_iter().max_by_key(|(_, count)| *count)
        else {
            continue;
        };
        text += &csv::line(&[
            platform.name.to_owned(),
            stage.name.to_owned(),
            machine,
            thread,
            events.to_string(),
            found.to_string(),
            same.to_string(),
            stack,
        ]);
    }
    ensure!(!text.is_empty(), "{} has no packets of {}", recording.display(), platform.sender);
    Ok(text)
}

/// The name of a thread without the numbers that differ from host to host: those behind a sign.
fn thread_kind(name: &str) -> String {
    let mut kind = String::new();
    for letter in name.chars() {
        let is_behind_letter = kind.ends_with(|last: char| last.is_alphanumeric() && last != 'N');
        match letter.is_ascii_digit() && !is_behind_letter {
            true if kind.ends_with('N') => {}
            true => kind.push('N'),
            false => kind.push(letter),
        }
    }
    kind
}

#[cfg(test)]
mod tests {
    use super::thread_kind;

    #[test]
    fn numbers_in_names_are_left_out() {
        let kinds = ["vhost-4711", "CPU 0/KVM", "workload", "qemu-system-x86"].map(thread_kind);
        assert_eq!(kinds, ["vhost-N", "CPU N/KVM", "workload", "qemu-system-x86"]);
    }
}
