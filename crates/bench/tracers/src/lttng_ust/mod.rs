//! LTTng-UST: the workload's own allocations, traced in user space. See `README.md`.

use crate::{
    tools::{
        lttng::{self, Domain, Session},
        params::Params,
    },
    tracer::{Scene, Tracer, Tracing},
};
use procfs::process::{MMapPath, MemoryMap, Process};
use std::{
    env::consts::ARCH,
    path::{Path, PathBuf},
};
use transect_bench_core::{
    Fault, Job, Kind, Refusal,
    protocol::{Param, TracerCost},
};

/// Wraps malloc and its like with tracepoints (lttng-ust(3), liblttng-ust-libc-wrapper).
const WRAPPER: &str = "liblttng-ust-libc-wrapper.so.1";
/// Lets processes that fork without exec go on being traced.
const FORK: &str = "liblttng-ust-fork.so.1";

/// The arm.
#[derive(Debug)]
pub(super) struct LttngUst;

impl Tracer for LttngUst {
    fn name(&self) -> &'static str {
        "lttng-ust"
    }

    fn about(&self) -> &'static str {
        "LTTng-UST: every malloc and free of the workload, to disk"
    }

    fn params(&self) -> Vec<(&'static str, Param, &'static str)> {
        let events = "user-space events, comma-separated; a trailing * is a wildcard";
        let events = ("events", Param::Text("lttng_ust_libc:*".to_owned()), events);
        [events].into_iter().chain(lttng::params()).collect()
    }

    fn environment(&self, _job: &Job) -> Result<Vec<(String, String)>, Refusal> {
        let preload = [library(WRAPPER)?, library(FORK)?].map(|path| path.display().to_string());
        Ok(vec![
            ("LD_PRELOAD".to_owned(), preload.join(":")),
            // Lists of mapped libraries are none of the events.
            ("LTTNG_UST_WITHOUT_BADDR_STATEDUMP".to_owned(), "1".to_owned()),
        ])
    }

    fn can_run(&self, job: &Job) -> Result<(), Refusal> {
        Params::of(self, job)?;
        self.environment(job)?;
        lttng::can_run(self.name())
    }

    fn start(&self, scene: &Scene<'_>) -> Result<Box<dyn Tracing>, Fault> {
        let params = Params::of(self, scene.job)?;
        need_preloaded(scene.pid)?;
        let events: Vec<_> =
            params.text("events").split(',').map(|event| vec![event.trim().to_owned()]).collect();
        let mut session =
            Session::start(self.name(), Domain::User, &params, &events, scene.folder)?;
        // The workload's process looks for the daemon by itself, and is traced once it is listed.
        let listed = format!("PID: {} ", scene.pid);
        session.wait_until_listed(&["--userspace"], "traced process of the workload", |list| {
            list.lines().any(|line| line.starts_with(&listed))
        })?;
        session.traces_now();
        Ok(Box::new(Recording(session)))
    }
}

struct Recording(Session);

impl Tracing for Recording {
    fn stop(self: Box<Self>) -> Result<TracerCost, Fault> {
        self.0.stop()
    }
}

fn library(name: &str) -> Result<PathBuf, Refusal> {
    let places = [format!("/usr/lib/{ARCH}-linux-gnu"), "/usr/lib64".into(), "/usr/lib".into()];
    let found = places.iter().map(|place| Path::new(place).join(name)).find(|path| path.exists());
    found.ok_or_else(|| {
        Refusal::new(Kind::Missing, "tracer lttng-ust", format!("{name} is not installed"))
            .mend("apt-get install liblttng-ust1")
    })
}

/// Was the workload started with [`LttngUst::environment`], and did the linker take it?
fn need_preloaded(pid: u32) -> Result<(), Fault> {
    let maps = Process::new(pid.cast_signed())
        .and_then(|process| process.maps())
        .map_err(|error| Fault::failed(format!("lttng-ust: {error}")))?;
    let is_wrapper = |map: MemoryMap| match map.pathname {
        MMapPath::Path(path) => path.to_string_lossy().contains("liblttng-ust-libc-wrapper"),
        _ => false,
    };
    if maps.into_iter().any(is_wrapper) {
        return Ok(());
    }
    Err(Refusal::new(
        Kind::NotHere,
        "tracer lttng-ust",
        format!("process {pid} of the workload has not loaded {WRAPPER}: it is statically linked, or was started without it"),
    )
    .mend("use a worker that is linked dynamically")
    .into())
}
