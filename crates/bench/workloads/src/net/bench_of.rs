//! For tests: runs roles of a workload as the worker does, without one.

use crate::workload::{Place, Workload};
use std::{
    collections::BTreeMap,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
};
use tempfile::TempDir;
use transect_bench_core::{
    Fault, Job, Metric,
    protocol::{Param, Role},
};

/// What a role's run came to.
pub(crate) type Ran = Result<(Vec<Metric>, Vec<String>), Fault>;

/// A job with the workload's defaults and some parameters of its own.
pub(crate) fn job(workload: &dyn Workload, role: Role, params: &[(&str, Param)]) -> Job {
    let about = workload.about();
    let mut all: BTreeMap<String, Param> =
        about.params.into_iter().map(|(name, param, _)| (name.to_owned(), param)).collect();
    all.extend(params.iter().map(|(name, param)| ((*name).to_owned(), param.clone())));
    Job {
        id: "test".into(),
        workload: about.name.into(),
        role,
        params: all,
        seed: 7,
        ..Job::default()
    }
}

/// Prepares and runs one job to its end.
pub(crate) fn run(workload: &dyn Workload, job: &Job, keep: &TempDir) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let cancelled = AtomicBool::new(false);
    let place = Place { job, folder: folder.path(), keep: keep.path(), cancelled: &cancelled };
    workload.can_run(job)?;
    let mut prepared = workload.prepare(&place)?;
    let metrics = prepared.run()?;
    Ok((metrics, prepared.notes()))
}

/// Servers, then a generator, then the servers' results: what the procedure does.
pub(crate) fn run_crew(
    workload: &dyn Workload,
    servers: usize,
    params: &[(&str, Param)],
    keep: &TempDir,
) -> (Ran, Vec<Ran>) {
    let cancelled = AtomicBool::new(false);
    let (send, receive) = mpsc::channel();
    thread::scope(|scope| {
        let server = || {
            let (send, job, cancelled) =
                (send.clone(), job(workload, Role::Server, params), &cancelled);
            scope.spawn(move || {
                let folder = tempfile::tempdir().unwrap();
                let place =
                    Place { job: &job, folder: folder.path(), keep: keep.path(), cancelled };
                let mut prepared = workload.prepare(&place)?;
                send.send(prepared.ports()[0]).unwrap();
                let metrics = prepared.run()?;
                Ok((metrics, prepared.notes()))
            })
        };
        let running: Vec<_> = (0..servers).map(|_| server()).collect();
        let mut generator = job(workload, Role::Generator, params);
        generator.peers =
            (0..servers).map(|_| format!("127.0.0.1:{}", receive.recv().unwrap())).collect();
        let generated = run(workload, &generator, keep);
        cancelled.store(true, Ordering::Relaxed);
        (generated, running.into_iter().map(|server| server.join().unwrap()).collect())
    })
}

/// The value of a metric.
pub(crate) fn value(metrics: &[Metric], name: &str) -> f64 {
    let metric = metrics.iter().find(|metric| metric.name == name);
    metric.unwrap_or_else(|| panic!("no {name} in {metrics:?}")).value
}
