//! Paths over rows made by hand.

use crate::story::{GUEST, HOST, Story, thread};
use transect_explain::{Actor, Doing, Level, Rows, alike, blame, walk};
use transect_model::{
    cause::CauseKind,
    event::BlockOp,
    ids::{BlockDevice, CpuId, Tid},
    interrupt::{Context, IrqSource, VectorSource},
    setting::SchedPolicy,
    state::VcpuState,
    table::{BlockIo, LockWait},
};

#[test]
fn a_thread_that_waits_for_another_shows_what_that_did() {
    let story = Story::new()
        .states(HOST, 7, &[('R', 10), ('S', 50), ('W', 60), ('R', 80)])
        .states(HOST, 8, &[('S', 20), ('W', 30), ('R', 55)])
        .slices(HOST, 0, &[(7, 10), (9, 30), (8, 60), (7, 80)])
        .cause(CauseKind::Wakeup, (10, thread(HOST, 7)), (20, thread(HOST, 8)))
        .cause(CauseKind::Wakeup, (50, thread(HOST, 8)), (50, thread(HOST, 7)));
    // 8 was woken by 7 when that went to sleep; the way from there is the message's.
    assert_eq!(
        story.path(thread(HOST, 7), 5, 75),
        [
            "5+5 0:7 running",
            "10+10 0:8 delivery",
            "20+10 0:8 runnable by(9) share",
            "30+20 0:8 running",
            "50+10 0:7 runnable by(8) share",
            "60+15 0:7 running",
        ]
    );
}

/// What a VMM's main loop did before it slept was for others; what a thread did itself was not.
#[test]
fn a_vmm_is_passed_over_for_who_it_waited_for() {
    let story = Story::new()
        .states(HOST, 7, &[('S', 100), ('R', 110)])
        .states(HOST, 160, &[('S', 50), ('R', 60), ('S', 95), ('R', 100)])
        .states(HOST, 8, &[('S', 5), ('R', 95)])
        .states(HOST, 9, &[('R', 50)])
        .cause(CauseKind::Wakeup, (50, thread(HOST, 9)), (50, thread(HOST, 160)))
        .cause(CauseKind::Wakeup, (95, thread(HOST, 8)), (95, thread(HOST, 160)))
        .cause(CauseKind::Wakeup, (100, thread(HOST, 160)), (100, thread(HOST, 7)));
    let path = |story: Story| story.path(thread(HOST, 7), 5, 110);
    let around = ["95+5 0:160 running", "100+10 0:7 running"];
    assert_eq!(path(story.clone().of_vmm(160)), [&["5+90 0:8 running"], &around[..]].concat());
    let before = ["5+45 0:9 running", "50+10 0:160 running", "60+35 0:8 running"];
    assert_eq!(path(story), [&before[..], &around].concat());
}

#[test]
fn a_timer_ends_a_sleep() {
    let story = Story::new()
        .states(HOST, 7, &[('R', 10), ('S', 50), ('R', 80)])
        .cause(CauseKind::Timer, (50, thread(HOST, 9)), (50, thread(HOST, 7)))
        .by_interrupt(Context::Irq)
        .irq(HOST, IrqSource::Vector(VectorSource::LocalTimer), 236, 48, 51);
    assert_eq!(
        story.path(thread(HOST, 7), 0, 60),
        ["0+10 0:7 running", "10+38 0:7 timer", "48+2 0:- handler", "50+10 0:7 running"]
    );
}

/// The CPU's own timer raises other softirqs than those of timers, too: RCU's.
#[test]
fn a_softirq_is_what_raised_it() {
    let woken = |story: Story| {
        story
            .states(HOST, 7, &[('R', 10), ('S', 50), ('R', 80)])
            .cause(CauseKind::Wakeup, (50, thread(HOST, 9)), (50, thread(HOST, 7)))
            .by_interrupt(Context::Softirq)
            .irq(HOST, IrqSource::Softirq, 9, 46, 51)
    };
    let raised = woken(Story::new())
        .irq(HOST, IrqSource::Vector(VectorSource::LocalTimer), 236, 40, 44)
        .cause(CauseKind::Softirq, (42, thread(HOST, 9)), (46, thread(HOST, 9)))
        .by_interrupt(Context::Irq)
        .in_handler();
    assert_eq!(
        raised.path(thread(HOST, 7), 0, 60),
        [
            "0+10 0:7 running",
            "10+30 0:7 timer",
            "40+2 0:- handler",
            "42+4 0:- delivery",
            "46+4 0:- handler",
            "50+10 0:7 running",
        ]
    );
    // Its raise is not recorded: nobody knows that it came from outside.
    assert_eq!(
        woken(Story::new()).path(thread(HOST, 7), 0, 60),
        ["0+10 0:7 running", "10+36 0:- unrecorded", "46+4 0:- handler", "50+10 0:7 running"]
    );
}

#[test]
fn a_request_is_in_its_device_from_its_issue_on() {
    let mut story = Story::new()
        .states(HOST, 7, &[('R', 10), ('S', 50), ('R', 80)])
        .cause(CauseKind::Completion, (49, thread(HOST, 9)), (50, thread(HOST, 7)))
        .by_interrupt(Context::Softirq)
        .irq(HOST, IrqSource::Line, 24, 40, 44)
        .irq(HOST, IrqSource::Softirq, 4, 46, 51)
        .cause(CauseKind::Softirq, (42, thread(HOST, 9)), (46, thread(HOST, 9)))
        .by_interrupt(Context::Irq)
        .in_handler();
    story.0.block_io.push(BlockIo {
        ts: 12,
        dur: Some(37),
        machine_id: HOST,
        tid: Tid(7),
        device: BlockDevice(0),
        sector: 8,
        bytes: 4096,
        op: BlockOp::Read,
        issue_ns: Some(3),
        complete_cpu: Some(CpuId(0)),
        error: Some(0),
    });
    assert_eq!(
        story.path(thread(HOST, 7), 0, 60),
        [
            "0+10 0:7 running",
            // Its row says that it was submitted after its thread slept.
            "10+2 0:7 unknown",
            // In the queue until 15: its submitter is the thread itself, which slept by then.
            "12+28 0:- device",
            "40+2 0:- handler",
            "42+4 0:- delivery",
            "46+4 0:- handler",
            "50+10 0:7 running",
        ]
    );
}

/// The flush completes, and in the same handler the write that waited for it, which has no row of its own.
#[test]
fn what_waited_for_a_flush_waited_for_its_request() {
    let mut story = Story::new()
        .states(HOST, 7, &[('R', 10), ('S', 90), ('R', 120)])
        .states(HOST, 8, &[('S', 10), ('W', 40), ('R', 60)])
        .slices(HOST, 0, &[(7, 10), (9, 40), (8, 60), (0, 90), (7, 120)])
        .cause(CauseKind::Wakeup, (10, thread(HOST, 7)), (10, thread(HOST, 8)))
        .cause(CauseKind::Completion, (89, thread(HOST, 9)), (90, thread(HOST, 7)))
        .by_interrupt(Context::Irq)
        .irq(HOST, IrqSource::Line, 24, 80, 95);
    story.0.block_io.push(BlockIo {
        ts: 50,
        dur: Some(35),
        machine_id: HOST,
        tid: Tid(8),
        device: BlockDevice(0),
        sector: 0,
        bytes: 0,
        op: BlockOp::Flush,
        issue_ns: Some(0),
        complete_cpu: Some(CpuId(0)),
        error: Some(0),
    });
    assert_eq!(
        story.path(thread(HOST, 7), 0, 100),
        [
            "0+10 0:7 running",
            "10+30 0:8 runnable by(9) share",
            "40+10 0:8 running",
            "50+30 0:- device",
            "80+10 0:- handler",
            "90+10 0:7 running",
        ]
    );
}

/// A thread waits for another one that began meanwhile: before that it waited for the parent.
#[test]
fn before_a_thread_began_its_parent_was_waited_for() {
    let mut story = Story::new()
        .states(HOST, 7, &[('R', 10), ('S', 80), ('R', 100)])
        .states(HOST, 8, &[('S', 10), ('R', 50)])
        .slices(HOST, 0, &[(7, 10), (8, 50), (9, 80), (7, 100)])
        .cause(CauseKind::Wakeup, (10, thread(HOST, 7)), (10, thread(HOST, 8)))
        .cause(CauseKind::Fork, (43, thread(HOST, 8)), (43, thread(HOST, 9)))
        .cause(CauseKind::Wakeup, (80, thread(HOST, 9)), (80, thread(HOST, 7)));
    let born = Story::new().states(HOST, 9, &[('W', 50), ('R', 80)]).0.thread_states;
    story.0.thread_states.extend(born.into_iter().map(|mut row| {
        // It is there from 40 on.
        let end = row.ts + row.dur;
        row.ts = row.ts.max(40);
        row.dur = end - row.ts;
        row
    }));
    assert_eq!(
        story.path(thread(HOST, 7), 0, 90),
        [
            "0+10 0:7 running",
            "10+30 0:8 running",
            "40+10 0:9 runnable by(8) share",
            "50+30 0:9 running",
            "80+10 0:7 running",
        ]
    );
    // Of itself it is asked for its life only.
    assert_eq!(
        story.path(thread(HOST, 9), 20, 60),
        ["20+20 0:9 unknown", "40+10 0:9 runnable by(8) share", "50+10 0:9 running"]
    );
}

/// Doorbell, a thread of the VMM, its interrupt on the way back.
#[test]
fn a_guests_wait_leads_through_its_host() {
    use VcpuState::{Exit, Guest, Preempted};
    let story = Story::new()
        .states(GUEST, 42, &[('R', 10), ('S', 70), ('R', 100)])
        .slices(GUEST, 0, &[(42, 10), (0, 70), (42, 100)])
        .vcpu(&[(Guest, 20), (Exit, 30), (Guest, 50), (Preempted, 60), (Guest, 100)], 200)
        .states(HOST, 162, &[('R', 50), ('W', 60), ('R', 100)])
        .states(HOST, 200, &[('S', 25), ('W', 30), ('R', 60)])
        .slices(HOST, 0, &[(162, 50), (200, 60), (162, 100)])
        .cause(CauseKind::Wakeup, (25, thread(HOST, 162)), (25, thread(HOST, 200)))
        .cause(CauseKind::Kick, (8, thread(GUEST, 42)), (25, thread(HOST, 200)))
        .cause(CauseKind::Injection, (45, thread(HOST, 200)), (61, thread(HOST, 162)))
        .in_vcpu();
    let mut story = story
        .cause(CauseKind::Line, (61, thread(HOST, 162)), (62, thread(GUEST, 0)))
        .in_handler()
        .cause(CauseKind::Completion, (65, thread(GUEST, 0)), (70, thread(GUEST, 42)))
        .by_interrupt(Context::Irq)
        .irq(GUEST, IrqSource::Line, 24, 62, 72);
    for cause in &mut story.0.causes {
        if cause.kind == CauseKind::Injection {
            cause.to_machine_id = GUEST;
        }
    }
    assert_eq!(
        story.path(thread(GUEST, 42), 0, 80),
        [
            "0+10 1:42 running",
            "10+15 1:42 exit",
            "25+5 0:200 runnable by(162) share",
            "30+15 0:200 running",
            "45+5 1:- delivery",
            "50+10 1:- vcpu_wait by(200) share",
            "60+2 1:- delivery",
            "62+8 1:- handler",
            "70+10 1:42 running",
        ]
    );
}

#[test]
fn a_guests_thread_does_not_run_while_its_vcpu_waits() {
    use VcpuState::{Exit, Guest, Preempted};
    let story = Story::new()
        .states(GUEST, 42, &[('R', 100)])
        .vcpu(&[(Guest, 20), (Exit, 30), (Preempted, 60), (Guest, 100)], 9)
        .slices(HOST, 0, &[(162, 30), (9, 60), (162, 100)])
        .slices(HOST, 1, &[(0, 100)])
        .policy(162, SchedPolicy::Other, Some(0));
    let expected = [
        "0+20 1:42 running",
        "20+10 1:42 exit",
        "30+30 1:42 vcpu_wait by(9) affinity",
        "60+40 1:42 running",
    ];
    assert_eq!(story.path(thread(GUEST, 42), 0, 100), expected);
    let story = story.policy(9, SchedPolicy::Fifo, None);
    assert!(story.path(thread(GUEST, 42), 0, 100)[2].ends_with("by(9) class"));
    // Whom it costs, at each level.
    let rows = Rows::new(&story.0);
    let pieces = alike(&walk(&rows, Actor::Thread(thread(GUEST, 42)), (0, 100)).pieces);
    let told = |level| {
        let lines = blame(&rows, &pieces, level);
        lines.iter().map(|b| format!("{:?} {:?} {}", b.victim, b.culprit, b.ns)).collect::<Vec<_>>()
    };
    assert_eq!(
        told(Level::Thread),
        [
            "Vcpu(MachineId(1), VcpuId(0)) Thread(ThreadId { machine: MachineId(0), tid: Tid(9) }) 30"
        ]
    );
    assert_eq!(told(Level::Machine), ["Machine(MachineId(1)) Machine(MachineId(0)) 30"]);
}

#[test]
fn weights_and_nice_values_are_reasons() {
    let story = |nice| {
        Story::new()
            .states(HOST, 7, &[('W', 50)])
            .slices(HOST, 0, &[(9, 50)])
            .policy(7, SchedPolicy::Other, Some(nice))
            .policy(9, SchedPolicy::Other, Some(0))
    };
    assert_eq!(story(10).path(thread(HOST, 7), 0, 50), ["0+50 0:7 runnable by(9) weight"]);
    assert_eq!(story(0).path(thread(HOST, 7), 0, 50), ["0+50 0:7 runnable by(9) share"]);
}

#[test]
fn a_lock_leads_to_its_owner() {
    let mut story = Story::new()
        .states(HOST, 7, &[('R', 60)])
        .states(HOST, 9, &[('R', 30), ('W', 45), ('R', 60)])
        .slices(HOST, 0, &[(9, 30), (8, 45), (9, 60)]);
    story.0.locks.push(LockWait {
        ts: 20,
        dur: Some(30),
        machine_id: HOST,
        cpu: CpuId(1),
        tid: Tid(7),
        lock: 1,
        kind: transect_model::cause::LockKind::Spinlock,
        owner_tid: Some(Tid(9)),
    });
    assert_eq!(
        story.path(thread(HOST, 7), 10, 60),
        [
            "10+10 0:7 running",
            "20+10 0:9 running",
            "30+15 0:9 runnable by(8) share",
            "45+5 0:9 running",
            "50+10 0:7 running",
        ]
    );
}

#[test]
fn what_is_not_known_is_unknown() {
    let story = Story::new().states(HOST, 7, &[('R', 10), ('S', 30), ('R', 40), ('?', 50)]);
    assert_eq!(
        story.path(thread(HOST, 7), 0, 60),
        ["0+10 0:7 running", "10+20 0:7 unknown", "30+10 0:7 running", "40+20 0:7 unknown"]
    );
    assert_eq!(story.path(thread(HOST, 8), 0, 60), ["0+60 0:8 unknown"]);
    assert!(story.path(thread(HOST, 7), 5, 5).is_empty());
}

/// Two that wake each other at one moment: somebody is asked once.
#[test]
fn a_circle_is_refused() {
    let story = Story::new()
        .states(HOST, 7, &[('S', 30), ('R', 40)])
        .states(HOST, 8, &[('S', 30), ('R', 40)])
        .cause(CauseKind::Wakeup, (30, thread(HOST, 8)), (30, thread(HOST, 7)))
        .cause(CauseKind::Wakeup, (30, thread(HOST, 7)), (30, thread(HOST, 8)));
    let rows = Rows::new(&story.0);
    let path = walk(&rows, Actor::Thread(thread(HOST, 7)), (0, 40));
    assert_eq!(path.walked.refused, 1);
    assert_eq!(
        path.pieces.iter().map(|piece| piece.doing).collect::<Vec<_>>(),
        [Doing::Unknown, Doing::Running]
    );
}
