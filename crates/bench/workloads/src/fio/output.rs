//! What fio says (its HOWTO, "Interpreting the output", JSON).

use serde::Deserialize;
use std::collections::BTreeMap;
use transect_bench_core::{Distribution, Fault, Metric};

#[derive(Deserialize)]
struct Said {
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    error: i64,
    read: Side,
    write: Side,
}

#[derive(Deserialize)]
struct Side {
    total_ios: u64,
    iops: f64,
    bw_bytes: f64,
    clat_ns: Latency,
}

/// From an operation's submission to its completion, ns.
#[derive(Deserialize)]
struct Latency {
    min: f64,
    max: f64,
    mean: f64,
    #[serde(rename = "N")]
    samples: u64,
    #[serde(default)]
    percentile: BTreeMap<String, f64>,
}

fn parse(text: &[u8]) -> Result<Job, Fault> {
    // Warnings may stand before the object.
    let from = text.iter().position(|byte| *byte == b'{').unwrap_or(0);
    let mut said: Said = serde_json::from_slice(&text[from..])
        .map_err(|error| Fault::failed(format!("cannot parse fio's output: {error}")))?;
    match said.jobs.pop() {
        Some(job) if job.error == 0 => Ok(job),
        Some(job) => Err(Fault::failed(format!("fio ended with error {}", job.error))),
        None => Err(Fault::failed("fio reports no job")),
    }
}

/// An error, if fio reports one.
pub(super) fn errors(text: &[u8]) -> Result<(), Fault> {
    parse(text).map(|_| ())
}

/// Operations a second, bytes a second, and latencies of reads and writes.
pub(super) fn metrics(text: &[u8]) -> Result<Vec<Metric>, Fault> {
    let job = parse(text)?;
    let sides = [("read", job.read), ("write", job.write)];
    let used: Vec<_> = sides.into_iter().filter(|(_, side)| side.total_ios > 0).collect();
    if used.is_empty() {
        return Err(Fault::failed("fio completed no operation"));
    }
    let sum = |of: fn(&Side) -> f64| used.iter().map(|(_, side)| of(side)).sum::<f64>();
    let mut metrics = vec![
        Metric::per_second("operations", sum(|side| side.iops)),
        Metric::bytes_per_second("throughput", sum(|side| side.bw_bytes)),
    ];
    for (name, side) in &used {
        let latency = &side.clat_ns;
        metrics.push(
            Metric::nanoseconds(format!("{name}_latency_mean"), latency.mean)
                .with(distribution(latency)),
        );
    }
    Ok(metrics)
}

fn distribution(latency: &Latency) -> Distribution {
    let pair = |(name, value): (&String, &f64)| Some((name.parse::<f64>().ok()? / 100.0, *value));
    let mut quantiles: Vec<(f64, f64)> = latency.percentile.iter().filter_map(pair).collect();
    quantiles.sort_by(|a, b| a.0.total_cmp(&b.0));
    Distribution {
        samples: latency.samples,
        failed: 0,
        min: latency.min,
        mean: latency.mean,
        max: latency.max,
        quantiles,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIDE: &str = r#"{"total_ios":IOS,"iops":RATE,"bw_bytes":4096,"clat_ns":{"min":1,"max":9,
        "mean":3.5,"N":4,"percentile":{"99.000000":8,"5.000000":1,"50.000000":3}}}"#;

    fn said(error: i64, reads: u64, writes: u64) -> Vec<u8> {
        let side = |ios: u64| SIDE.replace("IOS", &ios.to_string()).replace("RATE", "100.5");
        let jobs =
            format!(r#"{{"error":{error},"read":{},"write":{}}}"#, side(reads), side(writes));
        format!("note: something\n{{\"jobs\":[{jobs}]}}").into_bytes()
    }

    #[test]
    fn both_sides_are_added_and_an_unused_one_is_left_out() {
        let metrics = metrics(&said(0, 4, 0)).unwrap();
        assert_eq!((metrics[0].value, metrics.len()), (100.5, 3));
        let spread = metrics[2].distribution.as_ref().unwrap();
        assert_eq!(spread.quantiles, [(0.05, 1.0), (0.5, 3.0), (0.99, 8.0)]);
        let both = super::metrics(&said(0, 4, 4)).unwrap();
        assert_eq!((both[0].value, both.len()), (201.0, 4));
    }

    #[test]
    fn errors_and_nothing_are_no_result() {
        assert!(metrics(&said(5, 4, 4)).unwrap_err().to_string().contains('5'));
        assert!(metrics(&said(0, 0, 0)).is_err());
        assert!(metrics(b"fio: bad option").is_err());
    }
}
