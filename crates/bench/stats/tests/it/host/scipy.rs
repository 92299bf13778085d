//! Our statistics beside SciPy's, on generated data: equal to 1e-9.
//!
//! Sizes 6 to 60; normal and heavy-tailed values, rounded ones (ties), many zeros. `reference.py` says what each figure is
//! compared with.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test's helpers are test code"
)]

use serde_json::{Value, json};
use std::{
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
};
use transect_bench_stats::statistics::{
    Interval, Method, bootstrap, hodges_lehmann,
    holm::holm,
    mann_whitney, normal, quantile,
    random::Random,
    signed_rank::{self, Zeros},
    trend::trend,
};

const CONFIDENCES: [f64; 4] = [0.9, 0.95, 0.97, 0.99];

/// A Python that has SciPy.
fn python() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let cache = set("TRANSECT_CACHE").map(PathBuf::from).or_else(|| {
        let caches = set("XDG_CACHE_HOME").map(PathBuf::from);
        Some(caches.or_else(|| Some(PathBuf::from(set("HOME")?).join(".cache")))?.join("transect"))
    });
    let python = set("TRANSECT_PYTHON").map(PathBuf::from);
    let python = python.or_else(|| Some(cache?.join("venv/bin/python")))?;
    let has_scipy =
        Command::new(&python).args(["-c", "import scipy"]).stderr(Stdio::null()).status();
    has_scipy.is_ok_and(|status| status.success()).then_some(python)
}

/// What SciPy says of the cases; `None` where there is no SciPy.
fn ask(cases: &[Value]) -> Option<Vec<Value>> {
    let Some(python) = python() else {
        println!("skipped: no Python with SciPy (make setup installs it)");
        return None;
    };
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/reference.py");
    let mut child = Command::new(python)
        .args(["-W", "ignore"])
        .arg(script)
        .env("OMP_NUM_THREADS", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let lines: String = cases.iter().map(|case| format!("{case}\n")).collect();
    let writer = std::thread::spawn(move || stdin.write_all(lines.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success(), "reference.py: {}", output.status);
    let text = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), cases.len());
    Some(answers)
}

/// Equal to 1e-9, of the larger one or of 1.
fn assert_near(ours: f64, theirs: &Value, what: &str, case: &Value) {
    let theirs =
        theirs.as_f64().unwrap_or_else(|| panic!("{what}: SciPy has none, ours is {ours}; {case}"));
    let distance = (ours - theirs).abs();
    assert!(distance <= 1e-9 * ours.abs().max(1.0), "{what}: ours {ours}, theirs {theirs}; {case}");
}

fn assert_interval(ours: Option<Interval>, theirs: &Value, case: &Value) {
    let Some(ours) = ours else {
        assert!(theirs.is_null(), "no interval, theirs {theirs}; {case}");
        return;
    };
    for (value, at) in [(ours.low, 0), (ours.high, 1), (ours.achieved, 2)] {
        assert_near(value, &theirs[at], "interval", case);
    }
}

/// Values of one of five kinds.
fn sample(random: &mut Random, size: usize, kind: usize, centre: f64) -> Vec<f64> {
    (0..size)
        .map(|_| {
            let value = centre + random.normal();
            match kind {
                0 => value,
                // Cauchy: without a mean.
                1 => centre + (std::f64::consts::PI * (random.uniform() - 0.5)).tan(),
                // Ties, many and few.
                2 => (value * 2.0).round() / 2.0,
                3 => (value * 20.0).round() / 20.0,
                // Zeros.
                _ if random.uniform() < 0.3 => 0.0,
                _ => value,
            }
        })
        .collect()
}

/// `count` samples: sizes 6 to 60 and all kinds, in turn.
fn samples(count: usize, seed: u64) -> Vec<Vec<f64>> {
    let mut random = Random::new(seed);
    (0..count)
        .map(|at| {
            let size = if at % 3 == 0 { 6 + at % 7 } else { 6 + random.below(55) };
            let centre = [0.0, 0.3, -1.0][at % 3];
            sample(&mut random, size, at % 5, centre)
        })
        .collect()
}

#[test]
fn paired() {
    let cases: Vec<Value> = samples(300, 1)
        .into_iter()
        .enumerate()
        .map(|(at, values)| json!({"kind": "paired", "values": values, "confidence": CONFIDENCES[at % 4]}))
        .collect();
    let Some(answers) = ask(&cases) else { return };
    let (mut by_scipy, mut inverted, mut tied) = (0, 0, 0);
    for (case, theirs) in cases.iter().zip(&answers) {
        let values: Vec<f64> = floats(&case["values"]);
        let centre = hodges_lehmann::centre(&values).unwrap();
        assert_near(centre, &theirs["centre"], "centre", case);
        let confidence = case["confidence"].as_f64().unwrap();
        assert_interval(signed_rank::interval(&values, confidence), &theirs["interval"], case);
        for (zeros, name) in [(Zeros::Drop, "drop"), (Zeros::Pratt, "pratt")] {
            let Some(ours) = signed_rank::test(&values, zeros) else {
                assert!(theirs[name].is_null(), "{case}");
                continue;
            };
            assert_eq!(ours.method, Method::Exact);
            assert_near(ours.p, &theirs[name], name, case);
            let by_normal = signed_rank::test_by_normal(&values, zeros).unwrap();
            assert_near(by_normal.p, &theirs[format!("{name}_normal")], "normal", case);
            if let Some(exact) = theirs.get(format!("{name}_scipy")) {
                assert_near(ours.p, exact, "SciPy's exact p", case);
                by_scipy += 1;
            } else {
                tied += 1;
            }
            if zeros == Zeros::Drop {
                assert_near(ours.statistic, &theirs["statistic"], "statistic", case);
            }
        }
        if let Some(inverts) = theirs.get("inverts") {
            assert_eq!(inverts, true, "SciPy's test and our interval disagree; {case}");
            inverted += 1;
        }
    }
    println!(
        "{} samples: {by_scipy} p by SciPy's exact tests, {tied} by counting, {inverted} intervals by inversion",
        cases.len()
    );
    assert!(by_scipy > 300 && inverted > 100 && tied > 200);
}

#[test]
fn unpaired() {
    let mut random = Random::new(2);
    let cases: Vec<Value> = (0..240)
        .map(|at| {
            let (n, m) = match at % 3 {
                0 => (6 + random.below(6), 6 + random.below(6)),
                1 => (6 + random.below(25), 6 + random.below(25)),
                _ => (6, 6 + random.below(55)),
            };
            let first = sample(&mut random, n, at % 5, 0.0);
            let second = sample(&mut random, m, at % 5, [0.0, 0.5, 2.0][at % 3]);
            json!({"kind": "unpaired", "first": first, "second": second, "confidence": CONFIDENCES[at % 4]})
        })
        .collect();
    let Some(answers) = ask(&cases) else { return };
    let (mut exact, mut inverted) = (0, 0);
    for (case, theirs) in cases.iter().zip(&answers) {
        let (first, second) = (floats(&case["first"]), floats(&case["second"]));
        let shift = hodges_lehmann::shift(&first, &second).unwrap();
        assert_near(shift, &theirs["shift"], "shift", case);
        let confidence = case["confidence"].as_f64().unwrap();
        let interval = mann_whitney::interval(&first, &second, confidence);
        assert_interval(interval, &theirs["interval"], case);
        let ours = mann_whitney::test(&first, &second).unwrap();
        assert_near(ours.statistic, &theirs["statistic"], "statistic", case);
        let by_normal = mann_whitney::test_by_normal(&first, &second).unwrap();
        assert_near(by_normal.p, &theirs["normal"], "normal", case);
        let wanted = theirs.get("exact");
        assert_eq!(ours.method == Method::Exact, wanted.is_some(), "{case}");
        assert_near(ours.p, wanted.unwrap_or(&theirs["normal"]), "p", case);
        exact += usize::from(wanted.is_some());
        if let Some(inverts) = theirs.get("inverts") {
            assert_eq!(inverts, true, "SciPy's test and our interval disagree; {case}");
            inverted += 1;
        }
    }
    println!("{} pairs of samples: {exact} exact, {inverted} intervals by inversion", cases.len());
    assert!(exact > 80 && inverted > 80);
}

#[test]
fn families() {
    let mut random = Random::new(3);
    let cases: Vec<Value> = (0..200)
        .map(|at| {
            let coarse = at % 4 == 0;
            let p = (0..1 + random.below(40)).map(|_| {
                let p = random.uniform().powi(3);
                if coarse { (p * 20.0).round() / 20.0 } else { p }
            });
            json!({"kind": "holm", "p": p.collect::<Vec<f64>>()})
        })
        .collect();
    let Some(answers) = ask(&cases) else { return };
    for (case, theirs) in cases.iter().zip(&answers) {
        for (at, adjusted) in holm(&floats(&case["p"])).into_iter().enumerate() {
            assert_near(adjusted, &theirs["adjusted"][at], "adjusted", case);
        }
    }
}

type Statistic = fn(&[f64]) -> f64;

#[test]
fn bootstraps() {
    let kinds: [(&str, Statistic); 3] = [
        ("centre", |values| hodges_lehmann::centre(values).unwrap()),
        ("median", |values| quantile::median(values).unwrap()),
        ("mean", |values| values.iter().sum::<f64>() / values.len() as f64),
    ];
    let samples = samples(90, 4);
    let cases: Vec<Value> = samples
        .iter()
        .enumerate()
        .map(|(at, values)| {
            let (name, statistic) = kinds[at % 3];
            let drawn = bootstrap::distribution(values, statistic, 300, at as u64);
            let confidence = CONFIDENCES[at % 4];
            json!({"kind": "bootstrap", "values": values, "statistic": name, "distribution": drawn, "confidence": confidence})
        })
        .collect();
    let Some(answers) = ask(&cases) else { return };
    let mut defined = 0;
    for (at, (case, theirs)) in cases.iter().zip(&answers).enumerate() {
        let (drawn, confidence) =
            (floats(&case["distribution"]), case["confidence"].as_f64().unwrap());
        let (low, high) = bootstrap::percentile(&drawn, confidence).unwrap();
        assert_near(low, &theirs["percentile"][0], "percentile", case);
        assert_near(high, &theirs["percentile"][1], "percentile", case);
        match bootstrap::bca(&samples[at], kinds[at % 3].1, &drawn, confidence) {
            Some((low, high)) => {
                assert_near(low, &theirs["BCa"][0], "BCa", case);
                assert_near(high, &theirs["BCa"][1], "BCa", case);
                defined += 1;
            }
            None => assert!(theirs["BCa"].is_null(), "{case}"),
        }
    }
    assert!(defined > 60, "{defined}");
}

#[test]
fn descriptions() {
    let q = [0.0, 0.01, 0.25, 0.5, 0.9, 0.99, 1.0];
    let cases: Vec<Value> = samples(200, 5)
        .into_iter()
        .map(|values| json!({"kind": "describe", "values": values, "q": q}))
        .collect();
    let Some(answers) = ask(&cases) else { return };
    for (case, theirs) in cases.iter().zip(&answers) {
        let values = floats(&case["values"]);
        for (at, q) in q.into_iter().enumerate() {
            let ours = quantile::quantile(&values, q).unwrap();
            assert_near(ours, &theirs["quantiles"][at], "quantile", case);
        }
        assert_near(quantile::mad(&values).unwrap(), &theirs["mad"], "mad", case);
        let ours = trend(&values).unwrap();
        assert_near(ours.slope, &theirs["slope"], "slope", case);
        assert_near(ours.p, &theirs["trend"], "trend", case);
    }
}

#[test]
fn the_normal_distribution() {
    let z: Vec<f64> = (-380..=380).map(|z| f64::from(z) / 10.0).collect();
    let p: Vec<f64> = (1..400)
        .map(|at| f64::from(at) / 400.0)
        .chain((3..60).map(|at| 10_f64.powi(-at)))
        .collect();
    let case = json!({"kind": "normal", "z": z, "p": p});
    let Some(answers) = ask(std::slice::from_ref(&case)) else { return };
    let theirs = &answers[0];
    let near = |ours: f64, theirs: &Value, what: &str| {
        let theirs = theirs.as_f64().unwrap();
        assert!((ours - theirs).abs() <= 1e-9 * theirs.abs() + 1e-300, "{what}: {ours}, {theirs}");
    };
    for (at, z) in z.into_iter().enumerate() {
        near(normal::cdf(z), &theirs["cdf"][at], "cdf");
        near(normal::sf(z), &theirs["sf"][at], "sf");
    }
    for (at, p) in p.into_iter().enumerate() {
        let ours = normal::ppf(p);
        let theirs = theirs["ppf"][at].as_f64().unwrap();
        assert!(
            (ours - theirs).abs() <= 1e-9 * theirs.abs().max(1.0),
            "ppf({p}): {ours}, {theirs}"
        );
    }
}

fn floats(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}
