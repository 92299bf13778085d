//! One job, from `Prepare` to what was measured.

use super::{
    WorkerError,
    child::One,
    events::Event,
    one::{OneSays, Order},
    params,
    service::{Quit, Service},
    watch,
};
use crate::caches::{Caches, Reads};
use std::{
    collections::BTreeMap,
    io::Write,
    path::PathBuf,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use transect_bench_core::{
    CacheProof, CacheState, Fault, Job, Kind, Metric, Refusal, RunResult,
    protocol::{FromWorker, Role, ToWorker},
};
use transect_bench_limiter::{
    perturb::{Target, apply},
    sampling::Sampler,
};
use transect_bench_tracers::{self as tracers, Scene, Tracer, Tracing};
use transect_bench_workloads as workloads;

/// How long a workload may take to clean up, and a cancelled one to say what it has.
const PATIENCE: Duration = Duration::from_secs(20);

/// Why a job comes to no result.
#[derive(Debug)]
pub(crate) enum Stop {
    /// That is its answer.
    Fault(Fault),
    /// The worker ends.
    Quit(Quit),
}

impl<F: Into<Fault>> From<F> for Stop {
    fn from(fault: F) -> Self {
        Self::Fault(fault.into())
    }
}

/// What a process on the brink has said.
struct Brink {
    files: Vec<PathBuf>,
    ports: Vec<u16>,
    programs: Vec<PathBuf>,
}

/// What the measured part came to.
struct Ran {
    started_realtime_ns: u64,
    took_ns: u64,
    metrics: Vec<Metric>,
    notes: Vec<String>,
}

/// Runs a job.
pub(crate) fn attempt<W: Write>(service: &mut Service<W>, job: Job) -> Result<RunResult, Stop> {
    let (job, tracer) = checked(job)?;
    // Dropped in the opposite order, should anything go wrong: first the tracer ends, then what it traces.
    let folders = Folders::new(service)?;
    let order = Order {
        job: job.clone(),
        folder: folders.workload.path().to_owned(),
        keep: service.own.folder.join("keep"),
    };
    let variables = tracer.environment(&job)?;
    let mut one = One::start(&service.own, service.jobs, &order, &variables, &service.events)?;
    let brink = until_ready(service, &mut one, &job)?;
    let caches = Caches::bring(job.cache, brink.files, &brink.programs, &service.own.folder)?;
    let scene = Scene {
        job: &job,
        folder: folders.tracer.path(),
        pid: one.pid(),
        transect: &service.own.program,
    };
    let tracing = tracer.start(&scene)?;
    let proof = caches.before()?;
    let prepared = FromWorker::Prepared { ports: brink.ports, cache: proof.clone() };
    service.say(&prepared).map_err(Stop::Quit)?;
    until_go(service, &mut one)?;

    let (ran, proof, samples) = measure(service, &mut one, &job, &caches, proof)?;
    let cost = stop_tracer(tracing, &job)?;
    clean_up(service, &mut one)?;
    Ok(RunResult {
        id: job.id,
        started_realtime_ns: ran.started_realtime_ns,
        took_ns: ran.took_ns,
        metrics: ran.metrics,
        tracer: cost,
        cache: proof,
        samples,
        programs: hashes(service, &brink.programs)?,
        notes: ran.notes,
    })
}

/// The job with its parameters complete, and its tracer, if they can be had and fit.
fn checked(mut job: Job) -> Result<(Job, &'static dyn Tracer), Stop> {
    let tracer = tracers::named(&job.tracer)?;
    tracer.can_run(&job)?;
    if job.role == Role::Bystander {
        if job.cache != CacheState::Any {
            let why = "a bystander reads no files";
            return Err(Refusal::new(Kind::Senseless, "cache state", why).into());
        }
        return Ok((job, tracer));
    }
    let workload = workloads::named(&job.workload)?;
    let about = workload.about();
    job.params = params::complete(&about, &job.params)?;
    if !about.caches.contains(&job.cache) {
        let what = format!("workload {} with a cache that is {}", about.name, job.cache.name());
        return Err(Refusal::new(
            Kind::Senseless,
            what,
            "the workload does not support this cache state",
        )
        .into());
    }
    workload.can_run(&job)?;
    Ok((job, tracer))
}

/// A job's folders, removed when dropped.
struct Folders {
    workload: TempDir,
    tracer: TempDir,
}

impl Folders {
    fn new<W>(service: &Service<W>) -> Result<Self, Stop> {
        let folder = &service.own.folder;
        let new = |prefix: &str| {
            tempfile::Builder::new().prefix(prefix).tempdir_in(folder).map_err(|error| {
                let folder = folder.clone();
                Stop::Quit(Quit::Error(WorkerError::Folder { folder, error }))
            })
        };
        Ok(Self { workload: new("job-")?, tracer: new("tracer-")? })
    }
}

/// When a part of a job that begins now has to be over.
fn limit(job: &Job) -> Option<Instant> {
    // 0: none.
    (job.limit_s > 0).then(|| Instant::now().checked_add(Duration::from_secs(job.limit_s)))?
}

/// Waits for what the process says; everybody else's messages are dealt with.
///
/// `cancel` says what `Cancel` means now.
fn until_one_says<W>(
    service: &Service<W>,
    one: &mut One,
    mut until: Option<Instant>,
    doing: &'static str,
    cancel: impl Fn(&One) -> Result<(), Fault>,
) -> Result<OneSays, Stop> {
    let from = Instant::now();
    loop {
        let Some(event) = service.events.next(until) else {
            one.kill();
            let after = from.elapsed().as_secs_f64();
            let what = format!("{doing} exceeded its time limit: stopped after {after:.1} s");
            return Err(Fault::Failed(what).into());
        };
        match event {
            Event::One(number, said) if number == one.number => return Ok(said),
            Event::OneGone(number) if number == one.number => {
                let how = one.how_it_ended();
                let what = format!("{doing}: the workload's process ended early: {how}");
                return Err(Fault::Failed(what).into());
            }
            Event::Said(ToWorker::Cancel) => {
                cancel(one)?;
                let patience = Instant::now() + PATIENCE;
                until = Some(until.map_or(patience, |until| until.min(patience)));
            }
            Event::Said(ToWorker::Prepare(_)) => return Err(out_of_turn("Prepare", doing)),
            Event::Said(ToWorker::Go) => return Err(out_of_turn("Go", doing)),
            Event::Said(ToWorker::End) | Event::Closed | Event::Signal => {
                return Err(Stop::Quit(Quit::Orderly));
            }
            Event::Garbage(error) => return Err(Stop::Quit(Quit::Error(error))),
            Event::One(..) | Event::OneGone(_) => {}
        }
    }
}

fn out_of_turn(message: &'static str, when: &'static str) -> Stop {
    Stop::Quit(Quit::Error(WorkerError::OutOfTurn { message, when }))
}

fn cancelled_too_early(_: &One) -> Result<(), Fault> {
    Err(Fault::failed("cancelled before it began"))
}

fn until_ready<W>(service: &Service<W>, one: &mut One, job: &Job) -> Result<Brink, Stop> {
    match until_one_says(service, one, limit(job), "the preparation", cancelled_too_early)? {
        OneSays::Ready { files, ports, programs } => Ok(Brink { files, ports, programs }),
        OneSays::Faulted(fault) => Err(fault.into()),
        OneSays::Ran { .. } => {
            Err(Fault::failed("the workload ran before the signal to start").into())
        }
    }
}

fn until_go<W>(service: &Service<W>, one: &mut One) -> Result<(), Stop> {
    loop {
        match service.events.next(None) {
            Some(Event::Said(ToWorker::Go)) => return Ok(()),
            Some(Event::Said(ToWorker::Cancel)) => cancelled_too_early(one)?,
            Some(Event::Said(ToWorker::Prepare(_))) => {
                return Err(out_of_turn("Prepare", "before the start of a job"));
            }
            Some(Event::Said(ToWorker::End) | Event::Closed | Event::Signal) => {
                return Err(Stop::Quit(Quit::Orderly));
            }
            Some(Event::Garbage(error)) => return Err(Stop::Quit(Quit::Error(error))),
            Some(Event::OneGone(number)) if number == one.number => {
                let how = one.how_it_ended();
                let what = format!("the workload's process ended before the start: {how}");
                return Err(Fault::Failed(what).into());
            }
            Some(Event::One(..) | Event::OneGone(_)) | None => {}
        }
    }
}

type Measured = (Ran, CacheProof, transect_bench_core::samples::Samples);

fn measure<W>(
    service: &Service<W>,
    one: &mut One,
    job: &Job,
    caches: &Caches,
    proof: CacheProof,
) -> Result<Measured, Stop> {
    // Put back when the measured part is over, however it ends.
    let target = Target { pids: vec![one.pid()], ..Target::default() };
    let _lever = job.lever.as_ref().map(|lever| apply(lever, &target)).transpose()?;
    let sampler = watch::begin(job, one.pid())?;
    let reads = Reads::now(one.pid());
    one.go()?;
    let said = until_one_says(service, one, limit(job), "the measured part", One::cancel)?;
    let reads = reads.until_now();
    let samples = sampler.map(Sampler::finish).transpose()?.unwrap_or_default();
    match said {
        OneSays::Ran { started_realtime_ns, took_ns, metrics, notes } => {
            let proof = caches.after(proof, &reads)?;
            Ok((Ran { started_realtime_ns, took_ns, metrics, notes }, proof, samples))
        }
        OneSays::Faulted(fault) => Err(fault.into()),
        OneSays::Ready { .. } => {
            Err(Fault::failed("the workload reported twice that it was ready").into())
        }
    }
}

fn stop_tracer(
    tracing: Box<dyn Tracing>,
    job: &Job,
) -> Result<Option<transect_bench_core::protocol::TracerCost>, Fault> {
    let cost = tracing.stop()?;
    Ok((job.tracer != tracers::none::NAME).then_some(cost))
}

/// Lets the workload stop its servers and remove what it made.
fn clean_up<W>(service: &Service<W>, one: &mut One) -> Result<(), Stop> {
    one.let_go();
    let until = Some(Instant::now() + PATIENCE);
    loop {
        match service.events.next(until) {
            // It takes too long: it is killed like everything else.
            None => return Ok(()),
            Some(Event::OneGone(number)) if number == one.number => return Ok(()),
            Some(Event::Said(ToWorker::End) | Event::Closed | Event::Signal) => {
                return Err(Stop::Quit(Quit::Orderly));
            }
            Some(Event::Said(ToWorker::Prepare(_))) => {
                return Err(out_of_turn("Prepare", "at the end of a job"));
            }
            Some(Event::Garbage(error)) => return Err(Stop::Quit(Quit::Error(error))),
            // It has ended by itself a moment before.
            Some(Event::Said(ToWorker::Cancel | ToWorker::Go)) => {}
            Some(Event::One(..) | Event::OneGone(_)) => {}
        }
    }
}

fn hashes<W>(
    service: &mut Service<W>,
    programs: &[PathBuf],
) -> Result<BTreeMap<String, String>, Fault> {
    let hash = |path: &PathBuf| {
        let name = path.display().to_string();
        let hash = service.hashes.of(path);
        let hash = hash.map_err(|error| Fault::failed(format!("cannot read {name}: {error}")))?;
        Ok((name, hash))
    };
    programs.iter().map(hash).collect()
}
