#![doc = include_str!("README.md")]

use crate::workload::{MeasuredBy, Place, Prepared, Workload};
use std::time::Duration;
use transect_bench_core::{
    About, Better, CacheState, Distribution, Family, Fault, Job, Kind, Metric, Refusal, Unit,
    protocol::Role,
};

/// The workload `boot`.
#[derive(Debug)]
pub struct Boot;

impl Workload for Boot {
    fn about(&self) -> About {
        About {
            name: "boot",
            text: "time from the start of a machine to its worker's first message",
            source: "Hypertracing, boot-level tracing; own",
            family: Family::Latency,
            metric: ("boot_time", Unit::Seconds, Better::Less),
            caches: &[CacheState::Any],
            params: Vec::new(),
            packages: &[],
            is_distributed: false,
            expected_s: 10.0,
        }
    }

    fn measured_by(&self) -> MeasuredBy {
        MeasuredBy::Opening
    }

    fn can_run(&self, job: &Job) -> Result<(), Refusal> {
        if job.role == Role::Whole {
            return Ok(());
        }
        Err(Refusal::new(Kind::Senseless, "workload boot", "it has no server or generator part"))
    }

    fn prepare<'a>(&self, _: &Place<'a>) -> Result<Box<dyn Prepared + 'a>, Fault> {
        let why =
            "the host that starts the machine measures it: a running machine has already booted";
        Err(Refusal::new(Kind::Senseless, "workload boot", why).into())
    }
}

/// The cell's metrics: how long each of its machines took from before `Platform::open` to its worker's `Hello`. With
/// several it is the mean; they may have been opened one after the other or all at once, as the plan says.
pub fn metrics(took: &[Duration]) -> Result<Vec<Metric>, Fault> {
    let seconds: Vec<f64> = took.iter().map(Duration::as_secs_f64).collect();
    let distribution =
        Distribution::of(seconds, 0).ok_or_else(|| Fault::failed("boot: no machine was opened"))?;
    Ok(vec![Metric::seconds("boot_time", distribution.mean).with(distribution)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::bench_of::{job, run};

    #[test]
    fn it_is_measured_from_outside() {
        assert_eq!(Boot.measured_by(), MeasuredBy::Opening);
        let fault = run(&Boot, &job(&Boot, Role::Whole, &[]), &tempfile::tempdir().unwrap());
        assert!(matches!(fault, Err(Fault::Refused(_))));
        let metrics = metrics(&[Duration::from_secs(2), Duration::from_secs(4)]).unwrap();
        assert_eq!((metrics[0].name.as_str(), metrics[0].value), (Boot.about().metric.0, 3.0));
        assert!(super::metrics(&[]).is_err());
    }
}
