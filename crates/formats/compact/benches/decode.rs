//! Decode rate of compact against a floor measured in the same run.
//!
//! `cargo bench --profile release -p transect-compact --bench decode [-- FILE.compact]`
//!
//! Without a file, a log of four million events is made up: system calls, switches, wakings,
//! interrupts and VM exits, folded where the collector would. The floor is a loop that only steps
//! from record to record and counts. Rounds of all measurements are interleaved; medians count.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints its result")]

use std::{
    error::Error,
    hint::black_box,
    process::ExitCode,
    time::{Duration, Instant},
};
use transect_compact::{
    BlockWriter, Compact, FileHeader, Item, LogId, LogWriter, Lost, Problem, Sink, Slice, Totals,
    count_events, repack,
};
use transect_model::{
    event::{Comm, CoreEvent, PrevState},
    exit::{ExitReason, Isa},
    ids::{CpuId, Tid, VcpuId},
    interrupt::Context,
    time::{Source, Timestamp},
};

const ROUNDS: usize = 9;
/// What decoding to core events may cost, in walks over the words.
const MOST_WALKS: f64 = 12.0;

fn main() -> ExitCode {
    if cfg!(debug_assertions) {
        eprintln!("built as tests are: use `cargo bench --profile release`");
        return ExitCode::from(2);
    }
    let argument = std::env::args().skip(1).find(|arg| !arg.starts_with("--"));
    match run(argument.as_deref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("decode rate: {err}");
            ExitCode::FAILURE
        }
    }
}

fn run(path: Option<&str>) -> Result<(), Box<dyn Error>> {
    let file = match path {
        Some(path) => std::fs::read(path)?,
        None => made_up()?,
    };
    let packed = repack(&file, Vec::new())?;
    let mut words = Vec::new();
    Compact::parse(&file)?.slices(&mut |slice: Slice<'_>| {
        words.push(slice.words.to_vec());
        Ok::<(), std::convert::Infallible>(())
    })?;
    let walk = || words.iter().map(|words| count_events(words)).sum();
    let measured: [(&str, &dyn Fn() -> u64); 4] = [
        ("walk: step over records and count", &walk),
        ("events to a sink", &|| sink(&file)),
        ("events in batches of 512", &|| batches(&file)),
        ("the same from compressed blocks", &|| batches(&packed)),
    ];
    let mut times = vec![Vec::new(); measured.len()];
    let mut events = 0;
    for _ in 0..ROUNDS {
        for ((_, measure), times) in measured.iter().zip(&mut times) {
            let start = Instant::now();
            events = black_box(measure());
            times.push(start.elapsed());
        }
    }
    let medians: Vec<f64> = times.iter_mut().map(|times| median(times).as_secs_f64()).collect();
    let bytes: usize = words.iter().map(Vec::len).sum();
    println!(
        "{events} events, {:.2} B each, compressed {:.2}",
        bytes as f64 / events as f64,
        packed.len() as f64 / events as f64
    );
    for ((name, _), median) in measured.iter().zip(&medians) {
        println!(
            "{name:36} {:7.1} M events/s   {:5.2} walks",
            events as f64 / median / 1e6,
            median / medians[0]
        );
    }
    let walks = medians[2] / medians[0];
    if walks > MOST_WALKS {
        return Err(format!("batches cost {walks:.1} walks, wanted at most {MOST_WALKS}").into());
    }
    Ok(())
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// Counts events; each has to be made.
struct Count(u64);

impl Sink for Count {
    #[inline]
    fn event(&mut self, ts: Timestamp<Source>, tid: Tid, event: CoreEvent) {
        black_box((ts, tid, event));
        self.0 += 1;
    }

    fn lost(&mut self, _: Lost) {}

    fn problem(&mut self, _: Problem) {}
}

fn sink(file: &[u8]) -> u64 {
    let Ok(compact) = Compact::parse(file) else { return 0 };
    let mut count = Count(0);
    for cpu in compact.cpus() {
        let Some(mut stream) = compact.stream(cpu) else { continue };
        while stream.fill(&mut count, 1 << 20) {}
    }
    count.0
}

fn batches(file: &[u8]) -> u64 {
    let Ok(compact) = Compact::parse(file) else { return 0 };
    let mut count = 0;
    let mut items: Vec<Item> = Vec::new();
    for cpu in compact.cpus() {
        let Some(mut stream) = compact.stream(cpu) else { continue };
        while stream.next_batch(&mut items, 512) {
            count += black_box(&items).len() as u64;
            items.clear();
        }
    }
    count
}

/// Numbers that look like chance (xorshift), the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

fn made_up() -> std::io::Result<Vec<u8>> {
    let mut file = BlockWriter::new(Vec::new(), &FileHeader::new(1, Isa::Svm, ""))?;
    let mut log = LogWriter::new(LogId { cpu: CpuId(0), side: 0 });
    let mut dice = Dice(88_172_645_463_325_252);
    let (mut now, mut current) = (1_000_000, Tid(0));
    for _ in 0..2_000_000 {
        let step = 80 + dice.roll(700);
        let (first, second) = pair(&mut dice, current);
        for event in [Some(first), second].into_iter().flatten() {
            now += step;
            log.event(now, current, &event, &mut file)?;
            if let CoreEvent::SchedSwitch { next, .. } = event {
                current = next;
            }
        }
    }
    log.finish(&mut file)?;
    file.finish(&Totals::default())
}

fn pair(dice: &mut Dice, current: Tid) -> (CoreEvent, Option<CoreEvent>) {
    let tid = Tid(1_000 + i32::try_from(dice.roll(40)).unwrap_or(0));
    match dice.roll(10) {
        0..=3 => {
            let nr = i64::try_from(dice.roll(60)).unwrap_or(0);
            let exit = CoreEvent::SyscallExit { nr, ret: nr * 3 };
            (CoreEvent::SyscallEnter { nr }, Some(exit))
        }
        4..=6 => {
            let vcpu = Some(VcpuId(tid.0.unsigned_abs() % 8));
            let code = [0x60, 0x78, 0x7b, 0x81, 0x400][usize::try_from(dice.roll(5)).unwrap_or(0)];
            let exit = CoreEvent::KvmExit {
                vcpu,
                reason: ExitReason { isa: Isa::Svm, code },
                rip: 0xffff_ffff_8100_0000 + dice.roll(200) * 16,
                info1: 0,
                info2: 0,
            };
            (exit, Some(CoreEvent::KvmEntry { vcpu, rip: None }))
        }
        7 => {
            let vector = u32::try_from(dice.roll(10)).unwrap_or(0);
            (CoreEvent::SoftirqEntry { vector }, Some(CoreEvent::SoftirqExit { vector }))
        }
        _ => {
            let comm = Comm::default();
            let (prio, target_cpu, context) = (120, CpuId(1), Some(Context::Task));
            let waking = CoreEvent::SchedWaking { tid, comm, prio, target_cpu, context };
            let switch = CoreEvent::SchedSwitch {
                prev: current,
                prev_comm: comm,
                prev_prio: 120,
                prev_state: PrevState(1),
                next: tid,
                next_comm: comm,
                next_prio: 120,
            };
            (waking, Some(switch))
        }
    }
}
