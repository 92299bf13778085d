//! dbench: the file operations of an office's file server. See README.md.

use super::{
    support::asked,
    support::programs,
    workload::{Place, Prepared, Workload},
};
use std::{path::PathBuf, process::Command};
use transect_bench_core::{
    About, Better, CacheState, Family, Fault, Job, Metric, Refusal, Unit, protocol::Param,
};

const NAME: &str = "dbench";

/// It.
#[derive(Debug)]
pub(crate) struct Dbench;

impl Workload for Dbench {
    fn about(&self) -> About {
        About {
            name: NAME,
            text: "dbench with its own load file: create, write, read, flush, delete",
            source: "LTTng-Xen Table 6 and Figure 9",
            family: Family::Disk,
            metric: ("throughput", Unit::BytesPerSecond, Better::More),
            caches: &[CacheState::Any],
            params: vec![
                ("clients", Param::Int(1), "processes"),
                ("seconds", Param::Int(2), "duration; whole seconds, at least 2"),
            ],
            packages: &["dbench"],
            is_distributed: false,
            expected_s: 2.5,
        }
    }

    fn can_run(&self, _: &Job) -> Result<(), Refusal> {
        programs::need(NAME, NAME, NAME).map(|_| ())
    }

    fn prepare(&self, place: &Place<'_>) -> Result<Box<dyn Prepared>, Fault> {
        let program = programs::need(NAME, NAME, NAME)?;
        let clients = asked::number(place.job, "clients", 1..=10_000)?;
        // Of its first second dbench reports nothing.
        let seconds = asked::number(place.job, "seconds", 2..=3600)?;
        let mut command = Command::new(&program);
        command.arg("-D").arg(place.folder).args(["-t", &seconds.to_string()]);
        command.arg(clients.to_string());
        Ok(Box::new(Run { program, command, notes: Vec::new() }))
    }
}

struct Run {
    program: PathBuf,
    command: Command,
    notes: Vec<String>,
}

impl Prepared for Run {
    fn programs(&self) -> Vec<PathBuf> {
        vec![self.program.clone()]
    }

    fn run(&mut self) -> Result<Vec<Metric>, Fault> {
        let output = programs::run(&mut self.command)?;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        if said.contains("failed to create barrier semaphore") {
            self.notes.push(
                "no System V semaphores in this kernel: the clients did not start together".into(),
            );
        }
        let (megabytes_s, latency_ms) = throughput(&said)
            .ok_or_else(|| Fault::failed(format!("dbench reports no throughput: {said}")))?;
        Ok(vec![
            Metric::bytes_per_second("throughput", megabytes_s * 1e6),
            Metric::seconds("latency_max", latency_ms / 1e3),
        ])
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

/// "Throughput 154.913 MB/sec  1 clients  1 procs  max_latency=12.121 ms": megabytes are 10^6 bytes (dbench 4.0,
/// dbench.c). Nothing was measured if it is 0.
fn throughput(said: &str) -> Option<(f64, f64)> {
    let line = said.lines().find_map(|line| line.strip_prefix("Throughput "))?;
    let megabytes_s: f64 = line.split(' ').next()?.parse().ok()?;
    let latency = line.split_once("max_latency=")?.1.trim().trim_end_matches("ms").trim();
    (megabytes_s > 0.0).then_some((megabytes_s, latency.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_last_line_is_read_and_a_zero_is_no_result() {
        let line = "x\nThroughput 154.913 MB/sec  1 clients  1 procs  max_latency=12.121 ms\n";
        assert_eq!(throughput(line), Some((154.913, 12.121)));
        let nothing = "Throughput 0 MB/sec  1 clients  1 procs  max_latency=0.000 ms";
        assert_eq!(throughput(nothing), None);
    }
}
