//! Whatever finite numbers and names a report holds: no face panics, and none says NaN.

use crate::report::{html::assert_well_formed, sample};
use proptest::{collection::vec, option, prelude::*};
use transect_bench_core::{CacheState, Fault, Kind, Refusal, Unit};
use transect_bench_report::{
    Comparison, Contrast, Estimate, Report, Verdict, html::page, rows, text,
};
use transect_bench_run::plan::RefusedCell;

fn value() -> impl Strategy<Value = f64> {
    let odd = vec![0.0, -0.0, 1.0, -1.0, 1e308, -1e308, f64::MAX, f64::MIN, 5e-324, 1e-9, 0.999_95];
    prop_oneof![
        4 => 1e-9..1e9,
        2 => prop::sample::select(odd),
        1 => any::<f64>().prop_filter("finite", |value| value.is_finite()),
    ]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("none".to_owned()),
        Just("native".to_owned()),
        any::<String>(),
        "[<>&\"'\u{0}-\u{1f}\u{202e}\u{ffff}/!-]{0,12}",
    ]
}

fn unit() -> impl Strategy<Value = Unit> {
    prop::sample::select(vec![
        Unit::Seconds,
        Unit::Nanoseconds,
        Unit::PerSecond,
        Unit::BytesPerSecond,
        Unit::Bytes,
        Unit::Count,
        Unit::Share,
    ])
}

fn estimate() -> impl Strategy<Value = Option<Estimate>> {
    let finite = (value(), value(), value(), 0.0..1.0, any::<u32>());
    option::of(finite.prop_map(|(ratio, low, high, confidence, blocks)| Estimate {
        ratio,
        low,
        high,
        confidence,
        blocks,
    }))
}

/// A report with arbitrary names and numbers in places where they come from measurements.
fn report() -> impl Strategy<Value = Report> {
    let contrasts = vec![Contrast::Tracer, Contrast::Platform, Contrast::Guests, Contrast::Noise];
    let verdicts = vec![Verdict::Worse, Verdict::Better, Verdict::NotResolved, Verdict::TooFew];
    let cell = (
        name(),
        name(),
        name(),
        0_u32..20,
        unit(),
        vec((value(), any::<bool>()), 0..5),
        any::<[u32; 2]>(),
    );
    let comparison = (
        prop::sample::select(contrasts),
        prop::sample::select(verdicts),
        estimate(),
        option::of(value()),
        option::of(value()),
        vec(value(), 0..4),
    );
    (name(), vec(name(), 0..3), vec(cell, 0..6), vec(comparison, 0..8), vec(value(), 8))
        .prop_map(made)
}

type CellSpec = (String, String, String, u32, Unit, Vec<(f64, bool)>, [u32; 2]);
type Judged = (Contrast, Verdict, Option<Estimate>, Option<f64>, Option<f64>, Vec<f64>);

fn made(
    (name, words, cells, judged, numbers): (
        String,
        Vec<String>,
        Vec<CellSpec>,
        Vec<Judged>,
        Vec<f64>,
    ),
) -> Report {
    let mut report = Report { name: name.clone(), warnings: words.clone(), ..sample::rich() };
    report.environment.extend(words.iter().map(|word| (word.clone(), name.clone())));
    report.platforms[0].opening_s = numbers[0];
    for (workload, platform, tracer, guests, unit, points, [block, lossy]) in cells {
        let mut cell = sample::NGINX.cell("native", "none", guests, 1.0, 1);
        cell.cell.group.workload = workload;
        cell.cell.group.cache = CacheState::Displaced;
        cell.cell.platform = platform;
        cell.cell.tracer = tracer;
        cell.unit = unit;
        cell.family = words.first().cloned().unwrap_or_default();
        cell.lossy_runs = lossy;
        cell.median = points.first().map(|(value, _)| *value);
        cell.quartiles = points.first().zip(points.last()).map(|(a, b)| [a.0, b.0]);
        let template = cell.points[0].clone();
        let point = |(nth, (value, is_out)): (usize, (f64, bool))| {
            let excluded = if is_out { vec![name.clone()] } else { vec![] };
            let block = block.saturating_add(nth as u32);
            transect_bench_report::Point { block, value, excluded, ..template.clone() }
        };
        cell.points = points.into_iter().enumerate().map(point).collect();
        cell.others.insert(name.clone(), (numbers[1], unit, cell.better));
        let distribution = sample_distribution(&numbers);
        cell.distributions.insert(name.clone(), (unit, distribution));
        report.refused.push(RefusedCell {
            cell: cell.cell.clone(),
            refusal: Refusal::new(Kind::NotHere, &name, &name).mend(&name),
        });
        report.failed.push((cell.cell.clone(), lossy, Fault::failed(&name)));
        report.cells.push(cell);
    }
    for (nth, (contrast, verdict, estimate, floor, p_corrected, ratios)) in
        judged.into_iter().enumerate()
    {
        let cell = &report.cells[report.cells.len() - 1 - nth % report.cells.len()];
        report.comparisons.push(Comparison {
            contrast,
            cell: cell.cell.clone(),
            reference: report.cells[nth % report.cells.len()].cell.clone(),
            family: name.clone(),
            better: cell.better,
            ratios: (0_u32..).zip(ratios).collect(),
            estimate,
            floor,
            verdict,
            p_corrected,
        });
    }
    report
}

fn sample_distribution(numbers: &[f64]) -> transect_bench_core::Distribution {
    transect_bench_core::Distribution {
        samples: u64::MAX,
        failed: 1,
        min: numbers[2],
        mean: numbers[3],
        max: numbers[4],
        quantiles: vec![(0.0, numbers[5]), (0.5, numbers[6]), (1.0, numbers[7])],
    }
}

/// What a face says that is no number, and what stands around it.
fn nonsense(face: &str) -> Option<String> {
    let found = ["NaN", "Infinity", " inf", "\u{d7}inf", ">inf", "\u{2212}inf", "-inf"];
    let at = found.into_iter().find_map(|word| face.find(word))?;
    let from = face[..at].char_indices().rev().nth(80).map_or(0, |(from, _)| from);
    Some(face[from..].chars().take(200).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_face_panics(report in report()) {
        let names = format!("{report:?}");
        let is_named_so = nonsense(&names).is_some();
        let html = page(&report).unwrap();
        assert_well_formed(&html);
        let narrow = text::Style { width: Some(80), has_colour: true };
        let mut faces = vec![text::report(&report, narrow), text::report(&report, text::Style::default())];
        faces.extend(rows::all(&report).iter().map(rows::Rows::csv));
        // The page's script has words of its own; the data must not add to them.
        faces.push(html.split("<style>").next().unwrap_or_default().to_owned());
        faces.push(html.split("</style>").nth(1).and_then(|rest| rest.split("<script").next()).unwrap_or_default().to_owned());
        for face in faces {
            let found = nonsense(&face).filter(|_| !is_named_so);
            prop_assert!(found.is_none(), "{:?}", found);
        }
    }
}
