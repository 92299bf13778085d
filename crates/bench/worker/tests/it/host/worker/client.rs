//! The procedure's side of the pipes.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio},
};
use tempfile::TempDir;
use transect_bench_core::{
    CacheProof, CacheState, Fault, Job, RunResult,
    protocol::{FromWorker, Param, ToWorker, WorkerFacts},
};

/// A worker that runs, in a folder of its own. Dropping it ends it.
pub(crate) struct Worker {
    pub(crate) facts: WorkerFacts,
    pub(crate) folder: TempDir,
    pub(crate) child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

/// A folder on the disk that the build is on.
pub(crate) fn on_disk() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

pub(crate) fn job(workload: &str, params: &[(&str, Param)]) -> Job {
    Job {
        id: "b001-01".into(),
        workload: workload.into(),
        params: params.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        tracer: "none".into(),
        limit_s: 300,
        ..Job::default()
    }
}

pub(crate) fn with_cache(cache: CacheState, job: Job) -> Job {
    Job { cache, ..job }
}

impl Worker {
    pub(crate) fn start() -> Self {
        Self::start_in(on_disk())
    }

    pub(crate) fn start_in(folder: TempDir) -> Self {
        Self::by(&mut Self::command(folder.path()), folder)
    }

    pub(crate) fn command(folder: &Path) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_transect-bench-worker"));
        command.arg("--folder").arg(folder);
        command
    }

    pub(crate) fn by(command: &mut Command, folder: TempDir) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut worker = Self { facts: WorkerFacts::default(), folder, child, input, output };
        worker.facts = match worker.hear() {
            FromWorker::Hello(facts) => *facts,
            other => panic!("no hello: {other:?}"),
        };
        worker
    }

    pub(crate) fn tell(&mut self, what: &ToWorker) {
        let line = serde_json::to_string(what).unwrap();
        self.tell_raw(&format!("{line}\n"));
    }

    pub(crate) fn tell_raw(&mut self, text: &str) {
        self.input.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    pub(crate) fn hang_up(&mut self) {
        self.input = None;
    }

    pub(crate) fn hear(&mut self) -> FromWorker {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    pub(crate) fn stderr(&mut self) -> ChildStderr {
        self.child.stderr.take().unwrap()
    }

    pub(crate) fn prepare(&mut self, job: Job) -> Result<(Vec<u16>, CacheProof), Fault> {
        self.tell(&ToWorker::Prepare(Box::new(job)));
        match self.hear() {
            FromWorker::Prepared { ports, cache } => Ok((ports, cache)),
            FromWorker::Faulted(fault) => Err(fault),
            other => panic!("neither prepared nor faulted: {other:?}"),
        }
    }

    pub(crate) fn result(&mut self) -> Result<RunResult, Fault> {
        match self.hear() {
            FromWorker::Done(result) => Ok(*result),
            FromWorker::Faulted(fault) => Err(fault),
            other => panic!("neither done nor faulted: {other:?}"),
        }
    }

    pub(crate) fn run(&mut self, job: Job) -> Result<RunResult, Fault> {
        self.prepare(job)?;
        self.tell(&ToWorker::Go);
        self.result()
    }

    /// Names in the worker's folder, without what it keeps.
    pub(crate) fn left_over(&self) -> Vec<String> {
        left_over(self.folder.path())
    }
}

pub(crate) fn left_over(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let names = entries.map(|name| name.into_string().unwrap());
    names.filter(|name| name != "keep").collect()
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The end of its input ends it.
        self.input = None;
        let _ = self.child.wait();
    }
}

/// Reads a result: the metric's value.
pub(crate) fn value(result: &RunResult, name: &str) -> f64 {
    let found = result.metrics.iter().find(|metric| metric.name == name);
    found.unwrap_or_else(|| panic!("no {name}: {result:?}")).value
}
