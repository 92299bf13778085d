//! However a job or the worker ends, nothing is left.

use super::client::{Worker, job, left_over};
use procfs::process::Process;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    collections::BTreeMap,
    io::Read,
    os::unix::process::ExitStatusExt,
    time::{Duration, Instant},
};
use transect_bench_core::{
    Fault, Job,
    protocol::{Param, Role, ToWorker},
};

/// Processes below one, as `/proc` has them.
fn below(root: u32) -> Vec<u32> {
    let mut parents = BTreeMap::new();
    for process in procfs::process::all_processes().unwrap().flatten() {
        let Ok(stat) = process.stat() else { continue };
        if stat.state != 'Z' {
            parents.insert(stat.pid.cast_unsigned(), stat.ppid.cast_unsigned());
        }
    }
    let is_below = |mut pid: u32| {
        while let Some(parent) = parents.get(&pid) {
            if *parent == root {
                return true;
            }
            pid = *parent;
        }
        false
    };
    parents.keys().copied().filter(|pid| is_below(*pid)).collect()
}

fn is_there(pid: u32) -> bool {
    let stat = Process::new(pid.cast_signed()).and_then(|process| process.stat());
    stat.is_ok_and(|stat| stat.state != 'Z')
}

/// Waits for something that has to come true soon.
fn soon(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A worker in the middle of a job that has processes of its own, and all of these.
fn busy() -> (Worker, Vec<u32>) {
    let mut worker = Worker::start();
    let params = [("processes", Param::Int(20)), ("seconds", Param::Float(30.0))];
    worker.prepare(job("proc-walk", &params)).unwrap();
    worker.tell(&ToWorker::Go);
    let all = below(worker.child.id());
    // The worker proper, the job's process, and its sleepers.
    assert!(all.len() >= 22, "{all:?}");
    (worker, all)
}

fn kill(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

fn all_gone(pids: &[u32]) {
    soon("something is left", || !pids.iter().any(|pid| is_there(*pid)));
}

#[test]
fn killed_by_force_it_leaves_no_process() {
    let (mut worker, all) = busy();
    worker.child.kill().unwrap();
    all_gone(&all);
    let folder = worker.folder.path().to_owned();
    soon("a folder is left", || left_over(&folder).is_empty());
}

#[test]
fn its_inner_process_killed_by_force_it_leaves_no_process() {
    let (mut worker, all) = busy();
    let keeper = Process::new(worker.child.id().cast_signed()).unwrap();
    let Ok(inner) = keeper.task_main_thread().unwrap().children() else {
        eprintln!("skipped: this kernel does not list children");
        return;
    };
    kill(inner[0], Signal::KILL);
    all_gone(&all);
    assert_eq!(worker.child.wait().unwrap().code(), Some(1));
    let mut said = String::new();
    worker.stderr().read_to_string(&mut said).unwrap();
    assert!(said.contains("it was killed"), "{said}");
}

#[test]
fn asked_to_end_it_cleans_up() {
    for how in ["SIGTERM", "the end of its input", "End"] {
        let (mut worker, all) = busy();
        match how {
            "SIGTERM" => kill(worker.child.id(), Signal::TERM),
            "End" => worker.tell(&ToWorker::End),
            _ => worker.hang_up(),
        }
        let status = worker.child.wait().unwrap();
        assert_eq!((status.code(), status.signal()), (Some(0), None), "{how}");
        all_gone(&all);
        assert!(worker.left_over().is_empty(), "{how}: {:?}", worker.left_over());
    }
}

#[test]
fn what_takes_too_long_is_ended_with_everything_below_it() {
    let mut worker = Worker::start();
    let params = [("processes", Param::Int(20)), ("seconds", Param::Float(60.0))];
    // The preparation has so long too.
    let slow = Job { limit_s: 4, ..job("proc-walk", &params) };
    worker.prepare(slow).unwrap();
    let during = below(worker.child.id());
    worker.tell(&ToWorker::Go);
    let from = Instant::now();
    let fault = worker.result().unwrap_err();
    assert!(
        matches!(&fault, Fault::Failed(why) if why.contains("exceeded its time limit")),
        "{fault}"
    );
    assert!(from.elapsed() < Duration::from_secs(30), "{:?}", from.elapsed());
    let after = below(worker.child.id());
    assert_eq!(after.len(), 1, "only the worker proper is left of {during:?}: {after:?}");
    assert!(worker.left_over().is_empty());
    // And it goes on.
    worker.run(job("micro/syscall", &[("seconds", Param::Float(0.02))])).unwrap();
}

#[test]
fn a_job_whose_process_dies_has_failed_and_the_next_one_runs() {
    for when in ["as soon as it has begun", "as soon as it is to begin", "before it has begun"] {
        let mut worker = Worker::start();
        let bystander = Job { role: Role::Bystander, ..job("", &[]) };
        worker.prepare(bystander).unwrap();
        // The job's is the one that has none below it.
        let all = below(worker.child.id());
        let ones = *all.iter().find(|pid| below(**pid).is_empty()).unwrap();
        if when == "as soon as it has begun" {
            worker.tell(&ToWorker::Go);
        }
        kill(ones, Signal::KILL);
        if when == "before it has begun" {
            soon("it lives", || !is_there(ones));
        }
        if when != "as soon as it has begun" {
            worker.tell(&ToWorker::Go);
        }
        let fault = worker.result().unwrap_err();
        let told = matches!(&fault, Fault::Failed(why) if why.contains("signal: 9"));
        assert!(told, "{when}: {fault}");
        worker.run(job("micro/syscall", &[("seconds", Param::Float(0.02))])).unwrap();
    }
}

#[test]
fn nonsense_is_one_clear_error() {
    for (nonsense, says) in [
        ("hello\n", "line 1"),
        ("{\"prepare\": 3}\n", "line 1"),
        ("\n", "line 1"),
        ("\u{fffd}\0\n", "line 1"),
        ("\"go\"\n", "Go is out of order without a job"),
    ] {
        let mut worker = Worker::start();
        worker.tell_raw(nonsense);
        let code = worker.child.wait().unwrap().code();
        let mut said = String::new();
        worker.stderr().read_to_string(&mut said).unwrap();
        assert_eq!(code, Some(2), "{nonsense:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{nonsense:?}: {said}");
        assert!(said.contains(says), "{nonsense:?}: {said}");
    }
    // In the middle of a job too, which then leaves nothing.
    let (mut worker, all) = busy();
    worker.tell_raw("nonsense\n");
    assert_eq!(worker.child.wait().unwrap().code(), Some(2));
    all_gone(&all);
    assert!(worker.left_over().is_empty());
}

#[test]
fn it_says_who_it_is() {
    let worker = Worker::start();
    let facts = &worker.facts;
    assert_eq!(facts.protocol, transect_bench_core::protocol::PROTOCOL);
    assert_eq!(facts.binary_sha256.len(), 64);
    assert!(facts.kernel.starts_with("Linux "), "{}", facts.kernel);
    assert!(!facts.cpus.is_empty());
    assert!(facts.memory_bytes > 16 << 20, "{}", facts.memory_bytes);
    assert!(facts.notes.contains_key("governor"), "{:?}", facts.notes);
}
