//! What the tests of `record` share: the binary, this machine's tracefs, scratch space, a workload.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "tests report by failing, and say what they skip"
)]

pub(crate) mod groups;

use procfs::process::{Process, Syscall};
use std::{
    ffi::OsStr,
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};
use transect_store::Recording;
use transect_tracedat::{Item, TraceDat};

/// No test waits longer for anything.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Is there a tracefs to record with? If not, says that the test is skipped.
pub(crate) fn can_record() -> bool {
    match transect_tracefs::Tracefs::find() {
        Ok(_) => true,
        Err(why) => {
            eprintln!("skipped: {why}");
            false
        }
    }
}

/// Can the compact collector run? If not, says that the test is skipped.
pub(crate) fn can_record_compact() -> bool {
    match transect_bpf::can_run() {
        Ok(_) => true,
        Err(why) => {
            eprintln!("skipped: {why}");
            false
        }
    }
}

/// BPF links that a process holds.
pub(crate) fn bpf_links(pid: i32) -> usize {
    let Ok(fds) = fs::read_dir(format!("/proc/{pid}/fdinfo")) else { return 0 };
    let is_link = |fd: &fs::DirEntry| {
        fs::read_to_string(fd.path()).is_ok_and(|text| text.contains("link_type:"))
    };
    fds.flatten().filter(is_link).count()
}

/// A command on one CPU.
pub(crate) fn pinned(cpu: u32, command: &[String]) -> Vec<String> {
    let taskset = ["taskset".to_owned(), "-c".to_owned(), cpu.to_string()];
    taskset.into_iter().chain(command.iter().cloned()).collect()
}

/// A tiny file system of its own, unmounted in the end.
pub(crate) struct Tiny(PathBuf);

impl Tiny {
    pub(crate) fn mount(path: PathBuf, size: &str) -> Option<Self> {
        fs::create_dir(&path).unwrap();
        let options = format!("size={size}");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(&path)
            .status()
            .is_ok_and(|status| status.success());
        if !mounted {
            eprintln!("skipped: cannot mount a tmpfs here");
        }
        mounted.then_some(Tiny(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// A directory for one test, gone afterwards.
pub(crate) struct Scratch(tempfile::TempDir);

impl Scratch {
    pub(crate) fn new() -> Self {
        Scratch(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The binary, with state of its own: other recordings of this machine are not seen.
    pub(crate) fn transect(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_transect"));
        command.args(words).current_dir(self.0.path()).stdin(Stdio::null());
        command
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, words: &[&str]) -> Output {
        self.transect(words).output().unwrap()
    }

    /// Starts it, and waits until it records with BPF programs: all of them are attached.
    pub(crate) fn start_compact(&self, words: &[&str]) -> Recorder {
        let child =
            self.transect(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let recorder = Recorder { child };
        wait_for("the recorder to attach its programs", || {
            bpf_links(recorder.pid()) > 1
                && state_file(recorder.pid()).exists()
                && is_polling(recorder.pid())
        });
        recorder
    }

    /// Starts it, and waits until it records with tracefs.
    pub(crate) fn start(&self, words: &[&str]) -> Recorder {
        let child =
            self.transect(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let recorder = Recorder { child };
        recorder.wait_until_recording();
        recorder
    }
}

/// A running `transect record`, killed if the test fails.
pub(crate) struct Recorder {
    pub(crate) child: Child,
}

impl Recorder {
    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// The tracing instance of this recorder.
    pub(crate) fn instance(&self) -> Option<PathBuf> {
        instances(&format!("transect-{}-", self.pid())).pop()
    }

    fn wait_until_recording(&self) {
        wait_for("the recorder to switch tracing on", || {
            self.instance().is_some_and(|path| {
                // A new instance has tracing on for a moment before anything is set up: asked in this order, what is
                // on is what was switched on after the events were set.
                fs::read_to_string(path.join("set_event")).is_ok_and(|set| !set.is_empty())
                    && fs::read_to_string(path.join("tracing_on")).is_ok_and(|on| on.trim() == "1")
                    && state_file(self.pid()).exists()
            })
        });
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(self.pid()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits for its end; gives exit code and what it said.
    pub(crate) fn wait(mut self) -> (Option<i32>, String) {
        self.wait_mut()
    }

    pub(crate) fn wait_mut(&mut self) -> (Option<i32>, String) {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                let mut said = String::new();
                self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
                return (status.code(), said);
            }
            assert!(start.elapsed() < DEADLINE, "the recorder does not end");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Does its main thread wait for what comes? It does once everything is switched on, and not before.
fn is_polling(pid: i32) -> bool {
    match Process::new(pid).and_then(|process| process.syscall()) {
        Ok(Syscall::Blocked { syscall_number, .. }) => {
            [libc::SYS_poll, libc::SYS_ppoll].contains(&syscall_number)
        }
        _ => false,
    }
}

fn state_file(pid: i32) -> PathBuf {
    // Tests that record run as root; /run is always there then.
    PathBuf::from(format!("/run/transect/{pid}.json"))
}

/// Tracing instances whose names begin so.
pub(crate) fn instances(prefix: &str) -> Vec<PathBuf> {
    let tracefs = transect_tracefs::Tracefs::find().unwrap();
    let entries = fs::read_dir(tracefs.path("instances")).unwrap().flatten();
    let named = |name: &OsStr| name.to_string_lossy().starts_with(prefix);
    entries.filter(|e| named(&e.file_name())).map(|e| e.path()).collect()
}

pub(crate) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < DEADLINE, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Events of each name in the first source of a recording; `None` stands for lost ones.
pub(crate) fn count(dir: &Path, name: &str) -> u64 {
    let recording = Recording::open(dir).unwrap();
    let trace = TraceDat::parse(&recording.sources[0].bytes).unwrap();
    let mut found = 0;
    for buffer in trace.buffers() {
        for cpu in buffer.cpus() {
            let Some(mut stream) = trace.stream(buffer, cpu) else { continue };
            while let Some(item) = stream.next() {
                if let Item::Event { payload, .. } = item {
                    let event = trace.events().event_of(payload);
                    found += u64::from(name == "*" || event.is_some_and(|e| &*e.name == name));
                }
            }
        }
    }
    found
}

/// What `trace-cmd report` counts in the same file; `None` (and a line) without trace-cmd.
pub(crate) fn trace_cmd_count(dir: &Path, name: &str) -> Option<u64> {
    let file = dir.join("host.dat");
    let Ok(output) = Command::new("trace-cmd").arg("report").arg(&file).output() else {
        eprintln!("not compared: trace-cmd is not installed");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().filter(|line| line.contains(&format!(" {name}: ")));
    Some(lines.count() as u64)
}

/// A command that calls getppid exactly `calls` times.
pub(crate) fn getppids(calls: u32) -> Vec<String> {
    system_calls(libc::SYS_getppid, calls)
}

/// A command that makes a system call without arguments exactly so many times.
pub(crate) fn system_calls(nr: i64, calls: u32) -> Vec<String> {
    let script =
        format!("import ctypes; f = ctypes.CDLL(None).syscall; [f({nr}) for _ in range({calls})]");
    vec!["python3".to_owned(), "-c".to_owned(), script]
}
