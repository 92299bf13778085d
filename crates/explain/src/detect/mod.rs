//! Findings: what holds threads, vCPUs and machines in a range, by rules whose conditions docs/reference/explain.md states.
//!
//! ```text
//! rows ─┬─▶ waits charged ─▶ starved, throttled, affinity
//!       ├─▶ states of vCPUs ─▶ halt_poll
//!       ├─▶ lock waits, walks of their owners, exits that pause ─▶ lock_holder
//!       ├─▶ exits ─▶ exit_storm
//!       ├─▶ interrupts ─▶ timer_storm, ipi_storm
//!       ├─▶ windows ─▶ ping_pong
//!       ├─▶ reclaims ─▶ reclaim
//!       ├─▶ block requests by stage ─▶ slow_device, double_cache
//!       ├─▶ block requests and packets by stage ─▶ slow_vmm, delivery
//!       └─▶ lost, clock_check ─▶ lost, clock
//! path ────▶ holder, host_innocent (of one root)
//! ```
//! A detector gives facts; faces make sentences of them. Its thresholds are judgement, in one place each: in `rules` where live
//! windows have the sums, too.

mod carried;
mod clock;
mod cpu;
mod exits;
mod finding;
mod interrupts;
mod locks;
mod path;
mod ping_pong;
mod reclaim;
mod requests;
pub mod rules;
mod waits;

pub use finding::{Carries, Confidence, Detail, Detector, Finding, Range, sort};
pub use path::of_path;

use crate::{
    parallel,
    rows::{NEEDS, Rows},
};
use transect_model::table::{ClockCheck, Exit, IoRequest, Packet, TableDoc, Tables, Window};

/// The tables that findings need besides those of the paths.
pub const ALSO_NEEDED: [TableDoc; 5] =
    [Exit::TABLE, Window::TABLE, ClockCheck::TABLE, IoRequest::TABLE, Packet::TABLE];

/// Every table that findings need.
pub fn needed() -> Vec<TableDoc> {
    NEEDS.into_iter().chain(ALSO_NEEDED).collect()
}

/// What holds whom in the range; what takes most comes first. Of a range that is not long enough, nothing.
pub fn findings(rows: &Rows<'_>, tables: &Tables, range: Range) -> Vec<Finding> {
    if !range.is_long_enough() {
        return Vec::new();
    }
    let waits = waits::all(rows, range);
    let mut all = exits::storms(rows, range);
    all.extend(exits::polls(rows, range));
    let rules: [&(dyn Fn() -> Vec<Finding> + Sync); 7] = [
        &|| interrupts::find(rows, range),
        &|| locks::find(rows, tables, range),
        &|| ping_pong::find(rows, tables, range),
        &|| reclaim::find(rows, range),
        &|| requests::find(rows, tables, &waits, range),
        &|| carried::packets(rows, tables, &waits, range),
        &|| clock::find(tables, range),
    ];
    all.extend(parallel::map(&rules, |find| find()).into_iter().flatten());
    all.extend(cpu::find(rows, waits, range));
    sort(&mut all);
    all
}
