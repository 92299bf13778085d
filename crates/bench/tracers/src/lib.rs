//! Tracer arms: one folder each, one line in [`registry`]. An arm runs in the machine whose workload it traces.
//!
//! What they share is in `tools`: the event set, parameters, programs and processes, an ftrace instance of their own.

mod append_1mb;
mod bpftrace;
mod ftrace;
mod ftrace_flight;
mod ftrace_idle;
mod lttng_kernel;
mod lttng_ust;
pub mod none;
mod perf;
mod perf_count;
mod strace;
mod tools;
mod trace_cmd;
mod tracer;
mod transect_aggregate;
mod transect_compact;
mod transect_flight;
mod transect_full;
mod transect_idle;
mod xentrace;

pub use tools::events::{DEFAULT_EVENTS, GROUPS};
pub use tracer::{Scene, Tracer, Tracing};

use transect_bench_core::Refusal;

/// Every arm there is.
#[must_use]
pub fn registry() -> &'static [&'static dyn Tracer] {
    &[
        &none::Nobody,
        &transect_idle::TransectIdle,
        &transect_aggregate::TransectAggregate,
        &transect_flight::TransectFlight,
        &transect_compact::TransectCompact,
        &transect_full::TransectFull,
        &ftrace_idle::FtraceIdle,
        &ftrace_flight::FtraceFlight,
        &ftrace::Ftrace,
        &trace_cmd::TraceCmd,
        &perf_count::PerfCount,
        &perf::Perf,
        &bpftrace::Bpftrace,
        &lttng_kernel::LttngKernel,
        &lttng_ust::LttngUst,
        &xentrace::Xentrace,
        &strace::Strace,
        &append_1mb::Append1Mb,
    ]
}

/// The tracer of an arm's name, and whether it runs on the host below the machines (`perf@below`) instead of in them.
#[must_use]
pub fn arm(name: &str) -> (&str, bool) {
    match name.strip_suffix("@below") {
        Some(tracer) => (tracer, true),
        None => (name, false),
    }
}

/// The tracer of this arm.
///
/// # Errors
/// There is none.
pub fn named(name: &str) -> Result<&'static dyn Tracer, Refusal> {
    let (name, all) = (arm(name).0, registry());
    let found = all.iter().find(|tracer| tracer.name() == name);
    found
        .copied()
        .ok_or_else(|| Refusal::unknown("tracer", name, all.iter().map(|tracer| tracer.name())))
}
