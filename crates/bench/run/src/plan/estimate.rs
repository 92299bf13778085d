//! About how long a plan takes: for people who decide whether to wait, and for nothing else.

use super::{Cell, Plan};
use serde::Serialize;
use std::collections::BTreeSet;
use transect_bench_core::{Fault, Unit, crew::roles};
use transect_bench_platforms as platforms;
use transect_bench_workloads as workloads;

/// What a plan comes to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimated {
    /// Runs in a block, the second measurements of the reference included.
    pub runs_a_block: usize,
    /// Seconds if every workload is precise enough at the first look.
    pub least_s: f64,
    /// Seconds if none ever is. The plan's budget is not looked at.
    pub most_s: f64,
}

/// What a run takes beyond the workload: cache state, tracer, samples, a line on the disk.
const AROUND_S: f64 = 0.4;

impl Plan {
    /// About how long these cells take.
    pub fn estimated(&self, cells: &[Cell]) -> Result<Estimated, Fault> {
        let (mut block_s, mut runs_a_block) = (0.0, 0);
        let mut units = BTreeSet::new();
        let host_cpus = std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64);
        for cell in cells {
            let platform = platforms::named(&cell.platform)?;
            let workload = workloads::named(&cell.group.workload)?;
            let mut job = self.job(cell, String::new());
            // What one of the machines does: its share, where work is shared out.
            if let Some(part) = roles(&workload.about(), &job.params, cell.group.guests, &[])
                .ok()
                .and_then(|parts| parts.into_iter().next())
            {
                job.params.extend(part.params);
            }
            let expected_s = workload.expected_s(&job);
            let is_twice = cell.tracer == self.reference.tracer;
            let times = if is_twice { 2 } else { 1 };
            runs_a_block += times;
            let guests = f64::from(cell.group.guests).max(1.0);
            // A fixed amount of work takes longer where machines share CPUs; what runs for a fixed time does not.
            let is_fixed_work = workload.about().metric.1 == Unit::Seconds;
            let slower = if is_fixed_work {
                platform.slowness() * (guests / host_cpus).max(1.0)
            } else {
                1.0
            };
            let run_s = expected_s * slower + AROUND_S * guests;
            block_s += f64::from(u32::try_from(times).unwrap_or(1)) * run_s;
            if units.insert((&cell.platform, cell.group.guests)) {
                block_s += platform.opening_s() * guests;
            }
        }
        let looks = &self.procedure.looks;
        let blocks = |at: Option<&u32>| f64::from(at.copied().unwrap_or(0));
        let (least_s, most_s) = (block_s * blocks(looks.first()), block_s * blocks(looks.last()));
        Ok(Estimated { runs_a_block, least_s, most_s })
    }
}
