//! What comes of made-up reports.

use super::super::{
    Agreement, Row, compare, compare_all, csv_table, html_section, summary, text_table,
};
use super::{
    golden,
    made::{cell, compared, measured, of_guests, platform, report},
};
use transect_bench_core::CacheState::{Any, Hot};
use transect_bench_report::{Comparison, Report, Suspect};
use transect_bench_run::plan::Cell;

/// The row of a paper whose table and label hold these words.
fn row(rows: &[Row], table: &str, words: &[&str]) -> Row {
    let is_it =
        |row: &&Row| row.table == table && words.iter().all(|word| row.label.contains(word));
    let found: Vec<&Row> = rows.iter().filter(is_it).collect();
    assert_eq!(found.len(), 1, "{table} {words:?}: {found:?}");
    found[0].clone()
}

fn judge(comparisons: Vec<Comparison>, table: &str, words: &[&str]) -> Row {
    row(&compare(&report(comparisons)).unwrap(), table, words)
}

fn compile(platform: &str, tracer: &str) -> Cell {
    cell("compile", Hot, platform, tracer)
}

const NATIVE_TRACED: [&str; 2] = [" native ", "trace-to-disk"];

/// Table 1: 372.89 s over 364.93 s, 2.18 % ± 0.49 %. A third to three times that is 0.56 % to 8.1 %.
#[test]
fn an_effect_of_their_size_holds() {
    let (traced, nobody) = (compile("native", "transect-compact"), compile("native", "none"));
    let found = judge(vec![compared(&traced, &nobody, 1.03, 0.005)], "Table 1", &NATIVE_TRACED);
    assert_eq!(found.agrees, Agreement::Holds);
    let [cost, low, high] = found.theirs.cost.unwrap();
    assert!((cost - 1.02181).abs() < 1e-4 && low < cost && cost < high);
    assert!((found.theirs.percent.unwrap() - 97.82).abs() < 0.005, "{:?}", found.theirs);
    assert!((found.theirs.speed.unwrap() - 97.87).abs() < 0.005, "{:?}", found.theirs);
    let ours = found.ours.unwrap();
    assert!((ours.percent.unwrap() - 97.0).abs() < 1e-9);
    assert!((ours.speed.unwrap() - 100.0 / 1.03).abs() < 1e-9);
}

#[test]
fn an_effect_of_another_size_or_direction_does_not_hold() {
    let (traced, nobody) = (compile("native", "transect-compact"), compile("native", "none"));
    for ratio in [1.5, 0.97] {
        let found =
            judge(vec![compared(&traced, &nobody, ratio, 0.005)], "Table 1", &NATIVE_TRACED);
        assert_eq!(found.agrees, Agreement::DoesNotHold, "{ratio}");
    }
}

#[test]
fn what_straddles_or_has_no_interval_or_no_floor_is_not_judged() {
    let (traced, nobody) = (compile("native", "transect-compact"), compile("native", "none"));
    let wide = compared(&traced, &nobody, 1.03, 0.2);
    let too_few = Comparison { estimate: None, ratios: vec![(0, 1.03)], ..wide.clone() };
    let no_noise = Comparison { floor: None, ..compared(&traced, &nobody, 1.03, 0.005) };
    for (comparison, words) in
        [(wide, "the published claim allows"), (too_few, "1 block"), (no_noise, "A/A")]
    {
        let found = judge(vec![comparison], "Table 1", &NATIVE_TRACED);
        assert!(matches!(found.agrees, Agreement::Unresolved { .. }), "{found:?}");
        assert!(found.agrees.why().contains(words), "{found:?}");
    }
}

#[test]
fn what_was_not_measured_names_its_cells() {
    let found = judge(Vec::new(), "Table 1", &NATIVE_TRACED);
    let Agreement::NotMeasured { cells } = &found.agrees else { panic!("{found:?}") };
    assert_eq!(cells[0], "compile hot on native under transect-compact / compile hot on native");
}

#[test]
fn flagged_rows_are_left_out_whatever_was_measured() {
    let rows = compare(&Report::default()).unwrap();
    let found = row(&rows, "Table 9", &["File Reread", "flight-recorder"]);
    assert!(matches!(found.agrees, Agreement::LeftOut { .. }));
    assert_eq!(rows.iter().filter(|row| row.agrees.word() == "left out").count(), 102);
}

/// Xen's cost is that over the emulated machine, through the native reference: (dom0 / native) × (native / tcg).
#[test]
fn a_chain_of_comparisons_is_multiplied_and_its_errors_added() {
    let (dom0, tcg, native) =
        (compile("xen-dom0", "none"), compile("tcg", "none"), compile("native", "none"));
    let both = vec![compared(&dom0, &native, 22.0, 0.005), compared(&tcg, &native, 20.0, 0.005)];
    let found = judge(both, "Table 1", &["xen-dom0", "not-compiled"]);
    assert_eq!(found.agrees, Agreement::Holds, "{found:?}");
    let figure = found.ours.unwrap().figure.unwrap();
    assert!((figure.value - 1.1).abs() < 1e-12 && figure.links == 2);
    assert!((figure.confidence - 0.94).abs() < 1e-12);
    assert!((figure.high - 1.1 * 1.005 * 1.005).abs() < 1e-12);
    assert!((figure.floor.unwrap() - (1.001f64.powi(2) - 1.0)).abs() < 1e-12);
}

#[test]
fn an_emulator_is_not_compared_with_hardware() {
    let (dom0, native) = (compile("xen-dom0", "none"), compile("native", "none"));
    let mut made = report(vec![compared(&dom0, &native, 1.1, 0.005)]);
    made.platforms = vec![platform("xen-dom0", &["CPU"]), platform("native", &[])];
    let found = row(&compare(&made).unwrap(), "Table 1", &["xen-dom0", "not-compiled"]);
    assert!(found.agrees.why().contains("an emulator is not compared with hardware"), "{found:?}");
    made.platforms.clear();
    made.platforms = vec![platform("xen-dom0", &[]), platform("native", &[])];
    let found = row(&compare(&made).unwrap(), "Table 1", &["xen-dom0", "not-compiled"]);
    assert_eq!(found.agrees, Agreement::Holds);
}

#[test]
fn an_arm_that_lost_events_is_another_arm() {
    let (traced, nobody) = (compile("native", "transect-compact"), compile("native", "none"));
    let mut made = report(vec![compared(&traced, &nobody, 1.03, 0.005)]);
    made.cells = vec![measured(&traced, &[1.0])];
    made.cells[0].lossy_runs = 3;
    let found = row(&compare(&made).unwrap(), "Table 1", &NATIVE_TRACED);
    assert!(found.agrees.why().contains("another arm"), "{found:?}");
}

/// "Less than 3 %", "more than 10 %".
#[test]
fn bounds_are_judged_by_the_end_of_the_interval() {
    let (traced, nobody) = (compile("native", "transect-compact"), compile("native", "none"));
    for (ratio, word) in [(1.02, "holds"), (1.04, "does not hold"), (1.029, "unresolved")] {
        let comparison = compared(&traced, &nobody, ratio, 0.005);
        let found = judge(vec![comparison], "text", &["cost of tracing upper bound"]);
        assert_eq!(found.agrees.word(), word, "{ratio}");
    }
    let dbench = |tracer| cell("dbench", Any, "native", tracer);
    let comparison = compared(&dbench("transect-compact"), &dbench("none"), 1.3, 0.05);
    let found = judge(vec![comparison], "text", &["dbench", "overhead of tracing"]);
    assert_eq!(found.agrees, Agreement::Holds);
}

/// The upper end of the conclusion's range is about every workload: one that costs more is enough, all are needed.
#[test]
fn a_claim_about_all_needs_all() {
    let works = ["compile", "tar-create", "tar-extract", "compress/bzip2"];
    let compared = |ratios: &[f64]| {
        let of = |(work, ratio): (&&str, &f64)| {
            let on = |tracer| cell(work, Hot, "native", tracer);
            compared(&on("transect-compact"), &on("none"), *ratio, 0.005)
        };
        works.iter().zip(ratios).map(of).collect::<Vec<_>>()
    };
    for (ratios, word) in [
        (&[1.02, 1.03, 1.01, 1.02][..], "holds"),
        (&[1.02, 1.03, 1.09, 1.02][..], "does not hold"),
        (&[1.02, 1.03, 1.01][..], "not measured"),
    ] {
        let found = judge(compared(ratios), "text", &["tracing overhead high end"]);
        assert_eq!(found.agrees.word(), word, "{found:?}");
    }
}

/// Their perf adds 103 ns where ftrace adds 101.
#[test]
fn added_costs_are_compared_with_each_other() {
    let on = |tracer| cell("tracer-cost/getppid", Any, "native", tracer);
    let of = |tracer, ratio| compared(&on(tracer), &on("none"), ratio, 0.005);
    let words = ["average latency", "Perf"];
    let table = "Kernel tracing: the outline";
    let found = judge(vec![of("perf", 4.0), of("ftrace-flight", 1.8)], table, &words);
    let figure = found.ours.clone().unwrap().figure.unwrap();
    assert!((figure.value - 3.0 / 0.8).abs() < 1e-12, "{figure:?}");
    assert_eq!(found.agrees, Agreement::DoesNotHold, "{found:?}");
    let found = judge(vec![of("perf", 1.82), of("ftrace-flight", 1.8)], table, &words);
    assert_eq!(found.agrees, Agreement::Holds, "{found:?}");
    let found = judge(vec![of("perf", 1.8), of("ftrace-flight", 1.0005)], table, &words);
    assert!(matches!(found.agrees, Agreement::Unresolved { .. }), "{found:?}");
}

#[test]
fn more_machines_cost_more_here_than_there() {
    let web = |platform, guests| of_guests(cell("web", Any, platform, "none"), guests);
    let of = |platform, cost| compared(&web(platform, 4), &web(platform, 1), cost, 0.02);
    let words = ["concurrent servers, high"];
    let found = judge(vec![of("kvm", 3.0), of("native", 1.1)], "text on Fig. 3", &words);
    assert_eq!(found.agrees, Agreement::Holds, "{found:?}");
    let found = judge(vec![of("kvm", 1.1), of("native", 3.0)], "text on Fig. 3", &words);
    assert_eq!(found.agrees, Agreement::DoesNotHold, "{found:?}");
    let mut emulated = report(vec![of("xen-domu-phys", 3.0), of("native", 1.1)]);
    emulated.platforms = vec![platform("xen-domu-phys", &["CPU"]), platform("native", &[])];
    let found = row(&compare(&emulated).unwrap(), "text on Fig. 3", &words);
    assert!(found.agrees.why().contains("an emulator is not compared with hardware"), "{found:?}");
}

#[test]
fn spreads_have_intervals() {
    let dbench = cell("dbench", Any, "native", "none");
    // Standard deviation 15 %: theirs is 14 %.
    let values = [80.0, 120.0, 100.0, 85.0, 115.0, 100.0, 90.0, 110.0, 120.0, 80.0];
    let steady = [100.0, 100.1, 99.9, 100.0, 100.2, 99.8, 100.0, 100.1, 99.9, 100.0];
    for (values, word) in
        [(&values[..], "holds"), (&steady[..], "does not hold"), (&values[..4], "unresolved")]
    {
        let made = Report { cells: vec![measured(&dbench, values)], ..Report::default() };
        let rows = compare(&made).unwrap();
        let found = row(&rows, "text on Fig. 1b", &["dbench", " native "]);
        assert_eq!(found.agrees.word(), word, "{found:?}");
    }
}

#[test]
fn most_spreads_need_most_cells() {
    let works = ["compile", "tar-create", "tar-extract", "dbench", "web", "boot", "pgbench"];
    let steady = [100.0, 100.1, 99.9, 100.0, 100.2, 99.8, 100.0, 100.1, 99.9, 100.0];
    let wild = [80.0, 120.0, 100.0, 85.0, 115.0, 100.0, 90.0, 110.0, 120.0, 80.0];
    for (wild_ones, word) in [(2, "holds"), (6, "does not hold")] {
        let of = |(at, work): (usize, &&str)| {
            let values = if at < wild_ones { &wild } else { &steady };
            measured(&cell(work, Any, "native", "none"), values)
        };
        let cells = works.iter().enumerate().map(of).collect();
        let rows = compare(&Report { cells, ..Report::default() }).unwrap();
        let found = row(&rows, "text on Fig. 1b", &["most benchmarks"]);
        assert_eq!(found.agrees.word(), word, "{found:?}");
    }
}

#[test]
fn limiters_are_shares_of_runs() {
    let packets = cell("iperf/udp", Any, "container", "none");
    let suspect = |name: &str, runs, of_runs| Suspect {
        name: name.to_owned(),
        evidence: "9 of 10 CPUs idle".to_owned(),
        runs,
        of_runs,
        elasticity: None,
    };
    for (name, runs, of_runs, word) in [
        ("latency", 10, 10, "holds"),
        ("disk bandwidth", 10, 10, "does not hold"),
        ("latency", 6, 10, "unresolved"),
        ("disk bandwidth", 6, 10, "unresolved"),
        ("latency", 3, 3, "unresolved"),
        ("generator: latency", 10, 10, "holds"),
    ] {
        let mut of = measured(&packets, &[1.0; 10]);
        of.limiter = Some(suspect(name, runs, of_runs));
        let plan = "name = \"p\"\nseed = 1\nmatrix = []\n[workloads.\"iperf/udp\"]\nthreads = 4\n";
        let made = Report { cells: vec![of], plan: plan.to_owned(), ..Report::default() };
        let rows = compare(&made).unwrap();
        let found = row(&rows, "packet rate", &["zone", "threads=4"]);
        assert_eq!(found.agrees.word(), word, "{name} {found:?}");
        let found = row(&rows, "packet rate", &["zone", "threads=8"]);
        assert_eq!(found.agrees.word(), "not measured", "other parameters");
    }
}

/// What the second of two sets of results has, it says.
#[test]
fn several_sets_of_results_speak_together() {
    let (traced, nobody) = (compile("native", "transect-compact"), compile("native", "none"));
    let one = report(Vec::new());
    let two = report(vec![compared(&traced, &nobody, 1.03, 0.005)]);
    let rows = compare_all(&[&one, &two]).unwrap();
    assert_eq!(row(&rows, "Table 1", &NATIVE_TRACED).agrees, Agreement::Holds);
    assert_eq!(rows.len(), 616);
}

fn some() -> Report {
    let (traced, flight, idle, nobody) = (
        compile("native", "transect-compact"),
        compile("native", "transect-flight"),
        compile("native", "transect-idle"),
        compile("native", "none"),
    );
    let mut made = report(vec![
        compared(&traced, &nobody, 1.03, 0.005),
        compared(&flight, &nobody, 1.5, 0.005),
        compared(&idle, &nobody, 1.0, 0.2),
    ]);
    made.name = "made <up>".to_owned();
    made
}

#[test]
fn faces_are_golden() {
    let rows = compare(&some()).unwrap();
    golden("testdata/published.txt", &text_table(&rows));
    let counts = summary(&rows);
    assert_eq!(counts.iter().map(|counts| counts.rows).sum::<usize>(), 616);
    let csv = csv_table(&rows);
    assert_eq!(csv.lines().count(), 617);
    let is_whole = |line: &Vec<String>| line.len() == 22;
    assert!(super::super::csv::read(&csv).iter().all(is_whole));
}

#[test]
fn the_page_is_escaped_and_its_tags_are_closed() {
    let mut rows = compare(&some()).unwrap();
    rows[0].note = "<script>alert(\"1\") & more</script>".to_owned();
    let html = html_section(&rows);
    assert!(
        !html.contains("<script") && html.contains("&lt;script&gt;alert(&quot;1&quot;) &amp; more")
    );
    for tag in ["section", "table", "thead", "tbody", "tr", "td", "th", "details", "p", "h3"] {
        let opened =
            html.matches(&format!("<{tag}>")).count() + html.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, html.matches(&format!("</{tag}>")).count(), "{tag}");
    }
    assert_eq!(html.matches("<tr class=").count(), 616);
}
