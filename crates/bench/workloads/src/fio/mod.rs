//! fio: blocks read and written, at random and in order. See README.md.

mod output;

use super::{
    support::asked,
    support::programs,
    workload::{Place, Prepared, Workload},
};
use std::{path::PathBuf, process::Command};
use transect_bench_core::{
    About, Better, CacheState, Family, Fault, Job, Metric, Refusal, Unit, protocol::Param,
};

const NAME: &str = "fio";
const MODES: [&str; 5] = ["randread", "randwrite", "read", "write", "randrw"];
/// What Debian's fio has without further libraries.
const ENGINES: [&str; 4] = ["psync", "libaio", "io_uring", "mmap"];

/// It.
#[derive(Debug)]
pub(crate) struct Fio;

impl Workload for Fio {
    fn about(&self) -> About {
        About {
            name: NAME,
            text: "fio on one file: operations a second and their latency",
            source: "XenMon's and LTTng-Xen's disk-bound guests, with a current tool",
            family: Family::Disk,
            metric: ("operations", Unit::PerSecond, Better::More),
            caches: &[CacheState::Any],
            params: vec![
                (
                    "mode",
                    Param::Text("randread".into()),
                    "randread | randwrite | read | write | randrw",
                ),
                ("block_kib", Param::Int(4), "size of one operation, KiB"),
                ("mib", Param::Int(64), "size of the file, MiB"),
                ("seconds", Param::Float(1.0), "how long"),
                ("depth", Param::Int(1), "operations in flight (libaio, io_uring)"),
                ("engine", Param::Text("psync".into()), "psync | libaio | io_uring | mmap"),
                ("direct", Param::Bool(true), "bypass the page cache (O_DIRECT)"),
            ],
            packages: &["fio"],
            is_distributed: false,
            expected_s: 1.6,
        }
    }

    fn can_run(&self, _: &Job) -> Result<(), Refusal> {
        programs::need(NAME, NAME, NAME).map(|_| ())
    }

    fn prepare(&self, place: &Place<'_>) -> Result<Box<dyn Prepared>, Fault> {
        let job = place.job;
        let program = programs::need(NAME, NAME, NAME)?;
        let seconds = asked::seconds(job, "seconds")?;
        let command = |more: &str| -> Result<Command, Fault> {
            let mut command = Command::new(&program);
            command.args(["--name=job", "--output-format=json", "--allow_file_create=1", more]);
            command.arg(format!("--filename={}", place.folder.join("file").display()));
            command.arg(format!("--rw={}", asked::choice(job, "mode", &MODES)?));
            command.arg(format!("--bs={}k", asked::number(job, "block_kib", 1..=1 << 16)?));
            command.arg(format!("--size={}m", asked::number(job, "mib", 1..=1 << 20)?));
            command.arg(format!("--iodepth={}", asked::number(job, "depth", 1..=4096)?));
            command.arg(format!("--ioengine={}", asked::choice(job, "engine", &ENGINES)?));
            command.arg(format!("--direct={}", u8::from(asked::switch(job, "direct")?)));
            command.arg(format!("--randseed={}", job.seed));
            // Its own helper process would be one more task to be scheduled and traced.
            command.args(["--thread", "--time_based"]);
            command.arg(format!("--runtime={}ms", seconds.as_millis()));
            Ok(command)
        };
        let laid_out = programs::run(&mut command("--create_only=1")?)?;
        output::errors(&laid_out.stdout)?;
        Ok(Box::new(Run { command: command("--create_on_open=0")?, program }))
    }
}

struct Run {
    program: PathBuf,
    command: Command,
}

impl Prepared for Run {
    fn programs(&self) -> Vec<PathBuf> {
        vec![self.program.clone()]
    }

    fn run(&mut self) -> Result<Vec<Metric>, Fault> {
        let said = programs::run(&mut self.command)?;
        output::metrics(&said.stdout)
    }
}
