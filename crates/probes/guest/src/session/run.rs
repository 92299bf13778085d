//! From the first link to the last: reconnects, gaps, the end.

use super::{
    books::{Books, Early},
    config::SessionConfig,
    error::SessionError,
    link::{Heard, Link, MetaFiles, name},
    outcome::Outcome,
    shared::{Phase, Shared},
    sink::{Beginning, Gap, GapCause, GuestSink, SinkError},
};
use crate::{
    bounds::{self, Account},
    describe,
    proto::{CpuStats, Frame, MachineFacts, Started, Welcome, is_settings},
    serve::MetaFile,
    stamp::StampClock,
};
use std::{
    collections::BTreeMap,
    hash::{BuildHasher as _, Hasher as _, RandomState},
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};
use transect_model::untrusted::terminal_list;

/// How often a pause looks whether the session should stop.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// A guest that is silent for so long is worth a line.
const SILENCE_TOLD: Duration = Duration::from_secs(5);
/// Longest wait in one step of a recording link.
const STEP: Duration = Duration::from_millis(50);
/// A link that recorded for so long was a good one: after it, the pauses are short again.
const GOOD_LINK: Duration = Duration::from_secs(10);

/// Runs a session in its own thread until it is stopped.
pub(super) fn run(
    config: &SessionConfig,
    sink: Box<dyn GuestSink>,
    shared: &Shared,
) -> Result<Outcome, SessionError> {
    let mut session = Session {
        config,
        shared,
        books: Books { sink, shared, outcome: Outcome::default(), cpus: BTreeMap::new() },
        hasher: RandomState::new(),
        last: None,
        open_gap: None,
    };
    let result = session.run(&mut Account::new(config.bounds));
    let closed = session.close();
    result?;
    closed?;
    Ok(session.books.outcome)
}

/// What the last link set up, to tell whether the next one continues it.
struct Setup {
    facts: MachineFacts,
    started: Started,
    /// Hash of the descriptive files.
    meta: u64,
}

impl Setup {
    /// A compact guest's never is: its logs begin anew with each link.
    fn is_continued_by(&self, other: &Setup) -> bool {
        let is_compact = self.started.compact.is_some() || other.started.compact.is_some();
        !is_compact
            && self.is_same_boot(other)
            && self.started.clock == other.started.clock
            && self.started.page_bytes == other.started.page_bytes
            && self.meta == other.meta
    }

    fn is_same_boot(&self, other: &Setup) -> bool {
        self.facts.boot_id == other.facts.boot_id
    }
}

struct Session<'a> {
    config: &'a SessionConfig,
    shared: &'a Shared,
    books: Books<'a>,
    hasher: RandomState,
    last: Option<Setup>,
    /// Where the gap that is open now began, and why.
    open_gap: Option<(u64, GapCause)>,
}

/// How a recording link ended.
enum LinkEnd {
    Stopped,
    Lost { drained_at: u64, cause: GapCause, error: SessionError },
}

impl Session<'_> {
    fn run(&mut self, account: &mut Account) -> Result<(), SessionError> {
        let mut pause = self.config.limits.reconnect_min;
        loop {
            let is_first = self.last.is_none();
            let begun = Instant::now();
            match self.one_link(account) {
                Ok(LinkEnd::Stopped) => {
                    self.books.outcome.complete = true;
                    return Ok(());
                }
                Ok(LinkEnd::Lost { drained_at, cause, error }) => {
                    if begun.elapsed() >= GOOD_LINK {
                        pause = self.config.limits.reconnect_min;
                    }
                    self.books.close_link();
                    self.open_gap.get_or_insert((drained_at, cause));
                    let error = self.forgive(error, account)?;
                    if !self.shared.should_stop() {
                        self.books.sink.note(&format!("{error}; reconnecting"));
                    }
                }
                Err(error) if is_first => return Err(error),
                Err(error @ SessionError::Sink { .. }) => {
                    self.books.sink.note(&error.to_string());
                    return Err(error);
                }
                // Not back yet; the note about the loss has been given.
                Err(error) => {
                    self.forgive(error, account)?;
                }
            }
            self.shared.connected.store(false, Ordering::Relaxed);
            if self.pause(pause) {
                return Ok(());
            }
            pause = (pause * 2).min(self.config.limits.reconnect_max);
        }
    }

    /// The error again, if another link may follow it. A guest that exceeds its bounds is cut off, and so is one whose
    /// links end in protocol errors again and again.
    fn forgive(
        &mut self,
        error: SessionError,
        account: &mut Account,
    ) -> Result<SessionError, SessionError> {
        let error = match error {
            SessionError::Proto { guest, source } => match account.may_break_again() {
                Ok(()) => return Ok(SessionError::Proto { guest, source }),
                Err(source) => SessionError::Excess { guest, source },
            },
            error @ SessionError::Excess { .. } => error,
            other => return Ok(other),
        };
        if let Some((_, cause)) = &mut self.open_gap {
            *cause = GapCause::CutOff;
        }
        self.books.sink.note(&error.to_string());
        Err(error)
    }

    /// Sleeps; true if the session should stop.
    fn pause(&self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        while Instant::now() < until && !self.shared.should_stop() {
            thread::sleep(LOOK_EVERY);
        }
        self.shared.should_stop()
    }

    /// Whatever happened: the gap that is still open ends now, the source is complete.
    fn close(&mut self) -> Result<(), SessionError> {
        let guest = || name(self.config);
        if let Some((from, cause)) = self.open_gap.take() {
            let noted = self.books.gap(Gap { from, to: None, cause });
            noted.map_err(|source| SessionError::Sink { guest: guest(), source })?;
            self.books
                .sink
                .end(&[], &[])
                .map_err(|source| SessionError::Sink { guest: guest(), source })?;
        }
        Ok(())
    }

    fn one_link(&mut self, account: &mut Account) -> Result<LinkEnd, SessionError> {
        let shared = self.shared;
        let limit = match self.last {
            None => self.config.limits.start,
            Some(_) => self.config.limits.stall,
        };
        let is_unwanted = || shared.should_stop();
        let (mut link, welcome) =
            Link::open(self.config, account, &shared.stop, limit, &is_unwanted)?;
        let full_clock = self.choose_clock(&link, &welcome.facts);
        let (asked, full_clock) = match full_clock {
            // Compact records are stamped with mono. Whether it comes to that, Started tells; a
            // guest that cannot be traced the other way either then says why itself.
            full if self.config.compact.is_some() && link.can_ask_for_compact() => {
                (StampClock::Mono, full.unwrap_or(StampClock::Mono))
            }
            full => full.map(|clock| (clock, clock))?,
        };
        // The sink does not know the guest yet: what comes before `begin` waits for it.
        let mut early = Early::default();
        link.burst(asked, &mut |heard| early.hear(heard))?;
        let limit = self.config.limits.start;
        let (mut started, meta) =
            link.start(full_clock, limit, &is_unwanted, &mut |heard| early.hear(heard))?;
        let clock = StampClock::from_name(started.clock.raw_for_storage()).unwrap_or(full_clock);
        if clock != asked {
            // It records with another clock than that which was asked for stamps.
            early.brackets.clear();
            link.ask_for(clock);
        }
        if self.config.compact.is_some() && !link.can_ask_for_compact() {
            let agent = welcome.agent.raw_for_storage();
            let why = format!(
                "transect-agent {agent} in the guest is older than the compact collector; update it"
            );
            started.why_full = why.into();
        }
        let unknown = link.unknown_to_agent();
        if self.last.is_none() && !unknown.is_empty() {
            self.books.sink.note(&format!(
                "guest {}: its transect-agent {} is older and does not know {}; update it to record these",
                name(self.config),
                welcome.agent.terminal(),
                unknown.join(", ")
            ));
        }
        self.begin(&mut link, welcome, started, meta)?;
        let is_running = !early.stats.is_empty();
        early.hand_on(&mut self.books).map_err(|source| self.sink_error(source))?;
        if is_running {
            self.running().map_err(|source| self.sink_error(source))?;
        }
        self.record(link, clock)
    }

    fn choose_clock(
        &self,
        link: &Link<'_>,
        facts: &MachineFacts,
    ) -> Result<StampClock, SessionError> {
        if !facts.problem.is_empty() {
            return Err(link.refused(facts.problem.clone()));
        }
        let has = |clock: &StampClock| {
            facts.stamp_clocks.contains(clock) && facts.clocks.iter().any(|c| *c == clock.name())
        };
        let wanted = || self.config.clocks.iter().map(|c| c.name()).collect::<Vec<_>>().join(", ");
        self.config.clocks.iter().copied().find(has).ok_or_else(|| {
            link.unusable(format!(
                "the guest kernel offers the trace clocks {}, but one of {} is needed",
                terminal_list(&facts.clocks),
                wanted()
            ))
        })
    }

    fn begin(
        &mut self,
        link: &mut Link<'_>,
        welcome: Welcome,
        started: Started,
        meta: Vec<MetaFile>,
    ) -> Result<(), SessionError> {
        let setup = Setup { facts: welcome.facts, started, meta: self.hash(&meta) };
        let continues = self.last.as_ref().is_some_and(|last| last.is_continued_by(&setup));
        let account = link.account();
        let counted = account.count_link();
        let counted =
            counted.and_then(|()| if continues { Ok(()) } else { account.begin_source() });
        counted.map_err(|source| link.excess(source))?;
        if self.last.is_some() && !continues {
            // The guest is another one now (rebooted), or its logs are: what came before is complete.
            let ended = self.books.sink.end(&[], &[]);
            ended.map_err(|source| self.sink_error(source))?;
        }
        let beginning = Beginning {
            facts: &setup.facts,
            agent: &welcome.agent,
            started: &setup.started,
            meta: &meta,
            continues,
            same_boot: self.last.as_ref().is_some_and(|last| last.is_same_boot(&setup)),
        };
        let begun = self.books.sink.begin(&beginning);
        begun.map_err(|source| self.sink_error(source))?;
        self.last = Some(setup);
        self.books.outcome.links += 1;
        Ok(())
    }

    /// Settings are left out: they change while a kernel goes on.
    fn hash(&self, meta: &[MetaFile]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        for (name, bytes) in meta.iter().filter(|(name, _)| !is_settings(name)) {
            hasher.write_usize(name.len());
            hasher.write(name.as_bytes());
            hasher.write_usize(bytes.len());
            hasher.write(bytes);
        }
        hasher.finish()
    }

    fn sink_error(&self, source: SinkError) -> SessionError {
        SessionError::Sink { guest: name(self.config), source }
    }

    /// Records over one link until it ends.
    fn record(&mut self, mut link: Link<'_>, clock: StampClock) -> Result<LinkEnd, SessionError> {
        // Nothing has been drained; but nothing before Started was recorded either.
        let mut drained_at = self.config.host_clock.now().unwrap_or_default();
        let mut silence = Silence::default();
        link.account().enter(bounds::Phase::Recording);
        while !self.shared.should_stop() {
            let mut drained = None;
            let mut is_running = false;
            let stepped = link.step(STEP, &mut |heard| {
                if let Heard::Stats(stats) = &heard {
                    is_running = true;
                    drained = stats.drained_seq.or(drained);
                }
                self.books.hear(heard)
            });
            if is_running {
                self.running().map_err(|source| self.sink_error(source))?;
            }
            if let Some(at) = drained.and_then(|seq| link.sent_at(seq)) {
                drained_at = at;
            }
            match stepped {
                Ok(()) => {}
                Err(error @ SessionError::Sink { .. }) => return Err(error),
                Err(error) => return Ok(lost(drained_at, error)),
            }
            let silent_for = link.silent_for();
            silence.look(silent_for, self.config, self.books.sink.as_mut());
            if silent_for > link.limits().stall {
                let error = link.silent(silent_for, "the guest is paused or its agent hangs");
                return Ok(LinkEnd::Lost { drained_at, cause: GapCause::Stalled, error });
            }
        }
        match self.wind_down(&mut link, clock) {
            Ok(()) => Ok(LinkEnd::Stopped),
            Err(error @ SessionError::Sink { .. }) => Err(error),
            Err(error) => Ok(lost(drained_at, error)),
        }
    }

    /// The first Stats say that the guest's kernel records: the gap ends.
    fn running(&mut self) -> Result<(), SinkError> {
        let host_began = self.shared.host_began.swap(0, Ordering::Relaxed);
        let is_first = !self.shared.recorded.load(Ordering::Relaxed);
        if is_first && self.open_gap.is_none() && host_began > 0 {
            self.open_gap = Some((host_began, GapCause::NotStarted));
        }
        if let Some((from, cause)) = self.open_gap.take() {
            let to = self.config.host_clock.now().unwrap_or(from);
            self.books.gap(Gap { from, to: Some(to), cause })?;
            if cause != GapCause::NotStarted {
                self.books.sink.note(&format!("guest {} reconnected", name(self.config)));
            }
        }
        if !self.shared.connected.swap(true, Ordering::Relaxed) {
            self.shared.recorded.store(true, Ordering::Relaxed);
            self.shared.enter(Phase::Recording);
        }
        Ok(())
    }

    /// Stop, the rest of the pages, a last burst on the quiet channel, Bye.
    fn wind_down(&mut self, link: &mut Link<'_>, clock: StampClock) -> Result<(), SessionError> {
        let limits = *link.limits();
        let mut deadline = Instant::now() + limits.stop_total;
        let mut is_hurried = false;
        link.send(&Frame::Stop)?;
        link.forgive_silence();
        link.account().enter(bounds::Phase::Ending);
        let mut meta = MetaFiles::default();
        let mut is_stopped = false;
        while !is_stopped {
            if !is_hurried && self.shared.hurried.load(Ordering::Relaxed) {
                is_hurried = true;
                deadline = deadline.min(Instant::now() + limits.stop_hurried);
            }
            let silent_for = link.silent_for();
            if silent_for > limits.stop_idle || Instant::now() > deadline {
                return Err(
                    link.silent(silent_for, "the agent did not finish; its last events are lost")
                );
            }
            link.step(STEP, &mut |heard| match heard {
                Heard::Meta { name, more, bytes } => {
                    meta.add(name, more, bytes);
                    Ok(())
                }
                Heard::Stopped => {
                    is_stopped = true;
                    Ok(())
                }
                other => self.books.hear(other),
            })?;
        }
        if self.last.as_ref().is_some_and(|last| last.started.compact.is_some()) {
            let logs = describe::logs_from_meta(&meta.files).unwrap_or_default();
            link.account().totals(&logs).map_err(|source| link.excess(source))?;
        }
        let cpus: Vec<CpuStats> = self.books.cpus.values().copied().collect();
        let ended = self.books.sink.end(&meta.files, &cpus);
        ended.map_err(|source| self.sink_error(source))?;
        self.books.close_link();
        // Everything is safe: what goes wrong from here on costs nothing but precision.
        if link.burst(clock, &mut |heard| self.books.hear_bracket(heard)).is_ok() {
            let _ = link.send(&Frame::Bye);
        }
        Ok(())
    }
}

fn lost(drained_at: u64, error: SessionError) -> LinkEnd {
    let cause = match error {
        SessionError::Silent { .. } => GapCause::Stalled,
        SessionError::Excess { .. } => GapCause::CutOff,
        _ => GapCause::Disconnected,
    };
    LinkEnd::Lost { drained_at, cause, error }
}

/// Tells the user once that a guest fell silent, and once that it speaks again.
#[derive(Default)]
struct Silence {
    is_told: bool,
}

impl Silence {
    fn look(&mut self, silent_for: Duration, config: &SessionConfig, sink: &mut dyn GuestSink) {
        let is_silent = silent_for > SILENCE_TOLD;
        if is_silent == self.is_told {
            return;
        }
        self.is_told = is_silent;
        let guest = name(config);
        let secs = SILENCE_TOLD.as_secs();
        sink.note(&match is_silent {
            true => format!(
                "guest {guest}: no data for {secs} s (paused, starved or hanging); its events \
                 wait in the buffers of the guest"
            ),
            false => format!(
                "guest {guest} answers again; only the events that its kernel counts as lost are \
                 missing"
            ),
        });
    }
}
