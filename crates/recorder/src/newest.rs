//! Of what a flight recorder holds, the last seconds.

use std::{collections::BTreeMap, io};
use transect_bpf::LogSink;
use transect_model::ids::CpuId;

/// Passes on what is newer than a moment, whole chunks at a time: a log's chunk begins with a stamp, and
/// is as old as that of the chunk behind it says.
pub(super) struct Newest<S> {
    sink: S,
    from_ns: u64,
    /// The slice before, until it is known how new it is.
    held: Option<Held>,
    begins_ns: Option<u64>,
    /// CPUs with a log that was overwritten: from when on all their logs hold events.
    reach: BTreeMap<CpuId, u64>,
    /// The log that was passed on last.
    last: Option<(CpuId, u8)>,
}

struct Held {
    cpu: CpuId,
    side: u8,
    position: u64,
    sync_ns: u64,
    lost: u64,
    words: Vec<u8>,
}

impl<S: LogSink> Newest<S> {
    pub(super) fn new(sink: S, from_ns: u64) -> Self {
        Newest { sink, from_ns, held: None, begins_ns: None, reach: BTreeMap::new(), last: None }
    }

    /// From when on the CPUs hold events whose logs do not begin with their first one.
    pub(super) fn reach(&self) -> &BTreeMap<CpuId, u64> {
        &self.reach
    }

    /// Where the first of the main logs begins, of what was passed on; none: nothing was.
    pub(super) fn begins_ns(&self) -> Option<u64> {
        self.begins_ns
    }

    /// Passes on what is held, unless the next of its log says that it is too old.
    fn release(&mut self, next: Option<(CpuId, u8, u64)>) -> io::Result<()> {
        let Some(Held { cpu, side, position, sync_ns, lost, words }) = self.held.take() else {
            return Ok(());
        };
        let is_old = next.is_some_and(|(next_cpu, next_side, next_sync_ns)| {
            (next_cpu, next_side) == (cpu, side) && next_sync_ns < self.from_ns
        });
        if is_old {
            return Ok(());
        }
        if side == 0 {
            self.begins_ns = Some(self.begins_ns.map_or(sync_ns, |first| first.min(sync_ns)));
        }
        if self.last.replace((cpu, side)) != Some((cpu, side)) && position > 0 {
            let from_ns = self.reach.entry(cpu).or_default();
            *from_ns = sync_ns.max(*from_ns);
        }
        self.sink.slice(cpu, side, position, sync_ns, lost, &words)
    }
}

impl<S: LogSink> LogSink for Newest<S> {
    fn slice(
        &mut self,
        cpu: CpuId,
        side: u8,
        position: u64,
        sync_ns: u64,
        lost: u64,
        words: &[u8],
    ) -> io::Result<()> {
        self.release(Some((cpu, side, sync_ns)))?;
        let words = words.to_vec();
        self.held = Some(Held { cpu, side, position, sync_ns, lost, words });
        Ok(())
    }

    fn round_done(&mut self) -> io::Result<()> {
        self.release(None)?;
        self.sink.round_done()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests report by failing")]
    use super::*;

    #[derive(Default)]
    struct Seen(Vec<(u32, u8, u64)>);

    impl LogSink for Seen {
        fn slice(
            &mut self,
            cpu: CpuId,
            side: u8,
            position: u64,
            _: u64,
            _: u64,
            _: &[u8],
        ) -> io::Result<()> {
            self.0.push((cpu.0, side, position));
            Ok(())
        }
    }

    #[test]
    fn what_ended_before_the_moment_is_left_out_and_each_logs_last_is_kept() {
        let mut newest = Newest::new(Seen::default(), 100);
        // The chunk at 80 may have events after 100: the next begins at 120.
        for (cpu, side, position, sync_ns) in [
            (0, 0, 1, 50),
            (0, 0, 2, 80),
            (0, 0, 3, 120),
            (0, 1, 4, 10),
            (1, 0, 5, 20),
            (1, 0, 6, 99),
        ] {
            newest.slice(CpuId(cpu), side, position, sync_ns, 0, &[]).unwrap();
        }
        newest.round_done().unwrap();
        assert_eq!(newest.sink.0, [(0, 0, 2), (0, 0, 3), (0, 1, 4), (1, 0, 6)]);
        assert_eq!(newest.begins_ns(), Some(80), "neither what was left out nor a side log");
        let reach: Vec<_> = newest.reach().iter().map(|(cpu, from_ns)| (cpu.0, *from_ns)).collect();
        assert_eq!(reach, [(0, 80), (1, 99)], "the latest of a CPU's logs");
    }
}
