//! The window of a recording where it is not that of the events that there are.

use crate::{SourceBytes, SourceFile, clocks::host_clock};
use transect_clock::ClockGraph;
use transect_engine::Engine;
use transect_model::ids::{MachineId, Tid};
use transect_model::time::Span;
use transect_store::Manifest;
use transect_store::manifest::SnapshotEntry;

/// Where a window begins.
#[derive(Clone, Copy)]
enum RawStart {
    /// Where the events of all CPUs reach back to.
    Covered,
    At(u64),
}

/// What a recording covers, in the host's own clock.
pub(crate) struct RawWindow {
    from: RawStart,
    /// None: to the last event.
    to: Option<u64>,
    /// The window begins where the recorder was started.
    is_whole: bool,
    /// Of a snapshot: the threads that lived when it was taken, and when each was created, at the latest.
    pub(crate) born: Option<Vec<(MachineId, Tid, u64)>>,
}

impl RawWindow {
    /// The window of a snapshot; that of a filtered recording, or of one whose last events were not kept, is the
    /// time for which it was recorded.
    pub(crate) fn of(manifest: &Manifest) -> Option<Self> {
        if let Some(entry) = &manifest.snapshot {
            return Some(RawWindow::of_snapshot(entry, manifest));
        }
        let is_of_recorder = manifest.filter.is_some() || !manifest.not_kept.is_empty();
        let (from, to) = manifest.recorded.filter(|_| is_of_recorder)?;
        Some(RawWindow { from: RawStart::At(from), to: Some(to), is_whole: true, born: None })
    }

    fn of_snapshot(entry: &SnapshotEntry, manifest: &Manifest) -> Self {
        let born = manifest.threads.iter().filter_map(|thread| {
            let born = thread.born?;
            Some((thread.machine_id, thread.tid, born))
        });
        let is_whole = entry.from.is_some() && entry.asked_ns.is_none();
        let from = entry.from.map_or(RawStart::Covered, RawStart::At);
        RawWindow { from, to: entry.to, is_whole, born: Some(born.collect()) }
    }

    pub(crate) fn apply(&self, engine: Engine, clocks: &ClockGraph) -> Engine {
        let trace = host_clock(clocks);
        let end = self.to.and_then(&trace);
        let engine = if self.is_whole { engine.with_whole_window() } else { engine };
        let start = match self.from {
            RawStart::Covered => None,
            RawStart::At(raw) => trace(raw),
        };
        match (start, end) {
            (Some(start), Some(end)) => engine.with_window(Span { start, end }),
            (Some(start), None) => engine.with_window_from(start),
            (None, end) => engine.with_covered_window(end),
        }
    }
}

/// From when to when the files whose events make the window, the host's, had some as they were written.
pub(crate) struct Written(Vec<(String, Option<(u64, u64)>)>);

impl Written {
    /// None where that is not known of each of them.
    pub(crate) fn of(manifest: &Manifest) -> Option<Self> {
        let mut files = Vec::new();
        for source in &manifest.sources {
            let machine = manifest.machines.iter().find(|m| m.id == source.machine_id);
            if machine.is_none_or(|machine| machine.parent.is_none()) {
                files.push((source.file.clone(), manifest.files.get(&source.file)?.span));
            }
        }
        Some(Written(files))
    }

    /// The window, if one of the files does not begin or end with these events any more.
    pub(crate) fn window(
        &self,
        traces: &[(&SourceBytes<'_>, SourceFile<'_>)],
    ) -> Option<RawWindow> {
        let is_as_written = |(name, span): &(String, Option<(u64, u64)>)| {
            let trace = traces.iter().find(|(source, _)| source.name == *name);
            trace.and_then(|(source, file)| file.span(source)) == *span
        };
        if self.0.iter().all(is_as_written) {
            return None;
        }
        let spans = self.0.iter().filter_map(|(_, span)| *span);
        let (from, to) = spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
        Some(RawWindow { from: RawStart::At(from), to: Some(to), is_whole: true, born: None })
    }
}
