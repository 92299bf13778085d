//! The machines of a unit, their workers, and the host beside them.

use super::{Own, order::Unit, session::Session};
use crate::{
    CacheProof, Fault, Job, Kind, Refusal, RunResult, catalog, crew,
    journal::{CellResult, Opened, PartResult},
    plan::{Cell, Plan},
    platforms::{Bed, Machine, Pipes},
    protocol::Role,
};
use std::{
    io::BufReader,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

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
        let platform = catalog::platform(&unit.platform)?;
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
            own: own.clone(),
            _scratch: scratch,
        };
        for index in 0..unit.guests {
            let began = Instant::now();
            let bed = open.bed(index, logs)?;
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
        }
        Ok(open)
    }

    fn bed(&self, index: u32, logs: &Path) -> Result<Bed, Fault> {
        let scratch = self._scratch.path().join(index.to_string());
        std::fs::create_dir_all(&scratch).map_err(Fault::failed)?;
        Ok(Bed {
            worker: self.own.worker.clone(),
            worker_arguments: self.own.worker_arguments.clone(),
            scratch,
            logs: logs.to_owned(),
        })
    }

    /// The same binary, as many CPUs: or what is compared is something else.
    fn check_equality(&self, plan: &Plan) -> Result<(), Fault> {
        let binary = super::folder::sha256_of_file(&self.own.worker)?;
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

    /// Runs a job on all of them together.
    pub(super) fn run(
        &mut self,
        job: &Job,
        plan: &Plan,
        cell: &Cell,
        must_stop: &AtomicBool,
    ) -> Result<CellResult, Fault> {
        let about = catalog::workload(&cell.group.workload)?.about();
        let parts = crew::parts(&about, cell.group.guests);
        let limit = Duration::from_secs(plan.procedure.limit_s);
        if parts.iter().any(|part| part.role == Role::Generator) && self.generator.is_none() {
            self.generator = Some(HostWorker::start(&self.own, must_stop)?);
        }
        let prepared = self.prepare(&parts, job, limit, must_stop);
        if let Err(fault) = prepared {
            self.forget(&parts);
            return Err(fault);
        }
        self.measure(&parts, &about, limit, must_stop)
    }

    /// Servers first: who asks them wants to know where they are.
    fn prepare(
        &mut self,
        parts: &[crew::Part],
        job: &Job,
        limit: Duration,
        must_stop: &AtomicBool,
    ) -> Result<Vec<CacheProof>, Fault> {
        let mut peers = Vec::new();
        let mut proofs = Vec::new();
        let mut by_role: Vec<&crew::Part> = parts.iter().collect();
        by_role.sort_by_key(|part| u8::from(part.role == Role::Generator));
        if let Some(bystander) = &mut self.bystander {
            let job = Job { role: Role::Bystander, tracer: "none".to_owned(), ..job.clone() };
            let machines = &mut self.machines;
            let mut glance = || glance(machines, must_stop);
            bystander.session.prepare(&job, limit + PREPARE, &mut glance)?;
        }
        for part in by_role {
            let mut job = Job { role: part.role, ..job.clone() };
            if part.role == Role::Generator {
                job.peers.clone_from(&peers);
                job.tracer = "none".to_owned();
            }
            let (session, machines) = self.session_of(part)?;
            let mut glance = || glance(machines, must_stop);
            let (ports, proof) = session.prepare(&job, limit + PREPARE, &mut glance)?;
            proofs.push(proof);
            if let Some(at) = part.machine {
                for port in ports {
                    peers.push(self.machines[at as usize].reach(port)?.to_string());
                }
            }
        }
        Ok(proofs)
    }

    fn measure(
        &mut self,
        parts: &[crew::Part],
        about: &crate::workloads::About,
        limit: Duration,
        must_stop: &AtomicBool,
    ) -> Result<CellResult, Fault> {
        if let Some(bystander) = &mut self.bystander {
            bystander.session.go()?;
        }
        let is_server = |part: &&crew::Part| part.role == Role::Server;
        let servers: Vec<&crew::Part> = parts.iter().filter(is_server).collect();
        let others: Vec<&crew::Part> = parts.iter().filter(|part| !is_server(part)).collect();
        for part in servers.iter().chain(&others) {
            self.session_of(part)?.0.go()?;
        }
        let mut results = Vec::new();
        for part in others {
            results.push((part.clone(), self.done(part, limit, must_stop)?));
        }
        for part in servers {
            self.session_of(part)?.0.cancel()?;
            results.push((part.clone(), self.done(part, limit, must_stop)?));
        }
        let below = self.bystander_done(limit, must_stop)?;
        self.put_together(about, results, below)
    }

    fn done(
        &mut self,
        part: &crew::Part,
        limit: Duration,
        must_stop: &AtomicBool,
    ) -> Result<RunResult, Fault> {
        let (session, machines) = self.session_of(part)?;
        session.done(limit + DONE, &mut || glance(machines, must_stop))
    }

    fn bystander_done(
        &mut self,
        limit: Duration,
        must_stop: &AtomicBool,
    ) -> Result<Option<RunResult>, Fault> {
        let Some(bystander) = &mut self.bystander else { return Ok(None) };
        bystander.session.cancel()?;
        let machines = &mut self.machines;
        let mut glance = || glance(machines, must_stop);
        bystander.session.done(limit + DONE, &mut glance).map(Some)
    }

    fn put_together(
        &self,
        about: &crate::workloads::About,
        results: Vec<(crew::Part, RunResult)>,
        below: Option<RunResult>,
    ) -> Result<CellResult, Fault> {
        let metrics = crew::combine(about, &results)?;
        let of_part = |(part, result): (crew::Part, RunResult)| PartResult {
            place: part.machine.map_or_else(|| "host".to_owned(), |_| self.platform.clone()),
            index: part.machine.unwrap_or(0),
            role: part.role,
            result,
        };
        let mut parts: Vec<PartResult> = results.into_iter().map(of_part).collect();
        parts.extend(below.map(|result| PartResult {
            place: "host".to_owned(),
            index: 0,
            role: Role::Bystander,
            result,
        }));
        Ok(CellResult { metrics, parts, ..CellResult::default() })
    }

    /// After a refusal of one, the others that are ready wait for a word.
    fn forget(&mut self, parts: &[crew::Part]) {
        for part in parts {
            if let Ok((session, _)) = self.session_of(part) {
                drop(session.cancel());
            }
        }
        if let Some(bystander) = &mut self.bystander {
            drop(bystander.session.cancel());
        }
    }

    /// The session of a part, and all machines, which are looked at while one waits for it.
    #[expect(clippy::type_complexity, reason = "two parts of one structure, borrowed at once")]
    fn session_of(
        &mut self,
        part: &crew::Part,
    ) -> Result<(&mut Session, &mut [Box<dyn Machine>]), Fault> {
        let session = match part.machine {
            Some(at) => self.sessions.get_mut(at as usize),
            None => self.generator.as_mut().map(|worker| &mut worker.session),
        };
        let session =
            session.ok_or_else(|| Fault::failed(format!("nobody is there for {part:?}")))?;
        Ok((session, &mut self.machines))
    }

    /// Ends them in an orderly way. The first error of several.
    pub(super) fn close(self) -> Result<(), Fault> {
        self.sessions.into_iter().for_each(Session::end);
        self.generator.into_iter().chain(self.bystander).for_each(HostWorker::end);
        let mut closed = Ok(());
        for machine in self.machines {
            closed = closed.and(machine.close());
        }
        closed
    }
}

/// Are all machines there, and is the result still wanted?
fn glance(machines: &mut [Box<dyn Machine>], must_stop: &AtomicBool) -> Result<(), Fault> {
    if must_stop.load(Ordering::Relaxed) {
        return Err(Fault::failed("ended from outside"));
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
