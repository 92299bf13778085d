//! What a program costs: ns per event on a getppid loop and on an eventfd ping-pong.
//!
//! `cost --programs [ROUNDS]`: the kernel's own time per run of each program (`kernel.bpf_stats_enabled`) during the
//! ping-pong, with the contexts of wakings and without, round by round.
//!
//! `cost [ROUNDS [NAME]]` (default 5; only configurations whose name contains NAME). The workload runs on CPU 0 under SCHED_FIFO, the consumer on the
//! others. Rounds are interleaved: every configuration once per round, next to a bare run, each the
//! quickest of its batches; the table shows medians over rounds of the overhead per event.
#![allow(unsafe_code, reason = "scheduling class, affinity and raw system calls")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program talks")]

use std::{
    io,
    process::{Command, ExitCode},
    time::Instant,
};

use libbpf_rs::query::ProgInfoIter;
use transect_bpf::{
    BpfError, Compact, Family, LogSink, PROGRAMS, Plan, SyscallMode,
    live::{Live, LivePlan},
};
use transect_model::ids::CpuId;

/// Counts bytes and throws them away: what is measured is the kernel's side.
#[derive(Default)]
struct Nowhere;

impl LogSink for Nowhere {
    fn slice(&mut self, _: CpuId, _: u8, _: u64, _: u64, _: u64, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

/// One way of recording one workload.
struct Configuration {
    name: &'static str,
    work: &'static str,
    /// Events per operation of the workload.
    events: f64,
    what: What,
}

/// Who looks on.
enum What {
    Record(Plan),
    Count(LivePlan),
}

fn plan(events: &[&str]) -> Plan {
    Plan { with: events.iter().map(|e| (*e).to_owned()).collect(), ..Plan::of(&[]) }
}

fn configurations() -> Vec<Configuration> {
    let calls = || plan(&["sched:sched_switch", "raw_syscalls:sys_enter", "raw_syscalls:sys_exit"]);
    let switch = || plan(&["sched:sched_switch"]);
    let wake = || plan(&["sched:sched_switch", "sched:sched_waking"]);
    let empty = |plan: Plan| Plan { empty_programs: true, ..plan };
    let stamp = |plan: Plan| Plan { empty_stamps: true, ..plan };
    let mode = |syscalls| Plan { syscalls, ..calls() };
    let row =
        |name, work, events, plan| Configuration { name, work, events, what: What::Record(plan) };
    let live = |name, events, only: Option<&[&str]>, empty_programs| {
        let only = only.map(|events| events.iter().map(|e| (*e).to_owned()).collect());
        let plan = LivePlan { only, empty_programs, ..LivePlan::default() };
        Configuration { name, work: "pingpong", events, what: What::Count(plan) }
    };
    let switches: &[&str] = &["sched:sched_switch"];
    vec![
        row("syscalls: empty programs", "getppid", 2.0, empty(calls())),
        row("syscalls: empty programs that take a stamp", "getppid", 2.0, stamp(calls())),
        row("syscalls: folded", "getppid", 2.0, mode(SyscallMode::Folded)),
        row("syscalls: two records", "getppid", 2.0, mode(SyscallMode::Both)),
        row("syscalls: exit only (per call / 2)", "getppid", 2.0, mode(SyscallMode::ExitOnly)),
        row(
            "syscalls: exit only, empty (per call / 2)",
            "getppid",
            2.0,
            empty(mode(SyscallMode::ExitOnly)),
        ),
        row("switch: empty program", "pingpong", 1.0, empty(switch())),
        row("switch: empty program that takes a stamp", "pingpong", 1.0, stamp(switch())),
        row("switch: compact", "pingpong", 1.0, switch()),
        row("switch+waking: empty programs", "pingpong", 2.0, empty(wake())),
        row("switch+waking: empty, with a stamp", "pingpong", 2.0, stamp(wake())),
        row("switch+waking: compact", "pingpong", 2.0, wake()),
        row(
            "switch+waking: compact, without contexts",
            "pingpong",
            2.0,
            Plan { contexts: false, ..wake() },
        ),
        live("switch: empty live program", 1.0, Some(switches), true),
        live("switch: live windows", 1.0, Some(switches), false),
        live("switch+waking: all empty live programs", 2.0, None, true),
        live("switch+waking: live windows, all programs", 2.0, None, false),
    ]
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["--work", work] => work_here(work).map_err(Into::into),
        ["--programs"] => measure_programs(5),
        ["--programs", rounds] => rounds.parse().map_err(Into::into).and_then(measure_programs),
        [] => measure(5, ""),
        [rounds] => rounds.parse().map_err(Into::into).and_then(|rounds| measure(rounds, "")),
        [rounds, name] => {
            rounds.parse().map_err(Into::into).and_then(|rounds| measure(rounds, name))
        }
        _ => Err("usage: cost [--programs] [ROUNDS [NAME]]".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cost: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Batches of a run, of which the quickest counts: others shared the CPU's caches with somebody.
const BATCHES: u32 = 15;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn measure(rounds: usize, name: &str) -> Result<()> {
    let all: Vec<_> = configurations().into_iter().filter(|row| row.name.contains(name)).collect();
    let mut overheads = vec![Vec::new(); all.len()];
    let mut bare = vec![Vec::new(); all.len()];
    let mut lost = vec![0; all.len()];
    for _ in 0..rounds {
        for (at, configuration) in all.iter().enumerate() {
            let base = run(configuration.work)?;
            let (traced, events_lost) = run_traced(configuration)?;
            bare[at].push(base);
            overheads[at].push((traced - base) / configuration.events);
            lost[at] += events_lost;
        }
    }
    println!("{:44} {:>9} {:>9} {:>18} {:>6}", "", "bare/op", "ns/event", "range", "lost");
    for (at, configuration) in all.iter().enumerate() {
        let values = &mut overheads[at];
        let (middle, base) = (median(values), median(&mut bare[at]));
        let range = format!("{:.0}..{:.0}", values[0], values[values.len() - 1]);
        println!("{:44} {base:9.1} {middle:9.1} {range:>18} {:6}", configuration.name, lost[at]);
    }
    Ok(())
}

const STATS: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// Counts the runs and the time of programs while it lives.
struct KernelStats(String);

impl KernelStats {
    fn on() -> Result<Self> {
        let before = std::fs::read_to_string(STATS)?;
        std::fs::write(STATS, "1")?;
        Ok(Self(before))
    }
}

impl Drop for KernelStats {
    fn drop(&mut self) {
        let _ = std::fs::write(STATS, &self.0);
    }
}

fn measure_programs(rounds: usize) -> Result<()> {
    let plan =
        |contexts| Plan { contexts, ..Plan::of(&[Family::Sched, Family::Irq, Family::Vectors]) };
    let _stats = KernelStats::on()?;
    for round in 0..rounds {
        for contexts in [true, false] {
            let mut compact = Compact::load(&plan(contexts))?;
            let consumer = compact.consume(Nowhere)?;
            compact.attach()?;
            run("pingpong")?;
            print!("{round} {}:", if contexts { "with contexts" } else { "without" });
            for program in ProgInfoIter::default() {
                let name = program.name.to_string_lossy();
                let is_ours = PROGRAMS.iter().any(|ours| ours.name.starts_with(&*name));
                if is_ours && program.run_cnt > 100 {
                    let ns = program.run_time_ns as f64 / program.run_cnt as f64;
                    print!(" {name} {ns:.1} ns ({})", program.run_cnt);
                }
            }
            println!();
            compact.stop(consumer)?;
        }
    }
    Ok(())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn run_traced(configuration: &Configuration) -> Result<(f64, u64)> {
    let plan = match &configuration.what {
        What::Record(plan) => plan,
        What::Count(plan) => return run_counted(plan, configuration.work),
    };
    let mut compact = Compact::load(plan)?;
    let consumer = compact.consume(Nowhere)?;
    compact.attach()?;
    let traced = run(configuration.work)?;
    let finished = compact.stop(consumer)?;
    if let Some(failure) = finished.failure {
        return Err(BpfError::to_string(&failure).into());
    }
    Ok((traced, finished.stats.lost()))
}

/// Windows are a second long, and nobody takes them: what is measured is the kernel's side.
fn run_counted(plan: &LivePlan, work: &str) -> Result<(f64, u64)> {
    let mut live = Live::load(plan)?;
    live.start()?;
    let counted = run(work)?;
    let window = live.take()?;
    Ok((counted, window.untracked_events + window.missed_events))
}

/// Runs the workload in a process of its own. Returns ns per operation.
fn run(work: &str) -> Result<f64> {
    let output = Command::new(std::env::current_exe()?).args(["--work", work]).output()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    text.parse()
        .map_err(|_| format!("{work}: {text} {}", String::from_utf8_lossy(&output.stderr)).into())
}

fn work_here(work: &str) -> io::Result<()> {
    pin_to_cpu_0_with_fifo()?;
    let mut best = f64::INFINITY;
    for _ in 0..BATCHES {
        let ns_per_operation = match work {
            "getppid" => getppid_loop(100_000),
            "pingpong" => ping_pong(10_000)?,
            other => return Err(io::Error::other(format!("no workload {other}"))),
        };
        best = best.min(ns_per_operation);
    }
    println!("{best:.3}");
    Ok(())
}

fn pin_to_cpu_0_with_fifo() -> io::Result<()> {
    // SAFETY: plain system calls on this process with structures of the right size.
    let failed = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(0, &mut set);
        let parameters = libc::sched_param { sched_priority: 10 };
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) != 0
            || libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) != 0
    };
    if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn getppid_loop(calls: u32) -> f64 {
    let once = || {
        // SAFETY: has no arguments and no effects.
        unsafe { libc::syscall(libc::SYS_getppid) }
    };
    for _ in 0..1000 {
        once();
    }
    let start = Instant::now();
    for _ in 0..calls {
        once();
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(calls)
}

/// Two threads of one CPU wake each other: two switches per round trip.
fn ping_pong(trips: u32) -> io::Result<f64> {
    let pair = || {
        // SAFETY: makes a file descriptor, closed with the process.
        unsafe { libc::eventfd(0, 0) }
    };
    let (there, back) = (pair(), pair());
    let wait_on = |fd: i32| {
        let mut value = 0_u64;
        // SAFETY: eight bytes into eight bytes.
        unsafe { libc::read(fd, (&raw mut value).cast(), 8) };
    };
    let wake = |fd: i32| {
        let value = 1_u64;
        // SAFETY: eight bytes out of eight bytes.
        unsafe { libc::write(fd, (&raw const value).cast(), 8) };
    };
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..trips {
                wait_on(there);
                wake(back);
            }
        });
        let start = Instant::now();
        for _ in 0..trips {
            wake(there);
            wait_on(back);
        }
        Ok(start.elapsed().as_secs_f64() * 1e9 / f64::from(2 * trips))
    })
}
