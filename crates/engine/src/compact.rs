//! Compact files as streams: the adapter from the codec to the engine.
//!
//! One stream per CPU, its side log merged in. Events go from the codec's decoder straight into
//! the engine's batch: nothing is kept in between.
//!
//! Compact events carry no names and no wakeups' ends (`sched_wakeup`); the tables do not depend on
//! either: names known when recording began are in [`CompactSource::threads`], later ones come as
//! `TaskRename`, and what a `sched_wakeup` would tell is in docs/reference/states.md.

use crate::{
    align::Input,
    problems::Problems,
    stream::{EventStream, LostCause, LostEvents, StreamItem, StreamKey},
    topology::ThreadInfo,
};
use std::collections::VecDeque;
use transect_clock::{ClockError, ClockGraph, Converter};
use transect_compact::{Compact, Lost, LostCause as LogLostCause, Problem, Sink, Stream};
use transect_model::{
    event::CoreEvent,
    ids::{MachineId, Tid},
    setting::ThreadSettings,
    table::ImportLog,
    time::{Source, Timestamp},
};

/// One compact file of a recording and the machine whose events it holds.
#[derive(Debug)]
pub struct CompactSource<'t, 'd> {
    file: &'t Compact<'d>,
    machine: MachineId,
    /// For messages.
    name: String,
    /// How often the machine was booted again before.
    boot: usize,
}

impl<'t, 'd> CompactSource<'t, 'd> {
    /// Prepares a file; `name` is what messages call it.
    pub fn new(file: &'t Compact<'d>, machine: MachineId, name: impl Into<String>) -> Self {
        CompactSource { file, machine, name: name.into(), boot: 0 }
    }

    /// The same source, begun after the machine was booted again so many times
    /// ([`ClockGraph::boot_of_source`]).
    #[must_use]
    pub fn of_boot(self, boot: usize) -> Self {
        CompactSource { boot, ..self }
    }

    /// The streams of every CPU, if the file's clock is the machine's (else none: see
    /// [`CompactSource::remarks`]).
    ///
    /// # Errors
    /// The clock graph cannot place one of the CPUs.
    pub fn inputs(
        &self,
        clocks: &ClockGraph,
    ) -> Result<Vec<Input<CompactStream<'_>, Converter>>, ClockError> {
        let mut inputs = Vec::new();
        if self.has_clock(clocks) {
            for cpu in self.file.cpus() {
                let Some(stream) = self.file.stream(cpu) else { continue };
                let key = StreamKey { machine: self.machine, cpu };
                let clock = clocks.converter_of_boot(self.machine, cpu, self.boot)?;
                inputs.push(Input { key, stream: self.stream(stream), clock });
            }
        }
        Ok(inputs)
    }

    fn stream<'s>(&'s self, stream: Stream<'s>) -> CompactStream<'s> {
        CompactStream {
            stream,
            ahead: VecDeque::new(),
            problems: Problems::new(&self.name),
            overwrites: self.file.header().overwrite,
        }
    }

    fn has_clock(&self, clocks: &ClockGraph) -> bool {
        self.file.header().clock == clocks.clock(self.machine)
    }

    /// The threads' names when recording began, for the topology. Whoever knows more about a
    /// thread (a manifest: process, cgroup) should say so instead.
    pub fn threads(&self) -> impl Iterator<Item = ThreadInfo> {
        let named = self.file.names().threads().filter(|(tid, _)| !tid.is_idle());
        named.map(|(tid, comm)| ThreadInfo {
            machine: self.machine,
            tid,
            pid: None,
            name: comm.to_str().into_owned(),
            cgroup: None,
            born: None,
            settings: ThreadSettings::default(),
        })
    }

    /// What is wrong with the file outside of its streams, what its writer could not represent,
    /// and whether it can be aligned: for the import log.
    pub fn remarks(&self, clocks: &ClockGraph) -> Vec<ImportLog> {
        let mut remarks = Vec::new();
        let mut say = |offset, message, data_loss| {
            remarks.push(ImportLog { source: self.name.clone(), offset, message, data_loss });
        };
        for problem in self.file.problems() {
            say(Some(problem.at_bytes), message(problem), true);
        }
        let clock = &self.file.header().clock;
        if !self.has_clock(clocks) {
            let expected = clocks.clock(self.machine);
            let message = format!(
                "the events have timestamps of clock '{clock}', expected '{expected}'; they are \
                 skipped"
            );
            say(None, message, true);
        }
        match self.file.totals() {
            None => {
                let message = "the recorder did not finish the file: events it had not written yet are \
                               missing, their number is unknown";
                say(None, message.into(), true);
            }
            Some(totals) => {
                let cut: u64 = totals.logs.iter().fold(0, |n, log| n.saturating_add(log.saturated));
                if cut > 0 {
                    let message = format!(
                        "{cut} values were too large for their field and were stored as the \
                         maximum that fits"
                    );
                    say(None, message, false);
                }
            }
        }
        remarks
    }
}

/// A problem without its place, which has a column of its own.
fn message(problem: &Problem) -> String {
    match problem.log {
        Some(log) => format!("{log}: {}", problem.what),
        None => problem.what.to_string(),
    }
}

/// One CPU of a compact file.
#[derive(Debug)]
pub struct CompactStream<'t> {
    stream: Stream<'t>,
    /// Items decoded along with one that was asked for alone (an interval's end, a hole).
    ahead: VecDeque<StreamItem>,
    problems: Problems<'t>,
    /// A flight recorder's: what is missing was overwritten.
    overwrites: bool,
}

impl CompactStream<'_> {
    fn fill(&mut self, items: &mut impl Push, events: usize) {
        let CompactStream { stream, problems, overwrites, .. } = self;
        let mut taker = Taker { items, problems, overwrites: *overwrites };
        // False at the end, which the caller sees from there being no items.
        let _more = stream.fill(&mut taker, events);
    }
}

impl EventStream for CompactStream<'_> {
    fn left(&self) -> u64 {
        self.stream.left_blocks() as u64
    }

    fn next_item(&mut self) -> Option<StreamItem> {
        if self.ahead.is_empty() {
            let mut ahead = std::mem::take(&mut self.ahead);
            self.fill(&mut ahead, 1);
            self.ahead = ahead;
        }
        self.ahead.pop_front()
    }

    fn next_batch(&mut self, items: &mut Vec<StreamItem>, limit: usize) {
        if self.ahead.is_empty() {
            self.fill(items, limit);
        } else {
            items.extend(self.ahead.drain(..));
        }
    }

    fn problems(&self) -> Vec<ImportLog> {
        self.problems.rows()
    }
}

/// Where items go.
trait Push {
    fn push(&mut self, item: StreamItem);
}

impl Push for Vec<StreamItem> {
    #[inline]
    fn push(&mut self, item: StreamItem) {
        Vec::push(self, item);
    }
}

impl Push for VecDeque<StreamItem> {
    fn push(&mut self, item: StreamItem) {
        self.push_back(item);
    }
}

/// Takes what the codec gives, in the engine's words.
struct Taker<'a, 't, P> {
    items: &'a mut P,
    problems: &'a mut Problems<'t>,
    overwrites: bool,
}

impl<P: Push> Sink for Taker<'_, '_, P> {
    #[inline]
    fn event(&mut self, ts: Timestamp<Source>, tid: Tid, event: CoreEvent) {
        self.items.push(StreamItem::Event { ts, tid, quiet: 0, event });
    }

    fn lost(&mut self, lost: Lost) {
        let cause = match lost.cause {
            LogLostCause::LogFull => LostCause::BufferOverrun,
            LogLostCause::Overwritten => LostCause::Overwritten,
            LogLostCause::Missing if self.overwrites => LostCause::Overwritten,
            LogLostCause::Truncated => LostCause::TruncatedFile,
            _ => LostCause::CorruptPage,
        };
        self.items.push(StreamItem::Lost(LostEvents { count: lost.count, cause }));
    }

    fn problem(&mut self, problem: Problem) {
        self.problems.add(problem.at_bytes, || message(&problem));
    }
}
