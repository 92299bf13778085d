//! A recording directory: its manifest says who is who.

use super::{Opened, RawGap, SourceBytes, display_name, xen};
use crate::facts::{CostLine, Facts, Stored, TimeUnit};
use std::path::Path;
use transect_engine::topology::{MachineInfo, ThreadInfo, VcpuInfo};
use transect_engine::{LostCause, StreamKey, Topology};
use transect_model::ids::CpuId;
use transect_model::table::ImportLog;
use transect_model::time::{Span, Timestamp};
use transect_store::manifest::{Cost, Gap, LostCount, MachineEntry};
use transect_store::{Manifest, Recording};

/// Everything the engine needs to know about an opened directory.
pub(super) fn opened<'a>(path: &Path, recording: &'a Recording) -> Opened<'a> {
    let manifest = &recording.manifest;
    let sources = recording.sources.iter().map(|source| SourceBytes {
        name: source.entry.file.clone(),
        machine: source.entry.machine_id,
        bytes: &source.bytes,
        xen_version: xen::version_of(manifest, source.entry.machine_id),
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
        lost: manifest.lost.iter().map(lost).collect(),
        remarks: problems.collect(),
    }
}

pub(super) fn facts(path: &Path, manifest: &Manifest) -> Facts {
    Facts {
        path: display_name(path),
        created_unix_ns: i64::try_from(manifest.created_unix_ns).ok(),
        transect_version: Some(manifest.transect.clone()),
        command: manifest.command_line.clone(),
        finished: manifest.finished,
        // Known only after the run.
        window: Span { start: Timestamp::new(0), end: Timestamp::new(0) },
        unit: TimeUnit::Ns,
        cost: manifest.cost.as_ref().map(cost),
        stored: None,
        excerpt_of: None,
        notes: manifest.notes.clone(),
    }
}

/// What the recording takes on disk.
fn stored(path: &Path, recording: &Recording) -> Stored {
    let source_bytes = recording.sources.iter().map(|source| source.bytes.len() as u64).sum();
    let tables = transect_store::tables::events_bytes(path).filter(|bytes| *bytes > 0);
    Stored { events: 0, source_bytes: Some(source_bytes), table_bytes: tables }
}

fn cost(cost: &Cost) -> CostLine {
    CostLine {
        wall_ns: cost.wall_ns,
        cpu_user_ns: cost.cpu_user_ns,
        cpu_sys_ns: cost.cpu_sys_ns,
        traced_cpu_ns: cost.traced_cpu_ns,
        bytes: cost.bytes,
        events: Some(cost.events),
        lost: Some(cost.lost),
    }
}

fn topology(manifest: &Manifest) -> Topology {
    let threads = manifest.threads.iter().map(|thread| ThreadInfo {
        machine: thread.machine_id,
        tid: thread.tid,
        pid: Some(thread.pid),
        name: thread.comm.clone(),
        cgroup: thread.cgroup.clone(),
    });
    Topology {
        machines: manifest.machines.iter().map(machine).collect(),
        vcpus: manifest.machines.iter().flat_map(vcpus).collect(),
        threads: threads.collect(),
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
        "snapshot" => LostCause::Snapshot,
        "disk_full" => LostCause::DiskFull,
        "xentrace_ended" => LostCause::XentraceEnded,
        _ => LostCause::GuestDisconnected,
    };
    RawGap { machine: gap.machine_id, from: gap.from, until: gap.to, cause }
}
