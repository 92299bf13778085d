//! Instances of killed processes: they go on tracing, with buffers of megabytes per CPU, until they are removed.

use crate::{Tracefs, files, instance::remove_dir, process::ProcessKey};
use std::{fs, time::Duration};

/// First part of the names of all instances that programs of transect make.
pub const OWN_PREFIX: &str = "transect";

/// An instance in `tracefs/instances`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundInstance {
    /// Its name.
    pub name: String,
    /// The process that made it.
    pub owner: Owner,
    /// Is it being written to? None where that cannot be read.
    pub is_tracing: Option<bool>,
}

/// The process that made an instance, as its name shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A process of transect that lives.
    Alive(i32),
    /// A process of transect that ended without removing it, or that lives in a pid namespace which is not visible from
    /// here.
    Gone(i32),
    /// Another program.
    Other,
}

/// The instances that there are.
pub fn found_instances(tracefs: &Tracefs) -> Vec<FoundInstance> {
    let found = |name: String| {
        let owner = match owner(&name, OWN_PREFIX) {
            None => Owner::Other,
            Some(process) if process.is_alive() => Owner::Alive(process.pid),
            Some(process) => Owner::Gone(process.pid),
        };
        let tracing_on = tracefs.path("instances").join(&name).join("tracing_on");
        let is_tracing = files::read_text(&tracing_on).ok().map(|text| text.trim() == "1");
        FoundInstance { name, owner, is_tracing }
    };
    let mut all: Vec<_> = names(tracefs).into_iter().map(found).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// Removes the instances whose names begin with `prefix` and whose process is gone; returns their names. One that is
/// still read from (EBUSY: its process lives in another pid namespace) stays.
pub fn clean_leftovers(tracefs: &Tracefs, prefix: &str) -> Vec<String> {
    let is_orphan = |name: &String| owner(name, prefix).is_some_and(|owner| !owner.is_alive());
    let removed = |name: &String| {
        let path = tracefs.path("instances").join(name);
        remove_dir(&path, Duration::ZERO).is_ok()
    };
    names(tracefs).into_iter().filter(is_orphan).filter(removed).collect()
}

fn names(tracefs: &Tracefs) -> Vec<String> {
    let Ok(entries) = fs::read_dir(tracefs.path("instances")) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// The process in a name: `PREFIX[-WORD]-PID-TICKS[-N]`.
fn owner(name: &str, prefix: &str) -> Option<ProcessKey> {
    let mut parts = name.strip_prefix(prefix)?.strip_prefix('-')?.split('-').peekable();
    let is_word = |part: &&str| part.bytes().all(|byte| byte.is_ascii_lowercase());
    parts.next_if(is_word);
    let pid = parts.next()?.parse().ok()?;
    let start_ticks = parts.next()?.parse().ok()?;
    Some(ProcessKey { pid, start_ticks })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_names_contain_their_process() {
        for name in ["transect-42-99", "transect-42-99-2", "transect-agent-42-99"] {
            let process = ProcessKey { pid: 42, start_ticks: 99 };
            assert_eq!(owner(name, "transect"), Some(process), "{name}");
        }
        for other in [
            "transect",
            "transect-x-1",
            "trace-cmd-42-99",
            "transect-42",
            "transectx-4-5",
            "transect-a-b-4-5",
        ] {
            assert_eq!(owner(other, "transect"), None, "{other}");
        }
    }

    #[test]
    fn instances_are_told_apart_by_their_owners() {
        let scratch = tempfile::tempdir().unwrap();
        let own = ProcessKey::current().unwrap();
        let names = [
            format!("transect-{}-{}", own.pid, own.start_ticks),
            "foo".into(),
            "transect-0-1".into(),
        ];
        for (name, on) in names.iter().zip(["1", "1", "0"]) {
            let dir = scratch.path().join("instances").join(name);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("tracing_on"), on).unwrap();
        }
        let found = found_instances(&Tracefs::at(scratch.path().to_owned()));
        let owners: Vec<_> = found.iter().map(|found| (found.owner, found.is_tracing)).collect();
        assert_eq!(
            owners,
            [
                (Owner::Other, Some(true)),
                (Owner::Gone(0), Some(false)),
                (Owner::Alive(own.pid), Some(true))
            ]
        );
    }
}
