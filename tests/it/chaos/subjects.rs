//! The recordings that are damaged, with their undamaged answers.

use super::{
    answer::ensure_success,
    daemon,
    files::copy_tree,
    judge::Reference,
    verbs::{RECORDING, Verb, command},
};
use anyhow::{Context, Result, ensure};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

pub(crate) struct Subject {
    pub(crate) name: String,
    /// The directory that has the recording with its tables and tiles, or the data directory.
    pub(crate) dir: PathBuf,
    /// Its name there.
    pub(crate) root: &'static str,
    pub(crate) references: BTreeMap<Verb, Reference>,
    /// Arguments of `import`, if a file of it can be imported.
    pub(crate) import: Vec<String>,
}

impl Subject {
    pub(crate) fn new(name: &str, dir: PathBuf, import: Vec<String>) -> Result<Self> {
        let mut verbs = Verb::ALL.to_vec();
        if !import.is_empty() {
            verbs.push(Verb::Import);
        }
        // Makes tables and tiles.
        Verb::View.run(&dir, &import)?;
        remove_output(&dir)?;
        Self::with_verbs(name, dir, RECORDING, import, &verbs)
    }

    /// The undamaged answers, each given twice: an answer that changes by itself could not be compared.
    fn with_verbs(
        name: &str,
        dir: PathBuf,
        root: &'static str,
        import: Vec<String>,
        verbs: &[Verb],
    ) -> Result<Self> {
        let mut references = BTreeMap::new();
        for &verb in verbs {
            let mut answers = Vec::new();
            for _ in 0..2 {
                let copy = dir.with_extension("copy");
                copy_tree(&dir, &copy)?;
                let answer = verb.run(&copy, &import)?;
                std::fs::remove_dir_all(&copy)?;
                ensure_success(&answer, &format!("{name}: {verb}"))?;
                answers.push(answer);
            }
            let (first, second) = (&answers[0].parts, &answers[1].parts);
            let names = |parts: &[super::answer::Part]| -> Vec<&str> {
                parts.iter().map(|part| part.name).collect()
            };
            ensure!(names(first) == names(second), "{name}: {verb}: other parts");
            for (a, b) in first.iter().zip(second) {
                ensure!(a == b, "{name}: {verb}: {} differs from run to run", a.name);
            }
            let answer = answers.pop().context("no answer")?;
            references.insert(verb, Reference::new(verb, answer));
        }
        Ok(Subject { name: name.into(), dir, root, references, import })
    }
}

/// What the verbs leave beside the recording.
fn remove_output(dir: &Path) -> Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name() == RECORDING {
            continue;
        }
        if entry.file_type()?.is_dir() {
            std::fs::remove_dir_all(entry.path())?;
        } else {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// A process that ends with its owner.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two threads that wake each other, some system calls, and a new process now and then.
const LOAD: &str = "
import os, subprocess, threading, time
a, b = os.pipe()
def read():
    while True: os.read(a, 1)
threading.Thread(target=read, daemon=True).start()
while True:
    for _ in range(3): os.getppid()
    os.write(b, b'x')
    time.sleep(0.002)
";

pub(crate) fn start_load() -> Result<Running> {
    Ok(Running(Command::new("python3").args(["-c", LOAD]).spawn()?))
}

/// An empty directory for a subject.
fn folder(scratch: &Path, name: &str) -> Result<PathBuf> {
    let dir = scratch.join(name);
    std::fs::create_dir(&dir)?;
    Ok(dir)
}

/// A recording of this host; with the full collector it has a trace.dat, which can be imported.
pub(crate) fn recorded(scratch: &Path, name: &str, more: &[&str]) -> Result<Subject> {
    let dir = folder(scratch, name)?;
    record(&dir, more)?;
    let source = format!("{RECORDING}/host.dat");
    let import = if dir.join(&source).exists() { vec![source] } else { Vec::new() };
    Subject::new(name, dir, import)
}

/// This host and, over the agent at this address, the same kernel as its guest.
pub(crate) fn pair(scratch: &Path, address: &str) -> Result<Subject> {
    recorded(scratch, "pair", &["--guest", &format!("name=web,tcp:{address}")])
}

/// A part of another subject's recording, which has tables and no events' source.
pub(crate) fn excerpt(scratch: &Path, of: &Subject) -> Result<Subject> {
    let dir = folder(scratch, "excerpt")?;
    let whole = of.dir.join(RECORDING);
    let whole = whole.to_str().context("path")?;
    let words = ["--to", "recording", "--from", "+100ms", "--until", "+300ms", "-o", RECORDING];
    succeed(command(&dir)?.args(["export", whole]).args(words))?;
    Subject::new("excerpt", dir, Vec::new())
}

/// An xentrace file of the test data.
pub(crate) fn xen(scratch: &Path) -> Result<Subject> {
    let dir = folder(scratch, "xen")?;
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/succeed/xentrace/pvh.bin");
    let options = ["--cpu-hz", "2596139000", "--xen-version", "4.17"];
    succeed(command(&dir)?.args(["import", file, "-o", RECORDING]).args(options))?;
    let mut import = vec![format!("{RECORDING}/xen.bin")];
    import.extend(options.map(str::to_owned));
    Subject::new("xen", dir, import)
}

fn succeed(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}: {text}", output.status);
    Ok(())
}

/// A daemon's data directory.
pub(crate) fn history(scratch: &Path) -> Result<Subject> {
    let dir = folder(scratch, "history")?;
    daemon::make(&dir)?;
    Subject::with_verbs("history", dir, daemon::DATA, Vec::new(), &[Verb::Serve])
}

/// Records this host under load.
fn record(dir: &Path, more: &[&str]) -> Result<()> {
    let _load = start_load()?;
    let words = ["record", "-o", RECORDING, "--profile", "io", "--duration", "400ms"];
    succeed(command(dir)?.args(words).args(more))
}
