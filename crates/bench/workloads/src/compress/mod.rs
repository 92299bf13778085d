//! One file compressed. See README.md.

use super::{
    support::asked,
    support::programs,
    support::random::Random,
    support::tree,
    workload::{Place, Prepared, Workload},
};
use std::{
    fs::{self, File},
    path::PathBuf,
    process::Command,
    time::Instant,
};
use transect_bench_core::{
    About, Better, CacheState, Family, Fault, Job, Metric, Refusal, Unit, protocol::Param,
};

/// Both of them.
pub(crate) const ALL: [&dyn Workload; 2] = [
    &Compress { name: "compress/bzip2", program: "bzip2", level: 9, mib: 12 },
    &Compress { name: "compress/zstd", program: "zstd", level: 9, mib: 24 },
];

struct Compress {
    name: &'static str,
    /// The package has the same name.
    program: &'static str,
    level: i64,
    mib: i64,
}

impl Workload for Compress {
    fn about(&self) -> About {
        About {
            name: self.name,
            text: "compressing a file of C-like text in one thread",
            source: "LTTng-Xen Table 5 and Figure 8 (bzip2)",
            family: Family::Cpu,
            metric: ("time", Unit::Seconds, Better::Less),
            caches: &[CacheState::Hot, CacheState::Cold, CacheState::Displaced, CacheState::Any],
            params: vec![
                ("mib", Param::Int(self.mib), "size of the file, MiB"),
                ("level", Param::Int(self.level), "1 (fast) to 9 (small)"),
            ],
            packages: match self.program {
                "bzip2" => &["bzip2"],
                _ => &["zstd"],
            },
            is_distributed: false,
            expected_s: 1.5,
        }
    }

    fn can_run(&self, _: &Job) -> Result<(), Refusal> {
        programs::need(self.name, self.program, self.program).map(|_| ())
    }

    fn prepare(&self, place: &Place<'_>) -> Result<Box<dyn Prepared>, Fault> {
        let program = programs::need(self.name, self.program, self.program)?;
        let mib = asked::number(place.job, "mib", 1..=4096)?;
        let level = asked::number(place.job, "level", 1..=9)?;
        let folder = tree::kept_as(place.keep, &format!("text-1-{mib}"), |folder| {
            let bytes = usize::try_from(mib << 20).map_err(std::io::Error::other)?;
            let mut text = tree::text(&mut Random(mib), bytes);
            text.truncate(bytes);
            fs::write(folder.join("text"), text)
        })?;
        let input = folder.join("text");
        let output = place.folder.join("compressed");
        let mut command = Command::new(&program);
        command.args(["-c".into(), format!("-{level}")]);
        if self.program == "zstd" {
            // One worker thread besides the reading one would be two CPUs' work.
            command.args(["-q", "--single-thread"]);
        }
        command.arg(&input);
        programs::run(Command::new(&program).arg("--help"))?;
        Ok(Box::new(Run { program, command, input, output, bytes: mib << 20 }))
    }
}

struct Run {
    program: PathBuf,
    command: Command,
    input: PathBuf,
    output: PathBuf,
    bytes: u64,
}

impl Prepared for Run {
    fn files(&self) -> Vec<PathBuf> {
        vec![self.input.clone()]
    }

    fn programs(&self) -> Vec<PathBuf> {
        vec![self.program.clone()]
    }

    #[allow(clippy::cast_precision_loss, reason = "far fewer than 2^53 bytes")]
    fn run(&mut self) -> Result<Vec<Metric>, Fault> {
        let output = File::create(&self.output)
            .map_err(|error| Fault::failed(format!("cannot write the result: {error}")))?;
        let from = Instant::now();
        programs::run_into(&mut self.command, output)?;
        let time_s = from.elapsed().as_secs_f64();
        let compressed = fs::metadata(&self.output).map_err(Fault::failed)?.len();
        if compressed == 0 || compressed >= self.bytes {
            let what = format!("{} bytes were compressed to {compressed}", self.bytes);
            return Err(Fault::Failed(what));
        }
        Ok(vec![
            Metric::seconds("time", time_s),
            Metric::bytes_per_second("throughput", self.bytes as f64 / time_s),
            Metric::new(
                "compressed_share",
                Unit::Share,
                Better::Less,
                compressed as f64 / self.bytes as f64,
            ),
        ])
    }
}
