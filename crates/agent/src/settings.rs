//! What the scheduler and the interrupts of this machine are set to, for the recorder.
//!
//! Read: `/proc/interrupts`, `/proc/self/mountinfo`, and of the control groups that have threads and of those above them
//! `cpu.weight`, `cpu.max`, `cpuset.cpus.effective`, `memory.max`, `memory.high` and `io.weight` (in version 1
//! `cpu.shares`, `cpu.cfs_quota_us`, `cpu.cfs_period_us`, `cpuset.effective_cpus` and `memory.limit_in_bytes`). How a
//! thread is scheduled takes two system calls and no file.

use std::collections::HashMap;
use transect_guest::{
    serve::MetaFile,
    settings::{OwnTask, cgroups_to_meta, irq_lines_to_meta, tasks_to_meta},
};
use transect_model::setting::ThreadSettings;
use transect_tracefs::{
    cgroups, irq_lines,
    threads::{SettingsReader, ThreadFacts},
};

/// The settings of now, as descriptive files.
pub(crate) fn to_meta(threads: &[ThreadFacts]) -> Vec<MetaFile> {
    let lines = irq_lines::all();
    let groups = cgroups::read(threads.iter().filter_map(|facts| facts.cgroup.as_deref())).groups;
    let numbers: HashMap<&str, usize> =
        groups.iter().enumerate().map(|(at, group)| (group.path.as_str(), at)).collect();
    let mut reader = SettingsReader::new();
    let settings: Vec<ThreadSettings> =
        threads.iter().map(|facts| reader.read(facts.tid)).collect();
    let tasks = threads.iter().zip(&settings).map(|(facts, settings)| OwnTask {
        tid: facts.tid,
        pid: facts.pid,
        name: &facts.comm,
        settings,
        cgroup: facts.cgroup.as_deref().and_then(|path| numbers.get(path).copied()),
    });
    vec![
        irq_lines_to_meta(lines.iter().map(|line| (line.irq, line.name.as_str()))),
        cgroups_to_meta(groups.iter().map(|group| (group.path.as_str(), &group.settings))),
        tasks_to_meta(tasks),
    ]
}
