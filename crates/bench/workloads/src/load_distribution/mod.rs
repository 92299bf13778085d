#![doc = include_str!("README.md")]

use super::{
    net::daemon::Daemon,
    net::daemon::find,
    net::given::Given,
    net::random::Random,
    workload::{Place, Prepared, Workload},
};
use std::{
    fs,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};
use transect_bench_core::{
    About, Better, CacheState, Distribution, Family, Fault, Job, Kind, Metric, Refusal, Unit,
    protocol::{Param, Role},
};

/// The workload `load-distribution`.
#[derive(Debug)]
pub(crate) struct LoadDistribution;

impl Workload for LoadDistribution {
    fn about(&self) -> About {
        About {
            name: "load-distribution",
            text: "the same tasks in one guest, or divided among several",
            source: "LTTng-Xen, Section 6, Tables 14 and 15",
            family: Family::Cpu,
            metric: ("time", Unit::Seconds, Better::Less),
            caches: &[CacheState::Any, CacheState::Hot, CacheState::Cold],
            params: vec![
                (
                    "tasks",
                    Param::Int(4),
                    "concurrent tasks in all guests together; must divide evenly",
                ),
                ("program", Param::Text("bzip2".into()), "bzip2 (CPU) or tar (files)"),
                ("size_mib", Param::Int(8), "input size of each task, MiB"),
            ],
            packages: &["bzip2", "tar"],
            is_distributed: false,
            expected_s: 6.0,
        }
    }

    fn can_run(&self, job: &Job) -> Result<(), Refusal> {
        let what = "workload load-distribution";
        if job.role != Role::Whole {
            return Err(Refusal::new(Kind::Senseless, what, "it has no server or generator part"));
        }
        let missing = ["bzip2", "tar"].into_iter().find(|name| find(name).is_none());
        missing.map_or(Ok(()), |name| {
            Err(Refusal::new(Kind::Missing, what, format!("{name} is not installed"))
                .mend(format!("apt install {name}")))
        })
    }

    fn expected_s(&self, job: &Job) -> f64 {
        let given = Given(job);
        let number = |name| given.number(name, 0.0..=f64::MAX).unwrap_or(1.0);
        let mib_a_second = match given.word("program", &["bzip2", "tar"]) {
            Ok("tar") => 200.0,
            _ => 10.0,
        };
        number("tasks") * number("size_mib") / mib_a_second
    }

    fn prepare<'a>(&self, place: &Place<'a>) -> Result<Box<dyn Prepared + 'a>, Fault> {
        self.can_run(place.job)?;
        let given = Given(place.job);
        let name = given.word("program", &["bzip2", "tar"])?;
        let size = given.whole("size_mib", 1..=65_536)?;
        let tasks = given.whole("tasks", 1..=1024)?;
        let program =
            find(name).ok_or_else(|| Fault::failed(format!("{name} is no longer installed")))?;
        let mut files = Vec::new();
        for task in 0..tasks {
            let input = place.folder.join(format!("input-{task}"));
            let made = make(&input, size, u64::from(task), &mut files);
            made.map_err(|e| Fault::failed(format!("{}: {e}", input.display())))?;
        }
        Ok(Box::new(Tasks { program, is_tar: name == "tar", tasks, files, folder: place.folder }))
    }
}

/// A folder of files of 64 KiB, each task its own: none must read what another has brought into the cache. Of words, so
/// that there is something to compress.
fn make(folder: &Path, size_mib: u32, task: u64, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    const WORDS: [&str; 16] = [
        "trace ", "guest ", "host ", "clock ", "event ", "slice ", "stream ", "domain ", "vcpu ",
        "entry ", "exit ", "wake\n", "kick ", "halt ", "state ", "time\n",
    ];
    fs::create_dir_all(folder)?;
    let mut random = Random::new(task, 0x776f_7264);
    for number in 0..size_mib * 16 {
        let path = folder.join(format!("file-{number:05}"));
        let mut file = BufWriter::new(fs::File::create(&path)?);
        let mut left = 64 * 1024;
        while left > 0 {
            let word = WORDS[random.below(WORDS.len())].as_bytes();
            let now = word.len().min(left);
            file.write_all(&word[..now])?;
            left -= now;
        }
        file.flush()?;
        files.push(path);
    }
    Ok(())
}

struct Tasks<'a> {
    program: PathBuf,
    is_tar: bool,
    tasks: u32,
    files: Vec<PathBuf>,
    folder: &'a Path,
}

impl Prepared for Tasks<'_> {
    fn files(&self) -> Vec<PathBuf> {
        self.files.clone()
    }

    fn programs(&self) -> Vec<PathBuf> {
        vec![self.program.clone()]
    }

    fn run(&mut self) -> Result<Vec<Metric>, Fault> {
        let start = Instant::now();
        let times = thread::scope(|scope| {
            let tasks: Vec<_> = (0..self.tasks)
                .map(|task| {
                    scope.spawn({
                        let this = &*self;
                        move || this.task(task, start)
                    })
                })
                .collect();
            let ended = tasks.into_iter().map(|task| {
                task.join().unwrap_or_else(|_| {
                    Err(Fault::failed("load-distribution: a task's thread died"))
                })
            });
            ended.collect::<Result<Vec<f64>, Fault>>()
        })?;
        let last = times.iter().copied().fold(0.0, f64::max);
        let distribution = Distribution::of(times, 0)
            .ok_or_else(|| Fault::failed("load-distribution: no tasks"))?;
        let task_time = Metric::seconds("task_time", distribution.mean).with(distribution);
        Ok(vec![Metric::seconds("time", last), task_time])
    }
}

impl Tasks<'_> {
    /// Runs one; seconds from the start of all to its end.
    fn task(&self, task: u32, start: Instant) -> Result<f64, Fault> {
        let input = self.folder.join(format!("input-{task}"));
        let mut command = Command::new(&self.program);
        if self.is_tar {
            // Not to /dev/null: GNU tar would not read the files then.
            command.arg("-cf").arg(self.folder.join(format!("output-{task}.tar")));
            command.arg("-C").arg(&input).arg(".");
        } else {
            command
                .args(["-9", "-k"])
                .args(self.files.iter().filter(|file| file.starts_with(&input)));
        }
        let name = format!("task-{task}");
        let mut daemon = Daemon::start(&name, &mut command, self.folder)?;
        let status = daemon.wait(Duration::from_secs(24 * 3600))?;
        let took = start.elapsed().as_secs_f64();
        match status {
            Some(status) if status.success() => Ok(took),
            _ => Err(Fault::failed(format!(
                "load-distribution: {name} ended with {status:?}; {}",
                daemon.said()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::bench_of::{job, run};

    #[test]
    fn every_task_runs_and_is_timed() {
        for program in ["bzip2", "tar"] {
            let params = [
                ("tasks", Param::Int(3)),
                ("size_mib", Param::Int(1)),
                ("program", Param::Text(program.into())),
            ];
            let job = job(&LoadDistribution, Role::Whole, &params);
            if let Err(refusal) = LoadDistribution.can_run(&job) {
                eprintln!("skipped: {refusal}");
                return;
            }
            let (metrics, _) = run(&LoadDistribution, &job, &tempfile::tempdir().unwrap()).unwrap();
            let distribution = metrics[1].distribution.as_ref().unwrap();
            assert_eq!((metrics[0].name.as_str(), distribution.samples), ("time", 3));
            assert_eq!(metrics[0].value, distribution.max);
            assert!(distribution.min > 0.0);
        }
    }

    #[test]
    fn a_task_that_fails_is_a_fault() {
        let folder = tempfile::tempdir().unwrap();
        let program = find("tar").unwrap_or_else(|| "/bin/false".into());
        let tasks =
            Tasks { program, is_tar: true, tasks: 1, files: Vec::new(), folder: folder.path() };
        let fault = tasks.task(0, Instant::now()).unwrap_err();
        assert!(fault.to_string().contains("task-0"), "{fault}");
    }
}
