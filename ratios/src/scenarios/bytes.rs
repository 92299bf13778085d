//! What an event takes on disk: the same load by both collectors at once.

use crate::{
    bed::{Bed, output, told},
    recordings::mixed_load,
    report::{Goal, Row, Rows},
    roles::{Both, OnDisk},
};
use anyhow::Result;

pub(super) const ROWS: &[&str] = &["bytes/mixed/raw", "bytes/mixed/zstd"];

pub(super) fn run(bed: &Bed, rows: &mut Rows) -> Result<()> {
    let load = mixed_load(bed, if bed.quick { 1.0 } else { 6.0 });
    let mut words = bed.role(&["pair", "--events", "mixed", "--"]);
    words.extend(load);
    show("mixed", &told(&output(&words)?)?, rows);
    Ok(())
}

/// Two rows: as recorded, and after zstd.
#[expect(clippy::cast_precision_loss, reason = "bytes for people")]
pub(super) fn show(load: &str, both: &Both, rows: &mut Rows) {
    let per_event = |disk: &OnDisk, bytes: u64| bytes as f64 / disk.events as f64;
    let row = |name: &str, of: fn(&OnDisk) -> u64| {
        let (ours, peer) =
            (per_event(&both.ours, of(&both.ours)), per_event(&both.peer, of(&both.peer)));
        let mut paired = crate::stats::Paired::default();
        paired.push(ours, peer);
        Row::compared(&format!("bytes/{load}/{name}"), "B/event", &paired)
    };
    let counted = format!(
        "compact {} events ({} lost) : ftrace pages {} events ({} lost)",
        both.ours.events, both.ours.lost, both.peer.events, both.peer.lost
    );
    rows.push(row("raw", |disk| disk.bytes).goal(Goal::AtMost(8.0)).note(&*counted));
    let packed = format!("{counted}; repacked : zstd -3");
    rows.push(row("zstd", |disk| disk.zstd_bytes).goal(Goal::RatioAtMost(0.6)).note(packed));
}
