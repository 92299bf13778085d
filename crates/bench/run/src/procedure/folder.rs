//! Where results are: `plan.toml`, `journal.jsonl`, `machine.json`, `logs/`.

use crate::{environment::Environment, journal::Journal};
use std::{
    fs,
    path::{Path, PathBuf},
};
use transect_bench_core::Fault;

/// A folder of results.
#[derive(Clone, Debug)]
pub struct Results(PathBuf);

impl Results {
    /// The folder; it need not be there yet.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// The plan that is carried out: a copy.
    #[must_use]
    pub fn plan(&self) -> PathBuf {
        self.0.join("plan.toml")
    }

    /// What happened.
    #[must_use]
    pub fn journal(&self) -> PathBuf {
        self.0.join("journal.jsonl")
    }

    /// What this machine was when it began.
    #[must_use]
    pub fn machine(&self) -> PathBuf {
        self.0.join("machine.json")
    }

    /// What machines and programs said: a folder.
    #[must_use]
    pub fn logs(&self) -> PathBuf {
        self.0.join("logs")
    }

    /// What this machine was when it began.
    pub fn environment(&self) -> Result<Environment, Fault> {
        let path = self.machine();
        let text = fs::read_to_string(&path)
            .map_err(|error| Fault::failed(format!("{}: {error}", path.display())))?;
        serde_json::from_str(&text)
            .map_err(|error| Fault::failed(format!("{}: {error}", path.display())))
    }

    /// The plan's text.
    pub fn plan_text(&self) -> Result<String, Fault> {
        fs::read_to_string(self.plan()).map_err(|error| {
            Fault::failed(format!("{} has no results: plan.toml: {error}", self.0.display()))
        })
    }

    /// Makes the folder.
    pub(crate) fn make(&self) -> Result<(), Fault> {
        let cannot = |error| Fault::failed(format!("cannot make {}: {error}", self.0.display()));
        fs::create_dir_all(self.logs()).map_err(cannot)
    }

    /// Begins its journal: the last thing, so that a folder with a journal is whole.
    ///
    /// # Errors
    /// What cannot be written.
    pub fn begin(&self, plan_text: &str, machine: &Environment) -> Result<Journal, Fault> {
        let cannot = |error| Fault::failed(format!("cannot make {}: {error}", self.0.display()));
        if !self.journal().exists() {
            fs::write(self.plan(), plan_text).map_err(cannot)?;
            let machine = serde_json::to_vec_pretty(machine).map_err(Fault::failed)?;
            fs::write(self.machine(), machine).map_err(cannot)?;
        }
        Journal::create(&self.journal())
    }
}

pub(crate) fn sha256_of(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
