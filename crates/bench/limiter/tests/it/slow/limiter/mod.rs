//! The limiter of real loads on this machine, each made so that it has one limiter.
//!
//! The loads run with the highest priority that is allowed, so that a busy machine does not make its own limiter; where
//! others took CPU time from them all the same, a test says so and passes.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests: a failed expectation is the report, and what is skipped is printed"
)]

mod child;
mod load;
#[path = "../../../../../workloads/src/net/stops.rs"]
mod stops;

use child::{Load, Pace, expect, expect_of, seen};
use std::{
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use transect_bench_core::{Better, Fault, Lever};
use transect_bench_limiter::{
    LimiterKind as Kind, RunFacts, Scene,
    perturb::{Applied, Target, Verdict, apply, elasticity, plan},
    suspect,
};

/// No test: the other side of all of them. Without the variable there is nothing to do.
#[test]
fn load_of_a_test() {
    if let Ok(spec) = std::env::var(load::VARIABLE) {
        load::run(&spec);
    }
}

/// One load at a time: two would be each other's limiter.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn cpus() -> usize {
    rustix::thread::sched_getaffinity(None).unwrap().count().try_into().unwrap()
}

/// Pulls a lever, or says why not.
fn pull(lever: &Lever, load: &Load) -> Option<Applied> {
    let target = Target { pids: vec![load.pid()], ..Target::default() };
    match apply(lever, &target) {
        Ok(applied) => Some(applied),
        Err(Fault::Refused(refusal)) => {
            println!("skipped: {refusal}");
            None
        }
        Err(Fault::Failed(why)) if why.contains("denied") || why.contains("permitted") => {
            println!("skipped: {why}");
            None
        }
        Err(fault) => panic!("{fault}"),
    }
}

/// A folder on a disk, or a reason: a temporary file system has no disk below it.
fn disk_folder() -> Result<tempfile::TempDir, String> {
    let base = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = tempfile::tempdir_in(base).map_err(|error| error.to_string())?;
    let before = std::fs::read_to_string("/proc/diskstats").map_err(|error| error.to_string())?;
    let file =
        std::fs::File::create(folder.path().join("probe")).map_err(|error| error.to_string())?;
    std::os::unix::fs::FileExt::write_all_at(&file, &[1; 8192], 0)
        .map_err(|error| error.to_string())?;
    file.sync_all().map_err(|error| error.to_string())?;
    // What others have yet to write, or to discard, is not to come in the load's time.
    rustix::fs::syncfs(&file).map_err(|error| error.to_string())?;
    match std::fs::read_to_string("/proc/diskstats") {
        Ok(after) if after != before => Ok(folder),
        _ => Err(format!("no block device is below {}", base.display())),
    }
}

/// A file with contents, written out, not in the page cache.
fn file_of(folder: &Path, mebibytes: usize) -> PathBuf {
    let path = folder.join("data");
    let mut file = std::fs::File::create(&path).unwrap();
    let block: Vec<u8> = (0..1 << 20).map(|index: u32| index.to_le_bytes()[1]).collect();
    for _ in 0..mebibytes {
        std::io::Write::write_all(&mut file, &block).unwrap();
    }
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    path
}

/// The disk that a folder is on.
fn disk_of(folder: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let device = std::fs::metadata(folder).unwrap().dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let link = std::fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    let whole = if link.join("partition").exists() { link.parent()?.to_owned() } else { link };
    Some(whole.file_name()?.to_str()?.to_owned())
}

#[test]
fn one_thread_that_spins() {
    let _alone = alone();
    if cpus() < 2 {
        println!("skipped: on one CPU one thread is all there is");
        return;
    }
    expect_of("spin 1", &[Kind::SingleThread]);
}

#[test]
fn threads_on_all_cpus() {
    let _alone = alone();
    expect_of(&format!("spin {}", cpus().max(2)), &[Kind::AllCpus]);
}

#[test]
fn one_short_process_after_the_other() {
    let _alone = alone();
    if cpus() < 2 {
        println!("skipped: on one CPU one process is all there is");
        return;
    }
    expect_of("chain", &[Kind::SingleThread]);
}

#[test]
fn a_quota() {
    let _alone = alone();
    let mut load = Load::new("spin 1");
    let Some(applied) = pull(&Lever::CpuQuota { from: 1.0, to: 0.3 }, &load) else { return };
    load.go();
    std::thread::sleep(Duration::from_millis(150));
    let found = expect("quota", &[Kind::CpuQuota], || seen(load.sample(1200)));
    if let Some(limiter) = found {
        assert!(limiter.evidence.contains("0.30 CPUs"), "{}", limiter.evidence);
    }
    drop(load);
    applied.restore().unwrap();
}

#[test]
fn two_on_one_cpu_and_who_it_was() {
    let _alone = alone();
    if cpus() < 2 {
        println!("skipped: on one CPU everything competes");
        return;
    }
    let mut culprit = Load::on("culprit", Some(1));
    let mut victim = Load::on("spin 1", Some(1));
    culprit.go();
    victim.go();
    std::thread::sleep(Duration::from_millis(150));
    // Two scans of all threads are needed to know who ran.
    let found = expect("two on one CPU", &[Kind::RunQueue], || seen(victim.sample(1500)));
    if let Some(limiter) = found {
        assert!(limiter.evidence.contains("`culprit`"), "{}", limiter.evidence);
    }
}

#[test]
fn small_synchronous_writes() {
    let _alone = alone();
    let folder = match disk_folder() {
        Ok(folder) => folder,
        Err(why) => return println!("skipped: {why}"),
    };
    expect_of(&format!("fsync {}", folder.path().display()), &[Kind::DiskLatency]);
}

#[test]
fn large_reads_past_the_cache() {
    let _alone = alone();
    let folder = match disk_folder() {
        Ok(folder) => folder,
        Err(why) => return println!("skipped: {why}"),
    };
    let file = file_of(folder.path(), 128);
    expect_of(&format!("direct {}", file.display()), &[Kind::DiskBandwidth]);
}

#[test]
fn an_io_limit() {
    let _alone = alone();
    let folder = match disk_folder() {
        Ok(folder) => folder,
        Err(why) => return println!("skipped: {why}"),
    };
    let Some(name) = disk_of(folder.path()) else { return println!("skipped: no disk below") };
    let file = file_of(folder.path(), 64);
    let mut load = Load::new(&format!("direct {}", file.display()));
    let lever = Lever::Disk { name, bytes_per_s: Some(20_000_000), requests_per_s: None };
    let Some(applied) = pull(&lever, &load) else { return };
    load.go();
    std::thread::sleep(Duration::from_millis(300));
    expect("I/O limit", &[Kind::IoThrottled], || seen(load.sample(2000)));
    drop(load);
    applied.restore().unwrap();
}

/// Waits until the memory limit is reached, and most of what is read has been there before.
fn until_it_reads_again(load: &Load) {
    let started = Instant::now();
    loop {
        let samples = load.sample(200);
        let hits: u64 = samples.groups.iter().map(|group| group.memory_limit_hits).sum();
        let read: u64 = samples.disks.iter().map(|disk| disk.counts.read_bytes).sum();
        let again = samples.memory.counts.refaulted * 4096;
        if hits > 0 && again > 0 && again >= read / 2 {
            return;
        }
        assert!(
            started.elapsed().as_secs() < 120,
            "the limit was hit {hits} times, {again} bytes of {read} read again: {samples:#?}"
        );
    }
}

#[test]
fn a_working_set_that_does_not_fit() {
    let _alone = alone();
    let folder = match disk_folder() {
        Ok(folder) => folder,
        Err(why) => return println!("skipped: {why}"),
    };
    let file = file_of(folder.path(), 56);
    let mut load = Load::new(&format!("cached {}", file.display()));
    let Some(applied) = pull(&Lever::Memory { from: 1 << 30, to: 24 << 20 }, &load) else { return };
    load.go();
    until_it_reads_again(&load);
    expect("memory", &[Kind::Memory], || seen(load.sample(1500)));
    drop(load);
    applied.restore().unwrap();
}

#[test]
fn sleeping() {
    let _alone = alone();
    if let Some(limiter) = expect_of("sleep", &[Kind::Latency]) {
        assert!(limiter.evidence.contains("timer"), "{}", limiter.evidence);
    }
}

#[test]
fn tcp_over_loopback_is_cpu() {
    let _alone = alone();
    expect_of("tcp", &[Kind::SingleThread, Kind::AllCpus]);
}

#[test]
fn small_datagrams() {
    let _alone = alone();
    expect_of("udp", &[Kind::PacketRate]);
}

#[test]
fn a_listen_queue_that_overflows() {
    let _alone = alone();
    let mut load = Load::new("listen");
    load.go();
    expect("listen queue", &[Kind::ListenQueue], || seen(load.sample(2500)));
}

#[test]
fn a_convoy_at_a_lock() {
    let _alone = alone();
    expect_of("lock", &[Kind::Lock]);
}

#[test]
fn a_generator_that_is_the_limit() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let port_file = folder.path().join("port");
    let mut server = Load::new(&format!("echo {}", port_file.display()));
    server.go();
    let started = Instant::now();
    let port = loop {
        match std::fs::read_to_string(&port_file) {
            Ok(port) => break port,
            Err(error) => assert!(started.elapsed().as_secs() < 20, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let mut client = Load::new(&format!("ask {port}"));
    client.go();
    std::thread::sleep(Duration::from_millis(150));
    let both = || {
        let (here, there) = (server.sampler(), client.sampler());
        here.begin().unwrap();
        there.begin().unwrap();
        std::thread::sleep(Duration::from_millis(1200));
        (here.finish().unwrap(), there.finish().unwrap())
    };
    expect("generator", &[Kind::Generator], || {
        let (machine, generator) = both();
        let facts = RunFacts::default();
        let scene =
            Scene { machine: &machine, host: None, generator: Some(&generator), facts: &facts };
        let limiter = suspect(&scene);
        (generator, limiter)
    });
    // Without looking at the generator the server seems to wait for nothing.
    expect("its server", &[Kind::Latency], || seen(both().0));
}

#[test]
fn halving_the_cpu_of_a_spinner_confirms_it() {
    let _alone = alone();
    let mut load = Load::new("count");
    load.go();
    std::thread::sleep(Duration::from_millis(200));
    let mut last = transect_bench_core::samples::Samples::default();
    let found = expect("counter", &[Kind::SingleThread], || {
        last = load.sample(800);
        seen(last.clone())
    });
    let (Some(limiter), samples) = (found, last) else { return };
    let target = Target { pids: vec![load.pid()], ..Target::default() };
    let lever = match plan(&limiter, &samples, &target) {
        Ok(lever) => lever,
        Err(refusal) => return println!("skipped: {refusal}"),
    };
    let used = samples.watched.as_ref().unwrap().cpu_ns as f64 / samples.wall_ns as f64;
    for _ in 0..3 {
        let before = paces(&load);
        let Some(applied) = pull(&lever, &load) else { return };
        std::thread::sleep(Duration::from_millis(100));
        let after = paces(&load);
        applied.restore().unwrap();
        expect_put_back(&load, &after);
        let rates = |paces: &[Pace]| paces.iter().map(|pace| pace.rate).collect::<Vec<_>>();
        let (all, halved) = (rates(&before), rates(&after));
        let found = elasticity(&all, &halved, Better::More, lever.factor()).unwrap();
        println!("{found:?}; {before:.2?}, {after:.2?}");
        let differs = |one: f64, other: f64| one < 0.8 * other || one > 1.25 * other;
        let is_noisy = all.iter().any(|rate| differs(*rate, all[0]))
            || before.iter().chain(&after).any(|pace| differs(pace.speed, before[0].speed))
            || before.iter().any(|pace| pace.cpus < 0.8 * used);
        if !is_noisy {
            assert_ne!(found.verdict, Verdict::Refuted, "{found:?}");
            assert!(found.value > 0.5, "{found:?}");
            return;
        }
    }
    println!("skipped: each time the machine's own speed changed, or others ran");
}

fn paces(load: &Load) -> Vec<Pace> {
    (0..4).map(|_| load.pace(Duration::from_millis(300))).collect()
}

/// It has its CPU again, or soon will. The CPU may have become slower meanwhile.
fn expect_put_back(load: &Load, halved: &[Pace]) {
    let had = halved.iter().map(|pace| pace.cpus).sum::<f64>() / halved.len() as f64;
    let started = Instant::now();
    loop {
        let again = load.pace(Duration::from_millis(300));
        if again.cpus > 1.3 * had {
            return;
        }
        assert!(started.elapsed().as_secs() < 20, "not put back: {again:?} after {halved:?}");
    }
}

#[test]
fn affinity_is_halved_and_put_back() {
    let _alone = alone();
    if cpus() < 2 {
        println!("skipped: one CPU has no half");
        return;
    }
    let mut load = Load::new("spin 2");
    load.go();
    std::thread::sleep(Duration::from_millis(100));
    let allowed = || {
        let text = std::fs::read(format!("/proc/{}/status", load.pid())).unwrap();
        transect_bench_limiter::sampling::parse::status_cpus(&text)
    };
    let from = allowed();
    let to: Vec<_> = from.iter().copied().take(from.len() / 2).collect();
    let lever = Lever::Affinity { from: from.clone(), to: to.clone() };
    let applied = pull(&lever, &load).unwrap();
    assert_eq!(allowed(), to);
    applied.restore().unwrap();
    assert_eq!(allowed(), from);
}
