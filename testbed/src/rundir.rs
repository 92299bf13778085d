//! A run's folder, its processes, and the guard that ends both.
//!
//! Every run of a guest or host has one folder under the temporary folder: logs, sockets, files to carry. Beside it
//! lives a *guard*: a shell process of a few lines that waits for one of two things, the end of its standard
//! input (whose only writer is this process, so it ends when we drop it *or die in whatever way*) or the deadline.
//! Then it kills every process group of the run, and removes the folder unless it is to be kept.
//!
//! Why not `PR_SET_PDEATHSIG`: it fires when the *thread* that forked ends, and test harnesses run each test in
//! a thread of its own, so a host shared between tests would die with the first of them.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::again::{MACHINE_FAILED, report_to_runner};

/// `$1` is the folder, `$2` the deadline in seconds. `live/` has one file per process group. (The `kill` of Debian's
/// `sh` does not know `--`.)
const GUARD: &str = r#"
end_all() { for f in "$1"/live/*; do [ -e "$f" ] && kill -KILL "-${f##*/}"; done; }
timeout "$2" cat >/dev/null
if [ $? -eq 124 ]; then : >"$1/expired"; end_all "$1"; cat >/dev/null; fi
end_all "$1"
[ -e "$1/at-end" ] && sh "$1/at-end"
[ -e "$1/keep" ] || rm -rf "$1"
"#;

/// Makes itself known to the guard before it becomes the wanted program: also where its owner dies before it does that.
const ENTER: &str = r#": >"$0/live/$$"; exec "$@""#;

/// Folders of this process that still exist: a panic anywhere keeps all of them.
static OPEN: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// One run's folder with its guard.
pub struct RunDir {
    path: PathBuf,
    lifetime: Duration,
    guard: Mutex<Child>,
    late: AtomicBool,
    emulated: AtomicBool,
}

impl RunDir {
    /// Makes a folder whose processes live no longer than `lifetime`.
    pub fn new(lifetime: Duration) -> Result<Self> {
        keep_all_on_panic();
        let folder = tempfile::Builder::new().prefix("transect-testbed-").tempdir()?;
        fs::create_dir(folder.path().join("live"))?;
        let guard = Command::new("sh")
            .args(["-c", GUARD, "guard"])
            .arg(folder.path())
            .arg(lifetime.as_secs().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("cannot start the guard (sh)")?;
        let path = folder.keep();
        if std::env::var_os("TRANSECT_TESTBED_KEEP").is_some() {
            File::create(path.join("keep"))?;
        }
        lock(&OPEN).push(path.clone());
        let [late, emulated] = [const { AtomicBool::new(false) }; 2];
        Ok(Self { path, lifetime, guard: Mutex::new(guard), late, emulated })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A folder inside, made if it is not there.
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.path.join(name);
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(folder)
    }

    /// Adds lines of the shell that the guard runs when the run is over, after its processes are killed: for what is
    /// not a process and not in the folder, as a control group.
    pub fn at_end(&self, script: &str) -> Result<()> {
        let path = self.path.join("at-end");
        let mut file = File::options().create(true).append(true).open(&path)?;
        writeln!(file, "{script}").with_context(|| format!("cannot write {}", path.display()))
    }

    /// Keeps the folder when the run ends, for its logs.
    pub fn keep(&self) {
        // Failing to keep logs must not hide the failure they are about.
        drop(File::create(self.path.join("keep")));
    }

    /// Takes [`Self::keep`] and [`Self::note_lateness`] back: the failure was expected.
    pub fn discard(&self) {
        self.late.store(false, Ordering::Relaxed);
        drop(fs::remove_file(self.path.join("keep")));
    }

    /// Something of this run did not happen in time, or ended by itself.
    pub fn note_lateness(&self) {
        self.late.store(true, Ordering::Relaxed);
    }

    /// The machines of this run are emulated: they may die or hang of the emulator.
    pub(crate) fn note_emulation(&self) {
        self.emulated.store(true, Ordering::Relaxed);
    }

    /// Whether [`Self::note_lateness`] was called.
    pub fn was_late(&self) -> bool {
        self.late.load(Ordering::Relaxed)
    }

    /// Whether the guard ended the run because its time was over.
    pub fn expired(&self) -> bool {
        self.path.join("expired").exists()
    }

    /// An error about this run: keeps the folder and says where it is.
    pub fn failure(&self, message: impl std::fmt::Display) -> anyhow::Error {
        self.keep();
        let over = if self.expired() {
            format!(" (its time of {} s was over)", self.lifetime.as_secs())
        } else {
            String::new()
        };
        anyhow::anyhow!("{message}{over}; logs are kept in {}", self.path.display())
    }

    /// Starts a program as a process group of its own that ends with this run; its output goes to the two files.
    pub fn spawn(&self, arguments: &[OsString], stdout: &Path, stderr: &Path) -> Result<Process> {
        let create =
            |path: &Path| File::create(path).with_context(|| format!("no {}", path.display()));
        let (stdin, stdout, stderr) = (Stdio::null(), create(stdout)?, create(stderr)?);
        self.start(arguments, stdin, stdout.into(), stderr.into())
    }

    /// The same, with pipes to its standard input and from its standard output; the rest of it is added to the file.
    pub fn spawn_piped(
        &self,
        arguments: &[OsString],
        stderr: &Path,
    ) -> Result<(Process, ChildStdin, ChildStdout)> {
        let stderr = File::options().create(true).append(true).open(stderr)?;
        let process = self.start(arguments, Stdio::piped(), Stdio::piped(), stderr.into())?;
        let (stdin, stdout) = {
            let mut child = lock(&process.child);
            (child.stdin.take(), child.stdout.take())
        };
        Ok((process, stdin.context("no stdin")?, stdout.context("no stdout")?))
    }

    fn start(
        &self,
        arguments: &[OsString],
        stdin: Stdio,
        stdout: Stdio,
        stderr: Stdio,
    ) -> Result<Process> {
        let child = Command::new("sh")
            .args(["-c", ENTER])
            .arg(&self.path)
            .args(arguments)
            .current_dir(&self.path)
            .stdin(stdin)
            .stdout(stdout)
            .stderr(stderr)
            .process_group(0)
            .spawn()
            .context("cannot start a process")?;
        let live = self.path.join("live").join(child.id().to_string());
        let process = Process { child: Mutex::new(child), live };
        // The shell may not have come so far: who has a process has one that the guard knows.
        File::create(&process.live).context("cannot make a process known to the guard")?;
        Ok(process)
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        if self.emulated.load(Ordering::Relaxed) && (self.was_late() || self.expired()) {
            report_to_runner(MACHINE_FAILED, &self.path.display());
        }
        let mut guard = lock(&self.guard);
        drop(guard.stdin.take());
        // The guard's end is the promise that nothing is left; it cannot fail in a way we could mend.
        drop(guard.wait());
        lock(&OPEN).retain(|path| *path != self.path);
    }
}

/// A process group of a run.
pub struct Process {
    child: Mutex<Child>,
    live: PathBuf,
}

impl Process {
    /// Its number.
    pub fn id(&self) -> u32 {
        lock(&self.child).id()
    }

    /// How it ended, if it has.
    pub fn ended(&self) -> Result<Option<ExitStatus>> {
        let status = lock(&self.child).try_wait().context("cannot wait for a process")?;
        if status.is_some() {
            // Its number may be given to a stranger from now on.
            drop(fs::remove_file(&self.live));
        }
        Ok(status)
    }

    /// Kills the group and waits for its leader.
    pub fn kill(&self) {
        let mut child = lock(&self.child);
        let ended = matches!(child.try_wait(), Ok(Some(_)));
        if let (false, Some(group)) =
            (ended, i32::try_from(child.id()).ok().and_then(Pid::from_raw))
        {
            // It may have ended just now; then there is nothing to kill.
            let _ = kill_process_group(group, Signal::KILL);
            drop(child.wait());
        }
        drop(fs::remove_file(&self.live));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A poisoned lock only says that another test failed; the data are whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn keep_all_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            before(info);
            let Ok(open) = OPEN.try_lock() else { return };
            for path in open.iter() {
                drop(File::create(path.join("keep")));
                #[allow(
                    clippy::print_stderr,
                    reason = "a failed test's logs are worthless if nobody finds them"
                )]
                {
                    eprintln!("testbed: logs are kept in {}", path.display());
                }
            }
        }));
    });
}
