//! Limits of the process's memory, CPU time and descriptors.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;
use transect_query::Options;

/// Memory for batches in flight, stacks and plans, on top of twice the limit for sorting, grouping and joining.
const BESIDE_BYTES: usize = 512 << 20;
/// Address space that is reserved and never used: the program, shared libraries, heaps of glibc.
const RESERVED_BYTES: usize = 1 << 30;
/// The same, for each thread: 64 MiB of heap, aligned to 64 MiB, and guard pages.
const RESERVED_THREAD_BYTES: usize = 192 << 20;
/// Descriptors besides the files of the tables.
const DESCRIPTORS: usize = 16;
/// Threads besides those of queries.
const THREADS: usize = 16;
/// CPU time of a process for each of its threads, after which the kernel kills it. Its client replaces it sooner.
const CPU_SECONDS: usize = 3600;
/// CPU time that a query may use beyond its time limit.
const CPU_GRACE: Duration = Duration::from_secs(2);

/// Limits this process's memory, which DataFusion's own limit does not cover (`repeat('x', 2000000000)`), and its
/// descriptors, and makes it the OOM killer's first choice.
pub(super) fn set_limits(options: &Options, files: usize) -> Result<(), String> {
    let data = options.memory_bytes.saturating_mul(2).saturating_add(BESIDE_BYTES);
    let threads = options.threads.saturating_add(4).saturating_mul(RESERVED_THREAD_BYTES);
    let space = data.saturating_add(RESERVED_BYTES).saturating_add(threads);
    // The kernel kills it first if memory runs out; without this it is a process like others.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    lower_limit("RLIMIT_DATA", Resource::Data, data)?;
    lower_limit("RLIMIT_AS", Resource::As, space)?;
    lower_limit("RLIMIT_CORE", Resource::Core, 0)?;
    lower_limit("RLIMIT_CPU", Resource::Cpu, options.threads.max(1).saturating_mul(CPU_SECONDS))?;
    lower_limit("RLIMIT_NOFILE", Resource::Nofile, files.saturating_add(DESCRIPTORS))
}

/// Limits the number of threads, for a user that has no other processes.
pub(super) fn limit_threads(options: &Options) -> Result<(), String> {
    lower_limit("RLIMIT_NPROC", Resource::Nproc, options.threads.saturating_add(THREADS))
}

/// Allows as many open files as the system lets this process have.
pub(crate) fn raise_descriptors() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    // Too few of them become an error when the tables are opened.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// Limits the CPU time of the next query, so that one that does not react ends even without its client.
pub(crate) fn limit_cpu_time(time: Duration, threads: usize) {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    let used = Duration::try_from(used).unwrap_or_default();
    let threads = u32::try_from(threads.max(1)).unwrap_or(u32::MAX);
    let most = time.saturating_mul(threads).saturating_add(CPU_GRACE).saturating_add(used);
    let maximum = getrlimit(Resource::Cpu).maximum;
    let current = maximum.map_or(most.as_secs(), |maximum| maximum.min(most.as_secs()));
    // Without it the client's time limit still holds.
    let _ = setrlimit(Resource::Cpu, Rlimit { current: Some(current), maximum });
}

fn lower_limit(name: &str, resource: Resource, most: usize) -> Result<(), String> {
    let maximum = getrlimit(resource).maximum;
    let most = most as u64;
    let most = Some(maximum.map_or(most, |maximum| maximum.min(most)));
    let set = setrlimit(resource, Rlimit { current: most, maximum: most });
    set.map_err(|error| format!("{name}: {error}"))
}
