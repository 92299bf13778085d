//! The mixed load: what a busy host does, all at once and on both CPUs, so that every family of the
//! core set has events and buffers fill as fast as this machine can fill them.

use super::work::pin;
use anyhow::Context;
use clap::Args;
use rustix::{
    event::{EventfdFlags, eventfd},
    fd::AsFd,
};
use std::{
    fs::{self, File},
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

/// `ratios role mixed`.
#[derive(Debug, Args)]
pub struct Mixed {
    /// How long.
    #[arg(long)]
    seconds: f64,
    /// Where it may write its file; it is removed again.
    #[arg(long)]
    scratch: PathBuf,
}

impl Mixed {
    pub(super) fn play(&self) -> anyhow::Result<()> {
        let over = AtomicBool::new(false);
        let over = &over;
        let scratch = self.scratch.join(format!("mixed-{}", std::process::id()));
        let scratch = &scratch;
        let cpus = std::thread::available_parallelism()?.get();
        let failures: Vec<anyhow::Error> = std::thread::scope(|scope| {
            let mut parts = vec![
                scope.spawn(move || ping_pong_by_eventfd(0, over)),
                scope.spawn(move || ping_pong_by_pipe(1 % cpus, over)),
                scope.spawn(move || walk(Path::new("/usr"), over)),
                scope.spawn(move || copy_small(over)),
                scope.spawn(move || write_through(scratch, over)),
                scope.spawn(move || start_programs(over)),
                scope.spawn(move || nap(over)),
            ];
            std::thread::sleep(Duration::from_secs_f64(self.seconds));
            over.store(true, Ordering::Relaxed);
            let ends = parts.drain(..).map(std::thread::ScopedJoinHandle::join);
            ends.filter_map(|end| end.unwrap_or_else(|_| anyhow::bail!("a load panicked")).err())
                .collect()
        });
        // It may not have come to be written.
        let _ = fs::remove_file(scratch);
        failures.into_iter().next().map_or(Ok(()), Err)
    }
}

fn going_on(over: &AtomicBool) -> bool {
    !over.load(Ordering::Relaxed)
}

fn ping_pong_by_eventfd(cpu: usize, over: &AtomicBool) -> anyhow::Result<()> {
    pin(cpu)?;
    let flags = EventfdFlags::empty();
    let (there, back) = (eventfd(0, flags)?, eventfd(0, flags)?);
    ping_pong(&there, &there, &back, &back, over)
}

fn ping_pong_by_pipe(cpu: usize, over: &AtomicBool) -> anyhow::Result<()> {
    pin(cpu)?;
    let (there, back) = (rustix::pipe::pipe()?, rustix::pipe::pipe()?);
    ping_pong(&there.1, &there.0, &back.1, &back.0, over)
}

/// Two threads of this CPU wake each other; the exchanged word ends the loop.
fn ping_pong<F: AsFd + Sync>(
    to_there: &F,
    at_there: &F,
    to_back: &F,
    at_back: &F,
    over: &AtomicBool,
) -> anyhow::Result<()> {
    const AGAIN: [u8; 8] = 1u64.to_ne_bytes();
    const LAST: [u8; 8] = 2u64.to_ne_bytes();
    std::thread::scope(|scope| {
        let echo = scope.spawn(|| -> anyhow::Result<()> {
            let mut word = AGAIN;
            while word != LAST {
                rustix::io::read(at_there, &mut word)?;
                rustix::io::write(to_back, &word)?;
            }
            Ok(())
        });
        let mut word = AGAIN;
        while word != LAST {
            let next = if going_on(over) { AGAIN } else { LAST };
            rustix::io::write(to_there, &next)?;
            rustix::io::read(at_back, &mut word)?;
        }
        echo.join().map_err(|_| anyhow::anyhow!("an echo panicked"))?
    })
}

/// Looks at every file under a folder and reads the first block of each, again and again.
fn walk(root: &Path, over: &AtomicBool) -> anyhow::Result<()> {
    while going_on(over) {
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop().filter(|_| going_on(over)) {
            // Folders and files may vanish or be closed to us: the load is the looking.
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                    Ok(kind) if kind.is_file() => look_into(&entry.path()),
                    _ => {}
                }
            }
        }
    }
    Ok(())
}

fn look_into(path: &Path) {
    if let Ok(mut file) = File::open(path) {
        let _ = file.read(&mut [0u8; 4096]);
    }
}

/// `dd bs=512`: system calls that do little.
fn copy_small(over: &AtomicBool) -> anyhow::Result<()> {
    let mut from = File::open("/dev/zero")?;
    let mut to = File::options().write(true).open("/dev/null")?;
    let mut block = [0u8; 512];
    while going_on(over) {
        from.read_exact(&mut block)?;
        to.write_all(&block)?;
    }
    Ok(())
}

/// Blocks that must reach the disk: requests and their interrupts.
fn write_through(path: &Path, over: &AtomicBool) -> anyhow::Result<()> {
    let mut file =
        File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    let block = vec![0x5au8; 64 << 10];
    let mut written = 0;
    while going_on(over) {
        file.write_all(&block)?;
        file.sync_data()?;
        written += block.len();
        if written >= 64 << 20 {
            file.set_len(0)?;
            std::io::Seek::rewind(&mut file)?;
            written = 0;
        }
    }
    Ok(())
}

/// Forks, execs, exits.
fn start_programs(over: &AtomicBool) -> anyhow::Result<()> {
    while going_on(over) {
        let mut program = Command::new("/bin/true");
        program.stdin(Stdio::null()).status().context("cannot start /bin/true")?;
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Timers and the wakeups they cause.
fn nap(over: &AtomicBool) -> anyhow::Result<()> {
    let begun = Instant::now();
    while going_on(over) && begun.elapsed() < Duration::from_secs(3600) {
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}
