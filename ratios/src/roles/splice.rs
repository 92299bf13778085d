//! The peer on this host: raw ftrace, as cheap as it can be had.
//!
//! An instance of its own, no overwriting, one thread a CPU that moves whole pages with splice(2)
//! from `trace_pipe_raw` through a pipe to a file. It is what trace-cmd does without what trace-cmd
//! does besides (3.1.6 aborts on kernels without the function tracer, hence this).

use super::protocol;
use crate::traced::Traced;
use anyhow::{Context, Result, ensure};
use clap::Args;
use rustix::{
    fs::{Mode, OFlags},
    pipe::{SpliceFlags, splice},
};
use std::{
    fs::{self, File},
    io::{Read, Write},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

const INSTANCES: &str = "/sys/kernel/tracing/instances";

/// `ratios role splice`.
#[derive(Debug, Args)]
pub struct Splice {
    /// The trace clock.
    #[arg(long, default_value = "local")]
    clock: String,
    /// Buffer of each CPU.
    #[arg(long)]
    buffer_kib: u32,
    /// Folder for one file a CPU.
    #[arg(long)]
    out: PathBuf,
    /// SYSTEM:EVENT.
    #[arg(required = true)]
    events: Vec<String>,
}

impl Splice {
    pub(super) fn play(&self) -> Result<()> {
        let instance = Instance::new(self)?;
        let over = AtomicBool::new(false);
        instance.write("tracing_on", "1")?;
        let begun = protocol::cpu_seconds();
        let bytes = std::thread::scope(|scope| -> Result<u64> {
            let threads: Vec<_> = instance
                .cpus()?
                .into_iter()
                .map(|cpu| {
                    let (instance, over) = (&instance, &over);
                    scope.spawn(move || instance.drain(cpu, &self.out, over))
                })
                .collect();
            let ended = protocol::ready().and_then(|()| protocol::wait_for_the_end());
            let off = instance.write("tracing_on", "0");
            over.store(true, Ordering::Relaxed);
            let mut bytes = 0;
            for thread in threads {
                bytes += thread.join().map_err(|_| anyhow::anyhow!("a drain panicked"))??;
            }
            ended.and(off).map(|()| bytes)
        })?;
        let cpu_s = Some(protocol::cpu_seconds() - begun);
        let (events, lost) = instance.counts()?;
        protocol::told(&Traced { events: Some(events), lost: Some(lost), bytes, cpu_s })
    }
}

/// A tracefs instance that is gone when this is.
struct Instance {
    path: PathBuf,
}

impl Instance {
    fn new(plan: &Splice) -> Result<Self> {
        let path = Path::new(INSTANCES).join(format!("bench-splice-{}", std::process::id()));
        fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let instance = Self { path };
        instance.write("tracing_on", "0")?;
        instance.write("trace_clock", &plan.clock)?;
        instance.write("buffer_size_kb", &plan.buffer_kib.to_string())?;
        instance.write("options/overwrite", "0")?;
        for event in &plan.events {
            let enable = format!("events/{}/enable", event.replace(':', "/"));
            instance.write(&enable, "1")?;
        }
        Ok(instance)
    }

    fn write(&self, file: &str, value: &str) -> Result<()> {
        let path = self.path.join(file);
        fs::write(&path, value).with_context(|| format!("cannot write {value} to {path:?}"))
    }

    fn cpus(&self) -> Result<Vec<u32>> {
        let mut cpus = Vec::new();
        for entry in fs::read_dir(self.path.join("per_cpu"))? {
            let name = entry?.file_name();
            let number = name.to_string_lossy().strip_prefix("cpu").and_then(|n| n.parse().ok());
            cpus.extend::<Option<u32>>(number);
        }
        ensure!(!cpus.is_empty(), "no CPU in {}", self.path.display());
        Ok(cpus)
    }

    /// Moves pages until it is over, then reads the last one, which is not full.
    fn drain(&self, cpu: u32, out: &Path, over: &AtomicBool) -> Result<u64> {
        let raw = self.path.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
        let raw = rustix::fs::open(&raw, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty())?;
        let mut file = File::create(out.join(format!("cpu{cpu}.raw")))?;
        let (from, to) = rustix::pipe::pipe()?;
        rustix::pipe::fcntl_setpipe_size(&from, 1 << 20)?;
        let mut bytes = 0;
        loop {
            // Read before the buffer: what came before the end is in it.
            let last = over.load(Ordering::Relaxed);
            let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
            let moved = match splice(&raw, None, &to, None, 1 << 20, flags) {
                Ok(moved) => moved,
                Err(rustix::io::Errno::AGAIN) => 0,
                Err(err) => return Err(err).context("cannot splice from the ring buffer"),
            };
            let mut left = moved;
            while left > 0 {
                left -= splice(&from, None, &file, None, left, SpliceFlags::MOVE)
                    .context("cannot splice to the file")?;
            }
            bytes += moved as u64;
            match (moved, last) {
                (0, true) => break,
                (0, false) => std::thread::sleep(Duration::from_millis(20)),
                _ => {}
            }
        }
        let mut page = vec![0; 1 << 16];
        let mut rest = File::from(raw);
        loop {
            match rest.read(&mut page) {
                Ok(0) => return Ok(bytes),
                Ok(read) => {
                    file.write_all(page.get(..read).unwrap_or_default())?;
                    bytes += read as u64;
                }
                Err(err) if err.kind() == std::io::ErrorKind::WouldBlock => return Ok(bytes),
                Err(err) => return Err(err.into()),
            }
        }
    }

    /// Events read and events lost, as the kernel counts them.
    fn counts(&self) -> Result<(u64, u64)> {
        let (mut read, mut lost) = (0, 0);
        for cpu in self.cpus()? {
            let stats = fs::read_to_string(self.path.join(format!("per_cpu/cpu{cpu}/stats")))?;
            for line in stats.lines() {
                let Some((what, count)) = line.split_once(": ") else { continue };
                let count = count.trim().parse::<u64>().unwrap_or(0);
                match what {
                    "read events" => read += count,
                    "overrun" | "dropped events" => lost += count,
                    _ => {}
                }
            }
        }
        Ok((read, lost))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Nothing can be done about it here, and the next run makes an instance of its own.
        let _ = self.write("tracing_on", "0");
        let _ = self.write("events/enable", "0");
        let _ = fs::remove_dir(&self.path);
    }
}
