//! Streams whose recorder ended before it had written everything: a full disk, a failure, a kill.

use crate::facts::Facts;
use crate::{AnyStream, SourceBytes, kernel::recorded_cpus};
use std::collections::{BTreeMap, BTreeSet};
use transect_clock::{ClockGraph, Converter};
use transect_engine::unfinished::{Unfinished, unwritten};
use transect_engine::{Input, LostCause, LostEvents, StreamKey};
use transect_model::ids::{CpuId, MachineId};
use transect_model::number::bytes;
use transect_model::people::one_line;
use transect_model::table::ImportLog;
use transect_store::Manifest;

/// How the streams of a recording end.
#[derive(Default)]
pub(crate) struct Endings {
    /// CPUs whose last events are missing.
    missing: BTreeMap<StreamKey, LostEvents>,
    /// The recorder was killed: the last events of every stream are missing.
    is_killed: bool,
    /// CPUs that were recorded: without a stream they have lost all of their events if the recorder was killed.
    recorded: Vec<StreamKey>,
}

impl Endings {
    /// The endings as the manifest has them.
    pub(crate) fn of(manifest: &Manifest) -> Self {
        let missing = manifest.not_kept.iter().map(|entry| {
            let key = StreamKey { machine: entry.machine_id, cpu: entry.cpu };
            let cause = match entry.cause.as_str() {
                "disk_full" => LostCause::DiskFull,
                _ => LostCause::NotWritten,
            };
            (key, LostEvents { count: entry.count, cause })
        });
        Endings {
            missing: missing.collect(),
            is_killed: !manifest.finished && manifest.excerpt.is_none(),
            recorded: recorded_cpus(manifest),
        }
    }

    /// A machine's file was cut: these CPUs lack their last events.
    pub(crate) fn cut(&mut self, machine: MachineId, cpus: BTreeSet<CpuId>) {
        let missing = LostEvents { count: None, cause: LostCause::TruncatedFile };
        for key in cpus.into_iter().map(|cpu| StreamKey { machine, cpu }) {
            self.missing.entry(key).or_insert(missing);
        }
    }

    fn of_stream(&self, key: StreamKey) -> Option<LostEvents> {
        let killed = LostEvents { count: None, cause: LostCause::NotWritten };
        self.missing.get(&key).copied().or(self.is_killed.then_some(killed))
    }

    /// Adds to an error what there is of a recording whose recorder was killed before it could be read.
    pub(crate) fn explain(
        &self,
        error: anyhow::Error,
        facts: &Facts,
        sources: &[SourceBytes<'_>],
    ) -> anyhow::Error {
        if !self.is_killed {
            return error;
        }
        let remark = ImportLog {
            source: "cause".to_owned(),
            offset: None,
            message: one_line(error.as_ref()),
            data_loss: true,
        };
        anyhow::anyhow!(refusal(facts, sources, &[remark]))
    }

    /// Adds the holes that the streams end with.
    pub(crate) fn apply<'s>(
        &self,
        inputs: Vec<Input<AnyStream<'s>, Converter>>,
        clocks: &ClockGraph,
    ) -> Vec<Input<AnyStream<'s>, Converter>> {
        if self.missing.is_empty() && !self.is_killed || inputs.is_empty() {
            return inputs;
        }
        // A CPU has a stream for each boot of its machine: the last one ends early.
        let last: BTreeMap<StreamKey, usize> =
            inputs.iter().enumerate().map(|(at, input)| (input.key, at)).collect();
        let mut ended = Vec::with_capacity(inputs.len());
        for (at, Input { key, stream, clock }) in inputs.into_iter().enumerate() {
            let missing = self.of_stream(key).filter(|_| last.get(&key) == Some(&at));
            let stream: AnyStream<'s> = match missing {
                Some(missing) => Box::new(Unfinished::new(stream, missing)),
                None => stream,
            };
            ended.push(Input { key, stream, clock });
        }
        let known = self.missing.keys().chain(self.recorded.iter().filter(|_| self.is_killed));
        let without: BTreeSet<_> = known.filter(|key| !last.contains_key(key)).collect();
        for key in without {
            let clock = clocks.converter(key.machine, key.cpu).ok();
            if let (Some(clock), Some(missing)) = (clock, self.of_stream(*key)) {
                let stream: AnyStream<'s> = Box::new(unwritten(missing));
                ended.push(Input { key: *key, stream, clock });
            }
        }
        ended
    }
}

/// Why a recording cannot be reported: what there is, how it ended, what to do.
pub(crate) fn refusal(facts: &Facts, sources: &[SourceBytes<'_>], remarks: &[ImportLog]) -> String {
    #[expect(clippy::cast_precision_loss, reason = "three digits for people")]
    let each = sources
        .iter()
        .map(|source| format!("{} ({})", source.name, bytes(source.bytes.len() as f64)));
    let each: Vec<_> = each.collect();
    let found = match each.is_empty() {
        true => "there is no source".to_owned(),
        false => format!("there is {}", each.join(", ")),
    };
    let ended = facts.ending.describe(facts.finished);
    let causes = remarks.iter().filter(|remark| remark.data_loss);
    let causes: Vec<_> =
        causes.map(|remark| format!("{}: {}", remark.source, remark.message)).collect();
    let causes = if causes.is_empty() { String::new() } else { format!("; {}", causes.join("; ")) };
    let advice = match facts.finished {
        true => "Record again for a longer time, or with other events",
        false => "Record again",
    };
    format!("no usable events: {found}; it ended {ended}{causes}. {advice}")
}
