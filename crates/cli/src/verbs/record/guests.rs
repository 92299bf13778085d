//! The guests of a recording: one session each, all writing into the same directory.

use super::{guest_sink::GuestSpool, host::HostRecording, progress::Numbers};
use anyhow::{Context, bail};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use transect_guest::{
    proto::{CompactPlan, EventRequest as GuestEvent},
    session::{GuestSession, Limits, Outcome, SessionConfig},
    stamp::StampClock,
    transport::GuestSpec,
};
use transect_tracefs::EventRequest;

/// Long, because the guests worth recording are the starved ones: one that gets 3 % of a CPU
/// needs half a minute to set its tracing up, and may be silent for as long.
const LIMITS: Limits = Limits {
    start: Duration::from_secs(60),
    stall: Duration::from_secs(30),
    stop_idle: Duration::from_secs(10),
    stop_total: Duration::from_secs(60),
    reconnect_min: Duration::from_millis(100),
    reconnect_max: Duration::from_secs(2),
};

/// What to record of the guests.
pub(super) struct GuestPlan {
    pub(super) specs: Vec<GuestSpec>,
    pub(super) events: Vec<GuestEvent>,
    pub(super) buffer_kb: u64,
    /// What to record compactly, in guests that can; the rest is for those that cannot.
    pub(super) compact: Option<CompactPlan>,
}

/// The running sessions.
pub(super) struct Guests {
    sessions: Vec<(String, GuestSession)>,
    /// What sessions want to tell the user; the sinks push, the recorder prints.
    notes: Arc<Mutex<Vec<String>>>,
    /// The first failure to store what a guest sent, until it is taken.
    failure: Arc<Mutex<Option<anyhow::Error>>>,
}

/// What came of all guests together.
#[derive(Default)]
pub(super) struct GuestTotals {
    pub(super) events: u64,
    pub(super) lost: u64,
    pub(super) problems: Vec<String>,
}

impl Guests {
    /// Starts a session for every guest and waits until all record.
    ///
    /// # Errors
    /// A guest that cannot be reached or refuses: asked for by name, so nothing is recorded.
    pub(super) fn start(
        plan: &GuestPlan,
        recording: &HostRecording,
        host_clock: &str,
        is_cancelled: &dyn Fn() -> bool,
    ) -> anyhow::Result<Self> {
        let mut guests =
            Guests { sessions: Vec::new(), notes: Arc::default(), failure: Arc::default() };
        if plan.specs.is_empty() {
            return Ok(guests);
        }
        let Some(host_clock) = StampClock::from_name(host_clock).filter(|c| c.is_readable()) else {
            bail!(
                "cannot align guests to the clock {host_clock}, which user space cannot read; use --clock x86-tsc or mono"
            );
        };
        for spec in &plan.specs {
            let config = SessionConfig {
                spec: spec.clone(),
                recorder: env!("CARGO_PKG_VERSION").to_owned(),
                host_clock,
                clocks: clocks_for(host_clock),
                buffer_bytes: plan.buffer_kb * 1024,
                events: plan.events.clone(),
                compact: plan.compact.clone(),
                limits: LIMITS,
            };
            let sink = GuestSpool::new(recording, spec.clone(), host_clock, guests.notes.clone())
                .reporting_to(guests.failure.clone());
            let session = GuestSession::spawn(config, Box::new(sink))
                .with_context(|| format!("guest {}: cannot start its thread", spec.endpoint))?;
            guests.sessions.push((label(spec), session));
        }
        guests.wait_started(is_cancelled)
    }

    /// Waits for all; if one failed, ends the others and says why.
    fn wait_started(self, is_cancelled: &dyn Fn() -> bool) -> anyhow::Result<Self> {
        let has_failed =
            |(_, session): &(_, GuestSession)| !session.wait_started_unless(is_cancelled);
        let failed = self.sessions.iter().position(has_failed);
        let Some(failed) = failed else { return Ok(self) };
        self.request_stop();
        let mut why = None;
        for (at, (label, session)) in self.sessions.into_iter().enumerate() {
            match session.stop() {
                Err(error) if at == failed || why.is_none() => why = Some(error.into()),
                Ok(_) if at == failed => {
                    why.get_or_insert_with(|| anyhow::anyhow!("guest {label} did not start"));
                }
                _ => {}
            }
        }
        Err(why.unwrap_or_else(|| anyhow::anyhow!("a guest did not start")))
    }

    /// What sessions told since the last call.
    pub(super) fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the first failure to store what a guest sent: the recording cannot go on.
    pub(super) fn take_failure(&self) -> Option<anyhow::Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Where such a failure is reported.
    pub(super) fn failure(&self) -> Arc<Mutex<Option<anyhow::Error>>> {
        self.failure.clone()
    }

    /// Adds the guests' numbers to the host's.
    pub(super) fn add_to(&self, numbers: &mut Numbers) {
        for (_, session) in &self.sessions {
            let progress = session.progress();
            numbers.events += progress.events;
            numbers.lost += progress.lost;
            numbers.bytes += progress.bytes;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Tells all guests to end, without waiting.
    pub(super) fn request_stop(&self) {
        self.sessions.iter().for_each(|(_, session)| session.request_stop());
    }

    /// Waits for the end of all; each has its own deadline.
    pub(super) fn stop(self) -> GuestTotals {
        self.request_stop();
        let mut totals = GuestTotals::default();
        for (label, session) in self.sessions {
            match session.stop() {
                Ok(outcome) => totals.add(&label, &outcome),
                Err(error) => totals.problems.push(error.to_string()),
            }
        }
        totals
    }
}

impl GuestTotals {
    fn add(&mut self, label: &str, outcome: &Outcome) {
        self.events += outcome.events;
        self.lost += outcome.lost;
        if !outcome.complete {
            self.problems.push(format!(
                "guest {label}: no response at the end; its last events are missing and the interval is marked as unknown"
            ));
        }
    }
}

fn label(spec: &GuestSpec) -> String {
    spec.name.clone().unwrap_or_else(|| spec.endpoint.to_string())
}

/// The host's own kind of clock first: a guest's TSC is the host's plus an offset KVM knows.
fn clocks_for(host: StampClock) -> Vec<StampClock> {
    let mut clocks = vec![host];
    // With the TSC of both read beside a mono host's clock, its guests' TSCs are as good.
    if host == StampClock::Mono && StampClock::X86Tsc.is_readable() {
        clocks.insert(0, StampClock::X86Tsc);
    }
    // Not slewed by NTP, so a straight line fits it.
    clocks.extend([StampClock::MonoRaw, StampClock::Mono, StampClock::Boot]);
    clocks.dedup();
    clocks
}

/// The host's plan for guests that record compactly: without its own KVM events, of which a guest
/// has none, and without filters, which name the host's threads.
pub(super) fn guest_plan(host: &transect_bpf::Plan, buffer_kb: u64) -> CompactPlan {
    let families = host.families.iter().filter(|family| **family != transect_bpf::Family::Kvm);
    let is_guests = |event: &&String| !event.starts_with("kvm:");
    CompactPlan {
        families: families.map(|family| family.as_str().to_owned()).collect(),
        with: host.with.iter().filter(is_guests).cloned().collect(),
        log_bytes: buffer_kb * 1024,
        ..CompactPlan::default()
    }
}

/// The host's wishes for a guest. Nothing is required of it: a guest has no KVM events, and its
/// kernel is another one.
pub(super) fn guest_events(requests: &[EventRequest]) -> Vec<GuestEvent> {
    let event = |request: &EventRequest| GuestEvent {
        system: request.system.clone(),
        name: if request.event == "*" { String::new() } else { request.event.clone() },
        filter: request.filter.clone().unwrap_or_default(),
        required: false,
    };
    requests.iter().filter(|request| request.system != "kvm").map(event).collect()
}
