//! The machines of a unit, their workers, and the host beside them.

use super::{order::Unit, own::Own, session::Session};
use crate::{
    environment::sha256_of,
    journal::{CellResult, Opened, PartResult},
    plan::{Cell, Plan},
};
use std::{
    io::BufReader,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};
use transect_bench_core::{
    Fault, Job, Kind, Refusal, RunResult,
    crew::{self, Part, Seat},
    protocol::Role,
};
use transect_bench_platforms::{self as platforms, Bed, Machine, Pipes};
use transect_bench_tracers as tracers;

/// Machines that are open.
pub(super) struct Machines {
    platform: String,
    machines: Vec<Box<dyn Machine>>,
    sessions: Vec<Session>,
    took: Vec<Duration>,
    /// Asks servers in the machines.
    generator: Option<HostWorker>,
    /// Looks on from below.
    bystander: Option<HostWorker>,
    /// On the machine between this host and these, where there is one.
    between: Option<Session>,
    own: Own,
    _scratch: tempfile::TempDir,
}

/// How long a worker may take to say its first word: an emulated machine with a hash of its binary to make.
const HELLO: Duration = Duration::from_secs(120);
/// How long preparing may take beyond what the run may: unpacking, filling caches, starting servers.
const PREPARE: Duration = Duration::from_secs(600);
/// How long the end of a run may take beyond what the run may: a tracer writes what it has.
const DONE: Duration = Duration::from_secs(120);

impl Machines {
    pub(super) fn open(
        plan: &Plan,
        unit: &Unit,
        own: &Own,
        logs: &Path,
        must_stop: &AtomicBool,
    ) -> Result<Self, Fault> {
        let platform = platforms::named(&unit.platform)?;
        let scratch = tempfile::Builder::new().prefix("transect-bench-").tempdir();
        let scratch =
            scratch.map_err(|error| Fault::failed(format!("no scratch folder: {error}")))?;
        let mut open = Self {
            platform: unit.platform.clone(),
            machines: Vec::new(),
            sessions: Vec::new(),
            took: Vec::new(),
            generator: None,
            bystander: None,
            between: None,
            own: own.clone(),
            _scratch: scratch,
        };
        let lttng = wants_lttng(plan, &unit.platform)?;
        for index in 0..unit.guests {
            let began = Instant::now();
            let bed = open.bed(index, lttng, logs)?;
            let shape = plan.shape(&unit.platform, index);
            let mut machine = platform.open(&shape, &bed)?;
            let pipes = machine.worker()?;
            open.machines.push(machine);
            let who = format!("{} {index}", unit.platform);
            let machines = &mut open.machines;
            let mut glance = || glance(machines, must_stop);
            let session = Session::begin(pipes, who, HELLO, &mut glance)?;
            open.took.push(began.elapsed());
            open.sessions.push(session);
        }
        open.check_equality(plan)?;
        if !platform.is_this_host() {
            open.bystander = Some(HostWorker::start(own, must_stop)?);
            open.between = open.between(must_stop)?;
        }
        Ok(open)
    }

    /// A worker on the machine between, where there is one.
    fn between(&mut self, must_stop: &AtomicBool) -> Result<Option<Session>, Fault> {
        let Some(first) = self.machines.first_mut() else { return Ok(None) };
        let pipes = match first.worker_below() {
            Err(Fault::Refused(refusal)) if refusal.kind == Kind::Senseless => return Ok(None),
            pipes => pipes?,
        };
        let who = format!("the host of {}", self.platform);
        let mut glance = || glance(&mut self.machines, must_stop);
        Session::begin(pipes, who, HELLO, &mut glance).map(Some)
    }

    fn bystanders(&self) -> Vec<Seat> {
        let between = self.between.as_ref().map(|_| Seat::Between);
        let below = self.bystander.as_ref().map(|_| Seat::Below);
        between.into_iter().chain(below).collect()
    }

    fn bed(&self, index: u32, lttng: bool, logs: &Path) -> Result<Bed, Fault> {
        let scratch = self._scratch.path().join(index.to_string());
        std::fs::create_dir_all(&scratch).map_err(Fault::failed)?;
        Ok(Bed {
            worker: self.own.worker.clone(),
            worker_arguments: self.own.worker_arguments.clone(),
            scratch,
            logs: logs.to_owned(),
            lttng,
        })
    }

    /// The same binary, as many CPUs: or what is compared is something else.
    fn check_equality(&self, plan: &Plan) -> Result<(), Fault> {
        let binary = sha256_of(&self.own.worker).map_err(Fault::failed)?;
        for session in &self.sessions {
            let facts = &session.facts;
            let different = |why: String| {
                Refusal::new(Kind::Different, format!("platform {}", self.platform), why)
            };
            if facts.binary_sha256 != binary {
                let why = format!("its worker is {}, not {binary}", facts.binary_sha256);
                return Err(different(why).into());
            }
            if facts.cpus.len() != plan.machine.cpus as usize {
                let why = format!("it has {} CPUs, not {}", facts.cpus.len(), plan.machine.cpus);
                return Err(different(why).into());
            }
        }
        Ok(())
    }

    /// What was opened, for the journal; the block is the caller's.
    pub(super) fn opened(&self) -> Vec<Opened> {
        let mut opened = Vec::new();
        for (index, machine) in (0..).zip(&self.machines) {
            let at = index as usize;
            opened.push(Opened {
                block: 0,
                platform: self.platform.clone(),
                index,
                took_ns: u64::try_from(self.took[at].as_nanos()).unwrap_or(u64::MAX),
                facts: machine.facts().clone(),
                worker: self.sessions[at].facts.clone(),
            });
        }
        opened
    }

    /// The accelerator that was really used.
    pub(super) fn accelerator(&self) -> &str {
        self.machines.first().map_or("", |machine| &machine.facts().accelerator)
    }

    /// How long each took from the beginning of opening to its worker's first word.
    pub(super) fn took(&self) -> &[Duration] {
        &self.took
    }

    /// Threads of this host that are the machines.
    pub(super) fn host_tids(&self) -> Vec<u32> {
        self.machines.iter().flat_map(|machine| machine.host_tids()).collect()
    }

    /// Runs a job on all of them together, and does something of its own meanwhile.
    pub(super) fn run<Seen>(
        &mut self,
        job: &Job,
        plan: &Plan,
        cell: &Cell,
        must_stop: &AtomicBool,
        meanwhile: impl FnOnce(&Self) -> Seen,
    ) -> Result<(CellResult, Seen), Fault> {
        let about = cell.group.about()?;
        let parts = crew::roles(&about, &job.params, cell.group.guests, &self.bystanders())?;
        let limit = Duration::from_secs(plan.procedure.limit_s);
        if parts.iter().any(|part| part.seat == Seat::Outside) && self.generator.is_none() {
            self.generator = Some(HostWorker::start(&self.own, must_stop)?);
        }
        let prepared = self.prepare(&parts, job, limit, must_stop);
        if let Err((fault, ready)) = prepared {
            // What is ready waits for a word.
            for part in &parts[..ready] {
                if let Ok((session, _)) = self.session_of(part) {
                    drop(session.go().and_then(|()| session.cancel()));
                    drop(self.done(part, limit, must_stop));
                }
            }
            return Err(fault);
        }
        self.go(&parts)?;
        let seen = meanwhile(self);
        let results = self.results(&parts, limit, must_stop)?;
        Ok((self.put_together(results), seen))
    }

    /// In the order of the parts, in which the generator comes last but for the bystander: who asks servers wants to
    /// know where they are. On a fault also how many were ready.
    fn prepare(
        &mut self,
        parts: &[Part],
        cell: &Job,
        limit: Duration,
        must_stop: &AtomicBool,
    ) -> Result<(), (Fault, usize)> {
        let mut peers = Vec::new();
        for (ready, part) in parts.iter().enumerate() {
            let job = self.job_of(part, cell, &peers);
            let ports = self.prepare_one(part, &job, limit, must_stop);
            let ports = ports.map_err(|fault| (fault, ready))?;
            let Seat::Guest(at) = part.seat else { continue };
            for port in ports {
                let reached = self.machines[at as usize].reach(port);
                peers.push(reached.map_err(|fault| (fault, ready + 1))?.to_string());
            }
        }
        Ok(())
    }

    fn prepare_one(
        &mut self,
        part: &Part,
        job: &Job,
        limit: Duration,
        must_stop: &AtomicBool,
    ) -> Result<Vec<u16>, Fault> {
        let (session, machines) = self.session_of(part)?;
        let mut glance = || glance(machines, must_stop);
        session.prepare(job, limit + PREPARE, &mut glance).map(|(ports, _)| ports)
    }

    /// A part's job. The tracer arm is where the cell says, and nowhere else.
    fn job_of(&self, part: &Part, cell: &Job, peers: &[String]) -> Job {
        let (tracer, is_below) = tracers::arm(&cell.tracer);
        let is_its_place = match part.seat {
            Seat::Guest(_) => !is_below,
            Seat::Outside => false,
            Seat::Between => is_below,
            Seat::Below => is_below && self.between.is_none(),
        };
        let tracer = if is_its_place { tracer } else { "none" };
        let watch = if part.seat == Seat::Below { self.host_tids() } else { Vec::new() };
        let job = Job { tracer: tracer.to_owned(), watch, ..part.job(cell, peers) };
        // Samples of the machine between would take of its CPUs, and tell what the host's tell.
        let sample_every_ms = if part.seat == Seat::Between { 0 } else { job.sample_every_ms };
        Job { sample_every_ms, ..job }
    }

    /// Those who look on and those who answer first.
    fn go(&mut self, parts: &[Part]) -> Result<(), Fault> {
        let rank = |part: &&Part| match part.seat {
            Seat::Below | Seat::Between => 0,
            Seat::Guest(_) => 1,
            Seat::Outside => 2,
        };
        let mut parts: Vec<&Part> = parts.iter().collect();
        parts.sort_by_key(rank);
        parts.into_iter().try_for_each(|part| self.session_of(part)?.0.go())
    }

    /// Of those who have an end of their own first; the others are cancelled then.
    fn results(
        &mut self,
        parts: &[Part],
        limit: Duration,
        must_stop: &AtomicBool,
    ) -> Result<Vec<(Part, RunResult)>, Fault> {
        let has_end = |part: &&Part| matches!(part.role, Role::Whole | Role::Generator);
        let (ending, waiting): (Vec<&Part>, Vec<&Part>) = parts.iter().partition(has_end);
        let mut results = Vec::new();
        for part in ending {
            results.push((part.clone(), self.done(part, limit, must_stop)));
        }
        for part in waiting {
            self.session_of(part)?.0.cancel()?;
            results.push((part.clone(), self.done(part, limit, must_stop)));
        }
        // All have answered, whatever they said: they are ready for the next job.
        results.into_iter().map(|(part, result)| Ok((part, result?))).collect()
    }

    fn done(
        &mut self,
        part: &Part,
        limit: Duration,
        must_stop: &AtomicBool,
    ) -> Result<RunResult, Fault> {
        let (session, machines) = self.session_of(part)?;
        session.done(limit + DONE, &mut || glance(machines, must_stop))
    }

    /// Its metrics are still to be made.
    fn put_together(&self, results: Vec<(Part, RunResult)>) -> CellResult {
        let of_part = |(part, result): (Part, RunResult)| {
            let (place, index) = match part.seat {
                Seat::Guest(index) => (self.platform.clone(), index),
                Seat::Outside | Seat::Below => ("host".to_owned(), 0),
                Seat::Between => (format!("host of {}", self.platform), 0),
            };
            PartResult { place, index, role: part.role, result }
        };
        let parts = results.into_iter().map(of_part).collect();
        CellResult { parts, ..CellResult::default() }
    }

    /// The session of a part, and all machines, which are looked at while one waits for it.
    #[expect(clippy::type_complexity, reason = "two parts of one structure, borrowed at once")]
    fn session_of(
        &mut self,
        part: &Part,
    ) -> Result<(&mut Session, &mut [Box<dyn Machine>]), Fault> {
        let session = match part.seat {
            Seat::Guest(at) => self.sessions.get_mut(at as usize),
            Seat::Outside => self.generator.as_mut().map(|worker| &mut worker.session),
            Seat::Below => self.bystander.as_mut().map(|worker| &mut worker.session),
            Seat::Between => self.between.as_mut(),
        };
        let session = session.ok_or_else(|| Fault::failed(format!("no machine runs {part:?}")))?;
        Ok((session, &mut self.machines))
    }

    /// Ends them in an orderly way. The first error of several.
    pub(super) fn close(self) -> Result<(), Fault> {
        self.sessions.into_iter().chain(self.between).for_each(Session::end);
        self.generator.into_iter().chain(self.bystander).for_each(HostWorker::end);
        let mut closed = Ok(());
        for machine in self.machines {
            closed = closed.and(machine.close());
        }
        closed
    }
}

/// Does the plan have an arm there that needs LTTng's kernel modules?
fn wants_lttng(plan: &Plan, platform: &str) -> Result<bool, Fault> {
    for cell in plan.cells()? {
        if cell.platform == platform && tracers::named(&cell.tracer)?.needs_lttng_modules() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Are all machines there, and is the result still wanted?
fn glance(machines: &mut [Box<dyn Machine>], must_stop: &AtomicBool) -> Result<(), Fault> {
    if must_stop.load(Ordering::Relaxed) {
        return Err(Fault::failed("stopped by a signal"));
    }
    machines.iter_mut().try_for_each(|machine| machine.check_alive())
}

/// A worker on this host, beside the machines, without their limits.
struct HostWorker {
    session: Session,
    child: Child,
}

impl HostWorker {
    fn start(own: &Own, must_stop: &AtomicBool) -> Result<Self, Fault> {
        let cannot =
            |error| Fault::failed(format!("cannot start {}: {error}", own.worker.display()));
        let mut command = Command::new(&own.worker);
        command.args(&own.worker_arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        // A Ctrl-C of the terminal is not for it: what runs is ended in an orderly way.
        command.process_group(0);
        let mut child = command.spawn().map_err(cannot)?;
        let (to, from) = (child.stdin.take(), child.stdout.take());
        let (Some(to), Some(from)) = (to, from) else { return Err(Fault::failed("no pipe")) };
        let pipes = Pipes { to: Box::new(to), from: Box::new(BufReader::new(from)) };
        let mut glance = || glance(&mut [], must_stop);
        let session = Session::begin(pipes, "this host".to_owned(), HELLO, &mut glance)?;
        Ok(Self { session, child })
    }

    fn end(mut self) {
        self.session.end();
        // It ends when its input does; whatever it answers, it is not waited for in vain.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
