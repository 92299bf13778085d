//! SCHED: runstates, switches, and the schedulers' own events (credit, credit2, rtds, null).
//!
//! The schedulers' numbers are in `xen/common/sched/{credit,credit2,rt,null}.c`, unchanged from
//! 4.14 to 4.20; the `formats` file that comes with xentrace has other ones for credit2.

use super::{
    field::{
        At, Field, Meaning, bits, cpu, dom, dom_in, in_event, pair, signed, vcpu, vcpu_in, word,
    },
    row::{Kind, RecordDef, row, unused},
};

const fn ns(name: &'static str, at: u8) -> Field {
    word(name, at).is(Meaning::Ns)
}

const fn flag(name: &'static str, at: u8, shift: u8, width: u8) -> Field {
    bits(name, at, shift, width).is(Meaning::Bool)
}

const fn signed_half(name: &'static str, word: u8, shift: u8, meaning: Meaning) -> Field {
    Field { name, at: At::SignedBits { word, shift, bits: 16 }, meaning, doc: "-1: none" }
}

const SLICE: Field =
    signed("slice_ns", 3).is(Meaning::Ns).doc("granted; -1 or less: without limit");

/// Rows of this class.
pub(super) const ROWS: &[RecordDef] = &[
    row(
        0x0002_1001,
        "sched_runstate_change",
        1,
        &[
            vcpu_in(0),
            dom_in(0),
            in_event("old", 8, 2).is(Meaning::Runstate),
            in_event("new", 4, 2).is(Meaning::Runstate),
        ],
        "A vCPU leaves one runstate for another.",
    )
    .varying(0x330)
    .kind(Kind::RunstateChange),
    row(
        0x0002_1002,
        "sched_continue_running",
        1,
        &[vcpu_in(0), dom_in(0)],
        "The scheduler ran and chose the vCPU that already ran.",
    )
    .kind(Kind::ContinueRunning),
    row(0x0002_8001, "sched_dom_add", 1, &[dom(0)], "A domain is given to a scheduler.")
        .kind(Kind::DomainScheduled),
    row(0x0002_8002, "sched_dom_rem", 1, &[dom(0)], "A domain is taken from its scheduler.")
        .kind(Kind::DomainUnscheduled),
    row(
        0x0002_8003,
        "sched_sleep",
        2,
        &[dom(0), vcpu(1)],
        "A vCPU is made not runnable (paused, offlined).",
    )
    .kind(Kind::Sleep),
    row(0x0002_8004, "sched_wake", 2, &[dom(0), vcpu(1)], "A vCPU is woken.").kind(Kind::Wake),
    row(0x0002_8005, "sched_yield", 2, &[dom(0), vcpu(1)], "A vCPU yields.").kind(Kind::Yield),
    row(0x0002_8006, "sched_block", 2, &[dom(0), vcpu(1)], "A vCPU blocks until an event.")
        .kind(Kind::Block),
    row(
        0x0002_8007,
        "sched_shutdown",
        3,
        &[
            dom(0),
            vcpu(1),
            word("reason", 2).doc(
                "SHUTDOWN_*: 0 poweroff, 1 reboot, 2 suspend, 3 crash, 4 watchdog, 5 soft reset",
            ),
        ],
        "A domain shuts itself down.",
    )
    .kind(Kind::Shutdown),
    unused(0x0002_8008, "sched_ctl"),
    row(
        0x0002_8009,
        "sched_adjdom",
        1,
        &[dom(0)],
        "Scheduling parameters of a domain are read or set.",
    ),
    row(
        0x0002_800a,
        "sched_switch",
        4,
        &[
            word("prev_domid", 0).is(Meaning::Dom),
            word("prev_vcpu", 1).is(Meaning::Vcpu),
            word("next_domid", 2).is(Meaning::Dom),
            word("next_vcpu", 3).is(Meaning::Vcpu),
        ],
        "A pCPU changes from one vCPU to another.",
    )
    .kind(Kind::Switch),
    unused(0x0002_800b, "sched_s_timer_fn"),
    unused(0x0002_800c, "sched_t_timer_fn"),
    unused(0x0002_800d, "sched_dom_timer_fn"),
    row(
        0x0002_800e,
        "sched_switch_infprev",
        3,
        &[dom(0), vcpu(1), ns("ran_ns", 2)],
        "Before sched_switch: how long the vCPU ran (low 32 bits).",
    )
    .kind(Kind::SwitchInfPrev),
    row(
        0x0002_800f,
        "sched_switch_infnext",
        4,
        &[
            dom(0),
            vcpu(1),
            ns("waited_ns", 2).doc("runnable before; 0 if it was not runnable"),
            SLICE,
        ],
        "Before sched_switch: how long the next vCPU waited (low 32 bits), and its slice.",
    )
    .kind(Kind::SwitchInfNext),
    row(
        0x0002_8010,
        "sched_shutdown_code",
        3,
        &[dom(0), vcpu(1), word("reason", 2)],
        "A domain states why it will shut down.",
    ),
    row(
        0x0002_8011,
        "sched_switch_infcont",
        4,
        &[dom(0), vcpu(1), ns("ran_ns", 2), SLICE],
        "With sched_continue_running: how long the vCPU has run (low 32 bits), and its next slice.",
    )
    .kind(Kind::SwitchInfCont),
    // credit: TRC_SCHED_CLASS_EVT(CSCHED, n) = 0x22000 + n.
    row(
        0x0002_2001,
        "csched_sched_tasklet",
        0,
        &[],
        "credit: the idle vCPU is chosen because there is tasklet work.",
    ),
    row(
        0x0002_2002,
        "csched_account_start",
        3,
        &[dom(0), vcpu(1), word("active", 2).doc("active vCPUs of the domain")],
        "credit: a vCPU becomes active, that is, earns credit.",
    ),
    row(
        0x0002_2003,
        "csched_account_stop",
        3,
        &[dom(0), vcpu(1), word("active", 2)],
        "credit: a vCPU stops being active.",
    ),
    row(
        0x0002_2004,
        "csched_stolen_unit",
        3,
        &[word("from_cpu", 0).is(Meaning::Cpu), dom(1), vcpu(2)],
        "credit: a vCPU is stolen from another pCPU's queue.",
    ),
    row(
        0x0002_2005,
        "csched_picked_cpu",
        3,
        &[dom(0), vcpu(1), cpu(2)],
        "credit: a pCPU is picked for a vCPU.",
    ),
    row(0x0002_2006, "csched_tickle", 1, &[cpu(0)], "credit: a pCPU is notified to reschedule."),
    row(
        0x0002_2007,
        "csched_boost_start",
        2,
        &[dom(0), vcpu(1)],
        "credit: a woken vCPU gets the BOOST priority.",
    ),
    row(
        0x0002_2008,
        "csched_boost_end",
        2,
        &[dom(0), vcpu(1)],
        "credit: a vCPU loses the BOOST priority.",
    ),
    row(
        0x0002_2009,
        "csched_schedule",
        1,
        &[
            bits("cpu", 0, 0, 16).is(Meaning::Cpu),
            flag("tasklet", 0, 16, 8),
            flag("idle", 0, 24, 8),
        ],
        "credit: the scheduler runs, with flags for tasklet work and an idle pCPU.",
    ),
    row(
        0x0002_200a,
        "csched_ratelimit",
        2,
        &[vcpu_in(0), dom_in(0), ns("ran_ns", 1)],
        "credit: the vCPU goes on because it has run for less than the rate limit.",
    ),
    row(
        0x0002_200b,
        "csched_steal_check",
        2,
        &[word("peer_cpu", 0).is(Meaning::Cpu), word("checked", 1).is(Meaning::Bool)],
        "credit: another pCPU's queue is searched for work, or skipped.",
    ),
    // credit2: TRC_SCHED_CLASS_EVT(CSCHED2, n) = 0x22200 + n.
    unused(0x0002_2201, "csched2_tick"),
    row(
        0x0002_2202,
        "csched2_runq_pos",
        2,
        &[vcpu_in(0), dom_in(0), word("pos", 1)],
        "credit2: a vCPU is put in its run queue at this position.",
    ),
    row(
        0x0002_2203,
        "csched2_credit_burn",
        4,
        &[
            vcpu_in(0),
            dom_in(0),
            signed("credit", 1),
            signed("budget", 2).doc("lowest number: without a cap"),
            signed("delta_ns", 3).is(Meaning::Ns),
        ],
        "credit2: a vCPU pays for the time it ran.",
    ),
    unused(0x0002_2204, "csched2_credit_add"),
    row(
        0x0002_2205,
        "csched2_tickle_check",
        3,
        &[vcpu_in(0), dom_in(0), signed("credit", 1), signed("score", 2)],
        "credit2: the vCPU running on a pCPU is checked for preemption.",
    ),
    row(
        0x0002_2206,
        "csched2_tickle",
        1,
        &[bits("cpu", 0, 0, 16).is(Meaning::Cpu)],
        "credit2: a pCPU is notified to reschedule.",
    ),
    row(
        0x0002_2207,
        "csched2_credit_reset",
        3,
        &[vcpu_in(0), dom_in(0), signed("credit_start", 1), signed("credit_end", 2)],
        "credit2: credits of a run queue are reset; one record per vCPU.",
    ),
    row(
        0x0002_2208,
        "csched2_sched_tasklet",
        0,
        &[],
        "credit2: the idle vCPU is chosen because there is tasklet work.",
    ),
    row(0x0002_2209, "csched2_update_load", 0, &[], "credit2: loads are updated."),
    row(
        0x0002_220a,
        "csched2_runq_assign",
        2,
        &[vcpu_in(0), dom_in(0), bits("runq", 1, 0, 16)],
        "credit2: a vCPU is assigned to a run queue.",
    ),
    row(
        0x0002_220b,
        "csched2_update_unit_load",
        4,
        &[
            pair("load_avg", 0),
            vcpu_in(2),
            dom_in(2),
            word("shift", 3).doc("loads are fixed point with this many fractional bits"),
        ],
        "credit2: load of a vCPU.",
    ),
    row(
        0x0002_220c,
        "csched2_update_runq_load",
        6,
        &[
            pair("load_avg", 0),
            pair("balanced_load_avg", 2),
            bits("load", 4, 0, 16),
            bits("runq", 4, 16, 8),
            bits("shift", 4, 24, 8),
        ],
        "credit2: load of a run queue (its last word is padding).",
    ),
    row(
        0x0002_220d,
        "csched2_tickle_new",
        3,
        &[vcpu_in(0), dom_in(0), cpu(1), signed("credit", 2)],
        "credit2: a vCPU became runnable; the scheduler searches for a vCPU to preempt.",
    ),
    row(
        0x0002_220e,
        "csched2_runq_max_weight",
        1,
        &[bits("runq", 0, 0, 16), bits("max_weight", 0, 16, 16)],
        "credit2: highest weight in a run queue.",
    ),
    row(
        0x0002_220f,
        "csched2_migrate",
        2,
        &[vcpu_in(0), dom_in(0), bits("from_runq", 1, 0, 16), bits("to_runq", 1, 16, 16)],
        "credit2: a vCPU moves to another run queue.",
    ),
    row(
        0x0002_2210,
        "csched2_load_check",
        2,
        &[bits("own_runq", 0, 0, 16), bits("other_runq", 0, 16, 16), word("load_delta", 1)],
        "credit2: loads of two run queues are compared.",
    ),
    row(
        0x0002_2211,
        "csched2_load_balance",
        6,
        &[
            pair("own_load_avg", 0),
            pair("other_load_avg", 2),
            bits("own_runq", 4, 0, 16),
            bits("other_runq", 4, 16, 16),
        ],
        "credit2: loads of two run queues shall be balanced (its last word is padding).",
    ),
    row(
        0x0002_2213,
        "csched2_picked_cpu",
        4,
        &[
            pair("load_avg", 0),
            vcpu_in(2),
            dom_in(2),
            bits("runq", 3, 0, 16),
            bits("cpu", 3, 16, 16).is(Meaning::Cpu),
        ],
        "credit2: a pCPU is picked for a vCPU (run queue 65535: none).",
    ),
    row(
        0x0002_2214,
        "csched2_runq_candidate",
        3,
        &[vcpu_in(0), dom_in(0), word("tickled_cpu", 1).is(Meaning::Cpu), signed("credit", 2)],
        "credit2: the vCPU that will run next.",
    ),
    row(
        0x0002_2215,
        "csched2_schedule",
        2,
        &[
            bits("cpu", 0, 0, 16).is(Meaning::Cpu),
            bits("runq", 0, 16, 16),
            flag("tasklet", 1, 0, 8),
            flag("idle", 1, 8, 8),
            flag("smt_idle", 1, 16, 8),
            flag("tickled", 1, 24, 8),
        ],
        "credit2: the scheduler runs.",
    ),
    row(
        0x0002_2216,
        "csched2_ratelimit",
        2,
        &[vcpu_in(0), dom_in(0), ns("ran_ns", 1)],
        "credit2: the vCPU goes on because it has run for less than the rate limit.",
    ),
    row(
        0x0002_2217,
        "csched2_runq_cand_check",
        1,
        &[vcpu_in(0), dom_in(0)],
        "credit2: a vCPU of the run queue is considered.",
    ),
    // rtds: TRC_SCHED_CLASS_EVT(RTDS, n) = 0x22800 + n.
    row(
        0x0002_2801,
        "rtds_tickle",
        1,
        &[bits("cpu", 0, 0, 16).is(Meaning::Cpu)],
        "rtds: a pCPU is notified to reschedule.",
    ),
    row(
        0x0002_2802,
        "rtds_runq_pick",
        5,
        &[
            vcpu_in(0),
            dom_in(0),
            pair("deadline_ns", 1).is(Meaning::Ns),
            pair("budget_ns", 3).is(Meaning::Ns),
        ],
        "rtds: the vCPU with the earliest deadline.",
    ),
    row(
        0x0002_2803,
        "rtds_budget_burn",
        6,
        &[
            vcpu_in(0),
            dom_in(0),
            pair("budget_ns", 1).is(Meaning::Ns),
            signed("delta_ns", 3).is(Meaning::Ns),
            word("priority_level", 4),
            flag("has_extratime", 5, 0, 8).doc("up to 4.17 the word's upper bytes mean nothing"),
        ],
        "rtds: a vCPU pays for the time it ran.",
    ),
    row(
        0x0002_2804,
        "rtds_budget_replenish",
        6,
        &[
            vcpu_in(0),
            dom_in(0),
            word("priority_level", 1),
            pair("deadline_ns", 2).is(Meaning::Ns),
            pair("budget_ns", 4).is(Meaning::Ns),
        ],
        "rtds: a vCPU gets its new budget.",
    ),
    row(
        0x0002_2805,
        "rtds_sched_tasklet",
        0,
        &[],
        "rtds: the idle vCPU is chosen because there is tasklet work.",
    ),
    row(
        0x0002_2806,
        "rtds_schedule",
        1,
        &[
            bits("cpu", 0, 0, 16).is(Meaning::Cpu),
            flag("tasklet", 0, 16, 8),
            flag("tickled", 0, 24, 4),
            flag("idle", 0, 28, 4),
        ],
        "rtds: the scheduler runs.",
    ),
    // null: TRC_SCHED_CLASS_EVT(SNULL, n) = 0x22a00 + n.
    row(
        0x0002_2a01,
        "snull_picked_cpu",
        2,
        &[vcpu_in(0), dom_in(0), cpu(1)],
        "null: a pCPU is picked for a vCPU.",
    ),
    row(
        0x0002_2a02,
        "snull_unit_assign",
        2,
        &[vcpu_in(0), dom_in(0), cpu(1)],
        "null: a vCPU gets its pCPU.",
    ),
    row(
        0x0002_2a03,
        "snull_unit_deassign",
        2,
        &[vcpu_in(0), dom_in(0), cpu(1)],
        "null: a vCPU loses its pCPU.",
    ),
    row(
        0x0002_2a04,
        "snull_migrate",
        2,
        &[
            vcpu_in(0),
            dom_in(0),
            bits("cpu", 1, 0, 16).is(Meaning::Cpu),
            bits("new_cpu", 1, 16, 16).is(Meaning::Cpu),
        ],
        "null: a vCPU moves to another pCPU.",
    ),
    row(
        0x0002_2a05,
        "snull_schedule",
        2,
        &[
            flag("tasklet", 0, 0, 16),
            bits("cpu", 0, 16, 16).is(Meaning::Cpu),
            signed_half("vcpu", 1, 0, Meaning::Vcpu),
            signed_half("domid", 1, 16, Meaning::Dom),
        ],
        "null: the scheduler runs.",
    ),
    row(
        0x0002_2a06,
        "snull_tasklet",
        0,
        &[],
        "null: the idle vCPU is chosen because there is tasklet work.",
    ),
];
