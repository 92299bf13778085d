//! The stages of block requests: stories, and a real nested recording.

#![allow(clippy::unwrap_used, reason = "a failed expectation is the report")]

use crate::{dsl::Story, recordings::run_in};
use std::collections::BTreeMap;
use transect_model::{
    cause::Evidence,
    ids::MachineId,
    stage::Staged as _,
    table::{IoRequest, Tables},
};

const GUEST: MachineId = MachineId(1);

/// A VM whose back end is thread 200, on the host's CPU 1.
const BED: &str = "
    vm web vcpu=0 tid=162
    host 0 100 162 sched_process_fork 162 200
    host 1 110 7 sched_switch 7 R 200
    host 1 120 200 sched_switch 200 S 7
    host 1 130 7 sched_waking 300 in=task
    web 0 150 41 sched_switch 41 R 42
    host 0 200 162 kvm_entry vcpu=0
";

/// All streams go on behind the last request.
const END: &str = "
    host 0 90000 162 other
    host 1 90000 7 other
    web 0 90000 42 other
";

/// A request of the guest's from `t` on, one at a time, whose sectors are so much later on the host's device.
fn one(t: i64, sector: i64, host_sector: i64) -> String {
    let at = |after: i64| t + after;
    let (guest, host) = (format!("W {sector}+8"), format!("W {host_sector}+8 minor=16"));
    [
        out(t, &guest),
        format!(
            "host 1 {} 200 block_insert {host}
             host 1 {} 200 block_issue {host}
             host 1 {} 200 sched_switch 200 S 7
             host 1 {} 7 irq_entry 35
             host 1 {} 7 block_complete {host}
             host 1 {} 7 sched_waking 200 cpu=1 in=irq
             host 1 {} 7 irq_exit 35
             host 1 {} 7 sched_switch 7 R 200",
            at(50),
            at(60),
            at(70),
            at(100),
            at(101),
            at(102),
            at(105),
            at(110)
        ),
        back(t, &guest),
    ]
    .join("\n")
}

/// Out of the guest, to the back end.
fn out(t: i64, guest: &str) -> String {
    let at = |after: i64| t + after;
    format!(
        "web 0 {} 42 block_insert {guest}
         web 0 {} 42 block_issue {guest}
         host 0 {} 162 kvm_exit npf vcpu=0
         host 0 {} 162 kvm_mmio 4096
         host 0 {} 162 sched_waking 200 cpu=1 in=task
         host 0 {} 162 kvm_entry vcpu=0
         web 0 {} 42 sched_switch 42 S 0
         host 1 {} 7 sched_switch 7 R 200",
        t,
        at(10),
        at(20),
        at(21),
        at(22),
        at(30),
        at(32),
        at(40)
    )
}

/// From the back end into the guest.
fn back(t: i64, guest: &str) -> String {
    let at = |after: i64| t + after;
    format!(
        "host 1 {} 200 kvm_msi 4276092928 35
         host 1 {} 200 kvm_accept 35 vcpu=0 in=task
         host 1 {} 200 sched_switch 200 S 7
         host 0 {} 162 kvm_exit npf vcpu=0
         host 0 {} 162 kvm_inj_virq 35
         host 0 {} 162 kvm_entry vcpu=0
         web 0 {} 0 irq_entry 25
         web 0 {} 0 block_complete {guest}
         web 0 {} 0 sched_waking 42 in=irq
         web 0 {} 0 irq_exit 25
         web 0 {} 0 sched_switch 0 S 42",
        at(120),
        at(121),
        at(130),
        at(140),
        at(150),
        at(151),
        at(160),
        at(170),
        at(175),
        at(180),
        at(190)
    )
}

fn run(parts: &[String]) -> Tables {
    Story::parse(&format!("{BED}{}{END}", parts.join("\n"))).run().0
}

/// The guest's requests in order: `sector: cut+after … [missing] evidence`.
fn told(tables: &Tables) -> Vec<String> {
    let mut rows: Vec<&IoRequest> =
        tables.io_requests.iter().filter(|row| row.machine_id == GUEST).collect();
    rows.sort_by_key(|row| row.ts);
    rows.into_iter().map(text).collect()
}

fn text(row: &IoRequest) -> String {
    let known = IoRequest::CUTS.iter().zip(row.cuts()).skip(1);
    let known = known.filter_map(|(cut, ts)| Some(format!("{cut}+{}", ts? - row.ts)));
    let known: Vec<String> = known.collect();
    let mut text = format!("{}: {}", row.sector, known.join(" "));
    if !row.missing.is_empty() {
        text += &format!(" without {}", row.missing);
    }
    text + row.evidence.map_or("", |evidence| match evidence {
        Evidence::Id => " by id",
        Evidence::Context => " by context",
        Evidence::Order => " by order",
    })
}

const WHOLE: &str = "issue+10 kick+21 pickup+40 host_submit+50 host_issue+60 host_complete+101 signal+121 \
                     inject+150 guest_irq+160 complete+170 wake+175 run+190";

#[test]
fn a_request_is_followed_through_the_host() {
    let tables = run(&[one(1000, 8, 5008)]);
    assert_eq!(told(&tables), [format!("8: {WHOLE} by context")]);
    let row = tables.io_requests.iter().find(|row| row.machine_id == GUEST).unwrap();
    assert_eq!(
        (row.dur, row.wake_tid.unwrap().0, row.backend_tid.unwrap().0),
        (Some(190), 42, 200)
    );
    assert_eq!(row.host_device.unwrap().to_string(), "254:16");
    // The VMM's own request is the host's.
    let host = tables.io_requests.iter().find(|row| row.machine_id != GUEST).unwrap();
    assert_eq!(text(host), "5008: issue+10 complete+51 wake+52 run+60");
}

/// What two dozen requests have shown is known of those that follow, also if they are under way together.
#[test]
fn queues_and_places_are_learned() {
    let mut parts: Vec<String> =
        (0..24).map(|n| one(1000 + n * 200, 8 * (7 * n % 32), 5000 + 8 * (7 * n % 32))).collect();
    let tables = run(&parts);
    let rows = told(&tables);
    assert!(rows[0].ends_with("by context") && rows[23].ends_with("by id"), "{rows:#?}");
    // Two, of which the later one is done first.
    let t = 9000;
    parts.push(format!(
        "web 0 {} 42 block_issue W 800+8
         web 0 {} 42 block_issue W 400+8
         host 0 {} 162 kvm_exit npf vcpu=0
         host 0 {} 162 kvm_mmio 4096
         host 0 {} 162 sched_waking 200 cpu=1 in=task
         host 0 {} 162 kvm_entry vcpu=0
         host 1 {} 7 sched_switch 7 R 200
         host 1 {} 200 block_issue W 5800+8 minor=16
         host 1 {} 200 block_issue W 5400+8 minor=16
         host 1 {} 200 block_complete W 5400+8 minor=16
         host 1 {} 200 block_complete W 5800+8 minor=16",
        t,
        t + 5,
        t + 20,
        t + 21,
        t + 22,
        t + 30,
        t + 40,
        t + 50,
        t + 60,
        t + 70,
        t + 80
    ));
    parts.push(format!(
        "{}
         web 0 {} 0 block_complete W 800+8",
        back(t, "W 400+8").replace(&format!("web 0 {} ", t + 175), "# ").replace(
            &format!("web 0 {} 0 irq_exit 25", t + 180),
            &format!(
                "web 0 {} 0 block_complete W 800+8 \n web 0 {} 0 irq_exit 25",
                t + 176,
                t + 180
            )
        ),
        t + 10_000
    ));
    let rows = told(&run(&parts));
    let last = "inject+150 guest_irq+160";
    assert_eq!(
        rows[24..26],
        [
            format!(
                "800: issue+0 kick+21 pickup+40 host_submit+50 host_issue+50 host_complete+80 signal+121 {last} \
                 complete+176 without wake by id"
            ),
            "400: issue+0 kick+16 pickup+35 host_submit+55 host_issue+55 host_complete+65 signal+116 \
             inject+145 guest_irq+155 complete+165 without wake by id"
                .to_owned(),
        ],
        "{rows:#?}"
    );
}

/// The doorbell of another device, and one that the guest did not ring because the back end was awake.
#[test]
fn doorbells_of_others_are_passed_over() {
    let mut parts: Vec<String> =
        (0..24).map(|n| one(1000 + n * 200, 8 * n, 5000 + 8 * n)).collect();
    let t = 9000;
    let foreign = format!(
        "host 0 {} 162 kvm_exit npf vcpu=0
         host 0 {} 162 kvm_mmio 8192
         host 0 {} 162 kvm_entry vcpu=0\n",
        t + 12,
        t + 13,
        t + 14
    );
    let whole = one(t, 800, 5800);
    let (before, behind) = whole.split_once(&format!("         host 0 {} ", t + 20)).unwrap();
    parts.push(format!("{before}{foreign}host 0 {} {behind}", t + 20));
    assert_eq!(told(&run(&parts))[24], format!("800: {WHOLE} by id"));
    // The same without its own doorbell; a later one is for what follows.
    let silent: Vec<&str> = whole
        .lines()
        .filter(|line| {
            !["kvm_mmio", "sched_waking 200 cpu=1 in=task"].iter().any(|what| line.contains(what))
        })
        .collect();
    parts.pop();
    parts.push(silent.join("\n"));
    parts.push(one(t + 400, 808, 5808));
    let rows = told(&run(&parts));
    let rest = WHOLE.replace("kick+21 pickup+40 ", "");
    assert_eq!(rows[24], format!("800: {rest} without kick,pickup by context"), "{rows:#?}");
    assert_eq!(rows[25], format!("808: {WHOLE} by id"));
}

#[test]
fn the_page_cache_answers_without_a_device() {
    let guest = "R 8+8";
    let rows = told(&run(&[out(1000, guest), back(1000, guest)]));
    let expected = "8: issue+10 kick+21 pickup+40 signal+121 inject+150 guest_irq+160 complete+170 wake+175 run+190 \
                    without host by context";
    assert_eq!(rows, [expected]);
}

/// A hole of the host's: what follows of the request may have happened in it.
#[test]
fn a_hole_hides_the_rest_of_the_way() {
    let whole = one(1000, 8, 5008);
    let begin = whole
        .replace("         host 1 1070 ", "         host 1 lost count=3\n         host 1 1070 ");
    let rows = told(&run(&[begin, one(2000, 16, 5016)]));
    let expected = "8: issue+10 kick+21 pickup+40 complete+170 wake+175 run+190 without host,signal,inject,guest_irq \
                    by context";
    assert_eq!(rows, [expected.to_owned(), format!("16: {WHOLE} by context")]);
}

#[test]
fn every_request_of_a_real_recording_has_its_stages() {
    let (tables, _) = run_in("nested", &["host.dat", "guest.dat"]);
    let rows: Vec<&IoRequest> =
        tables.io_requests.iter().filter(|row| row.machine_id == GUEST).collect();
    assert_eq!(rows.len(), 150);
    let mut kinds: BTreeMap<(String, Option<Evidence>), usize> = BTreeMap::new();
    for row in &rows {
        let known: Vec<i64> = row.cuts().flatten().collect();
        assert!(known.is_sorted(), "{row:?}");
        let stages: i64 = row.stages().map(|stage| stage.ns).sum();
        assert_eq!(Some(stages), row.dur, "{row:?}");
        *kinds.entry((row.missing.clone(), row.evidence)).or_default() += 1;
        let same = tables
            .block_io
            .iter()
            .find(|io| (io.machine_id, io.ts, io.sector) == (row.machine_id, row.ts, row.sector));
        assert_eq!(same.unwrap().dur, row.complete_ts.map(|t| t - row.ts));
    }
    // The disk is a file that the host has in its page cache. When a back end that is awake sees the
    // request is not told.
    let kind = |missing: &str, evidence, count| ((missing.to_owned(), Some(evidence)), count);
    let expected = [
        kind("host", Evidence::Id, 54),
        kind("host", Evidence::Context, 18),
        kind("pickup,host", Evidence::Id, 56),
        kind("pickup,host", Evidence::Context, 22),
    ];
    assert_eq!(kinds, BTreeMap::from(expected));
}

/// The VMM's disk is a logical volume: its request there, and within that the volume's own to the device beneath.
#[test]
fn a_volume_is_what_the_vmm_asked() {
    let on_volume = |t: i64, n: i64| {
        let sector = 8 * (7 * n % 32);
        let whole = one(t, sector, 5000 + sector);
        let volume = format!("W {sector}+8 minor=3");
        let begin = format!("host 1 {} 200 block_issue {volume}\n", t + 45);
        let end = format!("host 1 {} 7 block_complete {volume}\n", t + 103);
        let (before, behind) =
            whole.split_once(&format!("host 1 {} 200 block_insert", t + 50)).unwrap();
        let (middle, rest) = behind.split_once(&format!("host 1 {} 7 irq_exit", t + 105)).unwrap();
        format!(
            "{before}{begin}host 1 {} 200 block_insert{middle}{end}host 1 {} 7 irq_exit{rest}",
            t + 50,
            t + 105
        )
    };
    let parts: Vec<String> = (0..24).map(|n| on_volume(1000 + n * 200, n)).collect();
    let tables = run(&parts);
    let rows = told(&tables);
    let whole = WHOLE.replace(
        "host_submit+50 host_issue+60 host_complete+101",
        "host_submit+45 host_issue+45 host_complete+103",
    );
    assert!(rows[23].ends_with(&format!("{whole} by id")), "{rows:#?}");
    let devices = tables.io_requests.iter().filter_map(|row| row.host_device);
    assert!(devices.map(|device| device.to_string()).all(|device| device == "254:3"));
    // Below it, every request is still one of the host's.
    assert_eq!(tables.io_requests.iter().filter(|row| row.machine_id != GUEST).count(), 48);
}

/// A domain's disk is served by a thread of dom0 whose name has the domain's number.
#[test]
fn requests_of_a_domain_go_through_dom0() {
    let story = "
        vm dom0 dom=0 vcpu=0
        vm web dom=1 vcpu=0
        host 0 900 0 other
        dom0 0 900 0 task_rename 50 1.xvda-0
        dom0 0 901 0 task_rename 51 2.xvda-0
        web 0 1000 42 block_issue W 8+8
        dom0 0 1020 0 sched_switch 0 S 50
        dom0 0 1030 50 block_insert W 5008+8 minor=16
        dom0 0 1040 50 block_issue W 5008+8 minor=16
        dom0 0 1050 50 sched_switch 50 S 51
        dom0 0 1060 51 block_issue W 9008+8 minor=16
        dom0 0 1065 51 irq_entry 9
        dom0 0 1070 51 block_complete W 9008+8 minor=16
        dom0 0 1080 51 block_complete W 5008+8 minor=16
        dom0 0 1085 51 irq_exit 9
        web 0 1090 0 irq_entry 25
        web 0 1100 0 block_complete W 8+8
        web 0 1110 0 irq_exit 25
        host 0 9000 0 other
        dom0 0 9000 51 other
        web 0 9000 0 other";
    let tables = Story::parse(story).run().0;
    let mut rows: Vec<&IoRequest> = tables.io_requests.iter().collect();
    rows.sort_by_key(|row| (row.machine_id, row.ts));
    let rows: Vec<String> = rows.into_iter().map(text).collect();
    assert_eq!(
        rows,
        [
            // Dom0 has the host's devices: nothing is missing.
            "5008: issue+10 complete+50 without wake",
            "9008: issue+0 complete+10 without wake",
            "8: issue+0 host_submit+30 host_issue+40 host_complete+80 guest_irq+90 complete+100 \
             without kick,pickup,signal,inject,wake by context",
        ]
    );
}

/// The VMM makes one request of two, while another one of the guest's is under way.
#[test]
fn two_requests_become_one_of_the_host() {
    let mut parts: Vec<String> =
        (0..24).map(|n| one(1000 + n * 200, 8 * (7 * n % 32), 5000 + 8 * (7 * n % 32))).collect();
    let t = 9000;
    let lines = [
        (0, "web 0", "42 block_issue W 400+8"),
        (1, "web 0", "42 block_issue W 800+8"),
        (2, "web 0", "42 block_issue W 808+8"),
        (50, "host 1", "200 block_issue W 5400+8 minor=16"),
        (51, "host 1", "200 block_issue W 5800+16 minor=16"),
        (70, "host 1", "200 block_complete W 5400+8 minor=16"),
        (71, "host 1", "200 block_complete W 5800+16 minor=16"),
        (80, "web 0", "42 block_complete W 400+8"),
        (81, "web 0", "42 block_complete W 800+8"),
        (82, "web 0", "42 block_complete W 808+8"),
    ];
    let line = |(after, stream, what): &(i64, &str, &str)| {
        let (machine, cpu) = stream.split_once(' ').unwrap();
        format!("{machine} {cpu} {} {what}", t + after)
    };
    parts.push(format!("host 1 {} 7 sched_switch 7 R 200", t - 1));
    parts.push(lines.iter().map(line).collect::<Vec<_>>().join("\n"));
    let rows = told(&run(&parts));
    for (row, own) in rows[24..].iter().zip(["host_submit+50", "host_submit+50", "host_submit+49"])
    {
        assert!(row.contains(own), "{row}");
    }
    assert!(rows[25].ends_with("by context") && rows[26].ends_with("by context"), "{rows:#?}");
}
