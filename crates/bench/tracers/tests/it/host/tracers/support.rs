//! What the tests of the tracer arms share: one at a time, a load that is counted, and what must not be left behind.

use procfs::process::{FDTarget, Process, all_processes};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    os::fd::AsFd,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};
use transect_bench_core::{
    Fault, Job,
    protocol::{Param, TracerCost},
};
use transect_bench_tracers::{Scene, Tracer, Tracing, registry};

/// Calls of getpriority(2) that a load makes: one that hardly anything else does.
pub(crate) const CALLS: u64 = 20_000;
/// Bytes that two of its threads hand each other there and back.
pub(crate) const ROUNDS: u64 = 1_000;
/// Blocks that it allocates and frees.
pub(crate) const BLOCKS: u64 = 5_000;
/// The event of those calls and of nothing else.
pub(crate) const CALL_EVENT: &str = "syscalls:sys_enter_getpriority";
/// What other programs of the machine may add to them.
pub(crate) const STRANGERS: u64 = 500;

const SOON: Duration = Duration::from_secs(20);

/// Tracers use what a machine has once; other test processes may run too.
pub(crate) struct Alone(#[allow(dead_code, reason = "its lock is what counts")] File);

impl Alone {
    pub(crate) fn wait() -> Self {
        let file = File::create(env::temp_dir().join("transect-bench-tracers.lock")).unwrap();
        rustix::fs::flock(file.as_fd(), rustix::fs::FlockOperation::LockExclusive).unwrap();
        Self(file)
    }
}

/// The arm of this name.
pub(crate) fn arm(name: &str) -> &'static dyn Tracer {
    *registry().iter().find(|arm| arm.name() == name).unwrap()
}

/// A job for an arm with these parameters.
pub(crate) fn job(name: &str, params: &[(&str, Param)]) -> Job {
    let tracer_params: BTreeMap<_, _> =
        params.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    Job { tracer: name.to_owned(), tracer_params, ..Job::default() }
}

pub(crate) fn text(words: &str) -> Param {
    Param::Text(words.to_owned())
}

/// The project's own binary, where one has been built.
pub(crate) fn transect() -> Option<PathBuf> {
    let folders = [
        env::var_os("TRANSECT_BIN_DIR").map(|target| PathBuf::from(target).join("release")),
        // target/debug/deps/it-… → target/debug, target/release
        Some(env::current_exe().unwrap().ancestors().nth(2).unwrap().to_owned()),
        Some(env::current_exe().unwrap().ancestors().nth(3).unwrap().join("release")),
    ];
    folders.into_iter().flatten().map(|folder| folder.join("transect")).find(|path| path.exists())
}

/// Can the arm run here? If not, says why.
pub(crate) fn can_run(name: &str, job: &Job) -> bool {
    if name.starts_with("transect-") && transect().is_none() {
        eprintln!("skipped: {name}: no transect binary (build it, or set TRANSECT_BIN_DIR)");
        return false;
    }
    match arm(name).can_run(job) {
        Ok(()) => true,
        Err(refusal) => {
            eprintln!("skipped: {refusal}");
            false
        }
    }
}

/// One run of an arm around a load, and the kernel as it was before.
pub(crate) fn trace(name: &str, params: &[(&str, Param)], calls: u64) -> Option<TracerCost> {
    let job = job(name, params);
    with(name, &job, |scene, load| trace_in(name, scene, load, calls, Load::run))
}

/// The same, and nobody collects while the load makes its calls: whoever wants to needs the CPU that it does not let
/// go of. A collector of its own CPU may be as fast as the load, and lose nothing.
pub(crate) fn trace_unread(name: &str, params: &[(&str, Param)], calls: u64) -> Option<TracerCost> {
    let _one = OneCpu::take();
    let job = job(name, params);
    with(name, &job, |scene, load| trace_in(name, scene, load, calls, Load::run_before_all))
}

/// The same, and the load makes its calls again and again until something holds of the arm's folder.
pub(crate) fn trace_until(
    name: &str,
    params: &[(&str, Param)],
    mut holds: impl FnMut(&Path) -> bool,
) -> Option<TracerCost> {
    let job = job(name, params);
    let mut again = |scene: &Scene<'_>, load: &mut Load, calls| {
        let started = Instant::now();
        while !holds(scene.folder) {
            assert!(started.elapsed() < SOON, "{name}: it does not come to hold");
            load.run(calls);
        }
    };
    with(name, &job, |scene, load| {
        trace_in(name, scene, load, CALLS, |load, calls| again(scene, load, calls))
    })
}

fn trace_in(
    name: &str,
    scene: &Scene<'_>,
    load: &mut Load,
    calls: u64,
    run: impl FnOnce(&mut Load, u64),
) -> TracerCost {
    let tracing = arm(name).start(scene).unwrap_or_else(|fault| panic!("{name}: {fault}"));
    run(load, calls);
    let cost = tracing.stop().unwrap_or_else(|fault| panic!("{name}: {fault}"));
    eprintln!("{name}: {cost:?}");
    cost
}

/// This thread, and every thread and process it starts, on the first CPU it may use.
struct OneCpu {
    before: CpuSet,
}

impl OneCpu {
    fn take() -> Self {
        let before = sched_getaffinity(None).unwrap();
        let first = (0..CpuSet::MAX_CPU).find(|&cpu| before.is_set(cpu)).unwrap();
        let mut one = CpuSet::new();
        one.set(first);
        sched_setaffinity(None, &one).unwrap();
        Self { before }
    }
}

impl Drop for OneCpu {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.before);
    }
}

/// Started, and then dropped: by a worker that gives up.
pub(crate) fn drop_it(name: &str) -> Option<()> {
    let job = job(name, &[]);
    with(name, &job, |scene, load| {
        let tracing: Result<Box<dyn Tracing>, Fault> = arm(name).start(scene);
        drop(tracing.unwrap_or_else(|fault| panic!("{name}: {fault}")));
        load.run(10);
    })
}

fn with<T>(name: &str, job: &Job, body: impl FnOnce(&Scene<'_>, &mut Load) -> T) -> Option<T> {
    let _alone = Alone::wait();
    if !can_run(name, job) {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let before = Kernel::look();
    let mut load = Load::start(&arm(name).environment(job).unwrap());
    let transect = transect().unwrap_or_default();
    let scene = Scene { job, folder: folder.path(), pid: load.pid(), transect: &transect };
    let result = body(&scene, &mut load);
    load.end();
    before.expect_unchanged(name);
    expect_nobody_in(folder.path(), name);
    Some(result)
}

/// What the load does when told: see `the_load` in `tracers.rs`.
pub(crate) fn be_the_load() {
    let mut lines = std::io::stdin().lock().lines();
    while let Some(Ok(line)) = lines.next() {
        let calls: u64 = line.parse().unwrap();
        for _ in 0..calls {
            let _ = rustix::process::getpriority_process(None);
        }
        if calls >= CALLS {
            ping_pong();
            (0..BLOCKS).for_each(|_| drop(std::hint::black_box(vec![1_u8; 3000])));
        }
        // Past the test harness, which would keep it.
        let mut out = File::options().write(true).open("/proc/self/fd/2").unwrap();
        out.write_all(b"done\n").unwrap();
    }
}

fn ping_pong() {
    let (there_out, there_in) = rustix::pipe::pipe().unwrap();
    let (back_out, back_in) = rustix::pipe::pipe().unwrap();
    let other = thread::spawn(move || {
        for _ in 0..ROUNDS {
            let mut byte = [0];
            rustix::io::read(&there_out, &mut byte).unwrap();
            rustix::io::write(&back_in, &byte).unwrap();
        }
    });
    for _ in 0..ROUNDS {
        rustix::io::write(&there_in, &[1]).unwrap();
        rustix::io::read(&back_out, &mut [0]).unwrap();
    }
    other.join().unwrap();
}

/// The process of a workload.
pub(crate) struct Load {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<std::process::ChildStderr>,
    _out: ChildStdout,
}

impl Load {
    fn start(environment: &[(String, String)]) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args([
                "--ignored",
                "--exact",
                "host::tracers::the_load",
                "--nocapture",
                "--test-threads=1",
            ])
            .envs(environment.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, from) = (child.stdin.take(), BufReader::new(child.stderr.take().unwrap()));
        let mut load = Self { to, from, _out: child.stdout.take().unwrap(), child };
        // It is there when it has answered once.
        load.run(1);
        load
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn run(&mut self, calls: u64) {
        writeln!(self.to.as_mut().unwrap(), "{calls}").unwrap();
        let mut line = String::new();
        while line.trim() != "done" {
            line.clear();
            assert!(self.from.read_line(&mut line).unwrap() > 0, "the load has died");
        }
    }

    /// Before everything else that wants its CPU.
    fn run_before_all(&mut self, calls: u64) {
        let pid = self.pid().to_string();
        let chrt = ["--all-tasks", "--fifo", "--pid", "1", &pid];
        let output = Command::new("chrt").args(chrt).output().unwrap();
        assert!(output.status.success(), "chrt: {}", String::from_utf8_lossy(&output.stderr));
        self.run(calls);
    }

    fn end(&mut self) {
        drop(self.to.take());
        let mut rest = Vec::new();
        self.from.read_to_end(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success(), "{}", String::from_utf8_lossy(&rest));
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What belongs to everybody in the kernel's tracing.
#[derive(Debug, PartialEq)]
struct Kernel {
    files: BTreeMap<&'static str, String>,
    instances: BTreeSet<String>,
}

impl Kernel {
    fn look() -> Self {
        let Ok(tracefs) = transect_tracefs::Tracefs::find() else {
            return Self { files: BTreeMap::new(), instances: BTreeSet::new() };
        };
        let names = ["tracing_on", "set_event", "current_tracer", "trace_clock", "buffer_size_kb"];
        let files = names.map(|name| (name, tracefs.read(name).unwrap()));
        let instances = fs::read_dir(tracefs.path("instances")).unwrap().flatten();
        let names = instances.map(|entry| entry.file_name().into_string().unwrap());
        Self { files: files.into(), instances: names.collect() }
    }

    /// Instances of processes that live are other tests'.
    fn expect_unchanged(&self, name: &str) {
        let after = Self::look();
        assert_eq!(after.files, self.files, "{name}");
        let lives = |instance: &str| {
            let mut parts = instance.rsplit('-');
            let (start, pid) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            let pid: i32 = pid.parse().unwrap_or(0);
            let key = transect_tracefs::ProcessKey::of(pid);
            let ours = u32::try_from(pid) == Ok(std::process::id());
            !ours && key.is_some_and(|key| key.start_ticks.to_string() == start)
        };
        let new: Vec<_> =
            after.instances.difference(&self.instances).filter(|name| !lives(name)).collect();
        assert!(new.is_empty(), "{name} left tracing instances: {new:?}");
    }
}

/// Every process of an arm writes what it says into the arm's folder: is one of them left? BPF programs, perf's events
/// and ptrace go with their processes.
fn expect_nobody_in(folder: &Path, name: &str) {
    let started = Instant::now();
    loop {
        let left = processes_in(folder);
        if left.is_empty() {
            return;
        }
        assert!(started.elapsed() < SOON, "{name} left processes: {left:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn processes_in(folder: &Path) -> Vec<String> {
    let uses = |process: &Process| {
        let mut fds = process.fd().into_iter().flatten().flatten();
        fds.any(|fd| matches!(fd.target, FDTarget::Path(to) if to.starts_with(folder)))
    };
    let describe = |process: Process| process.cmdline().unwrap_or_default().join(" ");
    all_processes().unwrap().flatten().filter(uses).map(describe).collect()
}
