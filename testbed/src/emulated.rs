//! A whole machine emulated by QEMU's TCG as a place of jobs: the nested host ("L1") and the Xen host's dom0.
//!
//! It sees this machine's root over 9p (so every program installed here is there), with `/tmp`, `/run` and `/dev/shm`
//! of its own, and one folder that both sides write: the run's `share`. Orders go over a virtio-serial port (see
//! `guest/host-common.sh`); nothing polls inside, so an idle machine makes no events.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::cache;
use crate::job::Place;
use crate::qemu::Line;
use crate::rundir::{Process, RunDir, lock};
use crate::wait::tail;

/// Unix socket paths end at 108 bytes (Linux `include/uapi/linux/un.h`).
const LONGEST_SOCKET_BYTES: usize = 107;

/// Where programs are in a chroot into this machine's root.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What sets one kind of emulated machine apart from another.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    /// What it is called in errors.
    pub(crate) title: &'static str,
    /// How long it may take until it takes orders.
    pub(crate) boot: Duration,
    /// Shell lines that every job begins with, after `PATH` and the like are set.
    pub(crate) prologue: &'static str,
}

/// A booted machine.
pub(crate) struct Emulated {
    kind: Kind,
    control: Mutex<UnixStream>,
    answers: Arc<Mutex<Answers>>,
    qemu: Process,
    next: AtomicU64,
    run: RunDir,
}

#[derive(Default)]
struct Answers {
    ready: bool,
    codes: HashMap<u64, i32>,
}

impl Emulated {
    /// Starts `line` with the devices that every machine has, in the run's folder, and waits until it takes orders.
    pub(crate) fn boot(kind: Kind, run: RunDir, mut line: Line) -> Result<Self> {
        run.folder("share/jobs")?;
        let socket = run.path().join("control.sock");
        let length = socket.as_os_str().len();
        ensure!(
            length <= LONGEST_SOCKET_BYTES,
            "TMPDIR is too long a path for sockets: {length} bytes"
        );
        add_common_devices(&mut line, &run)?;
        let stderr = run.path().join("qemu.stderr");
        let qemu = run.spawn(&line.0, &run.path().join("qemu.stdout"), &stderr)?;
        let deadline = Instant::now() + kind.boot;
        let control = connect(&run, &qemu, &socket, deadline)?;
        let answers = Arc::new(Mutex::new(Answers::default()));
        listen(control.try_clone()?, Arc::clone(&answers));
        let next = AtomicU64::new(1);
        let machine = Self { kind, control: Mutex::new(control), answers, qemu, next, run };
        machine.wait_until_ready(deadline)?;
        // Not before: a machine that does not come up is booted again by `boot_twice`.
        machine.run.note_emulation();
        Ok(machine)
    }

    /// QEMU's process.
    pub(crate) fn pid(&self) -> u32 {
        self.qemu.id()
    }

    fn wait_until_ready(&self, deadline: Instant) -> Result<()> {
        while !lock(&self.answers).ready {
            self.check_alive()?;
            if Instant::now() > deadline {
                let Kind { title, boot, .. } = self.kind;
                let within = boot.as_secs();
                return Err(self.failure(&format!("{title} did not boot within {within} s")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn failure(&self, message: &str) -> anyhow::Error {
        self.run.failure(format!("{message}\n{}", self.diagnosis()))
    }

    fn order(&self, verb: &str, number: u64) -> Result<()> {
        let mut control = lock(&self.control);
        let title = self.kind.title;
        match control.write_all(format!("{verb} {number}\n").as_bytes()) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.failure(&format!("{title} takes no orders: {error}"))),
        }
    }
}

impl Place for Emulated {
    fn run(&self) -> &RunDir {
        &self.run
    }

    fn share(&self) -> PathBuf {
        "/run/testbed/share".into()
    }

    fn scratch(&self) -> PathBuf {
        "/tmp".into()
    }

    fn prologue(&self) -> String {
        // Nothing of this machine's environment fits there: its home is read only, for one.
        let rest = self.kind.prologue;
        format!("export PATH={PATH} HOME=/tmp TMPDIR=/tmp LC_ALL=C.UTF-8\n{rest}")
    }

    fn fresh_number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn start(&self, number: u64) -> Result<()> {
        self.order("run", number)
    }

    fn ended(&self, number: u64) -> Result<Option<i32>> {
        if let Some(code) = lock(&self.answers).codes.get(&number) {
            return Ok(Some(*code));
        }
        self.check_alive()?;
        Ok(None)
    }

    fn kill(&self, number: u64) -> Result<()> {
        let running = !lock(&self.answers).codes.contains_key(&number);
        if running { self.order("kill", number) } else { Ok(()) }
    }

    fn check_alive(&self) -> Result<()> {
        match self.qemu.ended()? {
            Some(status) => {
                self.run.note_lateness();
                Err(self.failure(&format!("{} ended ({status})", self.kind.title)))
            }
            None => Ok(()),
        }
    }

    fn end(&self) {
        self.qemu.kill();
    }

    fn diagnosis(&self) -> String {
        let read = |name: &str| std::fs::read(self.run.path().join(name)).unwrap_or_default();
        let said = |name: &str| String::from_utf8_lossy(&read(name)).into_owned();
        let console = tail(&said("console.log"), 15);
        // Each CPU complains of what no TCG has.
        let is_news = |line: &&str| !line.contains("TCG doesn't support requested feature");
        let stderr: Vec<_> =
            said("qemu.stderr").lines().filter(is_news).map(str::to_owned).collect();
        let stderr = tail(&stderr.join("\n"), 15);
        let title = self.kind.title;
        format!("--- console of {title}\n{console}\n--- its QEMU\n{stderr}\n---")
    }
}

/// Console into a log, control port, and the three folders over 9p.
fn add_common_devices(line: &mut Line, run: &RunDir) -> Result<()> {
    let (console, control) = (run.path().join("console.log"), run.path().join("control.sock"));
    let share = run.path().join("share");
    line.words(&["-display", "none", "-nodefaults", "-no-reboot"]);
    line.option("-serial", format!("file:{}", console.display()));
    line.option("-device", "virtio-serial-pci");
    let socket = format!("socket,id=control,path={},server=on,wait=off", control.display());
    line.option("-chardev", socket);
    line.option("-device", "virtserialport,chardev=control,name=testbed.control");
    line.folder(Path::new("/"), "root", true);
    line.folder(&share, "share", false);
    line.folder(&cache::folder()?, "cache", true);
    Ok(())
}

fn connect(run: &RunDir, qemu: &Process, socket: &Path, deadline: Instant) -> Result<UnixStream> {
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => return Ok(stream),
            Err(error) if Instant::now() > deadline => {
                return Err(run.failure(format!("QEMU opened no control socket: {error}")));
            }
            Err(_) => {}
        }
        if let Some(status) = qemu.ended()? {
            let said = std::fs::read_to_string(run.path().join("qemu.stderr")).unwrap_or_default();
            return Err(run.failure(format!("QEMU ended at once ({status}): {}", said.trim())));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Notes answers until the host ends; the thread ends with the socket.
fn listen(stream: UnixStream, answers: Arc<Mutex<Answers>>) {
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines() {
            let Ok(line) = line else { return };
            // A line that cannot be read is shown by the job that never ends, with the logs beside it.
            drop(note(&line, &mut lock(&answers)));
        }
    });
}

fn note(line: &str, answers: &mut Answers) -> Result<()> {
    let mut words = line.split_whitespace();
    match words.next() {
        Some("ready") => answers.ready = true,
        Some("exit") => {
            let number = words.next().context("no number")?.parse()?;
            answers.codes.insert(number, words.next().context("no code")?.parse()?);
        }
        _ => {}
    }
    Ok(())
}
