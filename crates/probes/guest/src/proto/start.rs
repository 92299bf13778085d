//! The beginning of a recording: what is asked for, and what runs.

use super::{
    compact::{CompactPlan, CompactRun, SyscallForm},
    error::ProtoError,
    wire::{Put, Take},
};
use transect_model::untrusted::Untrusted;

/// One tracepoint (or all of a system) to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRequest {
    /// `sched`, `irq`, …
    pub system: String,
    /// Event name; empty for the whole system.
    pub name: String,
    /// Filter in the kernel's syntax; empty for none.
    pub filter: String,
    /// True if the user named it (its absence is an error), false if a profile did.
    pub required: bool,
}

/// Recorder → agent: what to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// Trace clock by the kernel's name; must be one the machine offers.
    pub clock: String,
    /// Ring buffer per CPU, bytes.
    pub buffer_bytes: u64,
    /// The events.
    pub events: Vec<EventRequest>,
    /// To be recorded by the compact collector instead, if the machine has what that needs
    /// (version 2); clock, buffer and events then are for a machine that has not.
    pub compact: Option<CompactPlan>,
}

/// Agent → recorder: the kernel records now; sent after all Meta.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Started {
    /// The clock that stamps events.
    pub clock: Untrusted<String>,
    /// Bytes of one sub-buffer: Data is a multiple of it. Of a chunk, where logs are recorded.
    pub page_bytes: u32,
    /// Ring buffer or log per CPU as the kernel rounded it, bytes.
    pub buffer_bytes: u64,
    /// What was asked for and is not there, one sentence each.
    pub missing: Vec<Untrusted<String>>,
    /// The compact collector runs: Words come and no Data. `None`: the other way round.
    pub compact: Option<CompactRun>,
    /// Why the compact collector was wanted and does not run; empty otherwise.
    pub why_full: Untrusted<String>,
}

impl Started {
    /// Does it say anything that version 1 cannot?
    pub(super) fn is_version_2(&self) -> bool {
        self.compact.is_some() || !self.why_full.is_empty()
    }
}

fn put_start(put: &mut Put<'_>, start: &Start) -> Result<(), ProtoError> {
    put.str("clock", &start.clock)?;
    put.u64(start.buffer_bytes);
    put.count("events", start.events.len())?;
    for event in &start.events {
        put.str("event system", &event.system)?;
        put.str("event name", &event.name)?;
        put.str("event filter", &event.filter)?;
        put.u8(u8::from(event.required));
    }
    Ok(())
}

pub(super) fn take_start(take: &mut Take<'_>) -> Result<Start, ProtoError> {
    Ok(Start {
        clock: take.str("clock")?,
        buffer_bytes: take.u64("buffer size")?,
        events: take.list("events", 7, |take| {
            Ok(EventRequest {
                system: take.str("event system")?,
                name: take.str("event name")?,
                filter: take.str("event filter")?,
                required: take.bool("event required")?,
            })
        })?,
        compact: None,
    })
}

pub(super) fn put_started(put: &mut Put<'_>, started: &Started) -> Result<(), ProtoError> {
    put.text("clock", &started.clock)?;
    put.u32(started.page_bytes);
    put.u64(started.buffer_bytes);
    put.texts("missing event", &started.missing)
}

pub(super) fn take_started(take: &mut Take<'_>) -> Result<Started, ProtoError> {
    Ok(Started {
        clock: take.text("clock")?,
        page_bytes: take.u32("page size")?,
        buffer_bytes: take.u64("buffer size")?,
        missing: take.texts("missing event")?,
        ..Started::default()
    })
}

pub(super) fn put_start_2(put: &mut Put<'_>, start: &Start) -> Result<(), ProtoError> {
    put_start(put, start)?;
    let Some(plan) = &start.compact else { return Ok(()) };
    put.strs("family", &plan.families)?;
    put.strs("event to add", &plan.with)?;
    put.strs("event to leave out", &plan.without)?;
    put.u8(plan.syscalls.code());
    put.u32s("threads", &plan.tids)?;
    put.u32s("processes", &plan.tgids)?;
    put.str("cgroup", &plan.cgroup)?;
    put.u64(plan.min_irq_ns);
    put.u64(plan.min_softirq_ns);
    put.u64(plan.min_syscall_ns);
    put.u64(plan.min_exit_ns);
    put.u64(plan.log_bytes);
    Ok(())
}

pub(super) fn take_start_2(take: &mut Take<'_>) -> Result<Start, ProtoError> {
    let start = take_start(take)?;
    let plan = CompactPlan {
        families: take.strs("family")?,
        with: take.strs("event to add")?,
        without: take.strs("event to leave out")?,
        syscalls: take_syscalls(take)?,
        tids: take.u32s("threads")?,
        tgids: take.u32s("processes")?,
        cgroup: take.str("cgroup")?,
        min_irq_ns: take.u64("shortest irq")?,
        min_softirq_ns: take.u64("shortest softirq")?,
        min_syscall_ns: take.u64("shortest system call")?,
        min_exit_ns: take.u64("shortest exit")?,
        log_bytes: take.u64("log size")?,
    };
    Ok(Start { compact: Some(plan), ..start })
}

fn take_syscalls(take: &mut Take<'_>) -> Result<SyscallForm, ProtoError> {
    let what = "form of system calls";
    let code = take.u8(what)?;
    let form = SyscallForm::ALL.into_iter().find(|form| form.code() == code);
    form.ok_or(ProtoError::BadValue { what, value: u64::from(code) })
}

pub(super) fn put_started_2(put: &mut Put<'_>, started: &Started) -> Result<(), ProtoError> {
    put_started(put, started)?;
    put.text("why not compact", &started.why_full)?;
    put.u8(u8::from(started.compact.is_some()));
    let Some(run) = &started.compact else { return Ok(()) };
    put.u64(run.log_bytes);
    put.text("isa", &run.isa)?;
    put.strs("event", &run.events)
}

pub(super) fn take_started_2(take: &mut Take<'_>) -> Result<Started, ProtoError> {
    let started = take_started(take)?;
    let why_full = take.text("why not compact")?;
    let compact = match take.bool("is compact")? {
        true => Some(CompactRun {
            log_bytes: take.u64("log size")?,
            isa: take.text("isa")?,
            events: take.strs("event")?,
        }),
        false => None,
    };
    Ok(Started { why_full, compact, ..started })
}
