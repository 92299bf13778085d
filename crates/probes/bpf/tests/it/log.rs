//! The log's logic (`bpf/log.bpf.h`), compiled for user space and read back by the codec.
//!
//! Random operations with random interrupts inside the writers: every event that the log does not
//! count as lost must come back from the codec with its stamp, its thread and its fields, in order
//! of time. What the harness printed when an operation read the clock is the truth.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::{
    collections::BTreeMap,
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
    sync::OnceLock,
};

use proptest::prelude::*;
use transect_compact::{BlockWriter, Compact, FileHeader, Item, LogId, Slice, SliceSink, Totals};
use transect_model::{
    event::{BlockOp, BlockRequest, Comm, CoreEvent, PrevState},
    exit::{ExitReason, Isa},
    ids::{CpuId, Tid, VcpuId},
    interrupt::{Context, VectorSource},
};

/// Compiles the harness once a process. Each test may be a process of its own, and the one must not run what the other is
/// writing: hence the renaming.
fn harness() -> &'static PathBuf {
    static HARNESS: OnceLock<PathBuf> = OnceLock::new();
    HARNESS.get_or_init(|| {
        let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let binary = folder.join("log-harness");
        let made = folder.join(format!("log-harness.{}", std::process::id()));
        let status = Command::new("cc")
            .args(["-O1", "-g", "-Wall", "-Wno-unused-function", "-fsanitize=undefined"])
            .args(["-fno-sanitize-recover=all", "-I"])
            .arg(here.join("../../../bpf"))
            .arg(here.join("tests/harness.c"))
            .arg("-o")
            .arg(&made)
            .status()
            .expect("a C compiler");
        assert!(status.success(), "the harness does not compile");
        std::fs::rename(&made, &binary).expect("a folder for temporary files");
        binary
    })
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Switch { next: u32, state: u32, prio: u32 },
    Waking { tid: u32, cpu: u32 },
    WakingIn { tid: u32, cpu: u32, context: u32 },
    Fork { child: u32 },
    SysEnter { nr: i32 },
    SysExit { nr: i32, ret: i64 },
    IrqEntry { irq: u32 },
    IrqExit { irq: u32, handled: bool },
    SoftirqEntry { vector: u32 },
    SoftirqExit { vector: u32 },
    VectorEntry { vector: u32, source: u32 },
    VectorExit { vector: u32, source: u32 },
    KvmExit { reason: u32, vcpu: u32, rip: u64, info1: u64 },
    KvmEntry { vcpu: u32 },
    InjVirq { vector: u32 },
    Hypercall { nr: u64, args: [u64; 4] },
    Block { sectors: u32, sector: u64, device: u32 },
    Packet { ifindex: u32, bytes: u32, skb: u64 },
    Drain,
    SilentSwitch { next: u32 },
}

#[derive(Clone, Copy, Debug)]
struct Step {
    op: Op,
    /// By how much the clock advances.
    ns: u32,
    /// Where operations come in between, and how many of those that follow.
    point: u32,
    count: u32,
}

#[derive(Clone, Copy, Debug)]
struct Setting {
    chunks: u32,
    fold: bool,
    check_current: bool,
    overwrite: bool,
}

/// By the code in the record (`bpf/context.bpf.h`).
const CONTEXTS: [Context; 4] = [Context::Task, Context::Softirq, Context::Irq, Context::Nmi];

impl Op {
    /// Number of the operation in the harness, and its arguments.
    fn line(self) -> (u32, [u64; 5]) {
        let word = |value: i32| u64::from(value.cast_unsigned());
        match self {
            Op::Switch { next, state, prio } => (0, [next.into(), state.into(), prio.into(), 0, 0]),
            Op::Waking { tid, cpu } => (1, [tid.into(), cpu.into(), 0, 0, 0]),
            Op::Fork { child } => (2, [child.into(), child.into(), 0, 0, 0]),
            Op::SysEnter { nr } => (3, [word(nr), 0, 0, 0, 0]),
            Op::SysExit { nr, ret } => (4, [word(nr), ret.cast_unsigned(), 0, 0, 0]),
            Op::IrqEntry { irq } => (5, [irq.into(), 0, 0, 0, 0]),
            Op::IrqExit { irq, handled } => (6, [irq.into(), handled.into(), 0, 0, 0]),
            Op::SoftirqEntry { vector } => (7, [vector.into(), 0, 0, 0, 0]),
            Op::SoftirqExit { vector } => (8, [vector.into(), 0, 0, 0, 0]),
            Op::KvmExit { reason, vcpu, rip, info1 } => {
                (9, [reason.into(), vcpu.into(), rip, info1, 0])
            }
            Op::KvmEntry { vcpu } => (10, [vcpu.into(), 0, 0, 0, 0]),
            Op::Hypercall { nr, args: [a, b, c, d] } => (11, [nr, a, b, c, d]),
            Op::Block { sectors, sector, device } => {
                (12, [sectors.into(), sector, device.into(), 0, 0])
            }
            Op::Packet { ifindex, bytes, skb } => (13, [ifindex.into(), bytes.into(), skb, 0, 0]),
            Op::Drain => (14, [0; 5]),
            Op::SilentSwitch { next } => (15, [next.into(), 0, 0, 0, 0]),
            Op::InjVirq { vector } => (16, [vector.into(), 0, 0, 0, 0]),
            Op::WakingIn { tid, cpu, context } => {
                (17, [tid.into(), cpu.into(), context.into(), 0, 0])
            }
            Op::VectorEntry { vector, source } => (18, [vector.into(), source.into(), 0, 0, 0]),
            Op::VectorExit { vector, source } => (19, [vector.into(), source.into(), 0, 0, 0]),
        }
    }

    /// The event that must come back, when it happened in thread `tid`.
    fn event(self, current: Tid) -> CoreEvent {
        let tid = |tid: u32| Tid(tid.cast_signed());
        match self {
            Op::Switch { next, state, prio } => CoreEvent::SchedSwitch {
                prev: current,
                prev_comm: Comm::default(),
                prev_prio: 0,
                prev_state: PrevState([0, 1, 2, 4, 8, 16, 32, 64, 128][state as usize]),
                next: tid(next),
                next_comm: Comm::default(),
                next_prio: prio.cast_signed(),
            },
            Op::Waking { tid: woken, cpu } => CoreEvent::SchedWaking {
                tid: tid(woken),
                comm: Comm::default(),
                prio: transect_compact::PRIO_UNKNOWN,
                target_cpu: CpuId(cpu),
                context: None,
            },
            Op::WakingIn { tid: woken, cpu, context } => CoreEvent::SchedWaking {
                tid: tid(woken),
                comm: Comm::default(),
                prio: transect_compact::PRIO_UNKNOWN,
                target_cpu: CpuId(cpu),
                context: Some(CONTEXTS[context as usize]),
            },
            Op::Fork { child } => CoreEvent::SchedFork {
                parent: current,
                child: tid(child),
                child_pid: Some(tid(child)).filter(|pid| pid.0 > 0),
                child_comm: Comm::default(),
            },
            Op::SysEnter { nr } => CoreEvent::SyscallEnter { nr: nr.into() },
            Op::SysExit { nr, ret } => CoreEvent::SyscallExit { nr: nr.into(), ret },
            Op::IrqEntry { irq } => {
                CoreEvent::IrqEntry { irq: irq.cast_signed(), name: Comm::default() }
            }
            Op::IrqExit { irq, handled } => CoreEvent::IrqExit { irq: irq.cast_signed(), handled },
            Op::SoftirqEntry { vector } => CoreEvent::SoftirqEntry { vector },
            Op::SoftirqExit { vector } => CoreEvent::SoftirqExit { vector },
            Op::VectorEntry { vector, source } => {
                CoreEvent::VectorEntry { source: VectorSource::ALL[source as usize], vector }
            }
            Op::VectorExit { vector, source } => {
                CoreEvent::VectorExit { source: VectorSource::ALL[source as usize], vector }
            }
            Op::KvmExit { reason, vcpu, rip, info1 } => CoreEvent::KvmExit {
                vcpu: Some(VcpuId(vcpu)),
                reason: ExitReason { isa: Isa::Svm, code: reason },
                rip,
                info1,
                info2: 0,
            },
            Op::KvmEntry { vcpu } => CoreEvent::KvmEntry { vcpu: Some(VcpuId(vcpu)), rip: None },
            Op::InjVirq { vector } => CoreEvent::KvmInjVirq { vector, reinjected: false },
            Op::Hypercall { nr, args } => CoreEvent::KvmHypercall { nr, args },
            Op::Block { sectors, sector, device } => CoreEvent::BlockIssue(BlockRequest {
                device,
                sector,
                sectors,
                op: BlockOp::Write,
                id: None,
            }),
            Op::Packet { ifindex, bytes, skb } => CoreEvent::NetXmit {
                skb: (skb << 8).cast_signed().wrapping_shr(8).cast_unsigned(),
                bytes,
                device: Comm::new(format!("eth{ifindex}").as_bytes()),
                code: 0,
            },
            Op::Drain | Op::SilentSwitch { .. } => unreachable!("reads no clock"),
        }
    }
}

fn number(bits: u32) -> BoxedStrategy<u64> {
    prop_oneof![
        Just(0),
        0..64_u64,
        0..1_u64 << bits.min(12),
        0..1_u64 << (bits / 2),
        0..1_u64 << bits
    ]
    .boxed()
}

fn op(silent: bool) -> BoxedStrategy<Op> {
    let tid = || prop_oneof![Just(0_u32), 1..20_u32, 1..1_u32 << 22];
    let nr = || prop_oneof![0..12_i32, 0..400_i32, Just(-1), 1000..1100_i32];
    let ret = prop_oneof![Just(0_i64), -70..0_i64, 0..2000_i64, any::<i64>()];
    let irq = || prop_oneof![0..4_u32, 8000..9000_u32];
    // Those of two sources may have one number: both must fit.
    let (source, vector) =
        (|| prop_oneof![0..2_u32, 0..11_u32], || prop_oneof![0xfd..0xff_u32, 0..256_u32]);
    let vcpu = || prop_oneof![0..3_u32, 4090..4100_u32];
    let reason = prop_oneof![0x40..0x90_u32, Just(0x400), Just(0x403), Just(u32::MAX)];
    let rip =
        prop_oneof![any::<u64>(), (0..1_u64 << 20).prop_map(|low| 0xffff_ffff_8000_0000 + low)];
    let loud = prop_oneof![
        4 => (tid(), 0..9_u32, 0..140_u32).prop_map(|(next, state, prio)| Op::Switch { next, state, prio }),
        4 => (tid(), 0..4096_u32).prop_map(|(tid, cpu)| Op::Waking { tid, cpu }),
        2 => (tid(), 0..1024_u32, 0..4_u32)
            .prop_map(|(tid, cpu, context)| Op::WakingIn { tid, cpu, context }),
        1 => tid().prop_map(|child| Op::Fork { child }),
        4 => nr().prop_map(|nr| Op::SysEnter { nr }),
        4 => (nr(), ret).prop_map(|(nr, ret)| Op::SysExit { nr, ret }),
        3 => irq().prop_map(|irq| Op::IrqEntry { irq }),
        3 => (irq(), any::<bool>()).prop_map(|(irq, handled)| Op::IrqExit { irq, handled }),
        2 => (0..10_u32).prop_map(|vector| Op::SoftirqEntry { vector }),
        2 => (0..10_u32).prop_map(|vector| Op::SoftirqExit { vector }),
        2 => (source(), vector()).prop_map(|(source, vector)| Op::VectorEntry { vector, source }),
        2 => (source(), vector()).prop_map(|(source, vector)| Op::VectorExit { vector, source }),
        5 => (reason, vcpu(), rip, number(40))
            .prop_map(|(reason, vcpu, rip, info1)| Op::KvmExit { reason, vcpu, rip, info1 }),
        5 => vcpu().prop_map(|vcpu| Op::KvmEntry { vcpu }),
        // The same exits again and again, as real guests make them.
        5 => (prop_oneof![Just(0x60_u32), Just(0x7b)], 0..2_u32, 0..3_u64, prop_oneof![Just(0_u64), Just(1024), Just(1 << 32)])
            .prop_map(|(reason, vcpu, rip, info1)| Op::KvmExit { reason, vcpu, rip: rip << 32, info1 }),
        3 => prop_oneof![0..4_u32, 250..260_u32, any::<u32>()].prop_map(|vector| Op::InjVirq { vector }),
        1 => (number(40), [number(60), number(60), Just(0).boxed(), number(20)])
            .prop_map(|(nr, args)| Op::Hypercall { nr, args }),
        1 => (0..1_u32 << 24, number(48), any::<u32>())
            .prop_map(|(sectors, sector, device)| Op::Block { sectors, sector, device }),
        2 => (1..7_u32, 0..1_u32 << 20, any::<u64>())
            .prop_map(|(ifindex, bytes, skb)| Op::Packet { ifindex, bytes, skb: skb & ((1 << 56) - 1) }),
        2 => Just(Op::Drain),
    ];
    let quiet = tid().prop_map(|next| Op::SilentSwitch { next });
    if silent { prop_oneof![20 => loud, 1 => quiet].boxed() } else { loud.boxed() }
}

/// An END right after its BEGIN is what folding is about: random ones seldom meet.
fn pair(step: Step) -> Vec<Step> {
    let end = match step.op {
        Op::SysEnter { nr } => Op::SysExit { nr, ret: i64::from(nr) - 3 },
        Op::IrqEntry { irq } => Op::IrqExit { irq, handled: true },
        Op::SoftirqEntry { vector } => Op::SoftirqExit { vector },
        Op::VectorEntry { vector, source } => Op::VectorExit { vector, source },
        Op::KvmExit { vcpu, .. } => Op::KvmEntry { vcpu },
        Op::InjVirq { vector } => Op::KvmEntry { vcpu: vector % 3 * 127 },
        _ => return vec![step],
    };
    vec![step, Step { op: end, ..step }]
}

fn steps(silent: bool, interrupts: bool, most: usize) -> BoxedStrategy<Vec<Step>> {
    let ns = prop_oneof![
        20 => 1..500_u32,
        3 => 500..100_000_u32,
        1 => 16_000_000..17_000_000_u32,
        1 => any::<u32>().prop_map(|ns| ns.max(1))
    ];
    let quiet = (0..1_u32, 0..1_u32);
    let interrupt = if interrupts {
        prop_oneof![3 => quiet, 1 => (1..7_u32, 1..4_u32)].boxed()
    } else {
        quiet.boxed()
    };
    let step = (op(silent), ns, interrupt).prop_map(|(op, ns, (point, count))| Step {
        op,
        ns,
        point,
        count,
    });
    let run = (step, any::<bool>())
        .prop_map(|(step, paired)| if paired { pair(step) } else { vec![step] });
    prop::collection::vec(run, 1..most).prop_map(|runs| runs.concat()).boxed()
}

/// What came out of the harness.
struct Outcome {
    /// Events that happened, by stamp.
    happened: BTreeMap<u64, (Tid, CoreEvent)>,
    lost: u64,
    /// Of interrupts in interrupts.
    depth: u64,
    file: Vec<u8>,
}

fn run(setting: Setting, steps: &[Step]) -> Outcome {
    let mut script = format!(
        "{} {} {} {}\n",
        setting.chunks,
        u8::from(setting.fold),
        u8::from(setting.check_current),
        u8::from(setting.overwrite)
    );
    for step in steps {
        let (op, [a, b, c, d, e]) = step.op.line();
        script += &format!("{op} {} {} {} {a} {b} {c} {d} {e}\n", step.ns, step.point, step.count);
    }
    let mut child = Command::new(harness())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the harness runs");
    let mut stdin = child.stdin.take().expect("piped");
    let writer = std::thread::spawn(move || stdin.write_all(script.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("no panic").expect("it reads all");
    assert!(output.status.success(), "harness: {:?}", output.status);
    outcome(setting, steps, &String::from_utf8(output.stdout).expect("text"))
}

fn outcome(setting: Setting, steps: &[Step], text: &str) -> Outcome {
    let mut header = FileHeader::new(4, Isa::Svm, "harness");
    header.overwrite = setting.overwrite;
    let mut file = BlockWriter::new(Vec::new(), &header).expect("memory");
    let (mut happened, mut lost, mut depth) = (BTreeMap::new(), 0, 0);
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let int = |at: usize| words[at].parse::<u64>().expect("a number");
        match words[0] {
            "e" => {
                let tid = Tid(i32::try_from(int(3)).expect("small"));
                let op = steps[usize::try_from(int(1)).expect("small")].op;
                happened.insert(int(2), (tid, op.event(tid)));
            }
            "s" => {
                let bytes: Vec<u8> = words[5]
                    .as_bytes()
                    .chunks(2)
                    .map(|hex| u8::from_str_radix(std::str::from_utf8(hex).unwrap(), 16).unwrap())
                    .collect();
                let log = LogId { cpu: CpuId(3), side: words[1].parse().expect("a log") };
                file.slice(Slice {
                    log,
                    position: int(2),
                    sync_ns: int(3),
                    lost: int(4),
                    words: &bytes,
                })
                .expect("memory");
            }
            "l" => lost = int(1) + int(2) + int(3),
            "d" => depth = int(1),
            other => panic!("harness says {other}"),
        }
    }
    Outcome { happened, lost, depth, file: file.finish(&Totals::default()).expect("memory") }
}

/// Events of the file by stamp, and how many it says are lost.
fn decode(file: &[u8]) -> (Vec<(u64, Tid, CoreEvent)>, u64) {
    let compact = Compact::parse(file).expect("a file");
    assert!(compact.problems().is_empty(), "{:?}", compact.problems());
    let (mut events, mut lost) = (Vec::new(), 0);
    for item in compact.stream(CpuId(3)).into_iter().flatten() {
        match item {
            Item::Event { ts, tid, mut event } => {
                if let CoreEvent::SchedSwitch { prev_prio, .. } = &mut event {
                    *prev_prio = 0; // told only by some kinds
                }
                events.push((ts.get(), tid, event));
            }
            Item::Lost(hole) => lost += hole.count.unwrap_or(0),
            Item::Problem(problem) => panic!("{problem:?}"),
        }
    }
    (events, lost)
}

/// Everything decoded has happened just so, in order of time.
fn expect_truth(outcome: &Outcome, events: &[(u64, Tid, CoreEvent)]) {
    for pair in events.windows(2) {
        assert!(pair[0].0 < pair[1].0, "out of order: {pair:?}");
    }
    for (ns, tid, event) in events {
        assert_eq!(outcome.happened.get(ns), Some(&(*tid, *event)), "at {ns}");
    }
}

const CASES: u32 = 64;

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, max_shrink_iters: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// A log that is large enough, without interrupts: every event comes back.
    #[test]
    fn every_event_comes_back(steps in steps(false, false, 200), fold: bool) {
        let outcome = run(Setting { chunks: 8, fold, check_current: false, overwrite: false }, &steps);
        let (events, lost) = decode(&outcome.file);
        expect_truth(&outcome, &events);
        prop_assert_eq!((events.len(), lost), (outcome.happened.len(), 0));
    }

    /// Interrupts anywhere inside the writers, interrupted too: what is not counted as lost comes back,
    /// and nothing is lost to an interrupt in an interrupt.
    #[test]
    fn interrupts_lose_nothing_uncounted(steps in steps(false, true, 120), fold: bool) {
        let outcome = run(Setting { chunks: 8, fold, check_current: false, overwrite: false }, &steps);
        prop_assert!(outcome.depth > 2 || outcome.lost == 0, "{} lost", outcome.lost);
        let (events, _) = decode(&outcome.file);
        expect_truth(&outcome, &events);
        prop_assert_eq!(events.len() as u64 + outcome.lost, outcome.happened.len() as u64);
    }

    /// Without complete switches the log asks who runs.
    #[test]
    fn threads_are_right_without_switches(steps in steps(true, true, 200)) {
        let outcome = run(Setting { chunks: 8, fold: true, check_current: true, overwrite: false }, &steps);
        let (events, _) = decode(&outcome.file);
        expect_truth(&outcome, &events);
        prop_assert_eq!(events.len() as u64 + outcome.lost, outcome.happened.len() as u64);
    }

    /// Some kernels trace the switch to a thread and not the one away from it: what others do then
    /// is still theirs.
    #[test]
    fn threads_are_right_where_switches_are_not_traced(steps in steps(false, false, 200), every in 1..5_usize) {
        let mut switches = 0;
        let away = |step: Step| {
            let Op::Switch { next, .. } = step.op else { return vec![step] };
            switches += 1;
            let away = Step { op: Op::SilentSwitch { next: next ^ 1 }, point: 0, count: 0, ..step };
            if switches % every == 0 { vec![step, away] } else { vec![step] }
        };
        let steps: Vec<Step> = steps.into_iter().flat_map(away).collect();
        let outcome = run(Setting { chunks: 8, fold: true, check_current: false, overwrite: false }, &steps);
        let (events, _) = decode(&outcome.file);
        expect_truth(&outcome, &events);
        prop_assert_eq!(events.len() as u64 + outcome.lost, outcome.happened.len() as u64);
    }
}

proptest! {
    // Long runs: few of them, and no hours spent on making one shorter.
    #![proptest_config(ProptestConfig { cases: 10, max_shrink_iters: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// A log of two chunks, drained now and then: it wraps, it is full, losses are counted.
    #[test]
    fn a_full_log_counts_what_it_loses(steps in steps(false, true, 8_000)) {
        let steps: Vec<Step> = steps.into_iter().enumerate().filter(|(at, step)| !matches!(step.op, Op::Drain) || at % 97 == 0).map(|(_, step)| step).collect();
        let outcome = run(Setting { chunks: 2, fold: true, check_current: false, overwrite: false }, &steps);
        let (events, told) = decode(&outcome.file);
        expect_truth(&outcome, &events);
        prop_assert_eq!(events.len() as u64 + outcome.lost, outcome.happened.len() as u64);
        prop_assert!(told <= outcome.lost);
    }

    /// A flight recorder that is never drained holds the last events, without a gap.
    #[test]
    fn a_flight_recorder_holds_the_last_events(steps in steps(false, false, 8_000)) {
        let steps: Vec<Step> = steps.into_iter().filter(|step| !matches!(step.op, Op::Drain)).collect();
        let outcome = run(Setting { chunks: 2, fold: true, check_current: false, overwrite: true }, &steps);
        let (events, _) = decode(&outcome.file);
        expect_truth(&outcome, &events);
        let Some(first) = events.first() else { return Ok(()) };
        prop_assert_eq!(events.len(), outcome.happened.range(first.0..).count());
    }
}

/// The programs' numbers of kinds are the codec's, all of them.
#[test]
fn kinds_are_those_of_the_codec() {
    let header = include_str!("../../../../../bpf/kinds.h");
    let rows = header.lines().filter_map(|line| line.trim().strip_suffix(',')?.split_once(" = "));
    let ours: Vec<(String, u8)> =
        rows.map(|(name, number)| (name.to_owned(), number.parse().unwrap())).collect();
    let codec = transect_compact::kind::TABLE.iter();
    let theirs: Vec<(String, u8)> = codec.map(|row| (row.name.to_owned(), row.kind)).collect();
    assert_eq!(ours, theirs);
}
