#![doc = include_str!("README.md")]

mod cluster;
mod log;
mod user;

use super::{
    net::daemon::find,
    net::given::Given,
    workload::{Place, Prepared, Workload},
};
use cluster::{Cluster, Programs, finish};
use log::Transactions;
use std::{
    fs,
    path::{Path, PathBuf},
};
use transect_bench_core::{
    About, Better, CacheState, Distribution, Family, Fault, Job, Kind, Metric, Refusal, Unit,
    protocol::{Param, Role},
};

/// The workload `pgbench`.
#[derive(Debug)]
pub(crate) struct Pgbench;

impl Workload for Pgbench {
    fn about(&self) -> About {
        About {
            name: "pgbench",
            text: "PostgreSQL under pgbench's transactions or selects",
            source: "Repeated Research (Clark et al., USENIX 2004), OSDB in Figure 1 and Table 1",
            family: Family::Network,
            metric: ("throughput", Unit::PerSecond, Better::More),
            caches: &[CacheState::Any],
            params: vec![
                ("script", Param::Text("tpcb-like".into()), "tpcb-like (writes) or select-only"),
                ("scale", Param::Int(10), "size of the tables, 15 MB each"),
                ("clients", Param::Int(4), "concurrent sessions"),
                ("seconds", Param::Int(5), "duration, s"),
                ("fsync", Param::Bool(true), "false: commits do not wait for the disk"),
            ],
            packages: &["postgresql"],
            is_distributed: false,
            expected_s: 9.0,
        }
    }

    fn can_run(&self, job: &Job) -> Result<(), Refusal> {
        let what = "workload pgbench";
        if job.role != Role::Whole {
            return Err(Refusal::new(Kind::Senseless, what, "it has no server or generator part"));
        }
        if Programs::find().is_none() {
            return Err(Refusal::new(Kind::Missing, what, "PostgreSQL is not installed")
                .mend("apt install postgresql"));
        }
        if rustix::process::geteuid().is_root() && find("setpriv").is_none() {
            let why = "PostgreSQL refuses to run as root, and setpriv is not installed";
            return Err(Refusal::new(Kind::Missing, what, why).mend("apt install util-linux"));
        }
        Ok(())
    }

    fn prepare<'a>(&self, place: &Place<'a>) -> Result<Box<dyn Prepared + 'a>, Fault> {
        self.can_run(place.job)?;
        let plan = Plan::of(place.job)?;
        let programs =
            Programs::find().ok_or_else(|| Fault::failed("PostgreSQL is no longer installed"))?;
        let cluster =
            Cluster::start(programs, (plan.scale, plan.has_fsync), place.folder, place.keep)?;
        Ok(Box::new(Ready { plan, cluster, folder: place.folder }))
    }
}

/// The parameters.
#[derive(Clone, Copy, Debug)]
struct Plan {
    script: &'static str,
    scale: u32,
    clients: u32,
    seconds: u32,
    has_fsync: bool,
    seed: u64,
}

impl Plan {
    fn of(job: &Job) -> Result<Self, Fault> {
        let given = Given(job);
        Ok(Self {
            script: given.word("script", &["tpcb-like", "select-only"])?,
            scale: given.whole("scale", 1..=10_000)?,
            clients: given.whole("clients", 1..=250)?,
            seconds: given.whole("seconds", 1..=86_400)?,
            has_fsync: given.switch("fsync")?,
            seed: job.seed,
        })
    }
}

struct Ready<'a> {
    plan: Plan,
    cluster: Cluster,
    folder: &'a Path,
}

impl Prepared for Ready<'_> {
    fn programs(&self) -> Vec<PathBuf> {
        ["postgres", "pgbench"].map(|name| self.cluster.programs.path(name)).into()
    }

    fn run(&mut self) -> Result<Vec<Metric>, Fault> {
        let logs = self.folder.join("log");
        self.cluster.user.own(&logs)?;
        let mut command = self.cluster.client(&logs);
        let plan = &self.plan;
        // More threads than CPUs would only wait for each other.
        let cpus =
            std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1));
        command.args(["-n", "--log", "-b", plan.script]);
        command.args(["-c", &plan.clients.to_string(), "-j", &plan.clients.min(cpus).to_string()]);
        command.args(["-T", &plan.seconds.to_string()]);
        // pgbench takes 64 bits, but only those of a signed number.
        command.arg(format!("--random-seed={}", plan.seed & (u64::MAX >> 1)));
        command.arg(self.cluster.database());
        let summary = finish(command, "pgbench")?;
        self.cluster.check()?;
        let throughput = log::throughput(&summary)
            .ok_or_else(|| Fault::failed(format!("pgbench reports no rate: {summary}")))?;
        metrics(throughput, read_logs(&logs)?)
    }

    fn notes(&self) -> Vec<String> {
        let version = format!("PostgreSQL {}", self.cluster.programs.version);
        std::iter::once(version).chain(self.cluster.user.note()).collect()
    }
}

fn read_logs(folder: &Path) -> Result<Transactions, Fault> {
    let failed = |e: std::io::Error| Fault::failed(format!("pgbench: {}: {e}", folder.display()));
    let mut all = Transactions::default();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let text = fs::read_to_string(entry.map_err(failed)?.path()).map_err(failed)?;
        all.read(&text).map_err(Fault::failed)?;
    }
    Ok(all)
}

fn metrics(throughput: f64, all: Transactions) -> Result<Vec<Metric>, Fault> {
    let failed = all.failed;
    let distribution = Distribution::of(all.latencies_ns, failed).ok_or_else(|| {
        Fault::failed(format!("pgbench: no transaction succeeded, {failed} failed"))
    })?;
    let mut metrics = vec![
        Metric::per_second("throughput", throughput),
        Metric::nanoseconds("latency", distribution.mean).with(distribution.clone()),
    ];
    for (name, quantile) in [("latency_p50", 0.5), ("latency_p99", 0.99)] {
        metrics.extend(distribution.at(quantile).map(|value| Metric::nanoseconds(name, value)));
    }
    metrics.push(Metric::new("failed_transactions", Unit::Count, Better::Less, failed as f64));
    Ok(metrics)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::bench_of::{job, run, value};

    #[test]
    fn both_scripts_run_on_fresh_copies_of_the_same_tables() {
        let keep = tempfile::tempdir().unwrap();
        for script in ["tpcb-like", "select-only"] {
            let params = [
                ("script", Param::Text(script.into())),
                ("scale", Param::Int(1)),
                ("clients", Param::Int(2)),
                ("seconds", Param::Int(1)),
            ];
            let job = job(&Pgbench, Role::Whole, &params);
            if let Err(refusal) = Pgbench.can_run(&job) {
                eprintln!("skipped: {refusal}");
                return;
            }
            let (metrics, notes) = run(&Pgbench, &job, &keep).unwrap();
            assert_eq!(metrics[0].name, "throughput");
            let latency = metrics[1].distribution.as_ref().unwrap();
            // Two clients that wait for each answer: Little's law ties throughput, latency and clients together.
            let busy = metrics[0].value * metrics[1].value / 1e9;
            assert!((0.8..=2.2).contains(&busy), "{script}: {busy} clients busy; {metrics:?}");
            assert!(latency.samples as f64 <= metrics[0].value * 3.0, "{script}: {metrics:?}");
            assert_eq!(value(&metrics, "failed_transactions"), 0.0);
            assert!(notes[0].starts_with("PostgreSQL "), "{notes:?}");
        }
        let kept: Vec<_> =
            fs::read_dir(keep.path()).unwrap().flatten().map(|e| e.file_name()).collect();
        assert_eq!(kept.len(), 1, "{kept:?}");
    }
}
