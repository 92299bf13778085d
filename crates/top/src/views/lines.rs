//! The lines about one actor that several views have.

use super::scene::{Scene, lacks};
use crate::{
    number,
    part::{Parts, part},
    sums::Sums,
    table::Tone,
};
use transect_live::IoWindow;
use transect_model::ids::MachineId;

/// The word of the report for a thread's state at the end of the window; the rows have `asleep`.
pub(super) fn state_word(state: &str) -> &str {
    match state {
        "asleep" => "blocked",
        state => state,
    }
}

/// Where an actor's time went: of so many CPUs.
pub(super) fn time_line(scene: &Scene<'_>, sums: &Sums, machine: MachineId) -> Vec<Parts> {
    let Some(now) = scene.now() else { return Vec::new() };
    let share = |ns: i64| format!("{}%", number::share(scene.share(ns)));
    let missing = scene.glyphs.missing;
    let part_of = |column: &str, ns: i64| match lacks(&now.snapshot, column, machine) {
        true => missing.to_owned(),
        false => share(ns),
    };
    let waited = Tone::of_waiting(scene.share(sums.waited_ns));
    let on_cpu = part(0, format!("on-CPU {}", share(sums.gotten_ns)));
    let guest = part(3, format!("(in the guest {})", part_of("guest_ns", sums.guest_ns)));
    let waiting = part(0, format!("waited {}", share(sums.waited_ns))).tone(waited);
    let (preempted, waking) = (share(sums.preempted_ns), part_of("waking_ns", sums.waking_ns));
    let kinds = part(2, format!("(preempted {preempted}, waking {waking})"));
    let blocked = part(0, format!("blocked {}", share(sums.blocked_ns)));
    let halted = part(3, format!("(halted {})", part_of("halted_ns", sums.halted_ns)));
    let mut line = vec![on_cpu, guest, waiting, kinds, blocked, halted];
    for (ns, word) in [(sums.offline_ns, "offline"), (sums.unknown_ns, "unknown")] {
        if ns > 0 {
            line.push(part(1, format!("{word} {}", share(ns))));
        }
    }
    if machine == MachineId(0) {
        line.retain(|part| {
            !part.text.starts_with("(in the guest") && !part.text.starts_with("(halted")
        });
    }
    vec![line]
}

/// What a VM did with disks and the network.
pub(super) fn io_line(scene: &Scene<'_>, rows: impl Fn(&IoWindow) -> bool) -> Option<Parts> {
    let now = scene.now()?;
    let mut line = Vec::new();
    for (kind, word) in [
        ("read", "disk read"),
        ("write", "disk write"),
        ("xmit", "net xmit"),
        ("receive", "net receive"),
    ] {
        let of_kind = || {
            now.snapshot.io.iter().map(|(row, _)| row).filter(|row| row.kind == kind && rows(row))
        };
        let count: u64 = of_kind().map(|row| row.count).sum();
        let bytes: u64 = of_kind().map(|row| row.bytes).sum();
        if count == 0 {
            continue;
        }
        let (count, bytes) = (scene.per_second(count), scene.per_second(bytes));
        let slowest = of_kind().filter_map(|row| row.p99_ns).max();
        let p99 = slowest.map(|ns| format!(" p99 {}", number::time(ns, scene.glyphs.micro)));
        line.push(part(
            1,
            format!(
                "{word} {}/s {}B/s{}",
                number::rate(count),
                number::rate(bytes),
                p99.unwrap_or_default()
            ),
        ));
    }
    (!line.is_empty()).then_some(line)
}
