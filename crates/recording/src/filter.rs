//! What the recorder of a host let through, as its manifest says.

use crate::kernel::recorded_kernel;
use transect_engine::{Filter, ThreadFilter};
use transect_model::ids::MachineId;
use transect_model::table::ImportLog;
use transect_store::Manifest;

/// What the sources let through: the compact collector's filter, and conditions on events.
pub(crate) fn filters(manifest: &Manifest) -> Vec<(MachineId, Filter)> {
    let Some(machine) = recorded_kernel(manifest) else { return Vec::new() };
    let mut filter = Filter::default();
    if let Some(entry) = &manifest.filter {
        filter.min_exit_ns = entry.min_ns;
        let is_by_thread =
            !entry.tids.is_empty() || !entry.pids.is_empty() || entry.cgroup.is_some();
        filter.threads = is_by_thread.then(|| ThreadFilter {
            tids: entry.tids.iter().copied().collect(),
            pids: entry.pids.iter().copied().collect(),
            cgroup: entry.cgroup.clone().filter(|_| !entry.uncertain),
            moved: entry.moved.iter().copied().collect(),
        });
    }
    for (event, _condition) in manifest.events.iter().filter_map(|event| event.split_once(" if ")) {
        match event.split_once(':') {
            // Any thread's switches may be missing.
            Some(("sched", "sched_switch")) => filter.threads = Some(ThreadFilter::default()),
            Some(("sched", _)) => filter.partial_wakings = true,
            Some(("kvm", _)) => filter.partial_kvm = true,
            Some(("block", _)) => filter.partial_block = true,
            _ => {}
        }
    }
    if filter == Filter::default() { Vec::new() } else { vec![(machine, filter)] }
}

/// The filter as people read it, if the recording has one.
pub(crate) fn filter_text(manifest: &Manifest) -> Option<String> {
    manifest.filter.as_ref().map(|filter| filter.text.clone())
}

/// What the filter leaves out.
pub(crate) fn filter_effect(manifest: &Manifest) -> &'static str {
    let is_by_thread = filters(manifest).iter().any(|(_, filter)| filter.threads.is_some());
    match is_by_thread {
        true => "only threads whose events all pass it have known states",
        false => "events that do not pass it are missing",
    }
}

/// The filter, for the log.
pub(crate) fn filter_remark(manifest: &Manifest) -> Option<ImportLog> {
    let text = filter_text(manifest)?;
    Some(ImportLog {
        source: "filter".to_owned(),
        offset: None,
        message: format!("recorded with the filter {text}: {}", filter_effect(manifest)),
        data_loss: false,
    })
}
