//! The report over the sample tables.

use super::build::{Gather, Report};
use super::text::Style;
use super::{View, lines, machine, summary, text};
use crate::facts::{Facts, TimeUnit};
use crate::sample::{rows, svm, tables};
use crate::zone::Zone;
use transect_model::ids::VcpuId;
use transect_model::table::TableSink;
use transect_model::time::{Span, Timestamp};
use transect_store::manifest::Cost;

fn facts() -> Facts {
    Facts {
        path: "demo.transect".to_owned(),
        created_unix_ns: Some(1_795_238_056_000_000_000),
        transect_version: Some("0.1.0".to_owned()),
        command: vec!["transect".to_owned(), "record".to_owned()],
        finished: true,
        ending: transect_recording::ending::Ending::default(),
        window: Span { start: Timestamp::new(0), end: Timestamp::new(10_000) },
        unit: TimeUnit::Ns,
        cost: Some(Cost {
            wall_ns: 10_000,
            cpu_user_ns: 100,
            cpu_sys_ns: 150,
            traced_cpu_ns: 200,
            bytes: 4_096,
            events: 25,
            lost: 1_234,
        }),
        stored: None,
        excerpt_of: None,
        filter: None,
        filter_effect: "",
        snapshot: None,
        notes: Vec::new(),
    }
}

fn report(vms: &[&str]) -> Report {
    try_report(facts(), vms).unwrap()
}

fn try_report(facts: Facts, vms: &[&str]) -> anyhow::Result<Report> {
    let vms: Vec<String> = vms.iter().map(|vm| (*vm).to_owned()).collect();
    let mut gather = Gather::with_findings(0);
    rows(tables()).into_iter().for_each(|row| gather.row(row));
    gather.report(facts, &vms)
}

fn text_of(report: &Report, views: &[View], width: Option<usize>) -> String {
    let mut out = Vec::new();
    text::write(report, views, Style { width, bold: false, top: 10, zone: Zone::Utc }, &mut out)
        .unwrap();
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
        sentences[..2],
        [
            "periodic vcpu0 wanted a CPU for 9.00 µs (90.0 % of 10.0 µs); it waited for 88.9 % of that \
             (8.00 µs), 93.8 % of the wait because hog held the CPU (vcpu0 7.50 µs).",
            "hog vcpu0 wanted a CPU for 9.50 µs (95.0 % of 10.0 µs); it waited for 15.8 % of that \
             (1.50 µs), 100 % of the wait because kvmhost thread kworker/0:1 held the CPU.",
        ]
    );
    assert_eq!(
        sentences[2],
        "In periodic, the guest kernel had 'ticker' scheduled in for 6.50 µs; for 92.3 % of that \
         (6.00 µs) its vCPU was waiting for a CPU."
    );
    assert_eq!(
        sentences[4],
        "At least 1,234 events were lost in 2 gaps. 2.50 % of the vCPUs' time is unknown."
    );
}

/// Two vCPUs of a hog on one CPU wait for each other more than anyone else waits; who is wronged is
/// another VM all the same.
#[test]
fn a_hog_that_waits_for_itself_is_no_victim() {
    let mut report = report(&[]);
    let hog = report.vcpus.iter_mut().find(|v| v.machine == "hog").unwrap();
    (hog.waited_ns, hog.gotten_ns) = (9_000, 1_000);
    let line = report.antagonists.iter_mut().find(|l| l.machine == "hog").unwrap();
    line.waited_ns = 9_000;
    line.by_kind = "vcpu".to_owned();
    line.by_machine_id = Some(line.machine_id);
    assert!(summary::sentences(&report)[0].starts_with("periodic vcpu0"));
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
    let error = try_report(facts(), &["wbe"]).err().unwrap();
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
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/src/golden.txt"), &text).unwrap();
        return;
    }
    assert_eq!(text, golden, "TRANSECT_BLESS=1 rewrites golden.txt");
}

#[test]
fn packets_are_those_from_or_to_a_selected_machine() {
    let pairs = |vms: &[&str]| {
        let report = report(vms);
        let name = |name: &Option<String>| name.clone().unwrap_or_default();
        let of = |line: &lines::PacketLine| (name(&line.machine), name(&line.to_machine));
        report.packets.iter().map(of).collect::<Vec<_>>()
    };
    let pair = |from: &str, to: &str| (from.to_owned(), to.to_owned());
    let [from_outside, sent, whole] =
        [pair("", "periodic"), pair("hog", ""), pair("hog", "periodic")];
    assert_eq!(pairs(&[]), [from_outside.clone(), sent.clone(), whole.clone()]);
    assert_eq!(pairs(&["hog"]), [sent, whole.clone()]);
    assert_eq!(pairs(&["periodic"]), [from_outside, whole]);
    assert!(pairs(&["kvmhost"]).is_empty());
}

#[test]
fn a_packet_from_outside_has_no_sender_in_json() {
    let report = json_of(&report(&[]));
    for list in ["packets", "packet_stages"] {
        let first = &report[list][0];
        assert!(first["machine_id"].is_null() && first["machine"].is_null(), "{first}");
        assert_eq!(
            (&first["to_machine_id"], &first["to_machine"]),
            (&1.into(), &"periodic".into())
        );
    }
    let sent = &report["packets"][1];
    assert_eq!((&sent["unfinished"], &sent["bytes"]), (&1.into(), &1_514.into()));
    assert!(
        sent["to_machine"].is_null() && sent["p50_ns"].is_null() && sent["tail_stage"].is_null()
    );
    assert_eq!(report["packets"][2]["tail_stage"], "wake..run");
}

#[test]
fn docs_describe_every_column() {
    use crate::facts;
    let docs = include_str!("../../../docs/reference/report.md");
    let columns = [
        facts::RecordingLine::COLUMNS,
        facts::CostLine::COLUMNS,
        lines::VcpuLine::COLUMNS,
        lines::CpuLine::COLUMNS,
        lines::ExitLine::COLUMNS,
        lines::AntagonistLine::COLUMNS,
        lines::ThreadLine::COLUMNS,
        lines::WakeupLine::COLUMNS,
        lines::RequestLine::COLUMNS,
        lines::StageLine::COLUMNS,
        lines::PacketLine::COLUMNS,
        lines::PacketStageLine::COLUMNS,
    ];
    for column in columns.concat() {
        assert!(docs.contains(&format!("`{column}`")), "docs/reference/report.md lacks {column}");
    }
}

#[test]
fn broken_stamps_are_an_error_and_not_a_wrapped_sum() {
    let mut facts = facts();
    facts.window.end = Timestamp::new(i64::MAX);
    let error = try_report(facts, &[]).err().unwrap();
    assert!(error.to_string().contains("one of its timestamps is corrupt"), "{error}");
}
