//! Memory does not grow with the number of rows.
#![allow(unsafe_code, reason = "an allocator that counts")]
#![allow(clippy::unwrap_used, reason = "a failed expectation is the report")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use transect_model::ids::{CpuId, MachineId};
use transect_model::interrupt::IrqSource;
use transect_model::table::{Irq, Row, TableSink};
use transect_store::tables::TablesWriter;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call goes to the system's allocator as it is; only its size is noted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(now, Relaxed);
        // SAFETY: the caller's promise is handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise is handed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Most bytes held at once while `rows` rows are written.
fn peak(rows: i64) -> usize {
    let dir = tempfile::tempdir().unwrap();
    let before = NOW.load(Relaxed);
    PEAK.store(before, Relaxed);
    let mut writer = TablesWriter::create(dir.path(), 2).unwrap();
    for at in 0..rows {
        writer.row(Row::Irq(Irq {
            ts: at * 1_000,
            dur: 77,
            machine_id: MachineId(0),
            cpu: CpuId(1),
            softirq: at % 2 == 0,
            source: IrqSource::Line,
            vector: 9,
        }));
    }
    assert_eq!(writer.finish().unwrap().rows["irqs"], rows.unsigned_abs());
    PEAK.load(Relaxed) - before
}

#[test]
fn three_times_the_rows_need_no_more_memory() {
    // Enough for every queue to be full at least once.
    let (few, many) = (peak(1_600_000), peak(4_800_000));
    assert!(many < few + few / 4, "{few} bytes for 1.6 M rows, {many} for 4.8 M");
    assert!(many < 128 << 20, "{many} bytes");
}
