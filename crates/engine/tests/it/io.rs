//! Small stories of block requests, packets, work items and counters, with the rows they must give.

use crate::dsl::{Story, block_io, counters, net_io, work_items};

/// Queued, issued by a kworker, completed on another CPU; another is issued at once and fails.
#[test]
fn a_request_from_queue_to_completion() {
    let (tables, _) = Story::parse(
        "host 0 1000 42 block_insert R 2048+8
         host 0 1010 43 block_insert W 4096+16
         host 0 1050 9 block_issue R 2048+8
         host 0 1060 9 block_issue W 4096+16
         host 0 1070 42 block_issue R 9000+8 minor=16
         host 1 1200 0 block_complete W 4096+16
         host 1 1300 0 block_complete R 2048+8
         host 0 1400 0 block_complete R 9000+8 minor=16 error=-5",
    )
    .run();
    assert_eq!(
        block_io(&tables),
        [
            "1010+190 write 254:0 4096 8192 by 43 issue=50 on c1",
            "1000+300 read 254:0 2048 4096 by 42 issue=50 on c1",
            "1070+330 read 254:16 9000 4096 by 42 issue=0 error=-5 on c0",
        ]
    );
    assert_eq!(
        counters(&tables),
        [
            // Before, no completion shows that completions are recorded.
            "1200 block_in_flight 254:0 1",
            "1300 block_in_flight 254:0 0",
            "1400 block_in_flight 254:16 0",
        ]
    );
}

/// What was queued apart is issued as one request: it begins with its first part. What is not part
/// of it stays.
#[test]
fn merged_requests_are_one() {
    let (tables, _) = Story::parse(
        "host 0 1000 42 block_insert W 108+8
         host 0 1010 42 block_insert W 100+8
         host 0 1020 43 block_insert R 104+4
         host 0 1030 43 block_insert W 120+8
         host 0 1050 42 block_issue W 100+20
         host 0 1100 0 block_complete W 100+20
         host 0 1150 43 block_issue W 120+8
         host 0 1200 0 block_complete W 120+8",
    )
    .run();
    assert_eq!(
        block_io(&tables),
        [
            "1000+100 write 254:0 100 10240 by 42 issue=50 on c0",
            "1030+170 write 254:0 120 4096 by 43 issue=120 on c0",
            "1020+- read 254:0 104 2048 by 43 issue=-",
        ]
    );
}

/// A device that was busy is issued the same request again: one row, from the first issue. The same
/// sectors read twice at once: two completions, two rows.
#[test]
fn the_same_sectors_twice() {
    let (tables, _) = Story::parse(
        "host 0 1000 42 block_issue R 0+8
         host 0 1040 9 block_issue R 0+8
         host 0 1100 0 block_complete R 0+8
         host 0 2000 42 block_insert R 0+8
         host 0 2010 43 block_insert R 0+8
         host 0 2020 42 block_issue R 0+8
         host 0 2030 43 block_issue R 0+8
         host 0 2100 0 block_complete R 0+8
         host 0 2200 0 block_complete R 0+8
         host 0 3000 42 block_issue R 64+8
         host 0 3010 43 block_issue R 64+8
         host 0 3100 0 block_complete R 64+8
         host 0 3200 0 block_complete R 64+8
         host 0 4000 0 other",
    )
    .run();
    assert_eq!(
        block_io(&tables),
        [
            "1000+100 read 254:0 0 4096 by 42 issue=0 on c0",
            "2000+100 read 254:0 0 4096 by 42 issue=20 on c0",
            "2010+190 read 254:0 0 4096 by 43 issue=20 on c0",
            "3000+100 read 254:0 64 4096 by 42 issue=0 on c0",
            "3010+190 read 254:0 64 4096 by 43 issue=0 on c0",
        ]
    );
}

/// A flush completes with sector -1; the request that waited for it was never issued, and is not
/// taken for a real one at sector 0. A request done in two parts ends with the second.
#[test]
fn flushes_and_parts() {
    let (tables, _) = Story::parse(
        "host 0 1000 42 block_issue W 0+8
         host 0 1010 9 block_issue F 0+0
         host 1 1100 0 block_complete F 18446744073709551615+0
         host 1 1101 0 block_complete W 0+0
         host 1 1150 0 block_complete W 0+4
         host 1 1200 0 block_complete W 4+4",
    )
    .run();
    assert_eq!(
        block_io(&tables),
        [
            "1010+90 flush 254:0 0 0 by 9 issue=0 on c1",
            "1000+200 write 254:0 0 4096 by 42 issue=0 on c1",
        ]
    );
    assert_eq!(counters(&tables).last().unwrap(), "1200 block_in_flight 254:0 0");
}

/// A hole in any CPU's stream may hide a request's end: no made-up duration, no made-up number.
#[test]
fn holes_end_requests_and_work_without_a_length() {
    let (tables, _) = Story::parse(
        "host 0 1000 42 block_issue R 0+8
         host 0 1010 9 work_start 7 70
         host 0 1020 0 work_start 8 80
         host 1 1000 11 sched_switch 11 R 12
         host 1 1005 12 work_start 6 60
         host 1 1030 12 other
         host 0 1040 42 other
         host 0 lost count=3
         host 0 1200 42 other
         host 0 1210 42 block_complete R 0+8
         host 0 1220 9 work_end 7 70
         host 0 1230 0 work_end 8 80
         host 1 1240 12 work_end 6 60
         host 0 1300 42 block_issue R 0+8
         host 0 1310 9 work_start 7 70
         host 0 1400 0 block_complete R 0+8
         host 0 1500 0 other",
    )
    .run();
    assert_eq!(
        block_io(&tables),
        [
            "1000+- read 254:0 0 4096 by 42 issue=0",
            "1300+100 read 254:0 0 4096 by 42 issue=0 on c0"
        ]
    );
    // Requests that were issued in the hole may be under way for the rest of the recording.
    assert_eq!(counters(&tables), ["1040 block_in_flight 254:0 -"]);
    // Thread 12 demonstrably ran on the other CPU all the time.
    assert_eq!(
        work_items(&tables),
        [
            "1010+- 70 by 9 on c0",
            "1020+- 80 by 0 on c0",
            "1005+235 60 by 12 on c1",
            "1310+- 70 by 9 on c0"
        ]
    );
}

/// The same where nothing else is recorded.
#[test]
fn a_hole_ends_work_without_scheduler_events() {
    let (tables, _) = Story::parse(
        "host 0 1000 9 work_start 7 70
         host 0 lost count=3
         host 0 1200 9 work_end 7 70
         host 0 1300 9 other",
    )
    .run();
    assert_eq!(work_items(&tables), ["1000+- 70 by 9 on c0"]);
}

/// An item may sleep and wake elsewhere; another one runs in a softirq on top of it.
#[test]
fn work_items_nest_and_move() {
    let (tables, _) = Story::parse(
        "host 0 1000 9 work_start 7 70
         host 0 1010 9 work_start 8 80
         host 0 1020 9 work_end 8 80
         host 0 1030 9 sched_switch 9 D 0
         host 1 1100 0 sched_switch 0 R 9
         host 1 1150 9 work_end 7 70
         host 1 1160 9 work_end 7 70
         host 1 1200 0 other",
    )
    .run();
    assert_eq!(work_items(&tables), ["1010+10 80 by 9 on c0", "1000+150 70 by 9 on c0"]);
}

#[test]
fn packets() {
    let (tables, _) = Story::parse(
        "host 0 1000 42 net_xmit eth0 1514
         host 0 1010 42 net_xmit eth0 60 code=16
         host 1 1020 7 net_receive enp0s31f6 1514
         host 1 1030 7 other",
    )
    .run();
    assert_eq!(
        net_io(&tables),
        [
            "1000 xmit eth0 1514 by 42 on c0 code=0",
            "1010 xmit eth0 60 by 42 on c0 code=16",
            "1020 receive enp0s31f6 1514 by 7 on c1",
        ]
    );
}

/// The polling window is told when it changes, and again after a hole.
#[test]
fn halt_polling_is_a_counter() {
    let (tables, _) = Story::parse(
        "vm web vcpu=0 tid=162
         host 0 1000 162 kvm_entry vcpu=0
         host 0 1100 162 kvm_halt_poll_ns new=10000
         host 0 1200 162 kvm_halt_poll_ns new=10000
         host 0 1300 162 kvm_halt_poll_ns new=0
         host 0 lost count=1
         host 0 1400 162 kvm_halt_poll_ns new=0
         host 0 1500 162 other",
    )
    .run();
    assert_eq!(
        counters(&tables),
        [
            "1100 halt_poll_ns 1/0 10000",
            "1300 halt_poll_ns 1/0 0",
            "1300 halt_poll_ns 1/0 -",
            "1400 halt_poll_ns 1/0 0",
        ]
    );
}

/// Every CPU that a stream tells about is listed.
#[test]
fn cpus_are_listed() {
    let (tables, _) = Story::parse(
        "vm web vcpu=0 tid=162
         host 0 1000 162 kvm_entry vcpu=0
         host 2 1000 7 other
         web 0 1010 3 other
         host 0 1100 162 kvm_exit hlt vcpu=0",
    )
    .run();
    let cpus: Vec<_> = tables.cpus.iter().map(|r| (r.machine_id.0, r.cpu.0)).collect();
    assert_eq!(cpus, [(0, 0), (0, 2), (1, 0)]);
}
