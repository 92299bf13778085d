//! Filters, conditions and windows: what they leave unknown, by example.

#![allow(clippy::unwrap_used, reason = "a failed expectation is the report")]

use crate::dsl::{Story, slices, thread_states, vcpu_states};
use transect_engine::{Filter, Options, ThreadFilter, topology::ThreadInfo};
use transect_model::{
    ids::{MachineId, Tid},
    setting::ThreadSettings,
    time::{Span, Timestamp},
};

/// A thread other than the first one that executes a program goes on under the first one's number, with its
/// process and its group.
#[test]
fn exec_by_another_thread_keeps_process_and_group() {
    let story = || {
        let mut story = Story::parse(
            "host 0 1000 0 sched_switch 0 R 50
         host 0 1010 50 sched_switch 50 X 51
         host 0 1020 50 sched_process_exec 50 51
         host 0 1100 50 sched_switch 50 R 0",
        );
        for tid in [50, 51] {
            story.topology.threads.push(ThreadInfo {
                machine: MachineId(0),
                tid: Tid(tid),
                pid: Some(Tid(50)),
                name: "sh".into(),
                cgroup: Some("/job".into()),
                born: None,
                settings: ThreadSettings::default(),
            });
        }
        story
    };
    let pids = [Tid(50)].into_iter().collect();
    let threads = Some(ThreadFilter { pids, ..ThreadFilter::default() });
    let filter = Filter { threads, ..Filter::default() };
    for filter in [Filter::default(), filter] {
        let (tables, _) = story()
            .run_by(|engine| engine.with_filter(MachineId(0), filter.clone()), Options::default());
        let thread = tables.threads.iter().find(|t| t.tid == Tid(50)).unwrap();
        assert_eq!((thread.pid, thread.cgroup.as_deref()), (Some(Tid(50)), Some("/job")));
        assert_eq!(thread_states(&tables, 0, 50), ["1000+10 running", "1020+80 running"]);
    }
}

/// Conditions on events drop some of them: what rests on them is not known.
#[test]
fn conditions_leave_what_rests_on_the_events_unknown() {
    let story = || {
        Story::parse(
            "vm web vcpu=0 tid=162
             host 0 1000 0 sched_switch 0 R 162
             host 0 1010 162 kvm_entry vcpu=0
             host 0 1100 162 kvm_exit msr vcpu=0
             host 0 1110 162 kvm_entry vcpu=0
             host 0 1200 162 sched_waking 9 cpu=0
             host 0 1210 162 block_issue R 0+8
             host 0 1220 162 block_complete R 0+8
             host 0 1300 162 kvm_exit msr vcpu=0
             host 0 1310 162 sched_switch 162 S 9
             host 0 1400 9 sched_switch 9 S 0",
        )
    };
    let run = |filter: Filter| {
        story().run_by(|e| e.with_filter(MachineId(0), filter.clone()), Options::default()).0
    };
    let kvm = run(Filter { partial_kvm: true, ..Filter::default() });
    let states = vcpu_states(&kvm, 1, 0);
    assert!(states[0].contains("running"), "{states:?}");
    assert!(!states.iter().any(|s| s.contains("guest") || s.contains("exit")), "{states:?}");
    let wakings = run(Filter { partial_wakings: true, ..Filter::default() });
    assert_eq!(thread_states(&wakings, 0, 162)[1], "1310+90 unknown");
    let block = run(Filter { partial_block: true, ..Filter::default() });
    assert_eq!((block.block_io[0].dur, block.counters.len()), (None, 0));
}

/// Events of a page that was being read precede the ones that were overwritten.
#[test]
fn covered_window_begins_behind_the_last_overwritten_stretch() {
    let story = Story::parse(
        "host 0 1000 0 sched_switch 0 R 9
         host 0 lost count=5
         host 0 1500 9 sched_switch 9 R 7
         host 0 1600 7 other
         host 1 1100 0 sched_switch 0 R 8
         host 1 1550 8 other",
    );
    let (tables, summary) =
        story.run_by(|engine| engine.with_covered_window(None), Options::default());
    assert_eq!(summary.span.map(|span| span.start.get()), Some(1500));
    assert!(tables.lost.is_empty(), "{:?}", tables.lost);
    assert_eq!(slices(&tables, 0, 1), ["1500+100 8"]);
}

/// A rename from before the window may not be the last one before it: the task snapshot has that.
#[test]
fn task_snapshot_has_the_name_where_renames_may_be_missing() {
    let mut story = Story::parse(
        "host 0 1000 0 sched_switch 0 R 50
         host 0 1010 50 task_rename 50 taskset
         host 0 1100 50 sched_switch 50 R 0
         host 0 1400 0 other",
    );
    story.topology.threads.push(ThreadInfo {
        machine: MachineId(0),
        tid: Tid(50),
        pid: Some(Tid(50)),
        name: "api".into(),
        cgroup: None,
        born: Some(900),
        settings: ThreadSettings::default(),
    });
    let window = Span { start: Timestamp::new(1050), end: Timestamp::new(1400) };
    let (tables, _) = story.run_by(|engine| engine.with_window(window), Options::default());
    assert_eq!(tables.threads.iter().find(|t| t.tid == Tid(50)).unwrap().name, "api");
    assert_eq!(thread_states(&tables, 0, 50), ["1050+50 running", "1100+300 runnable"]);
}
