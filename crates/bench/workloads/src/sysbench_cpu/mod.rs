//! sysbench's prime numbers: user space and nothing else. See README.md.

use super::{
    support::asked,
    support::programs,
    workload::{Place, Prepared, Workload},
};
use std::{path::PathBuf, process::Command};
use transect_bench_core::{
    About, Better, CacheState, Family, Fault, Job, Metric, Refusal, Unit, protocol::Param,
};

const NAME: &str = "sysbench-cpu";

/// It.
#[derive(Debug)]
pub(crate) struct SysbenchCpu;

impl Workload for SysbenchCpu {
    fn about(&self) -> About {
        About {
            name: NAME,
            text: "sysbench cpu: prime numbers, no system calls",
            source: "the CPU-bound extreme, like SPECviewperf in LTTng-Xen Table 7",
            family: Family::Cpu,
            metric: ("events", Unit::PerSecond, Better::More),
            caches: &[CacheState::Any],
            params: vec![
                ("threads", Param::Int(1), "threads"),
                ("seconds", Param::Int(1), "duration; whole seconds"),
                ("prime", Param::Int(10_000), "an event computes all prime numbers up to this"),
            ],
            packages: &["sysbench"],
            is_distributed: false,
            expected_s: 1.1,
        }
    }

    fn can_run(&self, _: &Job) -> Result<(), Refusal> {
        programs::need(NAME, "sysbench", "sysbench").map(|_| ())
    }

    fn prepare(&self, place: &Place<'_>) -> Result<Box<dyn Prepared>, Fault> {
        let program = programs::need(NAME, "sysbench", "sysbench")?;
        let mut command = Command::new(&program);
        command.args([
            "cpu".to_owned(),
            format!("--threads={}", asked::number(place.job, "threads", 1..=1024)?),
            format!("--time={}", asked::number(place.job, "seconds", 1..=3600)?),
            format!("--cpu-max-prime={}", asked::number(place.job, "prime", 3..=10_000_000)?),
            "--events=0".to_owned(),
            "--percentile=99".to_owned(),
            "run".to_owned(),
        ]);
        Ok(Box::new(Run { program, command }))
    }
}

struct Run {
    program: PathBuf,
    command: Command,
}

impl Prepared for Run {
    fn programs(&self) -> Vec<PathBuf> {
        vec![self.program.clone()]
    }

    fn run(&mut self) -> Result<Vec<Metric>, Fault> {
        let output = programs::run(&mut self.command)?;
        let said = String::from_utf8_lossy(&output.stdout);
        let number = |name: &str| {
            number(&said, name)
                .ok_or_else(|| Fault::failed(format!("sysbench reports no {name:?}: {said}")))
        };
        Ok(vec![
            Metric::per_second("events", number("events per second:")?),
            Metric::seconds("latency_mean", number("avg:")? / 1e3),
            Metric::seconds("latency_p99", number("99th percentile:")? / 1e3),
            Metric::seconds("latency_max", number("max:")? / 1e3),
        ])
    }
}

/// The number behind a name at the beginning of a line.
fn number(said: &str, name: &str) -> Option<f64> {
    said.lines().find_map(|line| line.trim().strip_prefix(name)?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_behind_their_names() {
        let said = "CPU speed:\n    events per second:  1538.97\n\nLatency (ms):\n  min:  0.32\n  \
                    avg:  0.65\n  99th percentile:  2.43\n";
        assert_eq!(number(said, "events per second:"), Some(1538.97));
        assert_eq!(number(said, "99th percentile:"), Some(2.43));
        assert_eq!(number(said, "max:"), None);
    }
}
