//! Where Xen's windows go: one file, counted on the way.

use super::super::ending::as_io;
use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use transect_guest::stamp::{StampClock, TscReading};
use transect_model::ids::{CpuId, MachineId};
use transect_store::{AppendFile, RecordingWriter, manifest::Gap};
use transect_xen::{Ending, TraceSink};
use transect_xentrace::{XenTrace, XenVersion};

/// What [`Gap::cause`] says when nobody took Xen's records.
const CAUSE: &str = "xentrace_ended";
/// The first records of every pCPU are there so long after those of the first one: several polls of `xentrace`.
const SETTLED: Duration = Duration::from_millis(500);

/// Counted while records are written.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) records: AtomicU64,
    /// Records that found their pCPU's buffer full.
    lost: Mutex<BTreeMap<CpuId, u64>>,
    /// What is new to tell.
    notes: Mutex<Vec<String>>,
}

impl Counts {
    pub(super) fn lost(&self) -> BTreeMap<CpuId, u64> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn note(&self, note: String) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(note);
    }
}

/// The collector's sink.
pub(super) struct XenSink {
    pub(super) file: AppendFile,
    pub(super) writer: Arc<RecordingWriter>,
    pub(super) machine: MachineId,
    pub(super) version: XenVersion,
    pub(super) clock: TscClock,
    pub(super) counts: Arc<Counts>,
    /// The latest stamp until now.
    pub(super) last_tsc: Option<u64>,
    /// How the last `xentrace` ended, until its successor has sent something.
    pub(super) ended: Option<Ending>,
    /// An end that cost nothing but what Xen counts, until all pCPUs have told that.
    pub(super) survived: Option<Survived>,
}

/// An `xentrace` died, and another one goes on where it was.
pub(super) struct Survived {
    ending: Ending,
    /// Records lost until then.
    lost_before: u64,
    since: Instant,
}

/// From Xen's TSC to the clock that the manifest's stamps are of.
#[derive(Clone, Copy, Debug)]
pub(super) struct TscClock {
    pub(super) clock: StampClock,
    pub(super) tsc_hz: u64,
}

impl TscClock {
    /// What the clock showed at this tick, of a moment ago.
    fn stamp_at(self, tsc: u64) -> Option<u64> {
        if self.clock == StampClock::X86Tsc {
            return Some(tsc);
        }
        let now = TscReading::take(self.clock)?;
        let ticks = now.tsc_before.checked_sub(tsc)?;
        let ago_ns = u128::from(ticks) * 1_000_000_000 / u128::from(self.tsc_hz.max(1));
        now.ns.checked_sub(u64::try_from(ago_ns).ok()?)
    }
}

/// What a walk over some windows found.
#[derive(Debug, Default)]
struct Walked {
    records: u64,
    lost: BTreeMap<CpuId, u64>,
    first_tsc: Option<u64>,
    last_tsc: Option<u64>,
}

fn walk(windows: &[u8], version: XenVersion) -> io::Result<Walked> {
    let trace = XenTrace::parse(windows, version).map_err(io::Error::other)?;
    let mut walked = Walked::default();
    for cpu in trace.cpus() {
        let mut stream = trace.stream(cpu);
        let mut last = None;
        for record in stream.by_ref() {
            if last.is_none() {
                let first = walked.first_tsc.unwrap_or(record.tsc);
                walked.first_tsc = Some(first.min(record.tsc));
            }
            last = Some(record.tsc);
        }
        walked.last_tsc = walked.last_tsc.max(last);
        let totals = stream.totals();
        walked.records += totals.records;
        if totals.lost > 0 {
            *walked.lost.entry(cpu).or_default() += totals.lost;
        }
    }
    Ok(walked)
}

impl TraceSink for XenSink {
    fn windows(&mut self, windows: &[u8]) -> io::Result<()> {
        self.file.append(&[windows]).map_err(as_io)?;
        let walked = walk(windows, self.version)?;
        let lost_before = self.lost();
        self.counts.records.fetch_add(walked.records, Relaxed);
        if !walked.lost.is_empty() {
            let mut lost = self.counts.lost.lock().unwrap_or_else(PoisonError::into_inner);
            walked.lost.iter().for_each(|(cpu, count)| *lost.entry(*cpu).or_default() += count);
        }
        if let Some(ending) = self.ended.take_if(|_| walked.first_tsc.is_some()) {
            self.resumed(ending, lost_before, walked.first_tsc);
        }
        if self.survived.as_ref().is_some_and(|survived| survived.since.elapsed() >= SETTLED) {
            self.tell_survived();
        }
        self.last_tsc = self.last_tsc.max(walked.last_tsc);
        Ok(())
    }

    fn ended(&mut self, ending: &Ending) {
        if ending.final_one {
            self.counts.note(format!("{ending}; Xen is not recorded from then on"));
            self.gap(None);
        } else if self.ended.is_none() || !ending.how.tracing_goes_on() {
            // A successor that ends without a record changes nothing, unless it switched tracing off.
            self.ended = Some(ending.clone());
        }
    }
}

impl Drop for XenSink {
    /// The recording ended first.
    fn drop(&mut self) {
        self.tell_survived();
    }
}

impl XenSink {
    fn lost(&self) -> u64 {
        self.counts.lost().values().sum()
    }

    /// Another `xentrace` has sent its first records: what was missed?
    fn resumed(&mut self, ending: Ending, lost_before: u64, first_tsc: Option<u64>) {
        if ending.how.tracing_goes_on() {
            // One that did not live long enough to tell is part of the same story.
            let lost_before = self.survived.take().map_or(lost_before, |before| before.lost_before);
            self.survived = Some(Survived { ending, lost_before, since: Instant::now() });
            return;
        }
        let ms = self.gap(first_tsc).map_or(String::new(), |ms| format!(" for {ms} ms"));
        self.counts.note(format!(
            "{ending} and was restarted: Xen was not traced{ms} (a gap in the recording)"
        ));
    }

    /// Says what an end cost that switched nothing off.
    fn tell_survived(&mut self) {
        let Some(Survived { ending, lost_before, .. }) = self.survived.take() else { return };
        let missed = match self.lost().wrapping_sub(lost_before) {
            0 => "Xen's buffers kept the records in between, none is lost".to_owned(),
            lost => format!("{lost} records were lost because Xen's buffers were full"),
        };
        self.counts.note(format!("{ending} and was restarted: {missed}"));
    }

    /// Notes that nothing was traced since the last record. Returns for how long, ms, where it is over.
    fn gap(&mut self, until_tsc: Option<u64>) -> Option<u64> {
        let stamp = |tsc: Option<u64>| tsc.and_then(|tsc| self.clock.stamp_at(tsc));
        let (from, to) = (stamp(self.last_tsc), stamp(until_tsc));
        let gap = Gap { machine_id: self.machine, from, to, cause: CAUSE.to_owned() };
        if let Err(error) = self.writer.gap(gap) {
            self.counts.note(error.to_string());
        }
        let ticks = until_tsc?.checked_sub(self.last_tsc?)?;
        let ms = u128::from(ticks) * 1000 / u128::from(self.clock.tsc_hz.max(1));
        u64::try_from(ms).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transect_store::{
        Manifest,
        manifest::{SourceEntry, SourceFormat},
    };
    use transect_xen::How;

    const LIVE: &[u8] = include_bytes!("../../../../testdata/succeed/xentrace/live/cap.bin");
    const HZ: u64 = 999_999_000;

    fn sink(dir: &std::path::Path) -> XenSink {
        let writer = Arc::new(RecordingWriter::create(dir, Manifest::new(1, Vec::new())).unwrap());
        let machine = writer
            .update(|manifest| manifest.add_machine(super::super::hypervisor::machine(None)))
            .unwrap();
        let entry = SourceEntry {
            machine_id: machine,
            file: "xen.bin".to_owned(),
            format: SourceFormat::Xentrace,
            spooled: false,
            clock: "x86-tsc".to_owned(),
            tsc_to_ns: None,
            sub_buffer_bytes: 0,
            cpu_count: 1,
            long_bytes: 8,
            big_endian: false,
            trace_id: 0,
            uname: String::new(),
        };
        XenSink {
            file: writer.add_xentrace(entry).unwrap(),
            writer,
            machine,
            version: XenVersion::Minor(17),
            clock: TscClock { clock: StampClock::X86Tsc, tsc_hz: HZ },
            counts: Arc::default(),
            last_tsc: None,
            ended: None,
            survived: None,
        }
    }

    /// The recording in two, at a window's begin.
    fn halves() -> (&'static [u8], &'static [u8]) {
        let mut at = 0;
        while at < LIVE.len() / 2 {
            let size = u32::from_le_bytes(LIVE[at + 8..at + 12].try_into().unwrap());
            at += 12 + size as usize;
        }
        LIVE.split_at(at)
    }

    fn ending(how: How) -> Ending {
        Ending { how, said: String::new(), torn_bytes: 0, final_one: false }
    }

    #[test]
    fn everything_is_counted_and_written() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("r.transect");
        let mut sink = sink(&dir);
        let (first, second) = halves();
        sink.windows(first).unwrap();
        sink.windows(second).unwrap();
        // xenalyze's count, from the note beside the recording; the heads of 20 windows are records to it.
        assert_eq!(sink.counts.records.load(Relaxed) + 20, 10_754);
        assert!(sink.counts.lost().is_empty());
        assert_eq!(std::fs::read(dir.join("xen.bin")).unwrap(), LIVE);
    }

    #[test]
    fn what_an_ended_xentrace_missed_is_said() {
        for (how, gaps, words) in [
            (
                How::Killed(9),
                0,
                "xentrace was killed by signal 9 and was restarted: Xen's buffers kept",
            ),
            (
                How::Exited(0),
                1,
                "xentrace was ended by another process and was restarted: Xen was not traced for ",
            ),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let mut sink = sink(&dir.path().join("r.transect"));
            let (first, second) = halves();
            sink.windows(first).unwrap();
            sink.ended(&ending(how));
            // That one ends without a record; what the first one did still counts.
            sink.ended(&ending(How::Exited(1)));
            sink.windows(second).unwrap();
            let (writer, counts) = (sink.writer.clone(), sink.counts.clone());
            drop(sink);
            let manifest = writer.manifest();
            assert_eq!(manifest.gaps.len(), gaps);
            if let Some(gap) = manifest.gaps.first() {
                let (from, to) = (gap.from.unwrap(), gap.to.unwrap());
                assert!(from < to && to - from < HZ, "{gap:?}");
                assert_eq!((gap.machine_id, gap.cause.as_str()), (MachineId(0), CAUSE));
            }
            let notes = counts.take_notes();
            assert!(notes.len() == 1 && notes[0].starts_with(words), "{notes:?}");
        }
    }

    #[test]
    fn the_end_of_the_last_one_is_a_gap_to_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let mut sink = sink(&dir.path().join("r.transect"));
        sink.windows(LIVE).unwrap();
        sink.ended(&Ending { final_one: true, ..ending(How::Exited(1)) });
        let manifest = sink.writer.manifest();
        let gap = &manifest.gaps[0];
        assert!(gap.from.is_some() && gap.to.is_none(), "{gap:?}");
    }
}
