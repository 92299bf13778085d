//! Stacks on this machine's kernel: those of packets that this process sends to itself.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![allow(clippy::print_stdout, reason = "a skipped test says why")]

use crate::host::support::{Memory, is_skipped};
use std::{collections::BTreeMap, fs, net::UdpSocket};
use transect_bpf::{Compact, Family, Plan};
use transect_compact::{BlockWriter, FileHeader, Item, Totals, stack_notes};
use transect_model::{
    event::CoreEvent,
    exit::Isa,
    ids::Tid,
    stack::{MAX_FRAMES, StackPoint, Stacks},
};

const PACKETS: usize = 100;

/// An event, and the stack right behind it.
struct Sample {
    point: StackPoint,
    tid: Tid,
    kernel: Option<u32>,
    user: Option<u32>,
}

/// The stacks of our own packets, and the frames of all, read from the file.
fn recorded(families: &[Family]) -> Option<(Vec<Sample>, Stacks)> {
    let (Ok(from), Ok(to)) = (UdpSocket::bind("127.0.0.1:0"), UdpSocket::bind("127.0.0.1:0"))
    else {
        println!("skipped: no loopback device");
        return None;
    };
    from.connect(to.local_addr().unwrap()).unwrap();
    let mut compact = Compact::load(&Plan::of(families)).unwrap();
    println!("lacking: {:?}", compact.absent());
    let header = FileHeader::new(1024, Isa::Svm, "stacks");
    let consumer = compact.consume(Memory(BlockWriter::new(Vec::new(), &header).unwrap())).unwrap();
    compact.attach().unwrap();
    for _ in 0..PACKETS {
        from.send(b"a packet").unwrap();
        to.recv(&mut [0; 8]).unwrap();
    }
    let finished = compact.stop(consumer).unwrap();
    assert_eq!((finished.stats.lost(), finished.failure.is_none()), (0, true));
    let mut writer = finished.sink.0;
    for note in stack_notes(&finished.stacks) {
        writer.note(&note).unwrap();
    }
    let file = writer.finish(&Totals::default()).unwrap();
    let compact = transect_compact::Compact::parse(&file).unwrap();
    assert_eq!(compact.stacks(), finished.stacks);
    let mut samples = Vec::new();
    for cpu in compact.cpus() {
        let mut before: Option<(u64, Tid, CoreEvent)> = None;
        for item in compact.stream(cpu).unwrap() {
            let Item::Event { ts, tid, event, .. } = item else {
                panic!("nothing is lost: {item:?}")
            };
            if let CoreEvent::Stack { point, kernel, user, .. } = event {
                let (then, of, event) = before.expect("an event before its stack");
                assert_eq!((then, of), (ts.get(), tid), "{event:?}");
                let is_its = match point {
                    StackPoint::Transmit => {
                        matches!(event, CoreEvent::NetPacket { sent: true, .. })
                    }
                    StackPoint::Receive => matches!(event, CoreEvent::NetReceive { .. }),
                    StackPoint::Issue => matches!(event, CoreEvent::BlockIssue(_)),
                    StackPoint::Accept => matches!(event, CoreEvent::KvmAccept { .. }),
                    StackPoint::Wake => matches!(event, CoreEvent::SchedWaking { .. }),
                };
                assert!(is_its, "{point:?} behind {event:?}");
                samples.push(Sample { point, tid, kernel, user });
            }
            before = Some((ts.get(), tid, event));
        }
    }
    Some((samples, finished.stacks))
}

#[test]
fn packets_have_the_stack_of_who_sends_them() {
    if is_skipped() {
        return;
    }
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    if symbols.lines().all(|line| line.starts_with("0000000000000000 ")) {
        return println!("skipped: the kernel hides its addresses");
    }
    let families = [Family::Sched, Family::Net, Family::Causes, Family::Stacks];
    let Some((samples, stacks)) = recorded(&families) else { return };
    let own = Tid(rustix::thread::gettid().as_raw_pid());
    let names = |id: Option<u32>| -> Vec<&str> {
        let frames = id.and_then(|id| stacks.get(&id));
        frames.into_iter().flatten().map(|frame| frame.symbol.as_str()).collect()
    };
    for point in [StackPoint::Transmit, StackPoint::Receive] {
        let mine = samples.iter().filter(|sample| sample.point == point && sample.tid == own);
        let mut paths: BTreeMap<String, usize> = BTreeMap::new();
        for sample in mine {
            *paths.entry(names(sample.kernel).join(" ")).or_default() += 1;
        }
        println!("{}: {paths:?}", point.as_str());
        let sent: usize = paths.values().sum();
        assert!(sent >= PACKETS, "{sent}");
        let through_udp = paths.iter().filter(|(path, _)| path.contains("udp_sendmsg"));
        assert!(through_udp.map(|(_, count)| count).sum::<usize>() >= PACKETS, "{paths:?}");
        // What takes the stack is none of it.
        assert!(
            paths.keys().all(|path| !path.contains("bpf_prog") && !path.starts_with("__traceiter"))
        );
    }
    let with_program = samples.iter().filter(|s| s.point == StackPoint::Transmit && s.tid == own);
    let with_program: Vec<_> = with_program.filter(|sample| sample.user.is_some()).collect();
    println!("{} with the program's own frames", with_program.len());
    assert!(stacks.values().all(|frames| !frames.is_empty() && frames.len() <= MAX_FRAMES));
}

#[test]
fn without_the_family_there_are_no_stacks() {
    if is_skipped() {
        return;
    }
    if let Some((samples, stacks)) = recorded(&[Family::Sched, Family::Net, Family::Causes]) {
        assert_eq!((samples.len(), stacks.len()), (0, 0));
    }
}
