//! The nested host ("L1"): QEMU's TCG emulates an AMD CPU with SVM, Debian's kernel runs `kvm-amd` on it.
//!
//! It sees this machine's root read only over 9p (so every program installed here is there), with `/tmp`, `/run`
//! and `/dev/shm` of its own, and one folder that both sides write: the run's `share`. Orders go over a
//! virtio-serial port (see `guest/host-init.sh`); nothing polls inside, so an idle host makes no events.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::cache;
use crate::host::HostOptions;
use crate::initramfs;
use crate::job::Place;
use crate::kernel::{Flavour, Kernel};
use crate::qemu::Line;
use crate::rundir::{Process, RunDir, lock};
use crate::wait::tail;

/// Booting takes 5–8 s on two idle cores; more when they are busy.
const BOOT: Duration = Duration::from_secs(120);

/// Unix socket paths end at 108 bytes (Linux `include/uapi/linux/un.h`).
const LONGEST_SOCKET_BYTES: usize = 107;

/// A booted nested host.
pub(crate) struct Nested {
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

impl Nested {
    pub(crate) fn boot(options: &HostOptions) -> Result<Self> {
        let kernel = Kernel::get(Flavour::Full)?;
        let initrd = initramfs::of_host(&kernel)?;
        let run = RunDir::new(options.lifetime)?;
        run.folder("share/jobs")?;
        let socket = run.path().join("control.sock");
        let length = socket.as_os_str().len();
        ensure!(
            length <= LONGEST_SOCKET_BYTES,
            "TMPDIR is too long a path for sockets: {length} bytes"
        );
        let command = command_line(options, &kernel, &initrd, &run)?;
        let stderr = run.path().join("qemu.stderr");
        let qemu = run.spawn(&command, &run.path().join("qemu.stdout"), &stderr)?;
        let deadline = Instant::now() + BOOT;
        let control = connect(&run, &qemu, &socket, deadline)?;
        let answers = Arc::new(Mutex::new(Answers::default()));
        listen(control.try_clone()?, Arc::clone(&answers));
        let next = AtomicU64::new(1);
        let host = Self { control: Mutex::new(control), answers, qemu, next, run };
        host.wait_until_ready(deadline)?;
        Ok(host)
    }

    fn wait_until_ready(&self, deadline: Instant) -> Result<()> {
        while !lock(&self.answers).ready {
            self.check_alive()?;
            if Instant::now() > deadline {
                let within = BOOT.as_secs();
                return Err(
                    self.failure(&format!("the nested host did not boot within {within} s"))
                );
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn check_alive(&self) -> Result<()> {
        match self.qemu.ended()? {
            Some(status) => Err(self.failure(&format!("the nested host ended ({status})"))),
            None => Ok(()),
        }
    }

    fn failure(&self, message: &str) -> anyhow::Error {
        self.run.failure(format!("{message}\n{}", self.diagnosis()))
    }

    fn order(&self, verb: &str, number: u64) -> Result<()> {
        let mut control = lock(&self.control);
        match control.write_all(format!("{verb} {number}\n").as_bytes()) {
            Ok(()) => Ok(()),
            Err(error) => Err(self.failure(&format!("the nested host takes no orders: {error}"))),
        }
    }
}

impl Place for Nested {
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
        let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        format!("export PATH={path} HOME=/tmp TMPDIR=/tmp LC_ALL=C.UTF-8\n")
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

    fn has_died(&self) -> bool {
        self.check_alive().is_err()
    }

    fn kill(&self, number: u64) -> Result<()> {
        let running = !lock(&self.answers).codes.contains_key(&number);
        if running { self.order("kill", number) } else { Ok(()) }
    }

    fn diagnosis(&self) -> String {
        let read = |name: &str| std::fs::read(self.run.path().join(name)).unwrap_or_default();
        let [console, stderr] = ["console.log", "qemu.stderr"]
            .map(|name| tail(&String::from_utf8_lossy(&read(name)), 15));
        format!("--- console of the nested host\n{console}\n--- its QEMU\n{stderr}\n---")
    }
}

fn command_line(
    options: &HostOptions,
    kernel: &Kernel,
    initrd: &std::path::Path,
    run: &RunDir,
) -> Result<Vec<std::ffi::OsString>> {
    let (console, control) = (run.path().join("console.log"), run.path().join("control.sock"));
    let share = run.path().join("share");
    let cache = cache::folder()?;
    let mut line = Line(vec!["qemu-system-x86_64".into()]);
    line.words(&["-accel", "tcg,thread=multi", "-cpu", "EPYC,+svm"]);
    line.words(&["-display", "none", "-nodefaults", "-no-reboot"]);
    line.option("-smp", options.cpus.to_string());
    line.option("-m", options.memory_mib.to_string());
    line.option("-kernel", kernel.vmlinux());
    line.option("-initrd", initrd);
    // The emulated TSC is this machine's plus a constant, but the kernel cannot know and would distrust it.
    // Autogroup would make `nice` relative to a session, and every job is a session.
    let tsc = "tsc=reliable clocksource=tsc";
    // The other CPUs are started by PID 1 (host-init.sh), after all tracepoints have been patched.
    let one = "maxcpus=1";
    line.option("-append", format!("console=ttyS0 quiet panic=-1 noautogroup {one} {tsc}"));
    line.option("-serial", format!("file:{}", console.display()));
    line.option("-device", "virtio-serial-pci");
    line.option(
        "-chardev",
        format!("socket,id=control,path={},server=on,wait=off", control.display()),
    );
    line.option("-device", "virtserialport,chardev=control,name=testbed.control");
    let local = "security_model=none,multidevs=remap";
    line.option("-virtfs", format!("local,path=/,mount_tag=root,readonly=on,{local}"));
    line.option("-virtfs", format!("local,path={},mount_tag=share,{local}", share.display()));
    line.option(
        "-virtfs",
        format!("local,path={},mount_tag=cache,readonly=on,{local}", cache.display()),
    );
    Ok(line.0)
}

fn connect(
    run: &RunDir,
    qemu: &Process,
    socket: &std::path::Path,
    deadline: Instant,
) -> Result<UnixStream> {
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
