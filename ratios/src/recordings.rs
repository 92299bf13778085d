//! The recordings that reading is timed on: made once, kept in the cache.

use crate::{
    bed::{Bed, output},
    traced::Traced,
    tracers::{MIXED, Perf, Record, Recording as PerfRecording, Wish, counts, traced},
};
use anyhow::{Context, Result, ensure};
use std::{
    fs::{self, File},
    hash::{DefaultHasher, Hash, Hasher},
    io::BufWriter,
    path::{Path, PathBuf},
};
use transect_clock::evidence::{Evidence, RateSource};
use transect_engine::{Topology, synthetic::Plan};
use transect_model::ids::MachineId;
use transect_store::{
    Manifest,
    manifest::{MachineEntry, SourceEntry, SourceFormat, ThreadEntry, VcpuEntry},
};
use transect_xentrace::synthetic as xentrace;

/// Buffers so large that a recording of the mixed load has no holes.
const BUFFER_KIB: u32 = 64 << 10;

/// What the recordings of the mixed load hold.
const WISH: Wish = Wish { events: MIXED, buffer_kib: BUFFER_KIB, consumer_alone: false };

/// vCPUs of each made-up VM: as many as the host has CPUs, so that also with one VM every CPU runs
/// some.
pub const VCPUS: u32 = 4;

/// A recording that never happened: `events` events of a host with `vms` VMs, as a directory.
///
/// # Errors
/// If it cannot be written.
pub fn synthetic(bed: &Bed, events: u64, vms: u32) -> Result<PathBuf> {
    let plan = Plan { events, vms, cpus: VCPUS, vcpus: VCPUS, ..Plan::default() };
    let dir = bed.cache.join(format!("synthetic-{:x}-{events}-{vms}.transect", print(&plan)?));
    if !dir.exists() {
        let unfinished = bed.scratch()?;
        write(&plan, unfinished.path())?;
        fs::rename(unfinished.keep(), &dir)?;
    }
    Ok(dir)
}

/// What Xen never recorded: `records` records of a host with two pCPUs and six domains. Its one
/// source is an xentrace file, `xen.bin`.
///
/// # Errors
/// If it cannot be written.
pub fn xen(bed: &Bed, records: u64) -> Result<PathBuf> {
    let spec = |records| xentrace::Spec { records, ..xentrace::Spec::default() };
    let print = hashed(xentrace::write(Vec::new(), &spec(20_000))?.0);
    let dir = bed.cache.join(format!("xen-{print:x}-{records}.transect"));
    if !dir.exists() {
        let unfinished = bed.scratch()?;
        write_xen(&spec(records), unfinished.path())?;
        fs::rename(unfinished.keep(), &dir)?;
    }
    Ok(dir)
}

fn write_xen(spec: &xentrace::Spec, dir: &Path) -> Result<()> {
    let file = BufWriter::with_capacity(1 << 20, File::create(dir.join("xen.bin"))?);
    xentrace::write(file, spec)?.0.into_inner()?;
    let clock = transect_engine::xen::CLOCK;
    let machine_id = MachineId(0);
    // 2.5 GHz, as the generator has it.
    let (mult, shift) = (3_435_973_836, 33);
    let evidence = [
        Evidence::Reference { machine: machine_id, clock: clock.to_owned() },
        Evidence::TscRate {
            machine: machine_id,
            mult,
            shift,
            offset_ns: 0,
            how: RateSource::Given,
            error_ppm: 0.0,
        },
    ];
    let lines = evidence.iter().map(|e| Ok(serde_json::to_string(e)? + "\n"));
    fs::write(dir.join("clocks.jsonl"), lines.collect::<Result<String>>()?)?;
    let mut manifest = Manifest::new(0, vec!["made up".to_owned()]);
    manifest.finished = true;
    let mut xen = transect_engine::topology::MachineInfo::hypervisor(machine_id, "xen");
    xen.clock = Some(clock.to_owned());
    let topology = Topology { machines: vec![xen], ..Topology::default() };
    manifest.machines = vec![machine(machine_id, &topology)];
    manifest.sources.push(SourceEntry {
        machine_id,
        file: "xen.bin".to_owned(),
        format: SourceFormat::Xentrace,
        spooled: false,
        clock: clock.to_owned(),
        tsc_to_ns: None,
        sub_buffer_bytes: 0,
        cpu_count: u32::from(spec.cpus),
        long_bytes: 8,
        big_endian: false,
        trace_id: 0,
        uname: String::new(),
    });
    Ok(manifest.write(dir)?)
}

/// Differs when the generator or the format does: of a small recording of the same kind.
fn print(plan: &Plan) -> Result<u64> {
    Ok(hashed(Plan { events: 20_000, ..*plan }.write_compact(Vec::new())?))
}

/// Differs when what is recorded does, or the format it is recorded in.
fn mixed_print() -> u64 {
    hashed((MIXED, transect_compact::VERSION))
}

fn hashed(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

fn write(plan: &Plan, dir: &Path) -> Result<()> {
    let file = File::create(dir.join("host.compact"))?;
    plan.write_compact(BufWriter::with_capacity(1 << 20, file))?.into_inner()?;
    let reference = Evidence::Reference { machine: MachineId(0), clock: "mono".to_owned() };
    fs::write(dir.join("clocks.jsonl"), serde_json::to_string(&reference)? + "\n")?;
    let mut manifest = Manifest::new(0, vec!["made up".to_owned()]);
    manifest.finished = true;
    let topology = plan.topology();
    manifest.machines = topology.machines.iter().map(|m| machine(m.id, &topology)).collect();
    manifest.threads = threads(&topology);
    manifest.sources.push(SourceEntry {
        machine_id: MachineId(0),
        file: "host.compact".to_owned(),
        format: SourceFormat::Compact,
        spooled: false,
        clock: "mono".to_owned(),
        tsc_to_ns: None,
        sub_buffer_bytes: u32::try_from(transect_compact::CHUNK_BYTES)?,
        cpu_count: plan.cpus,
        long_bytes: 8,
        big_endian: false,
        trace_id: 0,
        uname: String::new(),
    });
    Ok(manifest.write(dir)?)
}

fn machine(id: MachineId, topology: &Topology) -> MachineEntry {
    let of = |machine: &&transect_engine::topology::MachineInfo| machine.id == id;
    let info = topology.machines.iter().find(of).cloned();
    let info = info.unwrap_or_else(|| transect_engine::topology::MachineInfo::host(id, "host"));
    let vcpus = topology.vcpus.iter().filter(|vcpu| vcpu.machine == id);
    MachineEntry {
        id,
        parent: info.parent,
        kind: info.kind,
        name: info.name,
        vmm_pid: info.vmm_pid,
        cgroup: info.cgroup,
        domid: info.domid,
        uname: None,
        cpu_count: None,
        clock: info.clock,
        vcpus: vcpus.map(|v| VcpuEntry { vcpu: v.vcpu, vmm_tid: v.vmm_tid }).collect(),
    }
}

fn threads(topology: &Topology) -> Vec<ThreadEntry> {
    let entry = |thread: &transect_engine::topology::ThreadInfo| ThreadEntry {
        born: None,
        machine_id: thread.machine,
        tid: thread.tid,
        pid: thread.pid.unwrap_or(thread.tid),
        comm: thread.name.clone(),
        cgroup: None,
        allowed_cpus: None,
        policy: None,
        nice: None,
        rt_priority: None,
    };
    topology.threads.iter().map(entry).collect()
}

/// The mixed load for this long.
#[must_use]
pub fn mixed_load(bed: &Bed, seconds: f64) -> Vec<String> {
    let (seconds, cache) = (format!("{seconds:.3}"), bed.cache.display().to_string());
    bed.role(&["mixed", "--seconds", &seconds, "--scratch", &cache])
}

/// The mixed load on this host, by one of our collectors, with at least so many events.
///
/// # Errors
/// If it cannot be recorded, or has holes.
pub fn mixed(bed: &Bed, collector: Record, events: u64) -> Result<PathBuf> {
    let kind = if matches!(collector, Record::Full) { "full" } else { "compact" };
    let dir = bed.cache.join(format!("mixed-{kind}-{:x}-{events}.transect", mixed_print()));
    if dir.exists() {
        return Ok(dir);
    }
    let made = until_enough(events, |seconds| {
        let scratch = bed.scratch()?;
        let made = scratch.path().join("mixed.transect");
        output(&collector.command(bed, &WISH, &made, &mixed_load(bed, seconds)))?;
        let traced = traced(&made)?;
        Ok((scratch, traced))
    })?;
    fs::rename(made.path().join("mixed.transect"), &dir)?;
    Ok(dir)
}

/// The same by perf, as a perf.data; and how many events are in it.
///
/// # Errors
/// If perf fails.
pub fn mixed_by_perf(bed: &Bed, events: u64) -> Result<(PathBuf, u64)> {
    use crate::tracers::Tracer;
    if let Some(why) = Perf.why_not(bed) {
        anyhow::bail!(why);
    }
    let file = bed.cache.join(format!("mixed-{:x}-{events}.perf.data", mixed_print()));
    if !file.exists() {
        let made = until_enough(events, |seconds| {
            let scratch = bed.scratch()?;
            let made = scratch.path().join("perf.data");
            let recording = PerfRecording::start(&WISH, &made, scratch.path())?;
            output(&mixed_load(bed, seconds))?;
            recording.end()?;
            let (events, _) = counts(&made)?;
            Ok((scratch, Traced { events: Some(events), ..Traced::default() }))
        })?;
        fs::rename(made.path().join("perf.data"), &file)?;
    }
    let (events, _) = counts(&file)?;
    Ok((file, events))
}

/// A perf.data as CTF.
///
/// # Errors
/// If this perf cannot do that.
pub fn ctf(bed: &Bed, perf_data: &Path) -> Result<PathBuf> {
    let name = perf_data.file_name().context("the file has no name")?.to_string_lossy();
    let dir = bed.cache.join(format!("{name}.ctf"));
    if !dir.exists() {
        let scratch = bed.scratch()?;
        let made = scratch.path().join("ctf");
        let (to, from) = (made.display().to_string(), perf_data.display().to_string());
        let words = ["perf", "data", "convert", "--to-ctf", &to, "-i", &from];
        output(&words.map(str::to_owned))?;
        ensure!(made.join("metadata").exists(), "perf data convert wrote nothing");
        fs::rename(made, &dir)?;
    }
    Ok(dir)
}

/// Records for a second to learn the rate, then as long as it takes.
fn until_enough(
    events: u64,
    mut record: impl FnMut(f64) -> Result<(tempfile::TempDir, Traced)>,
) -> Result<tempfile::TempDir> {
    let mut seconds = 1.0;
    for _ in 0..4 {
        let (made, traced) = record(seconds)?;
        let got = traced.events.context("the recording has no event count")?;
        if got >= events {
            return Ok(made);
        }
        #[expect(clippy::cast_precision_loss, reason = "a rate")]
        let per_second = (got.max(1)) as f64 / seconds;
        #[expect(clippy::cast_precision_loss, reason = "a number of seconds")]
        let needed = events as f64 / per_second * 1.15;
        seconds = needed.clamp(1.0, 180.0);
    }
    anyhow::bail!("the mixed load made fewer than {events} events")
}
