//! The static agent, built when a test needs it: what `cargo test` builds is linked dynamically
//! and would not start in a guest that holds nothing but busybox.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "helpers of tests")]

pub(crate) mod kept;

use std::{
    path::{Path, PathBuf},
    process::Command,
};
use transect_guest::settings::GuestSettings;
use transect_model::setting::{SchedPolicy, cpu_list};

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The agent as it is shipped; `None`, with a line that says so, on machines it cannot be built for.
pub(crate) fn static_agent() -> Option<PathBuf> {
    if !cfg!(all(target_arch = "x86_64", target_env = "gnu")) {
        eprintln!("skipped: test guests are x86-64");
        return None;
    }
    // Where `make agent` builds it, or beside target/debug/transect-agent.
    let target_dir = std::env::var_os("TRANSECT_BIN_DIR").map_or_else(
        || Path::new(env!("CARGO_BIN_EXE_transect-agent")).ancestors().nth(2).unwrap().to_owned(),
        PathBuf::from,
    );
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--profile", "agent", "-p", "transect-agent"])
        .args(["--target", TARGET])
        .env("CARGO_TARGET_DIR", &target_dir)
        .env_remove("CARGO_BUILD_BUILD_DIR")
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .unwrap();
    assert!(status.success(), "the static agent does not build");
    Some(target_dir.join(TARGET).join("agent/transect-agent"))
}

/// Compares the settings that an agent on this machine sent with those of this process.
pub(crate) fn check_settings(settings: &GuestSettings) {
    let pid = std::process::id().cast_signed();
    let own = settings.tasks.iter().find(|task| task.tid == pid && task.pid == pid).unwrap();
    let cpus = rustix::thread::sched_getaffinity(None).unwrap();
    let allowed = (0..u32::from(u16::MAX)).filter(|cpu| {
        usize::try_from(*cpu)
            .is_ok_and(|cpu| cpu < rustix::thread::CpuSet::MAX_CPU && cpus.is_set(cpu))
    });
    assert_eq!(own.settings.allowed_cpus, Some(cpu_list(allowed)));
    assert_eq!(own.settings.policy, Some(SchedPolicy::Other));
    let nice = rustix::process::getpriority_process(None).unwrap();
    assert_eq!(own.settings.nice, Some(nice));
    let group = settings.cgroups[own.cgroup.unwrap()].as_ref().unwrap();
    let path = transect_tracefs::threads::cgroup_of(pid).unwrap();
    assert_eq!(group.0.raw_for_storage(), path);
    for (irq, name) in &settings.irq_lines {
        let Ok(actions) = std::fs::read_to_string(format!("/sys/kernel/irq/{irq}/actions")) else {
            continue;
        };
        assert_eq!(name.raw_for_storage().replace(", ", ","), actions.trim());
    }
}
