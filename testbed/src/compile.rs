//! The guests' own programs: C sources of `guest/`, compiled statically once per source.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::cache::{self, Key};
use crate::packages::run_tool;

/// A program of `guest/`, embedded so that a built testbed needs no clone.
#[derive(Clone, Copy)]
pub(crate) struct Program {
    name: &'static str,
    source: &'static str,
}

/// PID 1 of every guest.
pub(crate) const INIT: Program = Program { name: "init", source: include_str!("../guest/init.c") };
/// What guests do.
pub(crate) const WORKLOAD: Program =
    Program { name: "workload", source: include_str!("../guest/workload.c") };
/// Keeps the nested host's code patched.
pub(crate) const STEADY: Program =
    Program { name: "steady", source: include_str!("../guest/steady.c") };
/// The counting guest's VMM.
pub(crate) const COUNTING: Program =
    Program { name: "counting", source: include_str!("../guest/counting.c") };

impl Program {
    /// The cache entry's name: differs whenever the source does.
    pub(crate) fn key(self) -> String {
        Key::new(self.name).with(self.source).name()
    }

    /// The path of the static binary.
    pub(crate) fn binary(self) -> Result<PathBuf> {
        let folder = cache::entry(&self.key(), |folder| {
            let source = folder.join(format!("{}.c", self.name));
            std::fs::write(&source, self.source).context("cannot write a source")?;
            let mut cc = std::process::Command::new("cc");
            cc.args(["-static", "-O2", "-pthread", "-o"]).arg(folder.join(self.name)).arg(&source);
            run_tool(&mut cc, "gcc and libc6-dev").map(drop)
        })?;
        Ok(folder.join(self.name))
    }
}
