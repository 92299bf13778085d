//! A recording directory: its manifest says who is who.

use crate::ending::ending;
use crate::facts::{Facts, Stored, TimeUnit};
use crate::{
    SourceBytes,
    endings::Endings,
    filter::{filter_effect, filter_remark, filter_text, filters},
    opened::{Opened, RawGap, display_name},
    window::{RawWindow, Written},
    xen,
};
use std::path::Path;
use transect_engine::topology::{CgroupInfo, IrqLineInfo, MachineInfo, ThreadInfo, VcpuInfo};
use transect_engine::{LostCause, StreamKey, Topology};
use transect_model::ids::CpuId;
use transect_model::number::duration;
use transect_model::table::ImportLog;
use transect_model::time::{Span, Timestamp};
use transect_store::manifest::{Gap, LostCount, MachineEntry, SnapshotEntry};
use transect_store::{Manifest, Recording};

/// Everything the engine needs to know about an opened directory.
pub(crate) fn opened<'a>(path: &Path, recording: &'a Recording) -> Opened<'a> {
    let manifest = &recording.manifest;
    let sources = recording.sources.iter().enumerate().map(|(number, source)| SourceBytes {
        name: source.entry.file.clone(),
        machine: source.entry.machine_id,
        bytes: &source.bytes,
        source: Some(source),
        xen_version: xen::version_of(manifest, source.entry.machine_id),
        number,
    });
    let problems = recording.problems.iter().map(|problem| ImportLog {
        source: problem.file.clone(),
        offset: None,
        message: problem.message.clone(),
        data_loss: problem.data_loss,
    });
    Opened {
        facts: Facts { stored: Some(stored(path, recording)), ..facts(path, manifest) },
        topology: topology(manifest),
        evidence: recording.evidence.clone(),
        sources: sources.collect(),
        gaps: manifest.gaps.iter().map(gap).collect(),
        filters: filters(manifest),
        window: RawWindow::of(manifest),
        written: Written::of(manifest),
        lost: manifest.lost.iter().map(lost).collect(),
        endings: Endings::of(manifest),
        remarks: problems.chain(filter_remark(manifest)).collect(),
    }
}

pub(crate) fn facts(path: &Path, manifest: &Manifest) -> Facts {
    Facts {
        path: display_name(path),
        created_unix_ns: i64::try_from(manifest.created_unix_ns).ok(),
        transect_version: Some(manifest.transect.clone()),
        command: manifest.command_line.clone(),
        finished: manifest.finished,
        ending: ending(manifest),
        // Known only after the run.
        window: Span { start: Timestamp::new(0), end: Timestamp::new(0) },
        unit: TimeUnit::Ns,
        cost: manifest.cost,
        stored: None,
        excerpt_of: None,
        filter: filter_text(manifest),
        filter_effect: filter_effect(manifest),
        snapshot: manifest.snapshot.as_ref().map(snapshot_text),
        notes: manifest.notes.clone(),
    }
}

/// "requested; window: the last 5 s"
fn snapshot_text(entry: &SnapshotEntry) -> String {
    let window = match (entry.from, entry.asked_ns) {
        (None, _) => "window: what the buffers of all CPUs cover".to_owned(),
        (Some(_), None) => "window: since the recorder was started".to_owned(),
        (Some(_), Some(asked_ns)) => {
            let asked_ns = i64::try_from(asked_ns).unwrap_or(i64::MAX);
            format!("window: the last {} were requested", duration(asked_ns, TimeUnit::Ns))
        }
    };
    format!("{}; {window}", entry.reason)
}

/// What the recording takes on disk.
fn stored(path: &Path, recording: &Recording) -> Stored {
    let source_bytes = recording.sources.iter().map(|source| source.bytes.len() as u64).sum();
    let tables = transect_store::tables::events_bytes(path).filter(|bytes| *bytes > 0);
    Stored { events: 0, source_bytes: Some(source_bytes), table_bytes: tables }
}

fn topology(manifest: &Manifest) -> Topology {
    let threads = manifest.threads.iter().map(|thread| ThreadInfo {
        machine: thread.machine_id,
        tid: thread.tid,
        pid: Some(thread.pid),
        name: thread.comm.clone(),
        cgroup: thread.cgroup.clone(),
        born: None,
        settings: thread.settings(),
    });
    let irq_lines = manifest.irq_lines.iter().map(|line| IrqLineInfo {
        machine: line.machine_id,
        irq: line.irq,
        name: line.name.clone(),
    });
    let cgroups = manifest.cgroups.iter().map(|group| CgroupInfo {
        machine: group.machine_id,
        name: group.cgroup.clone(),
        settings: group.settings.clone(),
    });
    Topology {
        machines: manifest.machines.iter().map(machine).collect(),
        vcpus: manifest.machines.iter().flat_map(vcpus).collect(),
        threads: threads.collect(),
        irq_lines: irq_lines.collect(),
        cgroups: cgroups.collect(),
        stacks: Vec::new(),
    }
}

fn machine(entry: &MachineEntry) -> MachineInfo {
    MachineInfo {
        id: entry.id,
        parent: entry.parent,
        kind: entry.kind,
        name: entry.name.clone(),
        vmm_pid: entry.vmm_pid,
        cgroup: entry.cgroup.clone(),
        domid: entry.domid,
        clock: entry.clock.clone(),
    }
}

fn vcpus(entry: &MachineEntry) -> impl Iterator<Item = VcpuInfo> + '_ {
    entry.vcpus.iter().map(|vcpu| VcpuInfo {
        machine: entry.id,
        vcpu: vcpu.vcpu,
        vmm_tid: vcpu.vmm_tid,
        guest_cpu: CpuId(vcpu.vcpu.0),
    })
}

fn lost(lost: &LostCount) -> (StreamKey, u64) {
    (StreamKey { machine: lost.machine_id, cpu: lost.cpu }, lost.count)
}

fn gap(gap: &Gap) -> RawGap {
    let cause = match gap.cause.as_str() {
        "guest_stalled" => LostCause::GuestStalled,
        "guest_cut_off" => LostCause::GuestCutOff,
        "guest_not_started" => LostCause::GuestNotStarted,
        "snapshot" => LostCause::Snapshot,
        "disk_full" => LostCause::DiskFull,
        "xentrace_ended" => LostCause::XentraceEnded,
        _ => LostCause::GuestDisconnected,
    };
    RawGap { machine: gap.machine_id, from: gap.from, until: gap.to, cause }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transect_model::ids::MachineId;
    use transect_model::setting::{CgroupSettings, SchedPolicy, ThreadSettings};

    fn topology_of(manifest: &str) -> Topology {
        topology(&Manifest::parse(manifest).unwrap())
    }

    #[test]
    fn settings_of_every_machine_arrive() {
        let topology = topology_of(
            r#"{"format": 1, "transect": "0.1.0", "created_unix_ns": 1, "finished": true,
                "machines": [{"id": 0, "kind": "host", "name": "h"}, {"id": 1, "parent": 0, "kind": "guest", "name": "g"}],
                "threads": [
                    {"machine_id": 0, "tid": 7, "pid": 7, "comm": "a", "allowed_cpus": "0-3,8", "policy": "fifo", "rt_priority": 9},
                    {"machine_id": 1, "tid": 7, "pid": 7, "comm": "b", "policy": "of the future", "nice": -5}],
                "irq_lines": [
                    {"machine_id": 0, "irq": 36, "name": "virtio1-req.0"},
                    {"machine_id": 1, "irq": 36, "name": "eth0, eth1"}],
                "cgroups": [{"machine_id": 1, "cgroup": "/a", "cpu_weight": 300, "cpu_quota_ns": 1, "from_the_future": 2}]}"#,
        );
        let line = |machine, irq, name: &str| IrqLineInfo {
            machine: MachineId(machine),
            irq,
            name: name.to_owned(),
        };
        assert_eq!(topology.irq_lines, [line(0, 36, "virtio1-req.0"), line(1, 36, "eth0, eth1")]);
        let settings = topology.threads.into_iter().map(|thread| thread.settings);
        let rt = ThreadSettings {
            allowed_cpus: Some("0-3,8".to_owned()),
            policy: Some(SchedPolicy::Fifo),
            nice: None,
            rt_priority: Some(9),
        };
        let nice = ThreadSettings { nice: Some(-5), ..ThreadSettings::default() };
        assert_eq!(settings.collect::<Vec<_>>(), [rt, nice]);
        let settings = CgroupSettings {
            cpu_weight: Some(300),
            cpu_quota_ns: Some(1),
            ..CgroupSettings::default()
        };
        let group = CgroupInfo { machine: MachineId(1), name: "/a".to_owned(), settings };
        assert_eq!(topology.cgroups, [group]);
    }

    /// A manifest as it was before settings were recorded.
    #[test]
    fn recordings_without_settings_have_none() {
        let topology = topology_of(
            r#"{"format": 1, "transect": "0.1.0", "created_unix_ns": 1, "finished": true,
                "machines": [{"id": 0, "kind": "host", "name": "h"}],
                "threads": [{"machine_id": 0, "tid": 7, "pid": 7, "comm": "a", "cgroup": "/"}]}"#,
        );
        assert_eq!(topology.threads[0].settings, ThreadSettings::default());
        assert!(topology.irq_lines.is_empty() && topology.cgroups.is_empty());
    }
}
