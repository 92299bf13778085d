//! LTTng's kernel tracer: everything to disk. See `README.md`.

use crate::{
    tools::{
        events::{self, Event},
        lttng::{self, Domain, Session},
        params::Params,
        program,
    },
    tracer::{Scene, Tracer, Tracing},
};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};
use transect_bench_core::{
    Fault, Job, Kind, Refusal,
    protocol::{Param, TracerCost},
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

    fn needs_lttng_modules(&self) -> bool {
        true
    }

    fn can_run(&self, job: &Job) -> Result<(), Refusal> {
        let params = Params::of(self, job)?;
        lttng::can_run(self.name())?;
        let tracefs = events::tracefs(self.name())?;
        let events = events::present(self.name(), &tracefs, params.text("events"))?;
        words(&events)?;
        need_modules(Path::new("/"), &program::kernel_release(), &probes(&events))
    }

    fn start(&self, scene: &Scene<'_>) -> Result<Box<dyn Tracing>, Fault> {
        let params = Params::of(self, scene.job)?;
        let (_, events) = events::here(self.name(), params.text("events"))?;
        let words = words(&events)?;
        let mut session = Session::start(
            self.name(),
            Domain::Kernel(&probes(&events)),
            &params,
            &words,
            scene.folder,
        )?;
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
                    "LTTng has no event {event}; use raw_syscalls:sys_enter for all system calls"
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

/// The modules with these events, as lttng-sessiond(8) names them. System calls are the tracer's own.
fn probes(events: &[Event]) -> Vec<String> {
    let systems: BTreeSet<&str> = events.iter().map(|event| event.system.as_str()).collect();
    let of = |system| match system {
        "raw_syscalls" | "syscalls" => None,
        "kvm" => Some("kvm-x86".to_owned()),
        system => Some(system.to_owned()),
    };
    systems.into_iter().filter_map(of).collect()
}

/// Are LTTng's modules there for this kernel, with these probes? What is loaded already counts.
fn need_modules(root: &Path, release: &str, probes: &[String]) -> Result<(), Refusal> {
    let modules = root.join("lib/modules").join(release);
    let is_there = |name: &str| {
        root.join("sys/module").join(name.replace('-', "_")).exists() || has_module(&modules, name)
    };
    let what = "tracer lttng-kernel";
    if is_there(MODULE) {
        let lacks = probes.iter().find(|probe| !is_there(&format!("lttng-probe-{probe}")));
        return lacks.map_or(Ok(()), |probe| {
            let why = format!("{} has no lttng-probe-{probe}.ko", modules.display());
            let mend =
                "set `events` of [tracers.lttng-kernel] to the events it has, e.g. sched,syscalls,irq";
            Err(Refusal::new(Kind::Missing, what, why).mend(mend))
        });
    }
    if root.join("proc/modules").exists() {
        let why = format!("{} has no {MODULE}.ko", modules.display());
        let mend = "apt-get install lttng-modules-dkms, with the headers of this kernel";
        return Err(Refusal::new(Kind::Missing, what, why).mend(mend));
    }
    let why =
        format!("Linux {release} loads no modules, and LTTng's kernel tracer is a set of modules");
    Err(Refusal::new(Kind::NotHere, what, why).mend("use a guest with a distribution's kernel"))
}

fn has_module(folder: &Path, module: &str) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    let is_it = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.strip_prefix(module).is_some_and(|rest| rest.starts_with(".ko"))
    };
    let mut paths = entries.flatten().map(|entry| entry.path());
    // The links `build` and `source` lead to whole source trees.
    paths.any(|path| {
        is_it(&path) || (!path.is_symlink() && path.is_dir() && has_module(&path, module))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::events::Event;

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
        let refusal = need_modules(root.path(), "6.1", &[]).unwrap_err();
        assert_eq!(refusal.kind, Kind::NotHere);
        fs::create_dir_all(root.path().join("proc")).unwrap();
        fs::write(root.path().join("proc/modules"), "").unwrap();
        assert_eq!(need_modules(root.path(), "6.1", &[]).unwrap_err().kind, Kind::Missing);
        let dkms = root.path().join("lib/modules/6.1/updates/dkms");
        fs::create_dir_all(&dkms).unwrap();
        fs::write(dkms.join("lttng-tracer.ko.xz"), "").unwrap();
        assert_eq!(need_modules(root.path(), "6.1", &[]), Ok(()));
        assert!(need_modules(root.path(), "6.2", &[]).is_err());
        let probes = probes(&[event("sched", "sched_switch"), event("raw_syscalls", "sys_enter")]);
        assert_eq!(probes, ["sched"]);
        assert!(need_modules(root.path(), "6.1", &probes).is_err());
        fs::write(dkms.join("lttng-probe-sched.ko"), "").unwrap();
        assert_eq!(need_modules(root.path(), "6.1", &probes), Ok(()));
    }
}
