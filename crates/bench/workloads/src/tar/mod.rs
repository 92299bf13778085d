//! A tree of files into an archive, and out of one. See README.md.

use super::{
    support::asked,
    support::programs,
    support::tree,
    workload::{Place, Prepared, Workload},
};
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};
use transect_bench_core::{
    About, Better, CacheState, Family, Fault, Job, Metric, Refusal, Unit, protocol::Param,
};

/// Both of them.
pub(crate) const ALL: [&dyn Workload; 2] =
    [&Tar { name: "tar-create", is_create: true }, &Tar { name: "tar-extract", is_create: false }];

struct Tar {
    name: &'static str,
    is_create: bool,
}

impl Workload for Tar {
    fn about(&self) -> About {
        About {
            name: self.name,
            text: match self.is_create {
                true => "archiving a tree of small files with tar, to disk",
                false => "unpacking a tree of small files with tar, to disk",
            },
            source: match self.is_create {
                true => "LTTng-Xen Table 3 and Figure 6",
                false => "LTTng-Xen Table 4 and Figure 7",
            },
            family: Family::Disk,
            metric: ("time", Unit::Seconds, Better::Less),
            caches: &[CacheState::Hot, CacheState::Cold, CacheState::Displaced, CacheState::Any],
            params: vec![
                ("files", Param::Int(2000), "files in the tree, 10.5 KB on average"),
                ("sync", Param::Bool(true), "include the write-back to disk in the time"),
            ],
            packages: &["tar"],
            is_distributed: false,
            expected_s: 0.5,
        }
    }

    fn can_run(&self, _: &Job) -> Result<(), Refusal> {
        programs::need(self.name, "tar", "tar").map(|_| ())
    }

    fn prepare(&self, place: &Place<'_>) -> Result<Box<dyn Prepared>, Fault> {
        let program = programs::need(self.name, "tar", "tar")?;
        let tree = tree::kept(place.keep, asked::number(place.job, "files", 1..=1_000_000)?)?;
        let content = tree::files(&tree)?;
        let bytes = tree::bytes(&content)?;
        let archive = place.folder.join("archive.tar");
        let (command, files) = match self.is_create {
            true => (create(&program, &tree, &archive), content),
            false => {
                programs::run(&mut create(&program, &tree, &archive))?;
                let into = place.folder.join("out");
                fs::create_dir(&into)
                    .map_err(|error| Fault::failed(format!("a folder: {error}")))?;
                (extract(&program, &archive, &into), vec![archive])
            }
        };
        // The program and its libraries are to be in memory as they would be after the first run.
        programs::run(Command::new(&program).arg("--version"))?;
        sync(place.folder)?;
        let is_synced = asked::switch(place.job, "sync")?;
        let folder = place.folder.to_owned();
        Ok(Box::new(Run { program, command, files, folder, bytes, is_synced }))
    }
}

fn create(program: &Path, tree: &Path, archive: &Path) -> Command {
    let mut command = Command::new(program);
    // The same archive from the same tree, whoever unpacked it and when.
    command.args(["--create", "--sort=name", "--file"]).arg(archive).arg("-C").arg(tree).arg(".");
    command
}

fn extract(program: &Path, archive: &Path, into: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(["--extract", "--file"]).arg(archive).arg("-C").arg(into);
    command
}

/// Everything of the folder's file system onto its device.
fn sync(folder: &Path) -> Result<(), Fault> {
    let synced = File::open(folder).and_then(|at| rustix::fs::syncfs(at).map_err(io::Error::from));
    synced.map_err(|error| Fault::failed(format!("cannot sync {}: {error}", folder.display())))
}

struct Run {
    program: PathBuf,
    command: Command,
    files: Vec<PathBuf>,
    folder: PathBuf,
    bytes: u64,
    is_synced: bool,
}

impl Prepared for Run {
    fn files(&self) -> Vec<PathBuf> {
        self.files.clone()
    }

    fn programs(&self) -> Vec<PathBuf> {
        vec![self.program.clone()]
    }

    fn run(&mut self) -> Result<Vec<Metric>, Fault> {
        let from = Instant::now();
        programs::run(&mut self.command)?;
        let tar_s = from.elapsed().as_secs_f64();
        if self.is_synced {
            sync(&self.folder)?;
        }
        let time_s = from.elapsed().as_secs_f64();
        #[allow(clippy::cast_precision_loss, reason = "far fewer than 2^53 bytes")]
        let bytes = self.bytes as f64;
        Ok(vec![
            Metric::seconds("time", time_s),
            Metric::seconds("tar_time", tar_s),
            Metric::bytes_per_second("throughput", bytes / time_s),
        ])
    }
}
