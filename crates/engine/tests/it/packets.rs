//! The stages of packets: stories.

#![allow(clippy::unwrap_used, reason = "a failed expectation is the report")]

use crate::dsl::Story;
use transect_engine::topology::ThreadInfo;
use transect_model::{
    cause::Evidence,
    ids::{MachineId, Tid},
    setting::ThreadSettings,
    stage::Staged as _,
    table::{Packet, StackSample, Tables},
};

/// Two VMs with a vhost worker each, 200 and 300, on the host's CPUs 1 and 2; both sleep.
const BED: &str = "
    vm web vcpu=0 tid=162
    vm db vcpu=1 tid=172
    host 0 100 162 sched_switch 162 R 162
    host 3 100 172 sched_switch 172 R 172
    host 1 110 7 sched_switch 7 R 200
    host 1 120 200 sched_switch 200 S 7
    host 2 110 8 sched_switch 8 R 300
    host 2 120 300 sched_switch 300 S 8
    host 1 130 7 sched_waking 9 in=task
    web 0 140 41 timer_entry
    web 0 141 41 timer_exit
    web 0 150 41 sched_switch 41 R 42
    db 1 150 51 sched_switch 51 R 52
    db 1 160 52 sched_switch 52 S 0
    host 0 200 162 kvm_entry vcpu=0
    host 3 200 172 kvm_entry vcpu=1
";

/// All streams go on behind the last packet.
const END: &str = "
    host 0 90000 162 other
    host 1 90000 7 other
    host 2 90000 8 other
    host 3 90000 172 other
    web 0 90000 42 other
    db 1 90000 52 other
";

fn lines(t: i64, lines: &[(&str, i64, &str)]) -> String {
    let line = |(on, after, what): &(&str, i64, &str)| format!("{on} {} {what}", t + after);
    lines.iter().map(line).collect::<Vec<_>>().join("\n") + "\n"
}

/// From web's driver to the host, with a doorbell.
fn out(t: i64, seq: i64) -> String {
    // Its buffer is 11; only packets of which the number is told have the highest byte of an address.
    let packet = format!("42 net_packet 2 {seq} sent skb=-72057594037927925");
    lines(
        t,
        &[
            ("web 0", 0, &packet),
            ("host 0", 10, "162 kvm_exit npf vcpu=0"),
            ("host 0", 11, "162 kvm_mmio 4096"),
            ("host 0", 12, "162 sched_waking 200 cpu=1 in=task"),
            ("host 0", 20, "162 kvm_entry vcpu=0"),
            ("web 0", 25, "42 net_xmit eth0 60 skb=11"),
            ("host 1", 40, "7 sched_switch 7 R 200"),
        ],
    )
}

/// Through the host, by web's worker, to db's device.
fn through(t: i64, seq: i64) -> String {
    let (given, sent) =
        (format!("200 net_packet 2 {seq} skb=21"), format!("200 net_packet 2 {seq} sent skb=21"));
    lines(
        t,
        &[
            ("host 1", 50, "200 net_receive tap0 46 skb=21"),
            ("host 1", 51, &given),
            ("host 1", 60, &sent),
            ("host 1", 62, "200 sched_waking 300 cpu=2 in=softirq"),
            ("host 1", 64, "200 net_xmit tap1 60 skb=21"),
            ("host 1", 70, "200 sched_switch 200 S 7"),
            ("host 2", 80, "8 sched_switch 8 R 300"),
        ],
    )
}

/// By db's worker into db.
fn into(t: i64, seq: i64) -> String {
    let given = format!("0 net_packet 2 {seq} skb=31");
    lines(
        t,
        &[
            ("host 2", 90, "300 kvm_msi 4276092928 35"),
            ("host 2", 91, "300 kvm_accept 35 vcpu=1 in=task"),
            ("host 2", 95, "300 sched_switch 300 S 8"),
            ("host 3", 100, "172 kvm_exit npf vcpu=1"),
            ("host 3", 110, "172 kvm_inj_virq 35"),
            ("host 3", 111, "172 kvm_entry vcpu=1"),
            ("db 1", 120, "0 irq_entry 25"),
            ("db 1", 125, "0 irq_exit 25"),
            ("db 1", 126, "0 softirq_entry 3"),
            ("db 1", 130, "0 net_receive eth0 46 skb=31"),
            ("db 1", 131, &given),
            ("db 1", 135, "0 sched_waking 52 in=softirq"),
            ("db 1", 140, "0 softirq_exit 3"),
            ("db 1", 150, "0 sched_switch 0 S 52"),
            ("db 1", 160, "52 sched_switch 52 S 0"),
        ],
    )
}

fn run(story: &str) -> Tables {
    Story::parse(&format!("{BED}{story}{END}")).run().0
}

/// The packets in order: `sender→receiver seq: cut+after … without … by …`.
fn told(tables: &Tables) -> Vec<String> {
    let mut rows: Vec<&Packet> = tables.packets.iter().collect();
    rows.sort_by_key(|row| (row.ts, row.machine_id));
    rows.into_iter().map(text).collect()
}

fn text(row: &Packet) -> String {
    let known = Packet::CUTS.iter().zip(row.cuts());
    let known = known.filter_map(|(cut, ts)| Some(format!("{cut}+{}", ts? - row.ts)));
    let known: Vec<String> = known.collect();
    let to = row.to_machine_id.map_or("-".to_owned(), |to| to.0.to_string());
    let mut text = format!("{}→{to} {}: {}", row.machine_id.0, row.seq, known.join(" "));
    if !row.missing.is_empty() {
        text += &format!(" without {}", row.missing);
    }
    let sum: i64 = row.stages().map(|stage| stage.ns).sum();
    assert_eq!(sum, row.dur.unwrap_or(0), "{text}");
    text + row.evidence.map_or("", |evidence| match evidence {
        Evidence::Id => " by id",
        Evidence::Context => " by context",
        Evidence::Order => " by order",
    })
}

const WHOLE: &str = "send+0 kick+11 pickup+40 host_receive+50 host_send+60 fetch+80 signal+91 inject+110 \
                     guest_irq+120 receive+130 wake+135 run+150";

#[test]
fn a_packet_is_followed_from_guest_to_guest() {
    let tables = run(&[out(1000, 9), through(1000, 9), into(1000, 9)].concat());
    assert_eq!(told(&tables), [format!("1→2 9: {WHOLE} by context")]);
    let row = &tables.packets[0];
    let tids = [row.tid, row.wake_tid, row.backend_tid, row.to_backend_tid];
    assert_eq!(tids.map(|tid| tid.unwrap().0), [42, 52, 200, 300]);
    assert_eq!((row.dur, row.bytes), (Some(150), Some(60)));
    let devices = [row.device, row.to_device].map(|device| device.unwrap().to_str().into_owned());
    assert_eq!(devices, ["eth0", "eth0"]);
    // Each hop has its cause.
    let causes = tables.causes.iter().filter(|cause| cause.id == Some(2 << 32 | 9));
    assert_eq!(causes.filter(|cause| cause.machine_id != cause.to_machine_id).count(), 2);
}

/// What has not to be woken leaves no stage; a doorbell outside of the driver is another device's.
#[test]
fn what_is_awake_is_not_woken() {
    let one = out(1000, 9);
    let silent: String =
        one.lines().filter(|line| !line.contains("162 ")).map(|line| format!("{line}\n")).collect();
    let other = "host 0 1030 162 kvm_exit npf vcpu=0
        host 0 1031 162 kvm_mmio 8192
        host 0 1032 162 sched_waking 9 cpu=1 in=task
        host 0 1033 162 kvm_entry vcpu=0\n";
    let tables = run(&[silent, other.to_owned(), through(1000, 9), into(1000, 9)].concat());
    let told = told(&tables);
    assert_eq!(
        told,
        [
            "1→2 9: send+0 host_receive+50 host_send+60 fetch+80 signal+91 inject+110 guest_irq+120 receive+130 \
          wake+135 run+150 without kick,pickup by context"
        ]
    );
}

/// A thread that is woken while it goes to sleep goes on, or comes back to a CPU that it had left already.
#[test]
fn who_goes_to_sleep_may_be_woken_before() {
    let way = [out(1000, 9), through(1000, 9), into(1000, 9)].concat();
    let way = way.replace("sched_waking 52", "sched_waking 61 cpu=0");
    let begin = "db 0 900 60 sched_switch 60 R 61\n";
    let leaves = "db 0 1136 61 sched_switch 61 S 0\ndb 0 1140 0 sched_switch 0 R 61\n";
    let told = |then: &str| {
        let tables = run(&[begin, &way, then, "db 0 90000 61 other\n"].concat());
        told(&tables).pop().unwrap().split_once("receive+130 ").unwrap().1.to_owned()
    };
    assert_eq!(told(""), "without wake by context");
    assert_eq!(told(leaves), "wake+135 run+140 by context");
}

/// A stack has the time that its stage has: of whom a doorbell wakes, that of the doorbell.
#[test]
fn a_stack_belongs_to_the_stage_that_begins_with_its_event() {
    let way = [out(1000, 9), through(1000, 9), into(1000, 9)].concat();
    let stacks = [
        ("web 0 1000 42", "stack transmit kernel=3 user=4"),
        ("host 0 1012 162", "stack wake kernel=5 woken=200"),
        ("host 0 1020 162", "stack wake kernel=5"),
        ("host 2 1091 300", "stack accept kernel=6"),
        ("db 1 1130 0", "stack receive"),
    ];
    // Behind the last event of the same time.
    let mut lines: Vec<String> = way.lines().map(str::to_owned).collect();
    for (event, stack) in stacks {
        let at = lines.iter().rposition(|line| line.starts_with(event)).unwrap();
        lines.insert(at + 1, format!("{event} {stack}"));
    }
    let tables = run(&(lines.join("\n") + "\n"));
    let mut samples: Vec<_> = tables.stack_samples.iter().collect();
    samples.sort_by_key(|sample| sample.ts);
    let told = samples.iter().map(|sample| {
        let StackSample { ts, machine_id, point, stage_ts, kernel_stack_id, .. } = sample;
        let stage = stage_ts.map_or(-1, |stage| stage - 1000);
        format!("{machine_id} +{} {} of +{stage} {kernel_stack_id:?}", ts - 1000, point.as_str())
    });
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            "1 +0 transmit of +0 Some(3)",
            "0 +12 wake of +11 Some(5)",
            "0 +20 wake of +-1 Some(5)",
            "0 +91 accept of +91 Some(6)",
            "2 +130 receive of +130 None",
        ]
    );
    let (first, kick) = (samples[0], samples[1]);
    assert_eq!((first.tid, first.user_stack_id, first.woken_tid), (Tid(42), Some(4), None));
    assert_eq!((kick.tid, kick.woken_tid), (Tid(162), Some(Tid(200))));
    let row = &tables.packets[0];
    let cuts = [row.send_ts, row.kick_ts, row.signal_ts, row.receive_ts];
    assert_eq!(cuts.map(|cut| cut.unwrap() - 1000), [0, 11, 91, 130]);
}

/// A poll that goes on takes what comes without an interrupt.
#[test]
fn an_interrupt_before_the_packet_is_not_its_own() {
    let late = lines(
        1300,
        &[
            ("db 1", 0, "0 softirq_entry 3"),
            ("db 1", 10, "0 net_receive eth0 46 skb=31"),
            ("db 1", 11, "0 net_packet 2 10 skb=31"),
            ("db 1", 15, "0 softirq_exit 3"),
        ],
    );
    let first = [out(1000, 9), through(1000, 9), into(1000, 9)].concat();
    let tables = run(&[first, out(1200, 10), through(1200, 10), late].concat());
    assert_eq!(
        told(&tables)[1],
        "1→2 10: send+0 kick+11 pickup+40 host_receive+50 host_send+60 fetch+80 receive+110 \
         without signal,inject,guest_irq,wake by context"
    );
}

/// Doorbell and message are the card's by vote.
#[test]
fn many_packets_are_joined_by_id() {
    let one = |n: i64| [out(n * 1000, n), through(n * 1000, n), into(n * 1000, n)].concat();
    let tables = run(&(1..30).map(one).collect::<String>());
    let told = told(&tables);
    let by_id: Vec<bool> = told.iter().map(|row| row.ends_with("run+150 by id")).collect();
    assert_eq!((told.len(), by_id.iter().position(|is| *is)), (29, Some(20)), "{told:?}");
    assert_eq!(told[28], format!("1→2 29: {WHOLE} by id"));
}

/// Dom0 has the other ends of a domain's cards. What Xen does in between is not told.
#[test]
fn packets_of_a_domain_go_through_dom0() {
    let story = "
        vm dom0 dom=0 vcpu=0
        vm web dom=1 vcpu=0
        vm db dom=2 vcpu=0
        host 0 900 0 other
        dom0 0 905 0 sched_switch 0 S 50
        dom0 0 910 50 sched_switch 50 S 0
        # From a domain to another.
        web 0 1000 42 net_packet 2 1 sent skb=5
        web 0 1002 42 net_xmit eth0 60 skb=5
        dom0 0 1020 0 net_receive vif1.0 46 skb=6
        dom0 0 1021 0 net_packet 2 1 skb=6
        dom0 0 1022 0 net_receive xenbr0 46 skb=6
        dom0 0 1023 0 net_packet 2 1 skb=6
        dom0 0 1030 0 net_packet 2 1 sent skb=6
        dom0 0 1031 0 sched_waking 50 cpu=0 in=softirq
        dom0 0 1032 0 net_xmit vif2.0 60 skb=6
        dom0 0 1040 0 sched_switch 0 S 50
        db 0 1060 0 net_receive eth0 46 skb=7
        db 0 1061 0 net_packet 2 1 skb=7
        # From a domain to dom0 itself.
        web 0 2000 42 net_packet 3 1 sent skb=5
        dom0 0 2020 50 net_receive vif1.0 46 skb=6
        dom0 0 2021 50 net_packet 3 1 skb=6
        host 0 9000 0 other
        dom0 0 9000 50 other
        web 0 9000 42 other
        db 0 9000 0 other";
    let tables = Story::parse(story).run().0;
    assert_eq!(
        told(&tables),
        [
            "2→3 1: send+0 host_receive+20 host_send+30 fetch+40 receive+60 without kick,pickup,signal,inject,\
             guest_irq,wake by context",
            "2→1 1: send+0 host_receive+20 receive+20 without kick,pickup,wake by id",
        ]
    );
    assert_eq!(tables.packets[0].to_backend_tid, Some(Tid(50)));
}

#[test]
fn packets_come_from_outside_and_go_there() {
    let story = "
        # To a guest, through a bridge.
        host 0 1000 7 net_receive eth0 46 skb=5
        host 0 1001 7 net_packet 3 1 skb=5
        host 0 1002 7 net_receive br0 46 skb=5
        host 0 1003 7 net_packet 3 1 skb=5
        host 0 1010 7 net_packet 3 1 sent skb=5
        host 0 1011 7 net_xmit tap1 60 skb=5
        db 1 1040 0 net_receive eth0 46 skb=6
        db 1 1041 0 net_packet 3 1 skb=6
        # From a guest.
        web 0 2000 42 net_packet 4 1 sent skb=5
        web 0 2001 42 net_xmit eth0 60 skb=5
        host 0 2020 7 net_receive tap0 46 skb=6
        host 0 2021 7 net_packet 4 1 skb=6
        host 0 2030 7 net_packet 4 1 sent skb=6
        host 0 2031 7 net_xmit eth0 60 skb=6
        # To the host itself, and from it.
        web 0 3000 42 net_packet 5 1 sent skb=5
        host 0 3020 7 net_receive tap0 46 skb=6
        host 0 3021 7 net_packet 5 1 skb=6
        host 0 4000 8 net_packet 6 1 sent skb=6
        host 0 4001 8 net_xmit tap1 60 skb=6
        db 1 4040 0 net_receive eth0 46 skb=7
        db 1 4041 0 net_packet 6 1 skb=7
        # Within the host: loopback, and a container that is forwarded.
        host 0 5000 8 net_packet 7 1 sent skb=6
        host 0 5001 8 net_xmit lo 60 skb=6
        host 0 5002 8 net_receive lo 46 skb=6
        host 0 5003 8 net_packet 7 1 skb=6
        host 0 5004 8 net_packet 7 1 sent skb=6
        host 0 5005 8 net_xmit lo 60 skb=6
        host 0 6000 8 net_packet 8 1 sent skb=6
        host 0 6001 8 net_xmit veth0 60 skb=6
        host 0 6010 8 net_receive veth1 46 skb=6
        host 0 6011 8 net_packet 8 1 skb=6
        host 0 6012 8 net_packet 8 1 sent skb=6
        host 0 6013 8 net_xmit eth0 60 skb=6
        # A guest is the router of another.
        web 0 6500 42 net_packet 11 1 sent skb=6
        host 0 6510 7 net_packet 11 1 skb=5
        host 0 6511 7 net_packet 11 1 sent skb=5
        db 1 6520 0 net_packet 11 1 skb=6
        db 1 6521 0 net_packet 11 1 sent skb=6
        host 0 6530 7 net_packet 11 1 skb=4
        host 0 6531 7 net_packet 11 1 sent skb=4
        # By macvtap: the host's driver of the guest gets and gives nothing.
        web 0 7000 42 net_packet 9 1 sent skb=6
        host 0 7010 7 net_packet 9 1 sent skb=5
        host 0 7011 7 net_xmit eth0 60 skb=5
        host 0 8000 7 net_receive eth0 46 skb=5
        host 0 8001 7 net_packet 10 1 skb=5
        db 1 8040 0 net_receive eth0 46 skb=6
        db 1 8041 0 net_packet 10 1 skb=6";
    assert_eq!(
        told(&run(story)),
        [
            "0→2 1: host_receive+0 host_send+10 receive+40 without fetch,signal,inject,guest_irq,wake by id",
            "1→- 1: send+0 host_receive+20 host_send+30 without kick,pickup by id",
            "1→0 1: send+0 host_receive+20 receive+20 without kick,pickup,wake by id",
            "0→2 1: send+0 host_send+0 receive+40 without fetch,signal,inject,guest_irq,wake by id",
            "0→0 1: send+0 receive+2 without wake",
            "0→- 1: send+0",
            "0→- 1: send+0 host_receive+10 host_send+12",
            "1→- 1: send+0 host_receive+10 host_send+31 without kick,pickup by id",
            "1→- 1: send+0 host_send+10 without kick,pickup,host_receive by id",
            "0→2 1: host_receive+0 receive+40 without host_send,fetch,signal,inject,guest_irq,wake by id",
        ]
    );
}

/// Acknowledgements of one state share a number: those that were sent first come first.
#[test]
fn packets_that_are_alike_keep_their_order() {
    let story = "
        web 0 1000 42 net_packet 2 9 sent skb=1
        web 0 1001 42 net_xmit eth0 60 skb=1
        web 0 1010 42 net_packet 2 9 sent skb=2
        web 0 1011 42 net_xmit eth0 60 skb=2
        host 0 1100 7 net_receive tap0 46 skb=3
        host 0 1101 7 net_packet 2 9 skb=3
        host 0 1110 7 net_packet 2 9 sent skb=3
        host 0 1111 7 net_xmit tap1 60 skb=3
        db 1 1120 0 net_receive eth0 46 skb=4
        db 1 1121 0 net_packet 2 9 skb=4
        host 0 1200 7 net_receive tap0 46 skb=3
        host 0 1201 7 net_packet 2 9 skb=3
        host 0 1210 7 net_packet 2 9 sent skb=3
        host 0 1211 7 net_xmit tap1 60 skb=3
        db 1 1220 0 net_receive eth0 46 skb=4
        db 1 1221 0 net_packet 2 9 skb=4";
    assert_eq!(
        told(&run(story)),
        [
            "1→2 9: send+0 host_receive+100 host_send+110 receive+120 \
             without kick,pickup,fetch,signal,inject,guest_irq,wake by order",
            "1→2 9: send+0 host_receive+190 host_send+200 receive+210 \
             without kick,pickup,fetch,signal,inject,guest_irq,wake by id",
        ]
    );
}

/// What has not gone on for two seconds is told; what comes then is another packet.
#[test]
fn a_packet_that_stays_away_is_given_up() {
    let later = |ts: i64, what: &str| format!("db 1 {ts} 0 {what}\n");
    let story = [
        out(1000, 9),
        later(1_999_990_000, "net_packet 2 8 skb=30"),
        later(2_000_002_000, "net_packet 2 10 skb=31"),
        later(2_000_003_000, "net_packet 2 9 skb=31"),
        "host 0 2000004000 162 other".to_owned(),
    ];
    let tables = Story::parse(&format!("{BED}{}", story.concat())).run().0;
    let told = told(&tables);
    assert_eq!(told.len(), 4, "{told:?}");
    assert_eq!(told[0], "1→- 9: send+0 kick+11 pickup+40 without host_receive by context");
    assert_eq!(told[3], "2→2 9: receive+0 without host_send,fetch,signal,inject,guest_irq,wake");
}

/// Behind a hole nothing more is told of what is under way, and what comes from nowhere may have been sent in it.
#[test]
fn a_hole_hides_the_rest_of_the_way() {
    let hole = "host 2 1052 8 other
        host 2 lost count=3
        host 2 1055 8 other\n";
    let through = through(1000, 9);
    let (before, behind) = through.split_at(through.find("host 1 1060").unwrap());
    let lost = "db 1 1400 0 net_receive eth0 46 skb=31
        db 1 1401 0 net_packet 2 10 skb=31";
    let tables = run(&[&out(1000, 9), before, hole, behind, &into(1000, 9), lost].concat());
    assert_eq!(
        told(&tables),
        [
            "1→- 9: send+0 kick+11 pickup+40 host_receive+50 without receive,wake by context",
            "2→2 10: receive+0 without send,host_send,fetch,signal,inject,guest_irq,wake",
        ]
    );
}

/// Two VMs have a vCPU of that number: whose interrupt it is, the worker's name tells, which it had before.
#[test]
fn a_vhost_worker_is_known_by_its_name() {
    let story = [out(1000, 9), through(1000, 9), into(1000, 9)].concat();
    let story = format!("{BED}{story}{END}").replace("vcpu=1", "vcpu=0").replace("db 1", "db 0");
    let mut story = Story::parse(&story);
    for (machine, pid) in story.topology.machines.iter_mut().skip(1).zip([160, 170]) {
        machine.vmm_pid = Some(Tid(pid));
    }
    story.topology.threads.push(ThreadInfo {
        machine: MachineId(0),
        tid: Tid(300),
        pid: Some(Tid(300)),
        name: "vhost-170".into(),
        cgroup: None,
        born: None,
        settings: ThreadSettings::default(),
    });
    assert_eq!(told(&story.run().0), [format!("1→2 9: {WHOLE} by context")]);
}
