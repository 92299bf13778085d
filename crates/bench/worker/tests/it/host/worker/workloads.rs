//! Every workload once, small.

use super::client::{Worker, job, value};
use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use transect_bench_core::{
    About, Fault, Job, Kind, RunResult, Unit,
    protocol::{Param, Role, ToWorker},
};
use transect_bench_workloads::{MeasuredBy, registry};

/// What makes a run of it short.
fn small(name: &str) -> Vec<(&'static str, Param)> {
    let int = Param::Int;
    match name {
        "micro/file-reread" | "micro/mmap-reread" | "micro/memory-read" | "micro/memory-write" => {
            vec![("seconds", Param::Float(0.02)), ("batches", int(5)), ("mib", int(4))]
        }
        name if name.starts_with("micro/") || name.starts_with("tracer-cost/") => {
            vec![("seconds", Param::Float(0.05)), ("batches", int(10))]
        }
        "exit-cost" => vec![("seconds", Param::Float(0.02)), ("batches", int(5))],
        "proc-walk" => {
            vec![("seconds", Param::Float(0.02)), ("batches", int(5)), ("processes", int(3))]
        }
        "compile" => vec![("units", int(2)), ("jobs", int(2))],
        "tar-create" | "tar-extract" => vec![("files", int(60))],
        "compress/bzip2" | "compress/zstd" => vec![("mib", int(1)), ("level", int(1))],
        "dbench" => vec![("seconds", int(2))],
        "sysbench-cpu" => vec![("prime", int(1000))],
        "fio" => vec![("mib", int(4)), ("seconds", Param::Float(0.1))],
        "cyclictest" => vec![("loops", int(50))],
        _ => vec![],
    }
}

fn whole() -> impl Iterator<Item = About> {
    let by_itself = registry().iter().filter(|one| one.measured_by() == MeasuredBy::Workload);
    by_itself.map(|workload| workload.about()).filter(|about| !about.is_distributed)
}

/// Refused for a reason of this machine, and not because the plan is wrong.
fn is_skipped(name: &str, fault: &Fault) -> bool {
    let Fault::Refused(refusal) = fault else { return false };
    let is_here = matches!(refusal.kind, Kind::Missing | Kind::NotHere | Kind::Senseless);
    if is_here {
        eprintln!("skipped: {name}: {refusal}");
    }
    is_here
}

fn check(about: &About, result: &RunResult) {
    let name = about.name;
    let first = &result.metrics[0];
    assert_eq!((first.name.as_str(), first.unit, first.better), about.metric, "{name}");
    assert!(first.value > 0.0, "{name}: {result:?}");
    for metric in &result.metrics {
        assert!(metric.value.is_finite(), "{name}: {metric:?}");
        assert!(metric.unit != Unit::Share || (0.0..=1.0).contains(&metric.value), "{name}");
        let Some(spread) = &metric.distribution else { continue };
        assert!(spread.samples > 0 && spread.min <= spread.mean && spread.mean <= spread.max);
        assert!(
            spread.quantiles.windows(2).all(|pair| pair[0].0 < pair[1].0),
            "{name}: {spread:?}"
        );
        assert!(
            spread.quantiles.windows(2).all(|pair| pair[0].1 <= pair[1].1),
            "{name}: {spread:?}"
        );
    }
    assert!(result.took_ns > 0 && result.started_realtime_ns > 0, "{name}");
    assert!(result.tracer.is_none(), "{name}");
    assert!(result.programs.values().all(|hash| hash.len() == 64), "{name}: {:?}", result.programs);
}

#[test]
fn every_workload_runs_and_what_it_costs_is_plausible() {
    let mut worker = Worker::start();
    let mut results = BTreeMap::new();
    for about in whole() {
        let params: Vec<_> = small(about.name);
        match worker.run(Job { seed: 7, ..job(about.name, &params) }) {
            Ok(result) => {
                check(&about, &result);
                results.insert(about.name, result);
            }
            Err(fault) => assert!(is_skipped(about.name, &fault), "{}: {fault}", about.name),
        }
        assert!(worker.left_over().is_empty(), "{}: {:?}", about.name, worker.left_over());
    }
    // What needs nothing that a machine might not have.
    assert!(results.len() >= 13, "{:?}", results.keys());
    // The quickest batch: on a busy machine the others say more of the machine.
    let time = |name| results[name].metrics[0].distribution.as_ref().unwrap().min;
    assert!(time("micro/fork") > 5.0 * time("micro/syscall"));
    let [fork, exec, sh] = in_turn(&mut worker, ["micro/fork", "micro/exec", "micro/sh"]);
    assert!(exec > fork && sh > exec, "{fork} {exec} {sh}");
    assert!(time("micro/context-switch") > time("micro/syscall"));
    assert!(time("tracer-cost/eventfd") > time("tracer-cost/getppid"));
    assert!(time("proc-walk") > 3.0 * time("micro/syscall"));
    assert!(value(&results["micro/memory-read"], "throughput") > 1e6);
}

/// The quickest batch of each, where they are less far apart than a CPU's speeds at different times.
fn in_turn<const N: usize>(worker: &mut Worker, names: [&str; N]) -> [f64; N] {
    let mut least = [f64::INFINITY; N];
    for _ in 0..3 {
        for (least, name) in least.iter_mut().zip(names) {
            let result = worker.run(job(name, &small(name))).unwrap();
            *least = least.min(result.metrics[0].distribution.as_ref().unwrap().min);
        }
    }
    least
}

#[test]
fn a_larger_ring_or_walk_is_seen() {
    let mut worker = Worker::start();
    let short = [("seconds", Param::Float(0.1)), ("batches", Param::Int(10))];
    let mut time = |workload: &str, name: &'static str, of: i64, what: &str| {
        let params = [&short[..], &[(name, Param::Int(of))]].concat();
        let result = worker.run(job(workload, &params)).unwrap();
        match what {
            "least" => result.metrics[0].distribution.as_ref().unwrap().min,
            what => value(&result, what),
        }
    };
    let (none, much) = (
        time("micro/context-switch", "kib", 0, "least"),
        time("micro/context-switch", "kib", 512, "least"),
    );
    assert!(much > none, "{none} {much}");
    let (few, many) = (
        time("proc-walk", "processes", 0, "processes"),
        time("proc-walk", "processes", 200, "processes"),
    );
    // Others come and go.
    assert!(many > few + 150.0, "{few} {many}");
}

#[test]
fn a_job_keeps_to_its_cpus() {
    let mut worker = Worker::start();
    let cpu = *worker.facts.cpus.last().unwrap();
    let one = Job { cpus: vec![cpu], ..job("micro/syscall", &small("micro/syscall")) };
    worker.run(one.clone()).unwrap();
    let Fault::Refused(refusal) = worker.run(Job { cpus: vec![cpu, 1000], ..one }).unwrap_err()
    else {
        panic!("a CPU that is not there")
    };
    assert_eq!(refusal.kind, Kind::NotHere);
}

#[test]
fn what_a_plan_asks_wrongly_is_refused_and_says_what_there_is() {
    let mut worker = Worker::start();
    let wrong = [
        (job("micro/pip", &[]), Kind::Plan, "micro/pipe"),
        (job("micro/pipe", &[("sekunds", Param::Int(1))]), Kind::Plan, "seconds"),
        (job("micro/pipe", &[("seconds", Param::Bool(true))]), Kind::Plan, "a number"),
        (job("micro/pipe", &[("batches", Param::Int(0))]), Kind::Plan, "from 1"),
        (Job { tracer: "nobody".into(), ..job("micro/pipe", &[]) }, Kind::Plan, "none"),
        (job("exit-cost", &[("exit", Param::Text("door".into()))]), Kind::Plan, "cpuid"),
        (
            Job { cache: transect_bench_core::CacheState::Cold, ..job("micro/syscall", &[]) },
            Kind::Senseless,
            "cache",
        ),
    ];
    for (job, kind, says) in wrong {
        let shown = format!("{job:?}");
        match worker.run(job).unwrap_err() {
            Fault::Refused(refusal) => {
                assert_eq!(refusal.kind, kind, "{shown}: {refusal}");
                assert!(refusal.to_string().contains(says), "{shown}: {refusal}");
            }
            other => panic!("{shown}: {other}"),
        }
    }
}

#[test]
fn a_bystander_waits_until_it_is_cancelled() {
    let mut worker = Worker::start();
    let bystander = Job { role: Role::Bystander, ..job("", &[]) };
    worker.prepare(bystander.clone()).unwrap();
    worker.tell(&ToWorker::Go);
    std::thread::sleep(Duration::from_millis(200));
    let cancelled = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    worker.tell(&ToWorker::Cancel);
    let result = worker.result().unwrap();
    assert!(result.metrics.is_empty());
    // However late it began, it did not end before it was told to. The clocks differ by less than the rest.
    let ended = Duration::from_nanos(result.started_realtime_ns + result.took_ns);
    assert!(ended + Duration::from_millis(20) >= cancelled, "{result:?}, {cancelled:?}");
    // Cancelled at once: it is still a run, and a short one.
    worker.prepare(bystander.clone()).unwrap();
    worker.tell(&ToWorker::Go);
    worker.tell(&ToWorker::Cancel);
    worker.result().unwrap();
    // Before Go there is nothing to end.
    worker.prepare(bystander).unwrap();
    worker.tell(&ToWorker::Cancel);
    assert!(matches!(worker.result().unwrap_err(), Fault::Failed(_)));
    worker.run(job("micro/syscall", &small("micro/syscall"))).unwrap();
}

#[test]
fn compiled_and_compressed_is_the_same_every_time() {
    let mut worker = Worker::start();
    let mut share = || {
        let run = worker.run(job("compress/zstd", &small("compress/zstd")));
        run.map(|result| value(&result, "compressed_share"))
    };
    match (share(), share()) {
        (Ok(one), Ok(other)) => {
            assert_eq!(one, other);
            // As sources of C, which zstd makes a third to a seventh of.
            assert!((0.1..0.5).contains(&one), "{one}");
        }
        (Err(fault), _) | (_, Err(fault)) => {
            assert!(is_skipped("compress/zstd", &fault), "{fault}")
        }
    }
}
