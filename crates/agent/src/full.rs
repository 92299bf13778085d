//! Full recording: any tracepoint, through a tracefs instance of the session's own.

use crate::{cpu_time::cpu_ns, drain::Drain, settings};
use std::{io, thread, time::Duration};
use transect_guest::{
    proto::{CpuStats, EventRequest, Start, Started, Stats},
    serve::{MetaFile, PageOut, Prepared, TraceRun},
};
use transect_tracefs::{
    Instance, OWN_PREFIX, Selection, Totals, Tracefs, TracefsError, clean_leftovers, meta,
    meta::Cmdlines, threads,
};

/// Instances are named `transect-agent-PID-START`.
const PREFIX: &str = "transect-agent";
/// Percent of a buffer that wakes the reader.
const WAKEUP_PERCENT: u8 = 25;
/// Between tracing off and the last read: events in flight are committed.
const SETTLE: Duration = Duration::from_millis(2);

/// Sets an instance up.
///
/// # Errors
/// What tracefs refused, and what to do.
pub(crate) fn prepare(start: &Start) -> Result<Prepared<FullRun>, TracefsError> {
    let tracefs = Tracefs::find()?;
    clean_leftovers(&tracefs, OWN_PREFIX);
    let requests: Vec<_> = start.events.iter().map(request).collect();
    let selection = Selection::resolve(&tracefs, &requests)?;
    let instance = Instance::create(&tracefs, PREFIX)?;
    instance.set_clock(&start.clock)?;
    instance.set_buffer_kb_per_cpu((start.buffer_bytes / 1024).max(1))?;
    instance.set_wakeup_percent(WAKEUP_PERCENT);
    selection.enable(&instance)?;
    let meta = meta::at_start(&tracefs, &selection)?;
    let mut cmdlines = Cmdlines::default();
    cmdlines.gather(&tracefs);
    let drain = Drain::open(&instance)
        .map_err(|source| TracefsError::Read { path: instance.path().join("per_cpu"), source })?;
    let started = Started {
        clock: start.clock.clone().into(),
        page_bytes: instance.sub_buffer_bytes(),
        buffer_bytes: instance.buffer_kb_per_cpu()?.saturating_mul(1024),
        missing: selection.absent.into_iter().map(Into::into).collect(),
        ..Started::default()
    };
    let cpu_ns_before = cpu_ns();
    let run = FullRun { drain, instance, tracefs, cmdlines, cpu_ns_before };
    Ok(Prepared {
        started,
        meta: meta.into_iter().map(|file| (file.name, file.bytes)).chain(settings()).collect(),
        run,
    })
}

fn settings() -> Vec<MetaFile> {
    settings::to_meta(&threads::all())
}

fn request(event: &EventRequest) -> transect_tracefs::EventRequest {
    transect_tracefs::EventRequest {
        system: event.system.clone(),
        event: if event.name.is_empty() { "*".to_owned() } else { event.name.clone() },
        filter: (!event.filter.is_empty()).then(|| event.filter.clone()),
        required: event.required,
    }
}

/// A recording of this kernel. Fields drop in order: the readers before the instance, which the
/// kernel would not let go otherwise.
pub(crate) struct FullRun {
    drain: Drain,
    instance: Instance,
    tracefs: Tracefs,
    cmdlines: Cmdlines,
    cpu_ns_before: u64,
}

impl TraceRun for FullRun {
    fn begin(&mut self) -> Result<(), String> {
        self.instance.set_tracing(true).map_err(|error| error.to_string())
    }

    fn pump(&mut self, out: &mut PageOut<'_>, wait: Duration) -> io::Result<bool> {
        self.drain.round(&self.instance, out, wait)
    }

    fn stats(&mut self) -> Stats {
        let totals = Totals::read(&self.instance, self.drain.cpus());
        let cpus = totals.cpus.iter().map(|(cpu, stats)| CpuStats {
            cpu: cpu.0,
            overrun: stats.overrun,
            dropped: stats.commit_overrun.wrapping_add(stats.dropped),
            events: stats.read,
            bytes: self.drain.bytes(*cpu),
        });
        Stats {
            drained_seq: None,
            agent_cpu_ns: cpu_ns().saturating_sub(self.cpu_ns_before),
            cpus: cpus.collect(),
        }
    }

    fn finish(&mut self, out: &mut PageOut<'_>) -> io::Result<Vec<MetaFile>> {
        self.instance.set_tracing(false).map_err(io::Error::other)?;
        thread::sleep(SETTLE);
        self.drain.rest(out)?;
        self.cmdlines.gather(&self.tracefs);
        let cmdlines = self.cmdlines.to_meta();
        Ok([(cmdlines.name, cmdlines.bytes)].into_iter().chain(settings()).collect())
    }
}
