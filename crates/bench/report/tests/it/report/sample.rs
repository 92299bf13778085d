//! Reports made up for tests: small and rich, and large. Values come from a fixed generator; estimates are of the right
//! form, but made simply (median and extremes of the ratios): how they are estimated is tested with the statistics.

use std::collections::BTreeMap;
use transect_bench_core::{
    Better, CacheState, Distribution, Fault, Kind, Refusal, Unit, protocol::TracerCost,
};
use transect_bench_report::{
    Comparison, Contrast, Estimate, Point, Report, ReportedCell, ReportedPlatform, Suspect, Verdict,
};
use transect_bench_run::plan::{Cell, Group, Label, RefusedCell};

const BEGAN_NS: u64 = 1_795_000_000_000_000_000;

/// Numbers between -1 and 1, always the same ones (SplitMix64).
pub(crate) struct Noise(pub(crate) u64);

impl Noise {
    pub(crate) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let share = ((z ^ (z >> 31)) >> 40) as f64 / (1_u64 << 24) as f64;
        2.0 * share - 1.0
    }
}

/// What a made-up cell is like.
#[derive(Clone)]
pub(crate) struct Spec {
    pub(crate) workload: &'static str,
    pub(crate) family: &'static str,
    pub(crate) metric: (&'static str, Unit, Better),
    pub(crate) cache: CacheState,
    pub(crate) base: f64,
    pub(crate) noise: f64,
}

impl Spec {
    pub(crate) fn cell(
        &self,
        platform: &str,
        tracer: &str,
        guests: u32,
        factor: f64,
        blocks: u32,
    ) -> ReportedCell {
        let seed = format!("{}{platform}{tracer}{guests}", self.workload);
        let mut noise =
            Noise(seed.bytes().fold(7, |sum, byte| sum * 31 % 1_000_003 + u64::from(byte)));
        let (metric, unit, better) = self.metric;
        let mut points = Vec::new();
        for block in 0..blocks {
            for label in [Label::First, Label::Again] {
                if label == Label::First || (tracer == "none" && platform == "native") {
                    let value = self.base * factor * (1.0 + self.noise * noise.next());
                    let value = format!("{value:.6e}").parse().unwrap();
                    let unix_ns = BEGAN_NS + u64::from(block) * 60_000_000_000;
                    points.push(Point { block, label, value, unix_ns, excluded: vec![] });
                }
            }
        }
        let group = Group { workload: self.workload.into(), cache: self.cache, guests };
        let mut cell = ReportedCell {
            cell: Cell { group, platform: platform.into(), tracer: tracer.into() },
            family: self.family.into(),
            metric: metric.into(),
            unit,
            better,
            points,
            median: None,
            quartiles: None,
            others: BTreeMap::new(),
            distributions: BTreeMap::new(),
            limiter: None,
            tracer: None,
            lossy_runs: 0,
        };
        summarise(&mut cell);
        cell
    }
}

/// Median and quartiles of what counts.
pub(crate) fn summarise(cell: &mut ReportedCell) {
    let counted = cell.points.iter().filter(|point| point.excluded.is_empty());
    let mut values: Vec<f64> = counted.map(|point| point.value).collect();
    values.sort_by(f64::total_cmp);
    let at =
        |share: f64| values.get(((values.len() as f64 - 1.0) * share).round() as usize).copied();
    cell.median = at(0.5);
    cell.quartiles = at(0.25).zip(at(0.75)).map(|(low, high)| [low, high]);
}

/// A comparison of two cells' first points.
pub(crate) fn compare(
    contrast: Contrast,
    cell: &ReportedCell,
    reference: &ReportedCell,
    floor: Option<f64>,
) -> Comparison {
    let label = if contrast == Contrast::Noise { Label::Again } else { Label::First };
    let value = |of: &ReportedCell, block: u32, label: Label| {
        let mut points = of.points.iter().filter(|p| p.excluded.is_empty());
        points.find(|p| p.block == block && p.label == label).map(|p| p.value)
    };
    let mut ratios = Vec::new();
    for block in 0..64 {
        if let (Some(a), Some(b)) =
            (value(cell, block, label), value(reference, block, Label::First))
        {
            ratios.push((block, format!("{:.6}", a / b).parse().unwrap()));
        }
    }
    let mut sorted: Vec<f64> = ratios.iter().map(|(_, ratio)| *ratio).collect();
    sorted.sort_by(f64::total_cmp);
    let estimate = (sorted.len() >= 6).then(|| Estimate {
        ratio: sorted[sorted.len() / 2],
        low: sorted[1],
        high: sorted[sorted.len() - 2],
        confidence: 0.97,
        blocks: sorted.len() as u32,
    });
    let verdict = judged(estimate, floor, cell.better);
    Comparison {
        contrast,
        cell: cell.cell.clone(),
        reference: reference.cell.clone(),
        family: cell.family.clone(),
        better: cell.better,
        ratios,
        estimate,
        floor,
        verdict,
        p_corrected: estimate.map(|_| if verdict == Verdict::NotResolved { 0.41 } else { 0.000_4 }),
    }
}

fn judged(estimate: Option<Estimate>, floor: Option<f64>, better: Better) -> Verdict {
    let (Some(estimate), Some(floor)) = (estimate, floor) else { return Verdict::TooFew };
    let is_noise = estimate.low < 1.0 + floor && estimate.high > 1.0 / (1.0 + floor);
    match (is_noise, (estimate.ratio > 1.0) == (better == Better::Less)) {
        (true, _) => Verdict::NotResolved,
        (false, true) => Verdict::Worse,
        (false, false) => Verdict::Better,
    }
}

pub(crate) const PIPE: Spec = Spec {
    workload: "micro/pipe",
    family: "micro",
    metric: ("time", Unit::Nanoseconds, Better::Less),
    cache: CacheState::Any,
    base: 4_231.0,
    noise: 0.006,
};
pub(crate) const COMPRESS: Spec = Spec {
    workload: "compress/zstd",
    family: "cpu",
    metric: ("time", Unit::Seconds, Better::Less),
    cache: CacheState::Hot,
    base: 2.345,
    noise: 0.003,
};
pub(crate) const NGINX: Spec = Spec {
    workload: "web/nginx",
    family: "network",
    metric: ("conforming_requests", Unit::PerSecond, Better::More),
    cache: CacheState::Any,
    base: 18_400.0,
    noise: 0.03,
};

/// Small, and with everything in it.
pub(crate) fn rich() -> Report {
    let mut report = frame();
    micro(&mut report);
    cpu(&mut report);
    network(&mut report);
    report.cells.sort_by(|a, b| a.cell.cmp(&b.cell));
    report
}

fn frame() -> Report {
    let text = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let platform =
        |name: &str, accelerator: &str, emulated: &[&str], opening_s: f64| ReportedPlatform {
            name: name.into(),
            accelerator: accelerator.into(),
            emulated: emulated.iter().map(|what| (*what).to_owned()).collect(),
            kernel: "Linux 6.1.0-28-amd64 #1 SMP PREEMPT_DYNAMIC Debian 6.1.119-1 x86_64".into(),
            cpus: 1,
            memory_bytes: 1 << 30,
            opened: 8,
            opening_s,
            notes: text(&[("clocksource", "tsc"), ("mitigations", "off")]),
        };
    Report {
        name: "quick <matrix>".into(),
        about: "What tracing and virtualization cost on a small machine, in twenty minutes.".into(),
        plan: "name = \"quick <matrix>\"\nseed = 7\n\n[[matrix]]\nplatforms = [\"native\", \"tcg\"]\n\ttracers = [\"none\"] # </script>\n".into(),
        version: "0.1.0".into(),
        began_unix_ns: BEGAN_NS,
        last_unix_ns: BEGAN_NS + 1_140_000_000_000,
        finished: Some("every interval is as narrow as wanted".into()),
        blocks: 8,
        resumes: 2,
        environment: text(&[
            ("cpu", "AMD EPYC 7763 64-Core Processor"),
            ("governor", "absent"),
            ("smp", "2 of 2 CPUs online"),
            ("hostile", "<b onmouseover=alert(1)>\u{1b}[31m & \u{202e}txt"),
        ]),
        platforms: vec![
            platform("native", "none", &[], 0.012),
            platform("container", "crun", &[], 0.31),
            platform("tcg", "tcg", &["CPU: every instruction is translated", "timers & interrupts"], 6.4),
        ],
        refused: vec![RefusedCell {
            cell: cell("micro/pipe", CacheState::Any, "kvm", "none"),
            refusal: Refusal::new(Kind::NotHere, "platform kvm", "a stock kernel does not boot on /dev/kvm here")
                .mend("use a machine with VMX or SVM, or the platform nested-kvm"),
        }],
        failed: vec![(
            cell("dbench", CacheState::Cold, "tcg", "none"),
            3,
            Fault::failed("dbench: exit status 1: <open: No space left on device>"),
        )],
        warnings: vec![
            "The sentinel drifted by 1.8 % over 19 minutes: absolute values of early and late blocks differ.".into(),
            "A hostile name: </script><!-- <script>alert(1)</script>".into(),
        ],
        ..Report::default()
    }
}

fn cell(workload: &str, cache: CacheState, platform: &str, tracer: &str) -> Cell {
    let group = Group { workload: workload.into(), cache, guests: 1 };
    Cell { group, platform: platform.into(), tracer: tracer.into() }
}

fn suspect(name: &str, evidence: &str, runs: u32, elasticity: Option<[f64; 3]>) -> Option<Suspect> {
    Some(Suspect { name: name.into(), evidence: evidence.into(), runs, of_runs: 8, elasticity })
}

fn tracer_cost(
    events: u64,
    bytes: u64,
    lost: u64,
    cpu_ns: u64,
    version: &str,
) -> Option<TracerCost> {
    Some(TracerCost {
        exits: None,
        events: Some(events),
        bytes: Some(bytes),
        lost_events: Some(lost),
        consumer_cpu_ns: Some(cpu_ns),
        closing_cpu_ns: Some(cpu_ns / 4),
        version: version.into(),
    })
}

fn micro(report: &mut Report) {
    let mut none = PIPE.cell("native", "none", 1, 1.0, 8);
    none.points[4].excluded = vec!["the host was throttled (12 ms)".into()];
    none.points[4].value *= 1.04;
    summarise(&mut none);
    none.limiter = suspect(
        "single CPU",
        "one thread at 99.8 % of its CPU; no wait, no steal",
        8,
        Some([0.97, 0.93, 1.01]),
    );
    let mut compact = PIPE.cell("native", "transect-compact", 1, 1.084, 8);
    compact.tracer = tracer_cost(1_204_331, 3_371_120, 0, 41_200_000, "0.1.0");
    let mut record = PIPE.cell("native", "trace-cmd", 1, 1.31, 8);
    record.tracer = tracer_cost(
        1_201_020,
        59_200_111,
        0,
        212_000_000,
        "trace-cmd version 3.1.6 (not-a-git-repo)",
    );
    let mut perf = PIPE.cell("native", "perf", 1, 1.62, 8);
    perf.tracer = tracer_cost(912_020, 99_200_111, 290_112, 520_000_000, "perf version 6.1.119");
    perf.lossy_runs = 6;
    perf.limiter =
        suspect("tracer's consumer", "perf at 100 % of CPU 1; 24 % of events lost", 6, None);
    let idle = PIPE.cell("native", "loaded", 1, 1.0005, 8);
    let tcg = PIPE.cell("tcg", "none", 1, 14.2, 8);
    let container = PIPE.cell("container", "none", 1, 1.012, 8);
    let hostile = PIPE.cell("\"><img src=x onerror=alert(1)>", "a\u{1b}[2J'&\u{202e}b", 1, 0.97, 8);
    let floor = Some(0.006);
    for traced in [&compact, &record, &perf, &idle] {
        report.comparisons.push(compare(Contrast::Tracer, traced, &none, floor));
    }
    for other in [&tcg, &container, &hostile] {
        report.comparisons.push(compare(Contrast::Platform, other, &none, floor));
    }
    report.comparisons.push(compare(Contrast::Noise, &none, &none, floor));
    report.cells.extend([none, compact, record, perf, idle, tcg, container, hostile]);
}

fn cpu(report: &mut Report) {
    let mut none = COMPRESS.cell("native", "none", 1, 1.0, 5);
    none.others.insert("throughput".into(), (1.42e8, Unit::BytesPerSecond, Better::More));
    none.others.insert("ratio".into(), (2.91, Unit::Count, Better::More));
    let traced = COMPRESS.cell("native", "transect-compact", 1, 1.004, 5);
    report.comparisons.push(compare(Contrast::Tracer, &traced, &none, None));
    report.cells.extend([none, traced]);
}

fn network(report: &mut Report) {
    let mut all = Vec::new();
    for (platform, factor) in [("native", 1.0), ("container", 0.93)] {
        for (guests, gain) in [(1, 1.0), (2, 1.7), (4, 2.2)] {
            let mut cell = NGINX.cell(platform, "none", guests, factor * gain, 7);
            cell.distributions.insert("latency".into(), (Unit::Seconds, latencies(factor * gain)));
            let evidence = "the generator had 38 % of its CPU left; softirq at 71 % of CPU 0";
            cell.limiter = suspect("network stack", evidence, 7, None);
            all.push(cell);
        }
    }
    let floor = Some(0.021);
    for nth in [1, 2, 4, 5] {
        let single = &all[nth / 3 * 3];
        report.comparisons.push(compare(Contrast::Guests, &all[nth], single, floor));
    }
    for nth in 0..3 {
        report.comparisons.push(compare(Contrast::Platform, &all[nth + 3], &all[nth], floor));
    }
    report.comparisons.push(compare(Contrast::Noise, &all[0], &all[0], floor));
    report.cells.extend(all);
}

fn latencies(load: f64) -> Distribution {
    let quantile = |q: f64| (q, 0.000_8 * load / (1.02 - q).sqrt());
    let quantiles: Vec<(f64, f64)> =
        [0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999].map(quantile).into();
    let round = |value: f64| format!("{value:.7}").parse().unwrap();
    Distribution {
        samples: 120_000,
        failed: 14,
        min: 0.000_7,
        mean: 0.001_4,
        max: 0.012,
        quantiles: quantiles.into_iter().map(|(q, value)| (q, round(value))).collect(),
    }
}

/// As large as a result gets: a hundred cells, forty blocks.
pub(crate) fn large() -> Report {
    let mut report = frame();
    let tracers = [
        "none",
        "loaded",
        "transect-compact",
        "transect-full",
        "trace-cmd",
        "perf",
        "bpftrace",
        "strace",
        "append",
        "flight",
    ];
    let workloads = ["micro/pipe", "micro/fork", "micro/syscall", "compress/zstd", "tar/extract"];
    for (place, workload) in workloads.into_iter().enumerate() {
        let spec = Spec { workload, family: if place < 3 { "micro" } else { "disk" }, ..PIPE };
        for (platform, slow) in [("native", 1.0), ("tcg", 11.0)] {
            let cells: Vec<ReportedCell> = tracers
                .iter()
                .enumerate()
                .map(|(nth, tracer)| {
                    spec.cell(platform, tracer, 1, slow * (1.0 + 0.02 * nth as f64), 40)
                })
                .collect();
            for cell in &cells[1..] {
                report.comparisons.push(compare(Contrast::Tracer, cell, &cells[0], Some(0.005)));
            }
            if let Some(native) = report.cells.iter().find(|c| {
                c.cell.group.workload == workload
                    && c.cell.platform == "native"
                    && c.cell.tracer == "none"
            }) {
                report.comparisons.push(compare(
                    Contrast::Platform,
                    &cells[0],
                    native,
                    Some(0.005),
                ));
            }
            report.cells.extend(cells);
        }
    }
    report
}

/// One block: nothing can be compared yet.
pub(crate) fn one_block() -> Report {
    let mut report = Report { name: "begun".into(), blocks: 1, ..Report::default() };
    let none = PIPE.cell("native", "none", 1, 1.0, 1);
    let traced = PIPE.cell("native", "trace-cmd", 1, 1.3, 1);
    report.comparisons.push(compare(Contrast::Tracer, &traced, &none, None));
    report.comparisons.push(compare(Contrast::Noise, &none, &none, None));
    report.cells.extend([none, traced]);
    report.warnings.push("1 block: no interval before 6.".into());
    report
}
