//! Cache states of real files on a real disk.

use super::client::{Worker, job, on_disk, with_cache};
use std::{
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};
use transect_bench_core::{CacheProof, CacheState, Fault, Job, Kind, protocol::Param};
use transect_bench_worker::caches::{Caches, Read};

/// `TMPFS_MAGIC`.
const TMPFS: i64 = 0x0102_1994;

fn is_tmpfs(path: &str) -> bool {
    rustix::fs::statfs(path).is_ok_and(|fs| fs.f_type == TMPFS)
}

/// Cold caches can be proved here: a disk below, and its reads are counted.
fn skipped() -> bool {
    let folder = on_disk();
    let why = if is_tmpfs(folder.path().to_str().unwrap()) {
        "the target folder is a tmpfs"
    } else if !std::fs::read_dir("/sys/block").is_ok_and(|mut all| all.next().is_some()) {
        "there is no block device"
    } else {
        return false;
    };
    eprintln!("skipped: {why}");
    true
}

/// One at a time: making a cache cold drops everybody's.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a job until its cache is what was asked for: another program may read or drop files meanwhile, which is refused
/// rightly, but not every time.
fn proved(worker: &mut Worker, job: &Job) -> Result<CacheProof, Fault> {
    for _ in 0..5 {
        match worker.run(job.clone()) {
            Ok(result) => return Ok(result.cache),
            Err(Fault::Refused(refusal)) if refusal.kind == Kind::UnverifiedCache => {
                eprintln!("again: {refusal}");
            }
            Err(fault) => return Err(fault),
        }
    }
    worker.run(job.clone()).map(|result| result.cache)
}

#[test]
fn cold_is_read_from_the_disk_and_hot_is_not() {
    if skipped() {
        return;
    }
    let _alone = alone();
    let mut worker = Worker::start();
    let params = [("files", Param::Int(300))];
    for workload in ["tar-create", "tar-extract"] {
        let cold =
            proved(&mut worker, &with_cache(CacheState::Cold, job(workload, &params))).unwrap();
        assert_eq!(cold.verified, Some(true), "{cold:?}");
        assert!(cold.file_bytes > 2_000_000, "{cold:?}");
        assert!(cold.resident_before_bytes.unwrap() * 50 < cold.file_bytes, "{cold:?}");
        assert!(cold.read_bytes.unwrap() > cold.file_bytes / 10 * 8, "{cold:?}");
        assert!(cold.why.contains(" read "), "{cold:?}");

        let hot =
            proved(&mut worker, &with_cache(CacheState::Hot, job(workload, &params))).unwrap();
        assert_eq!(hot.verified, Some(true), "{hot:?}");
        assert!(hot.resident_before_bytes.unwrap() * 100 >= hot.file_bytes * 99, "{hot:?}");

        let any = worker.run(job(workload, &params)).unwrap().cache;
        assert_eq!(any.verified, None, "{any:?}");
    }
}

/// A file that is cold before the run, and that the run does not read: the state is refused afterwards.
#[test]
fn a_run_that_reads_nothing_is_no_cold_run() {
    if skipped() {
        return;
    }
    let _alone = alone();
    let folder = on_disk();
    let file = folder.path().join("file");
    std::fs::write(&file, vec![7; 4 << 20]).unwrap();
    let caches = Caches::bring(CacheState::Cold, vec![file.clone()], &[], folder.path()).unwrap();
    let proof = caches.before().unwrap();
    let nothing = Read { machine_bytes: Some(1 << 30), own_bytes: Some(0) };
    let refused = |fault: Fault| match fault {
        Fault::Refused(refusal) => assert_eq!(refusal.kind, Kind::UnverifiedCache, "{refusal}"),
        other => panic!("{other}"),
    };
    refused(caches.after(proof.clone(), &nothing).unwrap_err());
    let unknown = Read { machine_bytes: None, own_bytes: None };
    refused(caches.after(proof.clone(), &unknown).unwrap_err());
    let all = Read { machine_bytes: None, own_bytes: Some(4 << 20) };
    assert_eq!(caches.after(proof, &all).unwrap().verified, Some(true));
    // Somebody reads it in between: it is not cold any more.
    std::fs::read(&file).unwrap();
    refused(caches.before().unwrap_err());
    // Of a hot one nothing may be read.
    let caches = Caches::bring(CacheState::Hot, vec![file.clone()], &[], folder.path()).unwrap();
    let proof = caches.before().unwrap();
    assert_eq!(caches.after(proof.clone(), &nothing).unwrap().verified, Some(true));
    refused(caches.after(proof.clone(), &all).unwrap_err());
    // What goes before the run is read again.
    let opened = std::fs::File::open(&file).unwrap();
    rustix::fs::fsync(&opened).unwrap();
    rustix::fs::fadvise(&opened, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let again = caches.before().unwrap();
    assert!(again.resident_before_bytes.unwrap() * 100 >= again.file_bytes * 99, "{again:?}");
    assert!(Caches::bring(CacheState::Cold, vec![], &[], folder.path()).is_err());
}

#[test]
fn a_compiler_reads_all_of_a_cold_tree() {
    if skipped() {
        return;
    }
    let _alone = alone();
    let mut worker = Worker::start();
    let params = [("units", Param::Int(4)), ("jobs", Param::Int(2))];
    match proved(&mut worker, &with_cache(CacheState::Cold, job("compile", &params))) {
        Ok(proof) => assert_eq!(proof.verified, Some(true), "{proof:?}"),
        Err(Fault::Refused(refusal)) if refusal.kind == Kind::Missing => {
            eprintln!("skipped: {refusal}");
        }
        Err(fault) => panic!("{fault}"),
    }
}

#[test]
fn on_a_file_system_of_memory_nothing_can_be_cold() {
    if !is_tmpfs("/dev/shm") {
        eprintln!("skipped: /dev/shm is no tmpfs");
        return;
    }
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut worker = Worker::start_in(folder);
    let params = [("files", Param::Int(20))];
    for cache in [CacheState::Cold, CacheState::Displaced] {
        match worker.run(with_cache(cache, job("tar-create", &params))).unwrap_err() {
            Fault::Refused(refusal) => {
                assert_eq!(refusal.kind, Kind::UnverifiedCache, "{refusal}");
                assert!(refusal.why.contains("memory"), "{refusal}");
            }
            other => panic!("{other}"),
        }
    }
    // Hot it always is.
    let hot = worker.run(with_cache(CacheState::Hot, job("tar-create", &params))).unwrap().cache;
    assert_eq!(hot.verified, Some(true), "{hot:?}");
}

/// A control group with little memory, of either version. Removed when dropped.
struct Group(PathBuf);

impl Group {
    fn new(bytes: u64) -> Option<Self> {
        let name = format!("transect-bench-test-{}", std::process::id());
        let versions =
            [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        versions.into_iter().find_map(|(root, limit)| {
            let path = Path::new(root).join(&name);
            std::fs::create_dir(&path).ok()?;
            let group = Self(path);
            std::fs::write(group.0.join(limit), bytes.to_string()).ok()?;
            Some(group)
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_filler_displaces_what_was_cached() {
    if skipped() {
        return;
    }
    let _alone = alone();
    let limit = 256 << 20;
    let Some(group) = Group::new(limit) else {
        eprintln!("skipped: no control group can limit memory here");
        return;
    };
    let folder = on_disk();
    let kept = folder.path().join("keep");
    let inside = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", group.0.display());
    let worker = Worker::command(folder.path());
    let mut command = std::process::Command::new("/bin/sh");
    command.args(["-c", &inside, "sh"]).arg(worker.get_program()).args(worker.get_args());
    let mut worker = Worker::by(&mut command, folder);
    assert_eq!(worker.facts.memory_bytes, limit);
    let params = [("files", Param::Int(300))];
    let displaced = with_cache(CacheState::Displaced, job("tar-create", &params));
    let cache = proved(&mut worker, &displaced).unwrap();
    assert_eq!(cache.verified, Some(true), "{cache:?}");
    assert!(cache.why.contains("filler"), "{cache:?}");
    assert!(cache.read_bytes.unwrap() > cache.file_bytes / 10 * 8, "{cache:?}");

    // What is kept for the next machine's runs was read by the last one's, and stays on its account.
    let compress = job("compress/zstd", &[("mib", Param::Int(8))]);
    let displaced = with_cache(CacheState::Displaced, compress);
    match proved(&mut worker, &displaced) {
        Ok(_) => {}
        Err(Fault::Refused(refusal)) if refusal.kind == Kind::Missing => {
            return eprintln!("skipped: {refusal}");
        }
        Err(fault) => panic!("{fault}"),
    }
    let file = kept.join("text-1-8/text");
    let open = std::fs::File::open(&file).unwrap();
    rustix::fs::fadvise(&open, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    for _ in 0..2 {
        std::fs::read(&file).unwrap();
    }
    let cache = proved(&mut worker, &displaced).unwrap();
    assert_eq!(cache.verified, Some(true), "{cache:?}");
}
