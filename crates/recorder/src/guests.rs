//! The guests of a recording: one session each, all writing into the same directory.

use super::{driver::Hurry, guest_sink::GuestSpool, host::HostRecording, numbers::Numbers};
use anyhow::{Context, bail};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};
use transect_guest::{
    bounds::Bounds,
    proto::{CompactPlan, EventRequest as GuestEvent},
    session::{GuestSession, Limits, Outcome, SessionConfig, SessionError},
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
    stop_hurried: Duration::from_secs(2),
    reconnect_min: Duration::from_millis(100),
    reconnect_max: Duration::from_secs(2),
};

/// The host's recording waits so long for its guests. It then begins without those that are not ready; they join it.
const PATIENCE: Duration = Duration::from_secs(3);
/// Interval at which an ending session is polled.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A session that has not ended so long after the hurry began is left behind: its thread waits for something that no
/// deadline reaches, such as a disk.
const ABANDON_AFTER: Duration = Duration::from_secs(3);

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
    /// Guests that failed at the start.
    failed: Vec<String>,
    /// Reasons that have been reported.
    reported: BTreeSet<String>,
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
    /// Reports of the sessions since the last [`Guests::take_notes`].
    pub(super) notes: Vec<String>,
    pub(super) problems: Vec<String>,
}

impl Guests {
    /// Starts a session for every guest and waits a moment for all to record.
    ///
    /// # Errors
    /// A guest has no channel: the user named it, so nothing is recorded. What a guest itself does is no error: the host
    /// is recorded without it.
    pub(super) fn start(
        plan: &GuestPlan,
        recording: &HostRecording,
        host_clock: &str,
        is_cancelled: &dyn Fn() -> bool,
    ) -> anyhow::Result<Self> {
        let mut guests = Guests {
            sessions: Vec::new(),
            failed: Vec::new(),
            reported: BTreeSet::new(),
            notes: Arc::default(),
            failure: Arc::default(),
        };
        if plan.specs.is_empty() {
            return Ok(guests);
        }
        let Some(host_clock) = StampClock::from_name(host_clock).filter(|c| c.is_readable()) else {
            bail!(
                "cannot align guests to the clock {host_clock}, which user space cannot read; use --clock x86-tsc or mono"
            );
        };
        let bounds =
            Bounds::default().with_share_of_disk(recording.writer.free_bytes(), plan.specs.len());
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
                bounds,
            };
            let sink = GuestSpool::new(recording, spec.clone(), host_clock, guests.notes.clone())
                .reporting_to(guests.failure.clone());
            let session = GuestSession::spawn(config, Box::new(sink))
                .with_context(|| format!("guest {}: cannot start its thread", spec.endpoint))?;
            guests.sessions.push((label(spec), session));
        }
        guests.wait_a_moment(is_cancelled)
    }

    /// Waits a moment for all; if one has no channel, or the wait is cancelled, ends all and returns the reason.
    fn wait_a_moment(mut self, is_cancelled: &dyn Fn() -> bool) -> anyhow::Result<Self> {
        let deadline = Instant::now() + PATIENCE;
        for (_, session) in &self.sessions {
            session.wait_started_until(deadline, is_cancelled);
        }
        let error = match self.drop_failed() {
            Ok(()) if !is_cancelled() => return Ok(self),
            Ok(()) => None,
            Err(error) => Some(error),
        };
        // Nothing is kept: no guest is waited for.
        self.sessions.iter().for_each(|(_, session)| session.hurry());
        let ended: Vec<_> = self.sessions.into_iter().map(|(_, session)| session.stop()).collect();
        let error = error.or_else(|| ended.into_iter().find_map(Result::err));
        Err(error.map_or_else(|| anyhow::anyhow!("a guest did not start"), Into::into))
    }

    /// Takes the sessions that have failed before they recorded, and notes the reasons.
    ///
    /// # Errors
    /// The guest has no channel.
    fn drop_failed(&mut self) -> Result<(), SessionError> {
        let (over, others) =
            std::mem::take(&mut self.sessions).into_iter().partition(|(_, session)| {
                session.is_over() && !session.is_starting() && !session.has_recorded()
            });
        self.sessions = others;
        let over: Vec<(String, GuestSession)> = over;
        for (label, session) in over {
            match session.stop() {
                Err(error @ SessionError::Connect(_)) => return Err(error),
                Err(error) => self.fail(&label, error.to_string()),
                Ok(_) => self.fail(&label, format!("guest {label}: did not start")),
            }
        }
        Ok(())
    }

    fn fail(&mut self, label: &str, reason: String) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(reason);
        self.failed.push(format!("guest {label}: not recorded, for the reason above"));
    }

    /// Notes that the host records from `stamp` on, raw on its trace clock: guests that begin later have a gap until then.
    pub(super) fn host_began(&self, stamp: Option<u64>) {
        for (_, session) in &self.sessions {
            session.host_began(stamp.unwrap_or(0));
        }
    }

    /// Are guests still starting? Those that have failed meanwhile are noted.
    pub(super) fn are_starting(&mut self) -> anyhow::Result<bool> {
        self.drop_failed()?;
        Ok(self.sessions.iter().any(|(_, session)| session.is_starting()))
    }

    /// What sessions told since the last call.
    pub(super) fn take_notes(&mut self) -> Vec<String> {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let notes = std::mem::take(&mut *notes);
        self.reported.extend(notes.iter().cloned());
        notes
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

    /// Waits for the end of all; each has its own deadline, which a hurry shortens.
    pub(super) fn stop(mut self, hurry: &Hurry) -> GuestTotals {
        self.request_stop();
        let mut hurried: Option<Instant> = None;
        for (at, (_, session)) in self.sessions.iter().enumerate() {
            while !session.is_over() {
                if hurried.is_none() && hurry.is_on() {
                    hurried = Some(Instant::now());
                    self.sessions[at..].iter().for_each(|(_, session)| session.hurry());
                }
                if hurried.is_some_and(|since| since.elapsed() > ABANDON_AFTER) {
                    break;
                }
                thread::sleep(LOOK_EVERY);
            }
        }
        let notes = self.take_notes();
        let mut totals = GuestTotals { notes, problems: self.failed, ..GuestTotals::default() };
        for (label, session) in self.sessions {
            if !session.is_over() {
                totals.problems.push(format!(
                    "guest {label}: its recording did not end in time; its last events are missing"
                ));
                continue;
            }
            match session.stop() {
                Ok(outcome) => totals.add(&label, &outcome),
                Err(error) if self.reported.contains(&error.to_string()) => totals
                    .problems
                    .push(format!("guest {label}: not recorded to the end, for the reason above")),
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
/// has none; without bios, which would be another request for each of the guest's own; and without filters, which name the
/// host's threads.
pub(super) fn guest_plan(host: &transect_bpf::Plan, buffer_kb: u64) -> CompactPlan {
    let families = host.families.iter().filter(|family| **family != transect_bpf::Family::Kvm);
    let is_hosts = |event: &str| event.starts_with("kvm:") || event.starts_with("block:block_bio_");
    let is_guests = |event: &&String| !is_hosts(event);
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
