//! A sink in a thread of its own: it keeps rows while others are made.

use std::{
    num::NonZeroUsize,
    panic::resume_unwind,
    sync::mpsc::{Receiver, SyncSender, channel, sync_channel},
    thread,
};
use transect_model::table::{Chosen, Row, TableDoc, TableSink};

/// Rows that change threads together: few enough to stay in a CPU's cache.
const BATCH: usize = 1024;
/// Batches on their way: who keeps rows waits for memory now and then.
const BATCHES: usize = 16;

/// Has `work` fill the sink, which runs in a thread of its own if there is a CPU for it.
pub(crate) fn aside<S: TableSink + Send, T>(
    sink: &mut S,
    work: impl FnOnce(&mut dyn TableSink) -> T,
) -> T {
    match thread::available_parallelism().map_or(1, NonZeroUsize::get) {
        1 => work(sink),
        _ => in_a_thread(sink, work),
    }
}

fn in_a_thread<S: TableSink + Send, T>(
    sink: &mut S,
    work: impl FnOnce(&mut dyn TableSink) -> T,
) -> T {
    let chosen = Chosen::of(|table| sink.wants(table));
    let (full, filled) = sync_channel::<Vec<Row>>(BATCHES);
    let (used, empty) = channel();
    thread::scope(|scope| {
        let keeper = scope.spawn(move || {
            for mut batch in filled {
                batch.drain(..).for_each(|row| sink.row(row));
                // At the end nobody wants it any more.
                let _ = used.send(batch);
            }
        });
        let mut batches = Batches { chosen, batch: Vec::with_capacity(BATCH), full, empty };
        let result = work(&mut batches);
        batches.send();
        drop(batches);
        keeper.join().unwrap_or_else(|panic| resume_unwind(panic));
        result
    })
}

struct Batches {
    chosen: Chosen,
    batch: Vec<Row>,
    full: SyncSender<Vec<Row>>,
    /// Used ones, to be filled again.
    empty: Receiver<Vec<Row>>,
}

impl Batches {
    fn send(&mut self) {
        let next = self.empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(BATCH));
        // An error is a panic of the sink, which ends this thread, too, once it has no more rows.
        let _ = self.full.send(std::mem::replace(&mut self.batch, next));
    }
}

impl TableSink for Batches {
    fn row(&mut self, row: Row) {
        if !self.chosen.has(&row) {
            return;
        }
        self.batch.push(row);
        if self.batch.len() == BATCH {
            self.send();
        }
    }

    fn wants(&self, table: &TableDoc) -> bool {
        self.chosen.names(table)
    }
}

#[cfg(test)]
mod tests {
    use super::{BATCH, in_a_thread};
    use transect_model::{
        ids::{CpuId, MachineId},
        table::{Row, Selected, TableDoc, TableSink, Throttle, WallClock},
    };

    fn moment(n: usize) -> Row {
        let ts = i64::try_from(n).unwrap();
        WallClock { ts, dur: 1, unix_ns: ts, unix_dur: 1, error_ns: 0, step_ns: None }.into()
    }

    fn throttle() -> Throttle {
        Throttle { ts: 0, dur: None, machine_id: MachineId(1), cpu: CpuId(0), cgroup_id: 1 }
    }

    #[test]
    fn rows_arrive_in_order_and_unwanted_ones_do_not() {
        for many in [0, 1, BATCH - 1, BATCH, BATCH + 1, 10 * BATCH + 7] {
            let mut kept = Selected::new(&[WallClock::TABLE]);
            in_a_thread(&mut kept, |sink| {
                assert!(sink.wants(&WallClock::TABLE) && !sink.wants(&Throttle::TABLE));
                for n in 0..many {
                    sink.row(moment(n));
                    sink.row(throttle().into());
                }
            });
            let tables = kept.into_tables();
            assert!(tables.throttles.is_empty());
            let times = tables.wall_clock.iter().map(|row| row.ts);
            assert!(times.eq((0..many).map(|n| i64::try_from(n).unwrap())), "{many}");
        }
    }

    #[test]
    #[should_panic(expected = "a sink that fails")]
    fn a_sink_that_panics_does_not_hang() {
        struct Fails;
        impl TableSink for Fails {
            fn row(&mut self, _: Row) {
                panic!("a sink that fails");
            }
            fn wants(&self, _: &TableDoc) -> bool {
                true
            }
        }
        in_a_thread(&mut Fails, |sink| (0..20 * BATCH).for_each(|n| sink.row(moment(n))));
    }
}
