//! What taking windows costs this process: CPU time a window beside many processes.
//!
//! `reader [PROCESSES [THREADS [WINDOWS [PERIOD_MS [WINDOW_MS]]]]]` (default 100 processes of 8 threads that
//! each wake up every 20 ms, and 10 windows of a second). Where it may, every process gets a control group of its own.
//! Prints the CPU time of each window, and what parts of it went to rows written as JSON lines.
#![allow(unsafe_code, reason = "CPU time of this process")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program talks")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode},
    time::Duration,
};
use transect_live::{HostSource, LivePlan, Source, lines};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<u64> = arguments.iter().filter_map(|word| word.parse().ok()).collect();
    if arguments.first().is_some_and(|word| word == "--work") {
        work(numbers[0], Duration::from_millis(numbers[1]));
    }
    let number = |at: usize, default| numbers.get(at).copied().unwrap_or(default);
    match measure(number(0, 100), number(1, 8), number(2, 10), number(3, 20), number(4, 1000)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("reader: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Threads that wake up now and then, for ever.
fn work(threads: u64, period: Duration) -> ! {
    for _ in 1..threads {
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(period);
            }
        });
    }
    loop {
        std::thread::sleep(period);
    }
}

/// Processes that are ended, and control groups that are removed, when they are dropped.
struct Others {
    children: Vec<Child>,
    groups: Vec<PathBuf>,
}

impl Others {
    fn start(processes: u64, threads: u64, period_ms: u64) -> Result<Self> {
        let me = std::env::current_exe()?;
        let mut others = Others { children: Vec::new(), groups: Vec::new() };
        let mount = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"].map(Path::new);
        let mount = mount.into_iter().find(|mount| mount.join("cgroup.procs").exists());
        for at in 0..processes {
            let words = ["--work".to_owned(), threads.to_string(), period_ms.to_string()];
            let child = Command::new(&me).args(words).spawn()?;
            let pid = child.id();
            others.children.push(child);
            let Some(mount) = mount else { continue };
            let group = mount.join(format!("transect-reader-{}-{at}", std::process::id()));
            if fs::create_dir(&group).is_ok() {
                others.groups.push(group.clone());
                fs::write(group.join("cgroup.procs"), pid.to_string())?;
            }
        }
        Ok(others)
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        for child in &mut self.children {
            drop(child.kill());
            drop(child.wait());
        }
        std::thread::sleep(Duration::from_millis(100));
        for group in &self.groups {
            drop(fs::remove_dir(group));
        }
    }
}

fn cpu_us() -> Result<u64> {
    // SAFETY: writes one structure.
    let used = unsafe {
        let mut now: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut now);
        now
    };
    Ok(u64::try_from(used.tv_sec * 1_000_000 + used.tv_nsec / 1000)?)
}

fn measure(
    processes: u64,
    threads: u64,
    windows: u64,
    period_ms: u64,
    window_ms: u64,
) -> Result<()> {
    let _others = Others::start(processes, threads, period_ms)?;
    std::thread::sleep(Duration::from_millis(500));
    let mut source =
        HostSource::start(&LivePlan { window_ns: window_ms * 1_000_000, ..LivePlan::default() })?;
    let mut out = Vec::new();
    println!("{:>8} {:>8} {:>9} {:>9} {:>9}", "threads", "groups", "take us", "lines us", "bytes");
    for _ in 0..windows {
        let begun = cpu_us()?;
        let snapshot = source.take()?;
        let taken = cpu_us()?;
        out.clear();
        lines::write(&snapshot, &mut out)?;
        let written = cpu_us()?;
        println!(
            "{:8} {:8} {:9} {:9} {:9}",
            snapshot.threads.len(),
            snapshot.pressure.len(),
            taken - begun,
            written - taken,
            out.len()
        );
    }
    Ok(())
}
