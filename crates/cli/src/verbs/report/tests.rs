//! The report over hand-made tables: 10 µs in which a hog keeps a periodic VM from its only CPU.

use super::build::{Report, Selection, build};
use super::facts::{CostLine, Facts, TimeUnit};
use super::text::Style;
use super::{View, machine, summary, text};
use transect_model::exit::{ExitReason, Isa};
use transect_model::ids::{CpuId, MachineId, MachineKind, Tid, VcpuId};
use transect_model::state::{EffectiveState, ThreadState, VcpuState};
use transect_model::table::*;
use transect_model::time::{Span, Timestamp};

const HOST: MachineId = MachineId(0);
const PERIODIC: MachineId = MachineId(1);
const HOG: MachineId = MachineId(2);
const PERIODIC_TID: Tid = Tid(101);
const HOG_TID: Tid = Tid(202);

fn svm(code: u32) -> ExitReason {
    ExitReason { isa: Isa::Svm, code }
}

fn machine_row(id: MachineId, kind: MachineKind, name: &str) -> Machine {
    let guest = kind == MachineKind::Guest;
    Machine {
        machine_id: id,
        parent_id: guest.then_some(HOST),
        kind,
        name: name.to_owned(),
        vmm_pid: guest.then_some(Tid(100)),
        cgroup: None,
        clock: (id != HOG).then(|| "x86-tsc".to_owned()),
        error_bound_ns: (id != HOG).then_some(0),
    }
}

fn state(ts: i64, dur: i64, machine: MachineId, state: VcpuState, by: Option<Tid>) -> VcpuStateRow {
    VcpuStateRow {
        ts,
        dur,
        machine_id: machine,
        vcpu: VcpuId(0),
        cpu: Some(CpuId(0)),
        state,
        reason: None,
        by_machine_id: by.map(|tid| if tid == HOG_TID { HOG } else { HOST }),
        by_tid: by,
    }
}

fn exit(
    ts: i64,
    dur: Option<i64>,
    handling_ns: Option<i64>,
    machine: MachineId,
    code: u32,
) -> Exit {
    Exit {
        ts,
        dur,
        handling_ns,
        machine_id: machine,
        vcpu: VcpuId(0),
        reason: svm(code),
        rip: 0xffff_ffff_8100_0000,
        to_user: code == 0x7b,
        detail: None,
    }
}

fn thread(machine_id: MachineId, tid: Tid, name: &str) -> Thread {
    Thread { machine_id, tid, pid: Some(tid), name: name.to_owned(), cgroup: None }
}

fn thread_state(
    (ts, dur): (i64, i64),
    machine_id: MachineId,
    tid: Tid,
    state: ThreadState,
    effective: Option<EffectiveState>,
) -> ThreadStateRow {
    ThreadStateRow {
        ts,
        dur,
        machine_id,
        tid,
        cpu: Some(CpuId(0)),
        state,
        effective,
        reason: (state == ThreadState::Blocked).then_some('S'),
        waker_tid: None,
    }
}

fn wakeup(ts: i64, dur: Option<i64>) -> Wakeup {
    Wakeup {
        ts,
        dur,
        machine_id: HOST,
        tid: PERIODIC_TID,
        waker_tid: Tid::IDLE,
        waker_cpu: CpuId(0),
        cpu: dur.map(|_| CpuId(0)),
    }
}

fn tables() -> Tables {
    use VcpuState::{Exit as InExit, Guest, Halted, Preempted, Unknown, User, Waking};
    let mut t = Tables {
        machines: vec![
            machine_row(HOST, MachineKind::Host, "kvmhost"),
            machine_row(PERIODIC, MachineKind::Guest, "periodic"),
            machine_row(HOG, MachineKind::Guest, "hog"),
        ],
        threads: vec![
            thread(HOST, PERIODIC_TID, "CPU 0/KVM"),
            thread(HOST, HOG_TID, "CPU 0/KVM"),
            thread(HOST, Tid(7), "kworker/0:1"),
            thread(PERIODIC, Tid(50), "ticker"),
        ],
        ..Tables::default()
    };
    for (machine_id, tid) in [(PERIODIC, PERIODIC_TID), (HOG, HOG_TID)] {
        t.vcpus.push(Vcpu { machine_id, vcpu: VcpuId(0), vmm_tid: Some(tid) });
    }
    t.vcpu_states = vec![
        state(0, 1_000, PERIODIC, Halted, None),
        state(1_000, 6_000, PERIODIC, Waking, Some(HOG_TID)),
        state(7_000, 500, PERIODIC, Waking, Some(Tid(7))),
        state(7_500, 500, PERIODIC, InExit, None),
        state(8_000, 500, PERIODIC, Guest, None),
        state(8_500, 1_500, PERIODIC, Preempted, Some(HOG_TID)),
        state(0, 6_000, HOG, Guest, None),
        state(6_000, 600, HOG, InExit, None),
        state(6_600, 400, HOG, User, None),
        state(7_000, 1_500, HOG, Preempted, Some(Tid(7))),
        state(8_500, 1_000, HOG, Guest, None),
        state(9_500, 500, HOG, Unknown, None),
    ];
    t.exits = vec![
        exit(0, Some(8_000), Some(500), PERIODIC, 0x78),
        exit(6_000, Some(2_500), Some(1_000), HOG, 0x7b),
        exit(9_500, None, None, HOG, 0x400),
    ];
    t.thread_states = vec![
        thread_state((0, 6_600), HOST, HOG_TID, ThreadState::Running, None),
        thread_state((1_000, 6_500), HOST, PERIODIC_TID, ThreadState::Runnable, None),
        thread_state(
            (2_000, 6_000),
            PERIODIC,
            Tid(50),
            ThreadState::Running,
            Some(EffectiveState::VcpuPreempted),
        ),
        thread_state(
            (8_000, 500),
            PERIODIC,
            Tid(50),
            ThreadState::Running,
            Some(EffectiveState::Running),
        ),
        thread_state((8_500, 1_500), PERIODIC, Tid(50), ThreadState::Blocked, None),
    ];
    t.wakeups = vec![wakeup(1_000, Some(6_500)), wakeup(9_000, None)];
    t.clock_check.push(ClockCheck {
        machine_id: PERIODIC,
        tested: 9_489,
        inside: 9_489,
        outside: 0,
        untested: 12,
        worst_ns: 0,
        slack_later_ns: 20_400,
        slack_earlier_ns: 21_000,
    });
    t.lost.push(Lost {
        ts: 9_500,
        dur: 500,
        machine_id: HOST,
        cpu: Some(CpuId(0)),
        count: Some(1_234),
        cause: "buffer_overrun".to_owned(),
    });
    t
}

fn facts() -> Facts {
    Facts {
        path: "demo.transect".to_owned(),
        created_unix_ns: Some(1_795_238_056_000_000_000),
        transect_version: Some("0.1.0".to_owned()),
        command: vec!["transect".to_owned(), "record".to_owned()],
        finished: true,
        window: Span { start: Timestamp::new(0), end: Timestamp::new(10_000) },
        unit: TimeUnit::Ns,
        cost: Some(CostLine {
            wall_ns: 10_000,
            cpu_user_ns: 100,
            cpu_sys_ns: 150,
            bytes: 4_096,
            events: Some(25),
            lost: Some(1_234),
        }),
        notes: Vec::new(),
    }
}

fn report(vms: &[&str]) -> Report {
    let tables = tables();
    let vms: Vec<String> = vms.iter().map(|vm| (*vm).to_owned()).collect();
    let selection = Selection::by_name(&tables, &vms).unwrap();
    build(facts(), tables, &selection).unwrap()
}

fn text_of(report: &Report, views: &[View], width: Option<usize>) -> String {
    let mut out = Vec::new();
    text::write(report, views, Style { width, bold: false, top: 10 }, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn json_of(report: &Report) -> serde_json::Value {
    let mut views = View::DEFAULT.to_vec();
    views.push(View::Windows);
    let mut out = Vec::new();
    machine::write_json_report(report, &views, None, &mut out).unwrap();
    serde_json::from_slice(&out).unwrap()
}

#[test]
fn the_metrics_of_every_vcpu_add_up_to_its_window() {
    for line in &report(&[]).vcpus {
        let metrics = line.gotten_ns + line.waited_ns + line.blocked_ns + line.offline_ns;
        assert_eq!(metrics + line.unknown_ns, 10_000);
        let on_cpu = line.guest_ns + line.exit_ns + line.user_ns + line.halt_poll_ns;
        assert_eq!(on_cpu + line.running_ns, line.gotten_ns);
        assert_eq!(line.preempted_ns + line.waking_ns, line.waited_ns);
        assert_eq!(line.halted_ns + line.other_blocked_ns, line.blocked_ns);
    }
}

#[test]
fn the_hog_is_named_as_the_antagonist() {
    let report = report(&[]);
    let first = &report.antagonists[0];
    assert_eq!((first.machine.as_str(), first.by_machine.as_deref()), ("periodic", Some("hog")));
    assert_eq!((first.by_vcpu, first.waited_ns, first.count), (Some(VcpuId(0)), 7_500, 2));
    let second = &report.antagonists[1];
    assert_eq!(
        (second.by_kind.as_str(), second.by_name.as_deref()),
        ("thread", Some("kworker/0:1"))
    );
    let sentences = summary::sentences(&report);
    assert_eq!(
        sentences[0],
        "periodic vcpu0 waited 8.00 µs (80.0 % of 10.0 µs) for a CPU, 93.8 % of it behind hog \
         (vcpu0 7.50 µs)."
    );
    assert_eq!(
        sentences[1],
        "Inside periodic, 'ticker' believed it ran for 6.50 µs; for 92.3 % of that (6.00 µs) its \
         vCPU had no CPU."
    );
    assert_eq!(
        sentences[3],
        "1,234 events were lost in 1 gap. 2.50 % of the vCPUs' time is unknown."
    );
}

#[test]
fn a_halts_sleep_does_not_hide_its_cost() {
    let report = report(&["periodic"]);
    let hlt = &report.exits[0];
    assert_eq!((hlt.count, hlt.total_ns, hlt.handling_total_ns), (1, 8_000, 500));
    assert_eq!(hlt.reason.to_string(), "hlt");
}

#[test]
fn exits_without_an_entry_count_but_have_no_duration() {
    let report = report(&["hog"]);
    let npf = report.exits.iter().find(|l| l.reason == svm(0x400)).unwrap();
    assert_eq!((npf.count, npf.unfinished, npf.total_ns, npf.p50_ns), (1, 1, 0, None));
}

#[test]
fn json_holds_the_lines_digit_for_digit() {
    let report = report(&[]);
    let json = json_of(&report);
    assert_eq!(json["schema"], machine::SCHEMA);
    assert_eq!(json["recording"]["dur_ns"], 10_000);
    assert_eq!(json["vcpus"][0]["waited_ns"], 8_000);
    assert_eq!(json["vms"][1]["unknown_ns"], 500);
    assert_eq!(json["exits"][0]["reason"], "hlt");
    assert_eq!(json["threads"][2]["vcpu_preempted_ns"], 6_000);
    assert_eq!(json["clock_check"][0]["slack_later_ns"], 20_400);
    assert_eq!(json["cost"]["cpu_sys_ns"], 150);
    assert_eq!(json["wakeups"][0]["p99_ns"], 6_500);
    assert_eq!(json["lost"][0]["count"], 1_234);
    for list in ["machines", "cpus", "antagonists", "windows", "clock_edges", "import_log"] {
        assert!(json[list].is_array(), "{list}");
    }
}

#[test]
fn csv_says_the_same_numbers_as_json() {
    let report = report(&[]);
    let mut out = Vec::new();
    machine::write_csv_report(&report, View::Vcpus, None, &mut out).unwrap();
    let csv = String::from_utf8(out).unwrap();
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let json = json_of(&report);
    for (at, line) in lines.enumerate() {
        for (column, value) in header.iter().zip(line) {
            let wanted = match &json["vcpus"][at][*column] {
                serde_json::Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            assert_eq!(wanted, value, "{column}");
        }
    }
}

#[test]
fn top_counts_within_each_machine() {
    let report = report(&[]);
    let mut out = Vec::new();
    machine::write_csv_report(&report, View::Exits, Some(1), &mut out).unwrap();
    assert_eq!(String::from_utf8(out).unwrap().lines().count(), 3);
}

#[test]
fn an_unknown_vm_is_an_error_that_lists_the_known_ones() {
    let error = Selection::by_name(&tables(), &["wbe".to_owned()]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no machine 'wbe' in this recording; it has: kvmhost, periodic, hog"
    );
}

#[test]
fn every_view_fits_an_80_column_terminal() {
    let text = text_of(&report(&[]), &View::DEFAULT, Some(80));
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn the_page_for_people() {
    let text = text_of(&report(&[]), &View::DEFAULT, None);
    let golden = include_str!("golden.txt");
    if std::env::var_os("TRANSECT_BLESS").is_some() {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/verbs/report/golden.txt"), &text)
            .unwrap();
        return;
    }
    assert_eq!(text, golden, "TRANSECT_BLESS=1 rewrites golden.txt");
}

#[test]
fn docs_describe_every_view_and_column() {
    use super::{facts, lines};
    let docs = include_str!("../../../../../docs/report.md");
    let columns = [
        facts::RecordingLine::COLUMNS,
        facts::CostLine::COLUMNS,
        lines::VcpuLine::COLUMNS,
        lines::CpuLine::COLUMNS,
        lines::ExitLine::COLUMNS,
        lines::AntagonistLine::COLUMNS,
        lines::ThreadLine::COLUMNS,
        lines::WakeupLine::COLUMNS,
    ];
    for column in columns.concat() {
        assert!(docs.contains(&format!("`{column}`")), "docs/report.md lacks {column}");
    }
    for view in <View as clap::ValueEnum>::value_variants() {
        let name = clap::ValueEnum::to_possible_value(view).unwrap();
        assert!(docs.contains(&format!("`{}`", name.get_name())), "docs/report.md lacks a view");
    }
}

#[test]
fn broken_stamps_are_an_error_and_not_a_wrapped_sum() {
    let mut facts = facts();
    facts.window.end = Timestamp::new(i64::MAX);
    let error = build(facts, tables(), &Selection::default()).err().unwrap();
    assert!(error.to_string().contains("a stamp in it is broken"), "{error}");
}

#[test]
fn windows_are_parsed_with_their_units() {
    assert_eq!(super::window_ns("100ms"), Ok(100_000_000));
    assert_eq!(super::window_ns("1.5"), Ok(1_500_000_000));
    assert_eq!(super::window_ns("250us"), Ok(250_000));
    assert!(super::window_ns("0").is_err());
    assert!(super::window_ns("5 parsecs").is_err());
    assert!(super::window_ns("NaN").is_err());
}
