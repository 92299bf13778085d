//! Recording from start to end, everything to disk as it comes.

use super::{
    Outcome,
    host::{HostProbe, HostResult},
    progress::{Numbers, Progress},
    watch::{Wake, Watch},
};
use anyhow::Context;
use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};
use transect_tracefs::{Collector, Totals, TracefsError};

/// New CPUs are looked for this often; their events wait in their buffers.
const HOTPLUG_EVERY: Duration = Duration::from_millis(500);

/// Records until something ends it.
pub(super) fn run(
    mut probe: HostProbe,
    dir: &Path,
    watch: &mut Watch,
    start_command: impl FnOnce(&mut Watch) -> anyhow::Result<()>,
    progress: &mut Progress,
) -> anyhow::Result<Outcome> {
    let recording = probe.begin(dir)?;
    let mut collector = Collector::start(&probe.instance, Arc::new(recording.sink()))?;
    probe.instance.set_tracing(true)?;
    let started = Instant::now();
    let begun = start_command(watch);
    let mut ended_by = match &begun {
        Ok(()) => String::new(),
        Err(error) => format!("{error:#}"),
    };
    let mut failure = None;
    let mut looked = Instant::now();
    while ended_by.is_empty() {
        match watch.next() {
            Wake::End(reason) => ended_by = reason,
            Wake::Snapshot(pending) => {
                if let Some(pending) = pending {
                    pending.reply(&Err(
                        "this recording is written all the time; end it with transect stop"
                            .to_owned(),
                    ));
                }
            }
            Wake::Look => {}
        }
        failure = collector.take_failure();
        if looked.elapsed() >= HOTPLUG_EVERY && failure.is_none() {
            looked = Instant::now();
            failure = collector.follow_hotplug(&probe.instance).err();
        }
        if let Some(failure) = &failure {
            ended_by = ended_by_failure(failure);
        }
        if progress.is_due() {
            progress.show(numbers(&probe, &collector, started));
        }
    }
    progress.say("finishing …");
    let traced = started.elapsed();
    let cpus: Vec<_> = collector.cpus().collect();
    let totals = match collector.stop(&probe.instance) {
        Ok(totals) => totals,
        Err(error) => {
            failure.get_or_insert(error);
            Totals::read(&probe.instance, cpus)
        }
    };
    let ended_command = watch.end_command();
    let (events, lost) = (totals.events(), totals.lost());
    let result = HostResult { ended_by: ended_by.clone(), totals, traced };
    let finished = probe
        .finish(recording, result)
        .with_context(|| format!("{}: could not be closed, but can be read", dir.display()))?;
    begun?;
    Ok(Outcome {
        dir: finished.dir,
        numbers: Numbers { elapsed: traced, events, lost, bytes: finished.bytes },
        ended_by,
        said: ended_command.into_iter().collect(),
        problems: finished.problems.iter().map(ToString::to_string).collect(),
        failure: failure.map(Into::into),
    })
}

fn ended_by_failure(failure: &TracefsError) -> String {
    if failure.is_storage_full() { "disk_full".to_owned() } else { format!("failure: {failure}") }
}

fn numbers(probe: &HostProbe, collector: &Collector, started: Instant) -> Numbers {
    let totals = Totals::read(&probe.instance, collector.cpus());
    Numbers {
        elapsed: started.elapsed(),
        events: totals.events(),
        lost: totals.lost(),
        bytes: collector.bytes(),
    }
}
