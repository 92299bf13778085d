//! The timeline of a recording: which track shows which rows of which table.
//!
//! ```text
//! MACHINE
//!   CPUs      cpu0            cpu_slices: who had it; inside a vCPU's slice, the guest's own
//!             cpu0 interrupts irqs
//!   vCPUs     domain          domain_states: what a Xen domain's vCPUs do together
//!             vcpu0           vcpu_states, each exit as a slice around the states it led to
//!   metrics   vcpu0 gotten …  windows, as counters
//!   threads   name tid        thread_states, wakeups (arrows from waker to woken)
//!             … syscalls      syscalls
//!   lost events               lost
//! ```
//!
//! Each slice is one row: `ts` and `dur` are the row's, the category is the table, the other
//! columns are annotations. A track's description names the table and the row's actor
//! (`vcpu_states of machine_id 1 vcpu 0`), so that a reader can find the rows again. Idle time is
//! not drawn. Slices that overlap without nesting, which only contradictory input makes, go to a
//! second track of the same name.
//!
//! Perfetto's stamps are unsigned: if any row starts before trace time 0, all are moved by the
//! same amount, and each machine's description says by how much.

mod item;
mod label;
mod lanes;
mod layout;
mod merge;
mod names;

pub use merge::Written;

use crate::{TraceWriter, WriteError};
use layout::Layout;
use std::io::Write;
use transect_model::table::Tables;
use transect_model::wall::WallMap;

/// Writes the tables as a Perfetto trace. `time_unit` is what one unit of trace time is (`ns`, or
/// `ticks` for recordings that do not say how long a tick is; Perfetto will call them ns).
///
/// # Errors
/// The sink's; a row whose stamps no trace can hold; more than 2^32 rows in one table.
pub fn write<W: Write>(tables: &Tables, time_unit: &str, out: W) -> Result<Written, WriteError> {
    let layout = Layout::new(tables, time_unit)?;
    let first = layout.first_ts().unwrap_or(0);
    let mut writer = TraceWriter::new(out, layout.shifted(first)?)?;
    for (ts, unix_ns) in wall_times(tables, first) {
        writer.wall_clock(layout.shifted(ts)?, unix_ns)?;
    }
    layout.declare(&mut writer)?;
    let written = merge::events(tables, &layout, &mut writer)?;
    writer.finish()?;
    Ok(written)
}

/// The moments at which the trace states the wall clock: its first one, the start of each piece, and the
/// ends of slewed ones, because readers take an offset to be constant from one statement to the next.
fn wall_times(tables: &Tables, first: i64) -> Vec<(i64, u64)> {
    let map = WallMap::new(tables.wall_clock.clone());
    let ends = map.rows().iter().flat_map(|row| {
        let end = (row.unix_dur != row.dur).then_some(row.end());
        [Some(row.ts), end].into_iter().flatten()
    });
    let mut moments: Vec<i64> = ends.filter(|ts| *ts > first).chain([first]).collect();
    moments.sort_unstable();
    moments.dedup();
    let unix = |ts: i64| Some((ts, u64::try_from(map.unix_at(ts)?).ok()?));
    moments.into_iter().filter_map(unix).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests report by failing")]
    use super::*;
    use transect_model::table::WallClock;

    #[test]
    fn the_wall_clock_is_stated_where_its_offset_changes() {
        let row = |ts, unix_ns, unix_dur| WallClock {
            ts,
            dur: 1_000,
            unix_ns,
            unix_dur,
            error_ns: 50,
            step_ns: None,
        };
        let mut tables = Tables::default();
        assert_eq!(wall_times(&tables, 0), []);
        // Steady, slewed, and set back after a time that is unknown.
        tables.wall_clock =
            vec![row(0, 7_000, 1_000), row(1_000, 8_000, 1_001), row(3_000, 2_000, 1_000)];
        assert_eq!(
            wall_times(&tables, 500),
            [(500, 7_500), (1_000, 8_000), (2_000, 9_001), (3_000, 2_000)]
        );
        assert_eq!(wall_times(&tables, 2_500), [(3_000, 2_000)]);
    }
}
