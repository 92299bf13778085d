//! A tree of C files compiled by make and gcc. See README.md.

mod sources;

use super::{
    support::asked,
    support::programs,
    support::tree,
    workload::{Place, Prepared, Workload},
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};
use transect_bench_core::{
    About, Better, CacheState, Family, Fault, Job, Metric, Refusal, Unit, protocol::Param,
    this_machine,
};

const NAME: &str = "compile";

/// It.
#[derive(Debug)]
pub(crate) struct Compile;

impl Workload for Compile {
    fn about(&self) -> About {
        About {
            name: NAME,
            text: "make and gcc -O2 on a generated tree of C files with many headers",
            source: "LTTng-Xen Table 1 and Figure 5 (a kernel there, a scaled stand-in here)",
            family: Family::Cpu,
            metric: ("time", Unit::Seconds, Better::Less),
            caches: &[CacheState::Hot, CacheState::Cold, CacheState::Displaced, CacheState::Any],
            params: vec![
                ("units", Param::Int(16), "C files"),
                ("jobs", Param::Int(0), "concurrent compilers; 0: one for each CPU of the job"),
            ],
            packages: &["gcc", "make", "libc6-dev"],
            is_distributed: false,
            expected_s: 2.5,
        }
    }

    fn can_run(&self, _: &Job) -> Result<(), Refusal> {
        programs::need(NAME, "make", "make")?;
        programs::need(NAME, "gcc", "gcc").map(|_| ())
    }

    fn prepare(&self, place: &Place<'_>) -> Result<Box<dyn Prepared>, Fault> {
        let make = programs::need(NAME, "make", "make")?;
        let gcc = programs::need(NAME, "gcc", "gcc")?;
        let units = asked::number(place.job, "units", 1..=100_000)?;
        let jobs = match asked::number(place.job, "jobs", 0..=4096)? {
            0 => this_machine::cpus()
                .map_err(|error| Fault::failed(format!("affinity: {error}")))?
                .len(),
            jobs => usize::try_from(jobs).map_err(Fault::failed)?,
        };
        let name = format!("sources-{}-{units}", sources::VERSION);
        let tree = tree::kept_as(place.keep, &name, |folder| sources::write(folder, units))?;
        let command = |output: &Path, what: &str| {
            let mut command = Command::new(&make);
            // The environment of who started the worker may hold flags for make.
            command.env_remove("MAKEFLAGS").env_remove("MFLAGS");
            command.args(["--silent", &format!("-j{jobs}"), "-C"]).arg(&tree);
            command.arg(format!("CC={}", gcc.display())).arg(format!("O={}", output.display()));
            command.arg(what);
            command
        };
        // One unit once: compiler, assembler, linker and their libraries are then in memory.
        let (warm, out) = (place.folder.join("warm"), place.folder.join("out"));
        for folder in [&warm, &out] {
            fs::create_dir(folder).map_err(|error| Fault::failed(format!("a folder: {error}")))?;
        }
        programs::run(&mut command(&warm, "warm"))?;
        let helpers = helpers(&gcc)?;
        let linked = out.join("all.o");
        Ok(Box::new(Run {
            command: command(&out, "all"),
            files: tree::files(&tree)?,
            programs: [vec![make.clone(), gcc.clone()], helpers].concat(),
            linked,
            units,
        }))
    }
}

/// What gcc runs: the compiler proper, the assembler, the linker.
fn helpers(gcc: &Path) -> Result<Vec<PathBuf>, Fault> {
    let mut helpers = Vec::new();
    for name in ["cc1", "as", "ld"] {
        let said = programs::run(Command::new(gcc).arg(format!("-print-prog-name={name}")))?;
        let path = PathBuf::from(String::from_utf8_lossy(&said.stdout).trim());
        // A bare name means: from the path.
        helpers.extend(if path.is_absolute() { Some(path) } else { programs::find(name) });
    }
    Ok(helpers)
}

struct Run {
    command: Command,
    files: Vec<PathBuf>,
    programs: Vec<PathBuf>,
    linked: PathBuf,
    units: u64,
}

impl Prepared for Run {
    fn files(&self) -> Vec<PathBuf> {
        self.files.clone()
    }

    fn programs(&self) -> Vec<PathBuf> {
        self.programs.clone()
    }

    fn run(&mut self) -> Result<Vec<Metric>, Fault> {
        let from = Instant::now();
        programs::run(&mut self.command)?;
        let time_s = from.elapsed().as_secs_f64();
        if !self.linked.is_file() {
            return Err(Fault::failed("make printed nothing and linked nothing"));
        }
        #[allow(clippy::cast_precision_loss, reason = "far fewer than 2^53 files")]
        let units = self.units as f64;
        Ok(vec![Metric::seconds("time", time_s), Metric::per_second("units", units / time_s)])
    }
}
