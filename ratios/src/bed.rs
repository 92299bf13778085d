//! Where a run happens: its programs, its folders, how often it measures.

use anyhow::{Context, Result, bail};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The CPU that is measured on; its load has it alone, under `SCHED_FIFO`.
pub const LOAD_CPU: &str = "0";
/// The CPU of everything that consumes what is traced.
pub const CONSUMER_CPU: &str = "1";

/// What a run is given.
#[derive(Debug)]
pub struct Bed {
    /// This program: its roles are played by it.
    pub bench: PathBuf,
    /// The built `transect`.
    pub transect: PathBuf,
    /// Python with the tests' packages.
    pub python: PathBuf,
    /// Recordings that are made once and kept.
    pub cache: PathBuf,
    /// Rounds of a comparison.
    pub rounds: usize,
    /// Small recordings and few rounds: to see that it runs, not to learn anything.
    pub quick: bool,
    scratch: tempfile::TempDir,
}

impl Bed {
    /// A bed with a scratch folder on the disk of the cache.
    ///
    /// # Errors
    /// If a folder cannot be made, or `transect` is not beside this program.
    pub fn new(rounds: Option<usize>, quick: bool) -> Result<Self> {
        let bench = env::current_exe().context("cannot determine the path of this program")?;
        let bin = bench.parent().context("this program has no folder")?;
        let transect = bin.join("transect");
        if !transect.exists() {
            bail!("{} is missing: run `make build`", transect.display());
        }
        let cache = cache_folder()?;
        let python = cache.join("venv/bin/python");
        let cache = cache.join("bench");
        fs::create_dir_all(&cache)?;
        let scratch = tempfile::Builder::new().prefix("run-").tempdir_in(&cache)?;
        let rounds = rounds.unwrap_or(if quick { 2 } else { 7 });
        Ok(Self { bench, transect, python, cache, rounds, quick, scratch })
    }

    /// A fresh folder that goes away with what is returned.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn scratch(&self) -> Result<tempfile::TempDir> {
        Ok(tempfile::Builder::new().tempdir_in(self.scratch.path())?)
    }

    /// A file beside the build output.
    #[must_use]
    pub fn beside_the_build(&self, name: &str) -> PathBuf {
        let profile = self.bench.parent();
        let target = profile.and_then(Path::parent).unwrap_or(Path::new("."));
        target.join(name)
    }

    /// Writes a file into the run's scratch folder and gives its path.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn file(&self, name: &str, text: &str) -> Result<String> {
        let path = self.scratch.path().join(name);
        fs::write(&path, text)?;
        Ok(path.display().to_string())
    }

    /// A role of this program, with the arguments of it.
    #[must_use]
    pub fn role(&self, arguments: &[&str]) -> Vec<String> {
        let program = self.bench.display().to_string();
        let mut words = vec![program, "role".to_owned()];
        words.extend(arguments.iter().map(|word| (*word).to_owned()));
        words
    }

    /// `size` when it is meant, a hundredth of it in a quick run.
    #[must_use]
    pub fn sized(&self, size: u64) -> u64 {
        if self.quick { size / 100 } else { size }
    }
}

fn cache_folder() -> Result<PathBuf> {
    if let Some(folder) = env::var_os("TRANSECT_CACHE") {
        return Ok(folder.into());
    }
    if let Some(folder) = env::var_os("XDG_CACHE_HOME") {
        return Ok(Path::new(&folder).join("transect"));
    }
    let home = env::var_os("HOME").context("neither TRANSECT_CACHE nor HOME is set")?;
    Ok(Path::new(&home).join(".cache/transect"))
}

/// Whether a program is installed.
#[must_use]
pub fn is_installed(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Under `SCHED_FIFO` on the CPU that is measured on.
#[must_use]
pub fn on_load_cpu(words: Vec<String>) -> Vec<String> {
    before(&["chrt", "-f", "10", "taskset", "-c", LOAD_CPU], words)
}

/// On the other CPU, before other programs there.
#[must_use]
pub fn on_consumer_cpu(words: Vec<String>) -> Vec<String> {
    before(&["nice", "-n", "-15", "taskset", "-c", CONSUMER_CPU], words)
}

/// On one CPU, whatever threads it has.
#[must_use]
pub fn on_one_cpu(words: Vec<String>) -> Vec<String> {
    before(&["taskset", "-c", LOAD_CPU], words)
}

fn before(prefix: &[&str], words: Vec<String>) -> Vec<String> {
    prefix.iter().map(|word| (*word).to_owned()).chain(words).collect()
}

/// A command of these words.
///
/// # Errors
/// If there is none.
pub fn command(words: &[String]) -> Result<Command> {
    let (program, arguments) = words.split_first().context("an empty command")?;
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(command)
}

/// Runs it to its end and gives its standard output.
///
/// # Errors
/// If it cannot start or fails; what it said is part of the message.
pub fn output(words: &[String]) -> Result<String> {
    let line = words.join(" ");
    let output = command(words)?.output().with_context(|| format!("cannot start `{line}`"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{line}`: {}: {}", output.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Reads the last line that a role printed.
///
/// # Errors
/// If it is not what was expected.
pub fn told<T: serde::de::DeserializeOwned>(stdout: &str) -> Result<T> {
    let line = stdout.lines().rev().find(|line| line.starts_with('{'));
    let line = line.with_context(|| format!("no result in {stdout:?}"))?;
    serde_json::from_str(line).with_context(|| line.to_owned())
}
