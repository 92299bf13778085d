//! Makes the files of `testdata/{succeed,fail}/compact` that are not recorded.
//!
//! `cargo run -p transect-compact --example compact_corpus`, then describe them with
//! `TRANSECT_UPDATE=1 cargo test -p transect-compact --test it corpus` and review.
#![allow(clippy::unwrap_used, reason = "a developer tool")]

use std::{fs, path::Path};
use transect_compact::{
    BlockWriter, FileHeader, LogId, LogTotals, LogWriter, Names, Totals, repack,
};
use transect_model::{
    event::{Access, BlockOp, BlockRequest, Comm, CoreEvent, PrevState},
    exit::{ExitReason, Isa},
    ids::{CpuId, Tid, VcpuId},
    interrupt::{Context, VectorSource},
};

const MAIN: LogId = LogId { cpu: CpuId(0), side: 0 };
const SIDE: LogId = LogId { cpu: CpuId(0), side: 1 };

fn main() {
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../testdata");
    let put = |kind: &str, name: &str, file: &[u8]| {
        let folder = testdata.join(kind).join("compact");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("{name}.compact")), file).unwrap();
    };
    put("succeed", "every-kind", &every_kind());
    put("succeed", "side-and-lost", &side_and_lost());
    put("succeed", "packed", &repack(&chunks(), Vec::new()).unwrap());
    put("succeed", "empty", &file(|_| ()));
    put("succeed", "later-kinds", &later_kinds());
    for (name, file) in broken() {
        put("fail", name, &file);
    }
}

fn file(write: impl FnOnce(&mut BlockWriter<Vec<u8>>)) -> Vec<u8> {
    let mut file = BlockWriter::new(Vec::new(), &FileHeader::new(2, Isa::Svm, "corpus")).unwrap();
    write(&mut file);
    file.finish(&Totals::default()).unwrap()
}

fn log(id: LogId, events: &[(u64, i32, CoreEvent)], file: &mut BlockWriter<Vec<u8>>) {
    let mut log = LogWriter::new(id);
    for (ts, tid, event) in events {
        log.event(*ts, Tid(*tid), event, file).unwrap();
    }
    log.finish(file).unwrap();
}

fn comm(name: &str) -> Comm {
    Comm::new(name.as_bytes())
}

fn switch(prev: i32, next: i32, state: u32) -> CoreEvent {
    CoreEvent::SchedSwitch {
        prev: Tid(prev),
        prev_comm: Comm::default(),
        prev_prio: 120,
        prev_state: PrevState(state),
        next: Tid(next),
        next_comm: Comm::default(),
        next_prio: 120,
    }
}

fn waking(tid: Tid, target_cpu: CpuId, context: Option<Context>) -> CoreEvent {
    CoreEvent::SchedWaking { tid, comm: Comm::default(), prio: 0, target_cpu, context }
}

fn request() -> BlockRequest {
    BlockRequest { device: 254 << 20, sector: 123_456, sectors: 8, op: BlockOp::Write, id: None }
}

/// Short and long form of everything, folded and not.
fn every_kind() -> Vec<u8> {
    let svm = |code| ExitReason { isa: Isa::Svm, code };
    let exit = |code, rip, info1| CoreEvent::KvmExit {
        vcpu: Some(VcpuId(1)),
        reason: svm(code),
        rip,
        info1,
        info2: 0,
    };
    let entry = CoreEvent::KvmEntry { vcpu: Some(VcpuId(1)), rip: None };
    let (tid, cpu) = (Tid(77), CpuId(1));
    let name = comm("eth0");
    let with_id = BlockRequest { id: Some(0x00ab_cdef), ..request() };
    let events = [
        switch(0, 77, 0),
        waking(tid, cpu, None),
        CoreEvent::SchedWakeupNew { tid, comm: Comm::default(), prio: 0, target_cpu: cpu },
        CoreEvent::SchedMigrate { tid, orig_cpu: CpuId(0), dest_cpu: cpu },
        CoreEvent::SchedFork {
            parent: tid,
            child: Tid(78),
            child_pid: None,
            child_comm: Comm::default(),
        },
        CoreEvent::TaskRename { tid: Tid(78), new_comm: comm("fifteen bytes..") },
        CoreEvent::SchedExec { tid: Tid(78), old_tid: Tid(79) },
        CoreEvent::SchedExit { tid: Tid(78), comm: Comm::default() },
        exit(0x60, 0xffff_ffff_8100_0000, 1),
        entry,
        exit(0x78, 0xffff_ffff_8100_1234, 1),
        entry,
        exit(0x400, 0x7fff_0000_1234, 0x1_0000_0006),
        exit(0x81, 0x7fff_0000_1235, 0),
        CoreEvent::KvmHypercall { nr: 5, args: [0; 4] },
        CoreEvent::KvmHypercall { nr: 6, args: [1, 2, 0, 0] },
        CoreEvent::KvmHypercall { nr: u64::MAX, args: [1, 2, 3, 4] },
        entry,
        exit(u32::MAX, 0, 0),
        exit(0x8000_0021, 1, 2),
        CoreEvent::KvmEntry { vcpu: None, rip: None },
        CoreEvent::KvmUserspaceExit { reason: 2, errno: -4 },
        CoreEvent::KvmHaltPollNs { vcpu: VcpuId(1), new_ns: 10_000, old_ns: 0 },
        CoreEvent::KvmVcpuWakeup { ns: 4_000_000_000, waited: true, valid: false },
        CoreEvent::KvmPio { access: Access::Write, port: 0x3f8, size: 1, count: 1, value: None },
        CoreEvent::KvmMmio {
            access: Access::UnsatisfiedRead,
            gpa: 0xfee0_0000,
            len: 4,
            value: None,
        },
        CoreEvent::KvmFastMmio { gpa: 0xfe00_0000 },
        CoreEvent::KvmPageFault { gpa: 0x1000, error_code: 0x3_0000_0006 },
        CoreEvent::KvmPageFault { gpa: 0x2000, error_code: 0x1_0000_0000_0006 },
        CoreEvent::KvmSetIrq { gsi: 24, level: 1 },
        CoreEvent::KvmMsi { address: 0xfee0_0000, data: 0x4041 },
        CoreEvent::KvmInjVirq { vector: 0x41, reinjected: false },
        CoreEvent::KvmWriteTscOffset { vcpu: VcpuId(1), previous: 0, next: u64::MAX - 5 },
        CoreEvent::IrqEntry { irq: 11, name: Comm::default() },
        CoreEvent::IrqExit { irq: 11, handled: true },
        CoreEvent::IrqEntry { irq: 9_000, name: Comm::default() },
        CoreEvent::IrqExit { irq: 9_000, handled: false },
        CoreEvent::SoftirqRaise { vector: 3, context: None },
        CoreEvent::SoftirqEntry { vector: 3 },
        CoreEvent::SoftirqExit { vector: 3 },
        CoreEvent::SoftirqEntry { vector: 1 },
        CoreEvent::SoftirqRaise { vector: 1, context: None },
        CoreEvent::SoftirqExit { vector: 1 },
        CoreEvent::SyscallEnter { nr: 39 },
        CoreEvent::SyscallExit { nr: 39, ret: 77 },
        CoreEvent::SyscallEnter { nr: 9 },
        CoreEvent::SyscallExit { nr: 9, ret: 0x7f12_3456_7000 },
        CoreEvent::SyscallEnter { nr: -1 },
        CoreEvent::SyscallExit { nr: -1, ret: -38 },
        CoreEvent::SyscallExit { nr: 56, ret: 0 },
        CoreEvent::BlockInsert(request()),
        CoreEvent::BlockIssue(request()),
        CoreEvent::BlockComplete { request: request(), error: -5 },
        CoreEvent::NetXmit { skb: 0xffff_8880_0000_1000, bytes: 1_500, device: name, code: 16 },
        CoreEvent::NetReceive { skb: 0xffff_8880_0000_2000, bytes: 64, device: name },
        CoreEvent::WorkStart { work: 0xffff_8880_0000_3000, function: 0xffff_ffff_8100_2000 },
        CoreEvent::WorkEnd { work: 0xffff_8880_0000_3000, function: 0xffff_ffff_8100_2000 },
        // Told above: again from slots.
        exit(0x60, 0xffff_ffff_8100_0000, 1),
        entry,
        exit(0x81, 0x7fff_0000_1235, 0),
        CoreEvent::KvmInjVirq { vector: 0xec, reinjected: false },
        entry,
        waking(tid, cpu, Some(Context::Softirq)),
        CoreEvent::VectorEntry { source: VectorSource::LocalTimer, vector: 0xec },
        CoreEvent::VectorExit { source: VectorSource::LocalTimer, vector: 0xec },
        CoreEvent::VectorEntry { source: VectorSource::Reschedule, vector: 0xfd },
        waking(tid, cpu, Some(Context::Irq)),
        CoreEvent::VectorExit { source: VectorSource::Reschedule, vector: 0xfd },
        CoreEvent::KvmAccept {
            vcpu: VcpuId(1),
            vector: 0x23,
            mode: 0,
            hardware: false,
            context: None,
        },
        CoreEvent::KvmInjVirq { vector: 0x23, reinjected: true },
        CoreEvent::KvmPio {
            access: Access::Write,
            port: 0xc050,
            size: 2,
            count: 1,
            value: Some(1),
        },
        CoreEvent::KvmMmio { access: Access::Write, gpa: 0xfebf_b004, len: 2, value: Some(1) },
        CoreEvent::BlockInsert(with_id),
        CoreEvent::BlockIssue(with_id),
        CoreEvent::BlockComplete { request: with_id, error: -5 },
        CoreEvent::NetPacket { skb: 0xffff_8880_0000_1000, flow: 0x1234_5678, seq: 7, sent: true },
        CoreEvent::WorkQueue {
            work: 0xffff_8880_0000_3000,
            function: 0xffff_ffff_8100_2000,
            context: None,
        },
        CoreEvent::LockBegin { lock: 0xffff_8880_0000_4000, flags: 2, owner: Some(Tid(78)) },
        CoreEvent::LockEnd { lock: 0xffff_8880_0000_4000, ret: 0 },
        CoreEvent::Throttle { cgroup: 4_711, cpu },
        CoreEvent::Unthrottle { cgroup: 4_711, cpu },
        CoreEvent::ReclaimBegin { memcg: true, order: 0 },
        CoreEvent::ReclaimEnd { memcg: true, pages: 32 },
    ];
    let mut stamped = Vec::new();
    for (n, event) in events.into_iter().enumerate() {
        // One step too long for a delta.
        let step = if n == 6 { 1 << 24 } else { 0 };
        let before = stamped.last().map_or(1_000_000, |(ts, _, _)| *ts);
        stamped.push((before + 100 + n as u64 + step, if n == 0 { 0 } else { 77 }, event));
    }
    file(|file| {
        let mut names = Names::default();
        names.thread(Tid(77), comm("qemu"));
        names.device(2, comm("eth0"));
        file.names(&names).unwrap();
        log(MAIN, &stamped, file);
    })
}

/// A side log whose events lie inside an interval of the main log; losses in between and at the end.
fn side_and_lost() -> Vec<u8> {
    let mut file = BlockWriter::new(Vec::new(), &FileHeader::new(2, Isa::Vmx, "corpus")).unwrap();
    let mut main = LogWriter::new(MAIN);
    let mut event = |ts, event, main: &mut LogWriter| {
        main.event(ts, Tid(3), &event, &mut file).unwrap();
    };
    event(1_000, CoreEvent::SyscallEnter { nr: 1 }, &mut main);
    event(2_000, CoreEvent::SyscallExit { nr: 1, ret: 1 }, &mut main);
    main.lost(12, 3_000, 4_000);
    event(5_000, CoreEvent::SoftirqRaise { vector: 1, context: None }, &mut main);
    main.lost(2, 6_000, 6_500);
    main.finish(&mut file).unwrap();
    let interrupt = [
        (1_500, 3, CoreEvent::IrqEntry { irq: 1, name: Comm::default() }),
        (1_600, 3, CoreEvent::IrqExit { irq: 1, handled: true }),
    ];
    log(SIDE, &interrupt, &mut file);
    file.note("{\"a\":\"note\"}").unwrap();
    let totals = |side, lost| LogTotals {
        side,
        lost,
        bytes: 64,
        lost_first_ns: 3_000 * u64::from(!side),
        lost_last_ns: 6_500 * u64::from(!side),
        ..LogTotals::default()
    };
    file.finish(&Totals { logs: vec![totals(0, 14), totals(1, 0)], ..Totals::default() }).unwrap()
}

/// Two chunks.
fn chunks() -> Vec<u8> {
    let events: Vec<_> = (0..4_500)
        .map(|n| (1_000 + n * 100, 4, CoreEvent::SoftirqRaise { vector: 1, context: None }))
        .collect();
    file(|file| log(MAIN, &events, file))
}

/// A file of a later version's writer, with a kind we do not know: its header says how long it is.
fn later_kinds() -> Vec<u8> {
    let mut header = FileHeader::new(1, Isa::Svm, "corpus");
    header.kinds.push(transect_compact::KindRow {
        kind: 63,
        name: "LATER".into(),
        words: 2,
        fields: "what:34 | w1 more:64".into(),
    });
    let mut file = BlockWriter::new(Vec::new(), &header).unwrap();
    let words = [1 | 3 << 30, 1_000, 0, 36 | 100 << 6 | 1 << 30, 63 | 100 << 6, 7, 36 | 100 << 6];
    put_words(&words, &mut file);
    file.finish(&Totals::default()).unwrap()
}

fn put_words(words: &[u64], file: &mut BlockWriter<Vec<u8>>) {
    let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let slice =
        transect_compact::Slice { log: MAIN, position: 0, sync_ns: 1_000, lost: 0, words: &words };
    transect_compact::SliceSink::slice(file, slice).unwrap();
}

fn of_words(words: &[u64]) -> Vec<u8> {
    file(|file| put_words(words, file))
}

/// SYNC of thread 3 at 1000 ns.
const SYNC: [u64; 3] = [1 | 3 << 30, 1_000, 0];
/// SOFTIRQ_RAISE, 100 ns later.
const RAISE: u64 = 36 | 100 << 6;

/// Gives block number `n` of a file to `change`, header and payload, and makes the header's
/// checksum right again.
fn with_block(file: &[u8], n: usize, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut file = file.to_vec();
    let start = block_at(&file, n);
    let block = &mut file[start..];
    change(block);
    let crc = crc32fast::hash(&block[..60]);
    block[60..64].copy_from_slice(&crc.to_le_bytes());
    file
}

fn block_at(file: &[u8], n: usize) -> usize {
    (0..file.len())
        .step_by(8)
        .filter(|at| file[*at..].starts_with(&transect_compact::BLOCK_MAGIC))
        .nth(n)
        .unwrap()
}

fn with_header(change: impl FnOnce(&mut FileHeader)) -> Vec<u8> {
    let mut header = FileHeader::new(1, Isa::Svm, "corpus");
    change(&mut header);
    BlockWriter::new(Vec::new(), &header).unwrap().finish(&Totals::default()).unwrap()
}

/// Sets bytes of a block.
fn set(at: usize, bytes: impl AsRef<[u8]>) -> impl FnOnce(&mut [u8]) {
    move |block| {
        let bytes = bytes.as_ref();
        block[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

fn broken() -> Vec<(&'static str, Vec<u8>)> {
    let small = of_words(&[&SYNC[..], &[RAISE; 5]].concat());
    let two = chunks();
    let packed = repack(&two, Vec::new()).unwrap();
    let second = block_at(&two, 1);
    // Eight blocks of one chunk.
    let slices = file(|file| {
        let mut log = LogWriter::new(MAIN);
        for n in 0..8 {
            let raise = CoreEvent::SoftirqRaise { vector: 1, context: None };
            log.event(1_000 + n * 100, Tid(4), &raise, file).unwrap();
            log.flush(file).unwrap();
        }
    });
    let end = block_at(&small, 1);
    let cut = |file: &[u8], bytes: usize| file[..bytes].to_vec();
    let replaced = |at: usize, bytes: &[u8]| {
        let mut file = small.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        file
    };
    let words = |more: &[u64]| of_words(&[&SYNC[..], &[RAISE], more].concat());
    vec![
        ("nothing", Vec::new()),
        ("not-compact", b"PERFILE2 and more".to_vec()),
        ("header-cut", cut(&small, 1_000)),
        ("header-length-of-3", replaced(8, &3_u32.to_le_bytes())),
        ("header-length-of-4-gib", replaced(8, &0xffff_fff8_u32.to_le_bytes())),
        ("header-checksum", replaced(30, b"x")),
        ("version-4", with_header(|header| header.version = 4)),
        ("chunks-of-64-kib", with_header(|header| header.chunk_bytes = 65_536)),
        ("kind-of-9-words", with_header(|header| header.kinds[4].words = 9)),
        ("kind-64", with_header(|header| header.kinds[5].kind = 64)),
        ("cut-in-block-header", cut(&small, end + 30)),
        ("cut-in-payload", cut(&two, second + 1_000)),
        ("cut-in-end", cut(&small, small.len() - 9)),
        ("block-magic", with_block(&slices, 4, set(0, b"TBLX"))),
        ("block-checksum", {
            let mut file = slices.clone();
            let at = block_at(&file, 4) + 24;
            file[at] ^= 1;
            file
        }),
        ("payload-checksum", with_block(&slices, 4, set(70, b"x"))),
        ("block-of-kind-9", with_block(&slices, 4, set(4, [9]))),
        ("payload-of-600-kib", with_block(&small, 0, set(16, 614_400_u32.to_le_bytes()))),
        ("payload-of-4-gib", with_block(&small, 0, set(12, [0xf8, 0xff, 0xff, 0xff, 0xf8, 0xff]))),
        ("two-lengths", with_block(&small, 0, set(16, 8_u32.to_le_bytes()))),
        ("half-words", with_block(&small, 0, set(12, [60, 0, 0, 0, 60, 0, 0, 0]))),
        ("position-of-3", with_block(&small, 0, set(24, [3]))),
        ("position-at-2-64", with_block(&small, 0, set(24, [0xf8; 8]))),
        (
            "position-again",
            [&slices[..block_at(&slices, 3)], &slices[block_at(&slices, 0)..]].concat(),
        ),
        (
            "position-gap",
            [&slices[..block_at(&slices, 3)], &slices[block_at(&slices, 4)..]].concat(),
        ),
        ("flags-disagree", with_block(&slices, 4, set(5, [4]))),
        ("columns-not-compressed", with_block(&slices, 4, set(5, [8]))),
        ("compressed-garbage", with_block(&small, 0, set(5, [4 | 1]))),
        ("columns-garbage", with_block(&small, 0, set(5, [4 | 8 | 1]))),
        ("columns-of-less", with_block(&packed, 0, set(16, 8_u32.to_le_bytes()))),
        ("no-sync", of_words(&[RAISE; 4])),
        ("kind-63", words(&[63, RAISE])),
        ("untold-exit", words(&[54, RAISE])),
        ("untold-exit-in-interval", words(&[55 | 100 << 6 | 5 << 34, RAISE])),
        ("pad-with-time", words(&[5 << 6, RAISE])),
        ("record-cut", words(&[12])),
        ("stamp-beyond-64-bits", words(&[2, u64::MAX, RAISE])),
        ("duration-beyond-64-bits", words(&[2, u64::MAX - 150, 39 | 100 << 6 | 100 << 34])),
        (
            "end-not-json",
            with_block(&small, 1, |block| {
                block[64] = b'x';
                let crc = crc32fast::hash(&block[64..64 + 11]);
                block[48..52].copy_from_slice(&crc.to_le_bytes());
            }),
        ),
        ("garbage-between", [&two[..second], &[0x5a; 1_000], &two[second..]].concat()),
        ("chunk-not-sync", {
            // The words are right for their checksum; the chunk does not begin as one must.
            with_block(&two, 1, |block| {
                block[64] = 36;
                let length = u32::from_le_bytes(block[12..16].try_into().unwrap()) as usize;
                let crc = crc32fast::hash(&block[64..64 + length]);
                block[48..52].copy_from_slice(&crc.to_le_bytes());
            })
        }),
    ]
}
