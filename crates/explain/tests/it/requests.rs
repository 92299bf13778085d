//! What rules find in the stages of block requests, and what they leave alone.

use crate::story::{GUEST, HOST, Story, thread};
use transect_explain::{
    Party, Rows,
    detect::{Carries, Confidence, Detail, Detector, Finding, Range, findings},
};
use transect_model::{
    cause::Evidence,
    event::BlockOp,
    ids::{BlockDevice, MachineId, Tid},
    table::{IoRequest, Packet},
};

const MS: i64 = 1_000_000;
const SECOND: i64 = 1_000 * MS;
const DISK: BlockDevice = BlockDevice(254 << 20);
const HOST_DISK: BlockDevice = BlockDevice(8 << 20);
const BACK_END: i32 = 200;

/// Lengths of the stages of a VM's request, ms.
#[derive(Clone, Copy)]
struct Stages {
    pickup: i64,
    queue: i64,
    device: i64,
    signal: i64,
}

fn request(machine_id: MachineId, ts: i64, op: BlockOp) -> IoRequest {
    IoRequest {
        ts,
        dur: None,
        machine_id,
        tid: Tid(42),
        device: DISK,
        queue: None,
        op,
        sector: 8,
        bytes: 4096,
        issue_ts: None,
        kick_ts: None,
        pickup_ts: None,
        host_submit_ts: None,
        host_issue_ts: None,
        host_complete_ts: None,
        signal_ts: None,
        inject_ts: None,
        guest_irq_ts: None,
        complete_ts: None,
        wake_ts: None,
        run_ts: None,
        wake_tid: None,
        backend_tid: None,
        host_device: None,
        error: None,
        evidence: None,
        missing: String::new(),
        error_ns: None,
    }
}

fn of_vm(ts: i64, of: Stages) -> IoRequest {
    let pickup = ts + of.pickup * MS;
    let issue = pickup + of.queue * MS;
    let done = issue + of.device * MS;
    let signal = done + of.signal * MS;
    IoRequest {
        dur: Some(signal - ts),
        issue_ts: Some(ts),
        kick_ts: Some(ts),
        pickup_ts: Some(pickup),
        host_submit_ts: Some(pickup),
        host_issue_ts: Some(issue),
        host_complete_ts: Some(done),
        signal_ts: Some(signal),
        complete_ts: Some(signal),
        backend_tid: Some(Tid(BACK_END)),
        host_device: Some(HOST_DISK),
        error: Some(0),
        evidence: Some(Evidence::Id),
        ..request(GUEST, ts, BlockOp::Write)
    }
}

fn found(story: &Story) -> Vec<Finding> {
    let range = Range { from: 0, until: SECOND, second: Some(SECOND) };
    let mut all = findings(&Rows::new(&story.0), &story.0, range);
    all.retain(|finding| {
        let of_requests =
            [Detector::SlowDevice, Detector::SlowVmm, Detector::Delivery, Detector::DoubleCache];
        of_requests.contains(&finding.detector)
    });
    all
}

fn story(count: i64, of: Stages) -> Story {
    let mut story = Story::new();
    story.0.io_requests.extend((0..count).map(|n| of_vm(n * 15 * MS, of)));
    story
}

#[test]
fn a_device_that_takes_most_of_the_slowest_requests_is_slow() {
    let slow = Stages { pickup: 1, queue: 1, device: 8, signal: 0 };
    let all = found(&story(60, slow));
    let [finding] = &all[..] else { panic!("{all:?}") };
    assert_eq!(finding.detector, Detector::SlowDevice);
    assert_eq!(finding.subject, Party::Machine(GUEST));
    assert_eq!((finding.held_ns, finding.of_ns, finding.count), (480 * MS, 600 * MS, 60));
    assert_eq!(finding.detail, Detail::Device { device: HOST_DISK, is_host: true });
    assert_eq!(finding.confidence, Confidence::Certain);
    // Too few, and a queue that is longer: then the load is too high.
    assert!(found(&story(49, slow)).is_empty());
    assert!(found(&story(60, Stages { queue: 9, ..slow })).is_empty());
    // All is slow, but the slowest are not by the device.
    let mut uneven = story(60, slow);
    let longest = Stages { pickup: 12, queue: 0, device: 9, signal: 0 };
    uneven.0.io_requests[7] = of_vm(uneven.0.io_requests[7].ts, longest);
    assert!(found(&uneven).is_empty());
    // Joined by nothing but time.
    let mut likely = story(60, slow);
    likely.0.io_requests[..7].iter_mut().for_each(|row| row.evidence = Some(Evidence::Order));
    assert_eq!(found(&likely)[0].confidence, Confidence::Likely);
}

/// A host's own requests, and those of its containers.
#[test]
fn a_hosts_device_is_slow_without_a_vm() {
    let mut story = Story::new();
    story.0.io_requests.extend((0..60).map(|n| {
        let ts = n * 15 * MS;
        IoRequest {
            dur: Some(4 * MS),
            issue_ts: Some(ts + MS),
            complete_ts: Some(ts + 4 * MS),
            ..request(HOST, ts, BlockOp::Read)
        }
    }));
    let all = found(&story);
    let [finding] = &all[..] else { panic!("{all:?}") };
    assert_eq!(finding.detail, Detail::Device { device: DISK, is_host: false });
    assert_eq!((finding.held_ns, finding.of_ns), (180 * MS, 240 * MS));
}

#[test]
fn a_vmm_that_takes_long_is_slow() {
    let slow = Stages { pickup: 4, queue: 1, device: 3, signal: 2 };
    let mut with = story(60, slow)
        .states(HOST, BACK_END, &[('R', 500 * MS), ('W', 800 * MS), ('R', SECOND)])
        .slices(HOST, 0, &[(BACK_END, 500 * MS), (9, 800 * MS), (BACK_END, SECOND)]);
    let all = found(&with);
    let [finding] = &all[..] else { panic!("{all:?}") };
    assert_eq!(finding.detector, Detector::SlowVmm);
    assert_eq!((finding.held_ns, finding.of_ns), (360 * MS, 600 * MS));
    let holder = Some(thread(HOST, BACK_END));
    let behind = Some(Party::Thread(thread(HOST, 9)));
    let what = Carries::Requests;
    assert_eq!(finding.detail, Detail::BackEnd { what, holder, behind });
    // A back end that was awake has no pickup, and takes no time.
    with.0.io_requests.iter_mut().for_each(|row| row.pickup_ts = None);
    assert!(found(&with).is_empty());
}

/// Each packet waits for the sender's back end, and the receiver's vCPU for a CPU.
#[test]
fn packets_show_a_slow_back_end_and_late_interrupts() {
    let packet = |n: i64| {
        let ts = n * 15 * MS;
        Packet {
            ts,
            dur: Some(10 * MS),
            machine_id: GUEST,
            tid: None,
            device: None,
            to_machine_id: Some(HOST),
            to_device: None,
            flow: 2,
            seq: 9,
            bytes: None,
            send_ts: Some(ts),
            kick_ts: Some(ts + MS),
            pickup_ts: Some(ts + 5 * MS),
            host_receive_ts: None,
            host_send_ts: None,
            fetch_ts: None,
            signal_ts: None,
            inject_ts: None,
            guest_irq_ts: None,
            receive_ts: Some(ts + 10 * MS),
            wake_ts: None,
            run_ts: None,
            wake_tid: None,
            backend_tid: Some(Tid(BACK_END)),
            to_backend_tid: None,
            evidence: Some(Evidence::Id),
            missing: String::new(),
            error_ns: None,
        }
    };
    let mut story = Story::new()
        .states(HOST, BACK_END, &[('R', 500 * MS), ('W', 800 * MS), ('R', SECOND)])
        .slices(HOST, 0, &[(BACK_END, 500 * MS), (9, 800 * MS), (BACK_END, SECOND)]);
    story.0.packets.extend((0..60).map(packet));
    let all = found(&story);
    let [finding] = &all[..] else { panic!("{all:?}") };
    assert_eq!((finding.detector, finding.count), (Detector::SlowVmm, 60));
    assert_eq!((finding.held_ns, finding.of_ns), (240 * MS, 600 * MS));
    let holder = Some(thread(HOST, BACK_END));
    let behind = Some(Party::Thread(thread(HOST, 9)));
    let what = Carries::Packets;
    assert_eq!(finding.detail, Detail::BackEnd { what, holder, behind });
    // Into the guest: by its back end, and by interrupt.
    for row in &mut story.0.packets {
        (row.machine_id, row.to_machine_id) = (HOST, Some(GUEST));
        (row.kick_ts, row.pickup_ts) = (None, None);
        (row.host_send_ts, row.fetch_ts) = (Some(row.ts), Some(row.ts + MS));
        (row.signal_ts, row.guest_irq_ts) = (Some(row.ts + MS), Some(row.ts + 4 * MS));
    }
    let all = found(&story);
    let [finding] = &all[..] else { panic!("{all:?}") };
    assert_eq!((finding.detector, finding.held_ns), (Detector::Delivery, 180 * MS));
    assert_eq!(finding.detail, Detail::BackEnd { what, holder: None, behind: None });
    story.0.packets.truncate(49);
    assert!(found(&story).is_empty());
}

#[test]
fn reads_that_need_no_device_are_cached_twice() {
    let read = |n: i64, is_cached: bool| {
        let ts = n * 15 * MS;
        let host = |at| (!is_cached).then_some(at);
        IoRequest {
            dur: Some(MS),
            issue_ts: Some(ts),
            host_submit_ts: host(ts),
            host_issue_ts: host(ts),
            host_complete_ts: host(ts),
            signal_ts: Some(ts + MS),
            complete_ts: Some(ts + MS),
            ..request(GUEST, ts, BlockOp::Read)
        }
    };
    let story = |cached: i64| {
        let mut story = Story::new();
        story.0.io_requests.extend((0..60).map(|n| read(n, n < cached)));
        // The host's block events are recorded.
        story.0.io_requests.push(IoRequest { dur: Some(1), ..request(HOST, 0, BlockOp::Read) });
        story
    };
    let all = found(&story(48));
    let [finding] = &all[..] else { panic!("{all:?}") };
    assert_eq!((finding.detector, finding.count), (Detector::DoubleCache, 48));
    assert_eq!((finding.held_ns, finding.of_ns), (48 * MS, 60 * MS));
    assert!(found(&story(47)).is_empty());
    let mut alone = story(60);
    alone.0.io_requests.pop();
    assert!(found(&alone).is_empty(), "nothing shows that the host's requests are recorded");
}
