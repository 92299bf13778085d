#![allow(clippy::unwrap_used, clippy::panic, reason = "tests report by failing")]

use super::families::{ALL, Kind};
use super::*;
use crate::service::config::Limits;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Stdio};
use transect_history::synthetic::Made;
use transect_live::Missing;
use transect_model::ids::MachineId;

fn page(counters: &Counters, format: Format) -> String {
    let around = Around {
        window_ns: 1_000_000_000,
        triggers: vec![("a".to_owned(), 1, 2)],
        ..Around::default()
    };
    String::from_utf8(render(counters, &around, format)).unwrap()
}

fn value(page: &str, series: &str) -> f64 {
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in:\n{page}")).parse().unwrap()
}

fn filled(vms: u32, groups: u32, limits: Limits, windows: u32) -> Counters {
    let (mut counters, mut made) = (Counters::new(&limits), Made::new(vms, groups));
    for _ in 0..windows {
        counters.add(&made.next_window());
    }
    counters
}

#[test]
fn counters_are_sums_of_windows() {
    let page = page(&filled(2, 1, Limits::default(), 12), Format::OpenMetrics);
    let near = |series: &str, wanted: f64| {
        assert!((value(&page, series) - wanted).abs() < 1e-9, "{series}: {}", value(&page, series));
    };
    near("transect_vm_time_seconds_total{vm=\"vm2\",state=\"running\"}", 1.2);
    near(
        "transect_vm_time_seconds_total{vm=\"vm1\",state=\"preempted\"}",
        (6.0 * 0.3 + 6.0 * 0.001) / 2.0,
    );
    near("transect_vm_time_seconds_total{vm=\"vm2\",state=\"halted\"}", 6.0);
    near("transect_vcpu_exits_total{vm=\"vm1\",vcpu=\"0\"}", 84.0);
    near("transect_vm_exits_total{vm=\"vm1\",reason=\"hlt\"}", 24.0);
    // 3 of each 4 waits took 1.024 to 1.28 µs, 1 took 262 to 328 µs.
    near("transect_vm_wait_seconds_bucket{vm=\"vm1\",le=\"0.000001024\"}", 0.0);
    near("transect_vm_wait_seconds_bucket{vm=\"vm1\",le=\"0.000004096\"}", 36.0);
    near("transect_vm_wait_seconds_bucket{vm=\"vm1\",le=\"0.000262144\"}", 36.0);
    near("transect_vm_wait_seconds_bucket{vm=\"vm1\",le=\"0.001048576\"}", 48.0);
    near("transect_vm_wait_seconds_bucket{vm=\"vm1\",le=\"+Inf\"}", 48.0);
    near("transect_vm_wait_seconds_count{vm=\"vm1\"}", 48.0);
    near("transect_exit_duration_seconds_count{reason=\"hlt\"}", 48.0);
    near("transect_block_bytes_total{machine=\"vm1\",direction=\"write\"}", 12.0 * 16384.0);
    near("transect_antagonist_seconds_total{machine=\"vm1\",by=\"vm2\"}", 0.0048);
    near(
        "transect_container_time_seconds_total{kind=\"machine\",container=\"group0\",pod=\"web\",namespace=\"shop\",state=\"running\"}",
        1.2,
    );
    near("transect_pressure_seconds_total{cgroup=\"host\",resource=\"cpu\",share=\"some\"}", 0.12);
    assert!(!page.contains("resource=\"io\"") && !page.contains("throttled"), "{page}");
    near("transect_cpu_time_seconds_total{cpu=\"1\",state=\"busy\"}", 3.0);
    near("transect_own_cpu_seconds_total", 0.012);
    near("transect_history_state{transect_history_state=\"off\"}", 1.0);
    assert!(page.contains("transect_missing_metric_info{metric=\"net_durations\",reason=\"nothing tells \\\"them\\\" apart\"} 1"));
    assert!(page.ends_with("# EOF\n"));
    // A VM's states are all of its time.
    let states =
        page.lines().filter(|line| line.starts_with("transect_vm_time_seconds_total{vm=\"vm2\""));
    let sum: f64 =
        states.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum();
    assert!((sum - 12.0).abs() < 1e-9, "{sum}");
}

#[test]
fn what_cannot_be_had_is_no_series() {
    use transect_live::Metric;
    let mut counters = Counters::new(&Limits::default());
    let mut window = Made::new(1, 0).next_window();
    window.missing.push(Missing::everywhere(Metric::HaltedTime, "no exits"));
    window.missing.push(Missing::everywhere(Metric::Halts, "no KVM"));
    counters.add(&window);
    let page = page(&counters, Format::OpenMetrics);
    assert!(!page.contains("state=\"halted\"") && !page.contains("transect_vm_halts"), "{page}");
    assert!(page.contains("transect_missing_metric_info{metric=\"halts\",reason=\"no KVM\"} 1"));
    // What was not told apart is asleep.
    let asleep = value(&page, "transect_vm_time_seconds_total{vm=\"vm1\",state=\"asleep\"}");
    assert!((asleep - 0.899).abs() < 1e-9, "{asleep}");
}

/// What one VM lacks, the others have.
#[test]
fn what_one_machine_lacks_is_its_own() {
    let mut counters = Counters::new(&Limits::default());
    let mut window = Made::new(2, 0).next_window();
    let mut missing = Missing::everywhere(transect_live::Metric::Injections, "no event");
    missing.machine_id = Some(MachineId(2));
    window.missing.push(missing);
    counters.add(&window);
    let page = page(&counters, Format::OpenMetrics);
    assert!(page.contains("transect_vm_injections_total{vm=\"vm1\"} 5"), "{page}");
    assert!(!page.contains("transect_vm_injections_total{vm=\"vm2\"}"), "{page}");
    assert!(page.contains("transect_vm_executions_total{vm=\"vm2\"} 10"), "{page}");
}

#[test]
fn however_many_there_are_the_page_is_bounded_and_says_how_many_are_summed() {
    let limits = Limits { vms: 5, vcpus: 5, cgroups: 5, devices: 5, reasons: 2, antagonists: 1 };
    let few = page(&filled(50, 70, limits, 3), Format::OpenMetrics);
    let many = page(&filled(500, 700, limits, 3), Format::OpenMetrics);
    assert_eq!(many.lines().count(), few.lines().count());
    assert!((value(&many, "transect_summed_names{kind=\"vm\"}") - 495.0).abs() < 0.1);
    assert!((value(&many, "transect_summed_names{kind=\"cgroup\"}") - 695.0).abs() < 0.1);
    let other = value(&many, "transect_vm_executions_total{vm=\"other\"}");
    assert!((other - 3.0 * 4950.0).abs() < 0.1, "{other}");
}

/// Every line of the page is of a family that is documented, and every family is.
#[test]
fn the_documentation_has_every_metric() {
    let docs = include_str!("../../../../../docs/reference/metrics.md");
    let documented: BTreeSet<&str> = docs
        .split('`')
        .filter(|word| word.starts_with("transect_"))
        .map(|word| word.split('{').next().unwrap())
        .collect();
    let named = |family: &families::Family| match family.kind {
        Kind::Counter => format!("{}_total", family.name),
        Kind::Info => format!("{}_info", family.name),
        _ => family.name.to_owned(),
    };
    let names: Vec<String> = ALL.iter().map(named).collect();
    for name in &names {
        assert!(documented.contains(name.as_str()), "docs/reference/metrics.md lacks {name}");
    }
    for name in &documented {
        assert!(
            names.iter().any(|known| known == name),
            "docs/reference/metrics.md has {name}, which is none"
        );
    }
    let page = page(&filled(2, 2, Limits::default(), 2), Format::OpenMetrics);
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        assert!(ALL.iter().any(|family| line.starts_with(family.name)), "{line}");
    }
}

#[test]
fn promtool_finds_nothing() {
    let page = page(&filled(3, 3, Limits::default(), 3), Format::Plain);
    let mut tool = Command::new("promtool");
    tool.args(["check", "metrics"]).stdin(Stdio::piped());
    let spawned = tool.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut tool) = spawned else {
        println!("skipped: no promtool here (Debian: prometheus)");
        return;
    };
    tool.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let out = tool.wait_with_output().unwrap();
    let said =
        String::from_utf8_lossy(&out.stderr).into_owned() + &String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && said.is_empty(), "{said}");
}
