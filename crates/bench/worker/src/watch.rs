//! Who samples the machine while a workload runs.

use procfs::process::Process;
use std::collections::BTreeSet;
use transect_bench_core::{Fault, Job, protocol::Role};
use transect_bench_limiter::sampling::{Sampler, Watch};

/// Starts sampling, if the job asks for it: of the workload's process with all its threads and children, of what else
/// the job names, and of the machine. Comes back when the first sample is taken.
pub(super) fn begin(job: &Job, pid: u32) -> Result<Option<Sampler>, Fault> {
    if job.sample_every_ms == 0 {
        return Ok(None);
    }
    // A bystander's own process waits: what it looks at are the machines.
    let own = (job.role != Role::Bystander).then_some(pid);
    let pids = own.into_iter().chain(processes_of(&job.watch)).collect();
    let sampler = Sampler::start(Watch { pids, every_ms: job.sample_every_ms })?;
    sampler.begin()?;
    Ok(Some(sampler))
}

/// The processes of threads. A thread that has ended has none.
fn processes_of(tids: &[u32]) -> BTreeSet<u32> {
    tids.iter().filter_map(|tid| process_of(*tid)).collect()
}

fn process_of(tid: u32) -> Option<u32> {
    Some(Process::new(tid.cast_signed()).ok()?.status().ok()?.tgid.cast_unsigned())
}
