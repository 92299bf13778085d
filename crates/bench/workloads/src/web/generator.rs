//! The open-loop generator: one thread, one poller, many connections.
//!
//! # Design constraints
//! - A request's latency counts from the time it was *due*. If the thread is late, or no connection is free because the
//!   server is slow, that is part of it: nothing that a visitor would have waited is left out.
//! - The thread's own lateness is measured for every request (time it took the request in hand − time it was due).
//!   Arrivals are Poisson, so they see time averages (PASTA, Wolff 1982): what an arrival has to wait for the thread, an
//!   answer that comes in has to wait too. Lateness thus bounds what the generator adds to latencies; if its 99th
//!   percentile is above the limit, the figures are the generator's, and are refused.
//! - It never spins: on a host that it shares with the servers it must not take their CPU.

use super::{
    answer::Wrong,
    connection::{Connection, Outcome},
    schedule::{Offer, Request, Schedule},
};
use rustix::{
    buffer::spare_capacity,
    event::{Timespec, epoll},
    fd::OwnedFd,
    io::Errno,
    time::{
        ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, clock_gettime,
        timerfd_create, timerfd_settime,
    },
};
use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
};
use transect_bench_core::Fault;

/// What one thread is to do.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    /// The servers.
    pub(crate) servers: Vec<SocketAddr>,
    /// What is asked of them.
    pub(crate) offer: Offer,
    /// Connections to each.
    pub(crate) connections: usize,
    /// After this a request has failed, ns.
    pub(crate) timeout_ns: u64,
    /// An answer within this conforms, ns.
    pub(crate) deadline_ns: u64,
}

/// What one server, or all, did with the requests that count.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tally {
    /// Requests that were due.
    pub(crate) offered: u64,
    /// Of them right answers within the deadline.
    pub(crate) conforming: u64,
    /// Time from due to the last byte of the right answers, ns.
    pub(crate) latencies_ns: Vec<u64>,
    /// Wrong or no answers, by [`Wrong`].
    pub(crate) wrong: [u64; Wrong::ALL.len()],
}

impl Tally {
    /// Adds another.
    pub(crate) fn add(&mut self, other: &Self) {
        self.offered += other.offered;
        self.conforming += other.conforming;
        self.latencies_ns.extend_from_slice(&other.latencies_ns);
        for (mine, theirs) in self.wrong.iter_mut().zip(other.wrong) {
            *mine += theirs;
        }
    }

    /// Requests without a right answer.
    #[must_use]
    pub(crate) fn failed(&self) -> u64 {
        self.wrong.iter().sum()
    }
}

/// What one thread measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    /// By server.
    pub(crate) tallies: Vec<Tally>,
    /// How late each request that counts was taken in hand, ns.
    pub(crate) lateness_ns: Vec<u64>,
    /// Requests repeated because the server had closed an idle connection.
    pub(crate) repeated: u64,
    /// Bytes received, warm-up and heads included.
    pub(crate) received_bytes: u64,
    /// It gave up because it fell behind without hope.
    pub(crate) has_given_up: bool,
    /// It was told to end.
    pub(crate) is_cancelled: bool,
}

/// Requests taken in hand before answers are looked at again.
const BATCH: usize = 64;
/// Between two searches for requests that are too late, ns.
const SWEEP_NS: u64 = 10_000_000;
/// A generator that is this late has lost, ns. Going on would only fill memory.
const HOPELESS_NS: u64 = 1_000_000_000;
/// For the connections to come up before the schedule starts, ns.
const CONNECT_NS: u64 = 3_000_000_000;
/// Poller data of the timer.
const TIMER: u64 = u64::MAX;

/// Runs a task to its end: every request is answered, wrong or timed out.
pub(crate) fn run(task: &Task, cancelled: &AtomicBool) -> Result<Measured, Fault> {
    let failed = |e: Errno| Fault::failed(format!("web: generator: {e}"));
    let mut engine = Engine::new(task).map_err(failed)?;
    engine.connect_all().map_err(failed)?;
    engine.run(cancelled).map_err(failed)?;
    let mut measured = engine.measured;
    measured.received_bytes = engine.connections.iter().map(|c| c.received).sum();
    Ok(measured)
}

struct Engine<'a> {
    task: &'a Task,
    poller: OwnedFd,
    timer: OwnedFd,
    connections: Vec<Connection>,
    /// By server: connections without a request, the longest idle first, so that all take turns.
    idle: Vec<VecDeque<usize>>,
    /// By server: requests without a connection.
    waiting: Vec<VecDeque<Request>>,
    flying: usize,
    /// `CLOCK_MONOTONIC` at the schedule's 0, ns.
    start_ns: u64,
    swept_ns: u64,
    measured: Measured,
    events: Vec<epoll::Event>,
    buffer: Vec<u8>,
}

impl<'a> Engine<'a> {
    fn new(task: &'a Task) -> Result<Self, Errno> {
        let poller = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // Edge-triggered: setting the timer anew is enough, it is never read.
        let on = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&poller, &timer, epoll::EventData::new_u64(TIMER), on)?;
        let servers = task.servers.len();
        let connections = (0..servers * task.connections)
            .map(|i| Connection::new(i % servers, task.servers[i % servers]))
            .collect();
        Ok(Self {
            task,
            poller,
            timer,
            connections,
            idle: vec![VecDeque::new(); servers],
            waiting: vec![VecDeque::new(); servers],
            flying: 0,
            start_ns: 0,
            swept_ns: 0,
            measured: Measured { tallies: vec![Tally::default(); servers], ..Measured::default() },
            events: Vec::with_capacity(512),
            buffer: vec![0; 64 * 1024],
        })
    }

    /// Before the schedule starts; a server that cannot be reached is no error here, its requests will fail.
    fn connect_all(&mut self) -> Result<(), Errno> {
        let end = now_ns() + CONNECT_NS;
        let mut coming = 0;
        for index in 0..self.connections.len() {
            if self.open(index).is_ok() {
                coming += 1;
            } else {
                self.rest(index);
            }
        }
        while coming > 0 && now_ns() < end {
            self.wait(Some(Timespec { tv_sec: 0, tv_nsec: 50_000_000 }))?;
            let events = std::mem::take(&mut self.events);
            for event in &events {
                let Some((index, flags)) = self.of(event) else { continue };
                if flags.intersects(epoll::EventFlags::OUT | epoll::EventFlags::ERR) {
                    match self.connections[index].writable() {
                        Outcome::Idle | Outcome::Closed { .. } => self.rest(index),
                        _ => continue,
                    }
                    coming -= 1;
                }
            }
            self.events = events;
        }
        // What has not come up in time is opened again when it is needed.
        for index in 0..self.connections.len() {
            let server = self.connections[index].server;
            if !self.idle[server].contains(&index) {
                self.connections[index].close();
                self.rest(index);
            }
        }
        Ok(())
    }

    fn run(&mut self, cancelled: &AtomicBool) -> Result<(), Errno> {
        let mut schedule = Schedule::new(self.task.offer);
        self.start_ns = now_ns();
        loop {
            self.take_in_hand(&mut schedule);
            self.measured.is_cancelled = cancelled.load(Ordering::Relaxed);
            if self.measured.has_given_up || self.measured.is_cancelled {
                return Ok(());
            }
            if schedule.due_ns().is_none() && self.flying == 0 && !self.is_anyone_waiting() {
                return Ok(());
            }
            self.sleep_until(schedule.due_ns())?;
            self.handle_events();
            self.sweep();
        }
    }

    fn is_anyone_waiting(&self) -> bool {
        self.waiting.iter().any(|waiting| !waiting.is_empty())
    }

    /// Everything that is due, up to a batch.
    fn take_in_hand(&mut self, schedule: &mut Schedule) {
        for _ in 0..BATCH {
            let now = self.now();
            let Some(due) = schedule.due_ns().filter(|&due| due <= now) else { break };
            let Some(request) = schedule.next() else { break };
            if request.is_counted {
                self.measured.lateness_ns.push(now - due);
                self.measured.tallies[request.server].offered += 1;
            }
            self.measured.has_given_up |= now - due > HOPELESS_NS;
            self.waiting[request.server].push_back(request);
            self.dispatch(request.server);
        }
    }

    /// Gives waiting requests to idle connections.
    fn dispatch(&mut self, server: usize) {
        while !self.waiting[server].is_empty() {
            let Some(index) = self.idle[server].pop_front() else { return };
            let Some(request) = self.waiting[server].pop_front() else { return };
            self.flying += 1;
            if self.connections[index].socket().is_none() && self.open(index).is_err() {
                self.settle(index, Outcome::Wrong { request, wrong: Wrong::Connect });
                continue;
            }
            let outcome = self.connections[index].begin(request);
            self.settle(index, outcome);
        }
    }

    fn open(&mut self, index: usize) -> Result<(), Errno> {
        let connection = &mut self.connections[index];
        connection.open()?;
        let data = u64::from(connection.generation) << 32 | index as u64;
        let Some(socket) = connection.socket() else { return Ok(()) };
        let on = epoll::EventFlags::IN
            | epoll::EventFlags::OUT
            | epoll::EventFlags::RDHUP
            | epoll::EventFlags::ET;
        epoll::add(&self.poller, socket, epoll::EventData::new_u64(data), on)
    }

    /// Writes down what happened, and lets the connection rest where it has nothing to do.
    fn settle(&mut self, index: usize, outcome: Outcome) {
        match outcome {
            Outcome::Waits => return,
            Outcome::Idle => {}
            Outcome::Right { request } => {
                self.flying -= 1;
                self.count_right(request);
            }
            Outcome::Wrong { request, wrong } => {
                self.flying -= 1;
                self.count_wrong(request, wrong);
            }
            Outcome::Closed { repeat } => {
                let Some(request) = repeat else { return };
                self.flying -= 1;
                self.measured.repeated += 1;
                self.waiting[request.server].push_front(request);
            }
        }
        self.rest(index);
    }

    fn count_right(&mut self, request: Request) {
        if request.is_counted {
            let latency = self.now().saturating_sub(request.due_ns);
            let tally = &mut self.measured.tallies[request.server];
            tally.latencies_ns.push(latency);
            tally.conforming += u64::from(latency <= self.task.deadline_ns);
        }
    }

    fn count_wrong(&mut self, request: Request, wrong: Wrong) {
        if request.is_counted {
            self.measured.tallies[request.server].wrong[wrong as usize] += 1;
        }
    }

    fn rest(&mut self, index: usize) {
        let server = self.connections[index].server;
        self.idle[server].push_back(index);
    }

    fn handle_events(&mut self) {
        let events = std::mem::take(&mut self.events);
        for event in &events {
            if let Some((index, flags)) = self.of(event) {
                self.handle(index, flags);
            }
        }
        self.events = events;
        for server in 0..self.waiting.len() {
            self.dispatch(server);
        }
    }

    fn handle(&mut self, index: usize, flags: epoll::EventFlags) {
        use epoll::EventFlags as On;
        let had_request = self.connections[index].request().is_some();
        if flags.intersects(On::OUT | On::ERR) {
            let outcome = self.connections[index].writable();
            // A connection that comes up without a request is in the idle queue already.
            if !matches!(outcome, Outcome::Idle) {
                self.settle(index, outcome);
            }
        }
        let has_request = self.connections[index].request().is_some();
        let is_ended = flags.intersects(On::RDHUP | On::HUP | On::ERR);
        if had_request == has_request && (flags.contains(On::IN) || is_ended) {
            let outcome = self.connections[index].readable(&mut self.buffer);
            self.settle(index, outcome);
        }
        // With the last byte of an answer came the end: the next request would find a closed connection.
        if is_ended && self.connections[index].request().is_none() {
            self.connections[index].close();
        }
    }

    /// The connection that an event is about, if it is not about an older socket.
    fn of(&self, event: &epoll::Event) -> Option<(usize, epoll::EventFlags)> {
        let data = event.data.u64();
        let index = usize::try_from(data & 0xffff_ffff).ok()?;
        let connection = self.connections.get(index)?;
        let is_current = u64::from(connection.generation) == data >> 32;
        (is_current && connection.socket().is_some()).then_some((index, event.flags))
    }

    /// Fails what has waited too long, in flight or in the queue.
    fn sweep(&mut self) {
        let now = self.now();
        if now < self.swept_ns + SWEEP_NS {
            return;
        }
        self.swept_ns = now;
        let timeout = self.task.timeout_ns;
        let is_late = |request: &Request| now > request.due_ns + timeout;
        let late: Vec<usize> = (0..self.connections.len())
            .filter(|&index| self.connections[index].request().is_some_and(is_late))
            .collect();
        for index in late {
            if let Some(request) = self.connections[index].close() {
                self.settle(index, Outcome::Wrong { request, wrong: Wrong::Late });
            }
        }
        for server in 0..self.waiting.len() {
            while self.waiting[server].front().is_some_and(is_late) {
                if let Some(request) = self.waiting[server].pop_front() {
                    self.count_wrong(request, Wrong::Late);
                }
            }
            self.dispatch(server);
        }
    }

    /// Waits for answers, but not longer than until the next request is due or the next sweep.
    fn sleep_until(&mut self, due_ns: Option<u64>) -> Result<(), Errno> {
        let sweep = self.swept_ns + SWEEP_NS;
        let until = due_ns.map_or(sweep, |due| due.min(sweep));
        if until <= self.now() {
            return self.wait(Some(Timespec { tv_sec: 0, tv_nsec: 0 }));
        }
        let spec =
            Itimerspec { it_interval: timespec(0), it_value: timespec(self.start_ns + until) };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &spec)?;
        self.wait(None)
    }

    fn wait(&mut self, timeout: Option<Timespec>) -> Result<(), Errno> {
        self.events.clear();
        match epoll::wait(&self.poller, spare_capacity(&mut self.events), timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// ns after the schedule's start.
    fn now(&self) -> u64 {
        now_ns() - self.start_ns
    }
}

fn timespec(ns: u64) -> Timespec {
    let part = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    Timespec { tv_sec: part(ns / 1_000_000_000), tv_nsec: part(ns % 1_000_000_000) }
}

/// `CLOCK_MONOTONIC`, ns.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    part(now.tv_sec) * 1_000_000_000 + part(now.tv_nsec)
}
