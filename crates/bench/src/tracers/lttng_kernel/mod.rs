//! LTTng's kernel tracer: everything to disk. See `README.md`.

use crate::{
    Fault, Job, Kind, Refusal,
    protocol::{Param, TracerCost},
    tracers::{
        Scene, Tracer, Tracing,
        tools::{
            events::{self, Event},
            lttng::{self, Domain, Session},
            params::Params,
            program,
        },
    },
};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The module that all others of LTTng need.
const MODULE: &str = "lttng-tracer";

/// The arm.
#[derive(Debug)]
pub(super) struct LttngKernel;

impl Tracer for LttngKernel {
    fn name(&self) -> &'static str {
        "lttng-kernel"
    }

    fn about(&self) -> &'static str {
        "LTTng's kernel modules and consumer daemon, to disk"
    }

    fn params(&self) -> Vec<(&'static str, Param, &'static str)> {
        [events::param()].into_iter().chain(lttng::params()).collect()
    }

    fn can_run(&self, job: &Job) -> Result<(), Refusal> {
        let params = Params::of(self, job)?;
        lttng::can_run(self.name())?;
        let tracefs = events::tracefs(self.name())?;
        let events = events::present(self.name(), &tracefs, params.text("events"))?;
        words(&events)?;
        need_modules(Path::new("/"), &program::kernel_release())
    }

    fn start(&self, scene: &Scene<'_>) -> Result<Box<dyn Tracing>, Fault> {
        let params = Params::of(self, scene.job)?;
        let (_, events) = events::here(self.name(), params.text("events"))?;
        let words = words(&events)?;
        let mut session =
            Session::start(self.name(), Domain::Kernel, &params, &words, scene.folder)?;
        // `lttng start` comes back when the modules trace.
        session.traces_now();
        Ok(Box::new(Recording(session)))
    }
}

struct Recording(Session);

impl Tracing for Recording {
    fn stop(self: Box<Self>) -> Result<TracerCost, Fault> {
        self.0.stop()
    }
}

/// The words behind `lttng enable-event -k` for these events. LTTng has its own names for KVM's (`kvm_x86_exit`) and
/// takes system calls as a whole: entry and exit of all of them.
fn words(events: &[Event]) -> Result<Vec<Vec<String>>, Refusal> {
    let mut words: Vec<Vec<String>> = Vec::new();
    for event in events {
        let these = match (event.system.as_str(), event.name.as_str()) {
            ("raw_syscalls", _) => vec!["--syscall".to_owned(), "--all".to_owned()],
            ("syscalls", _) => {
                let why = format!(
                    "LTTng has no event {event}; raw_syscalls:sys_enter stands for all system calls"
                );
                return Err(Refusal::new(Kind::Senseless, "tracer lttng-kernel", why));
            }
            ("kvm", name) => vec![format!("kvm_x86_{}", name.strip_prefix("kvm_").unwrap_or(name))],
            (_, name) => vec![name.to_owned()],
        };
        if !words.contains(&these) {
            words.push(these);
        }
    }
    Ok(words)
}

/// Are LTTng's modules loaded, or there for this kernel?
fn need_modules(root: &Path, release: &str) -> Result<(), Refusal> {
    let loaded = root.join("sys/module").join(MODULE.replace('-', "_"));
    let modules = root.join("lib/modules").join(release);
    if loaded.exists() || has_module(&modules) {
        return Ok(());
    }
    let what = "tracer lttng-kernel";
    if root.join("proc/modules").exists() {
        let why = format!("{} has no {MODULE}.ko", modules.display());
        let mend = "apt-get install lttng-modules-dkms, with the headers of this kernel";
        return Err(Refusal::new(Kind::Missing, what, why).mend(mend));
    }
    let why = format!("Linux {release} loads no modules, and LTTng's kernel tracer is one");
    Err(Refusal::new(Kind::NotHere, what, why).mend("use a guest with a distribution's kernel"))
}

fn has_module(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    let is_it = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with(MODULE) && name[MODULE.len()..].starts_with(".ko")
    };
    let mut paths = entries.flatten().map(|entry| entry.path());
    // The links `build` and `source` lead to whole source trees.
    paths.any(|path| is_it(&path) || (!path.is_symlink() && path.is_dir() && has_module(&path)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracers::tools::events::Event;

    fn event(system: &str, name: &str) -> Event {
        Event { system: system.into(), name: name.into() }
    }

    #[test]
    fn events_have_lttngs_names() {
        let events = [
            event("sched", "sched_switch"),
            event("raw_syscalls", "sys_enter"),
            event("raw_syscalls", "sys_exit"),
            event("kvm", "kvm_exit"),
        ];
        let words: Vec<_> =
            words(&events).unwrap().into_iter().map(|words| words.join(" ")).collect();
        assert_eq!(words, ["sched_switch", "--syscall --all", "kvm_x86_exit"]);
        assert!(super::words(&[event("syscalls", "sys_enter_read")]).is_err());
    }

    #[test]
    fn without_modules_the_reason_says_which_lack_it_is() {
        let root = tempfile::tempdir().unwrap();
        let refusal = need_modules(root.path(), "6.1").unwrap_err();
        assert_eq!(refusal.kind, Kind::NotHere);
        fs::create_dir_all(root.path().join("proc")).unwrap();
        fs::write(root.path().join("proc/modules"), "").unwrap();
        assert_eq!(need_modules(root.path(), "6.1").unwrap_err().kind, Kind::Missing);
        let dkms = root.path().join("lib/modules/6.1/updates/dkms");
        fs::create_dir_all(&dkms).unwrap();
        fs::write(dkms.join("lttng-tracer.ko.xz"), "").unwrap();
        assert_eq!(need_modules(root.path(), "6.1"), Ok(()));
        assert!(need_modules(root.path(), "6.2").is_err());
    }
}
