//! From spools and meta files to a trace.dat: which bytes stand where, on disk or in memory.

use crate::{
    error::{StoreError, io_error},
    evidence::read_evidence,
    manifest::{MachineEntry, Manifest, SourceEntry},
    mapping::{Mapping, Piece},
    spool::{self, FoundSpool},
    time_shift,
};
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};
use transect_ftrace::Endian;
use transect_tracedat::{
    self as tracedat, BufferSpec, Compression, CpuSpec, CpuStat, FileSpec, Guest, Metadata,
    Options, Tsc2Nsec,
};

/// Bytes copied between two looks at whether to give up.
const COPY_BYTES: u64 = 64 << 20;

/// A trace.dat to come: everything but the events, and where each spool goes.
pub(crate) struct AssemblyPlan {
    /// Bytes and their places, in ascending order, all before the first spool.
    head: Vec<(u64, Vec<u8>)>,
    /// Where each of `spools` goes.
    offsets: Vec<u64>,
    pub(crate) spools: Vec<FoundSpool>,
    file_bytes: u64,
}

/// Plans the trace.dat of a source from what lies in its spools and meta folder.
pub(crate) fn plan(
    dir: &Path,
    manifest: &Manifest,
    entry: &SourceEntry,
) -> Result<AssemblyPlan, StoreError> {
    let refuse = |reason: String| StoreError::Assemble { path: dir.join(&entry.file), reason };
    let spools = spool::find(dir, entry)?;
    let meta = read_meta(&dir.join(format!("{}.meta", entry.stem())))?;
    for needed in ["header_page", "header_event"] {
        if !meta.contains_key(needed) {
            return Err(refuse(format!(
                "{}.meta/{needed} is missing: the recording was cut off before its source was described",
                entry.stem()
            )));
        }
    }
    let evidence = read_evidence(dir, &mut Vec::new())?;
    let mut spec = file_spec(manifest, entry, &meta, &spools);
    spec.options.time_shift = time_shift::of_source(manifest, entry, &evidence);
    let plan = spec.plan().map_err(|e| refuse(e.to_string()))?;
    let mut head = Vec::new();
    let mut offsets = BTreeMap::new();
    for piece in plan.pieces {
        match piece {
            tracedat::Piece::Bytes { offset_bytes, bytes } => head.push((offset_bytes, bytes)),
            tracedat::Piece::CpuData { offset_bytes, cpu, .. } => {
                offsets.insert(cpu, offset_bytes);
            }
        }
    }
    let spools: Vec<_> =
        spools.into_iter().filter(|spool| offsets.contains_key(&spool.cpu.0)).collect();
    let offsets = spools.iter().filter_map(|spool| offsets.get(&spool.cpu.0).copied()).collect();
    Ok(AssemblyPlan { head, offsets, spools, file_bytes: plan.file_bytes })
}

impl AssemblyPlan {
    /// The file in memory: the head, and the spools mapped behind it. Costs no disk space.
    pub(crate) fn map(&self) -> io::Result<Mapping> {
        let mut head = Vec::new();
        for (at, bytes) in &self.head {
            let at = usize::try_from(*at).map_err(io::Error::other)?;
            head.resize(at.max(head.len()), 0);
            head.truncate(at);
            head.extend_from_slice(bytes);
        }
        let pieces = self.spools.iter().zip(&self.offsets).map(|(spool, at)| {
            let file = File::open(&spool.path)?;
            Ok(Piece { file, at: *at, bytes: spool.bytes })
        });
        Mapping::of_pieces(&head, &pieces.collect::<io::Result<Vec<_>>>()?)
    }

    /// Writes the file, under its final name only when it is whole. The spools stay. Returns false if `gives_up` ended it.
    pub(crate) fn write(
        &self,
        path: &Path,
        gives_up: &dyn Fn() -> bool,
    ) -> Result<bool, StoreError> {
        let mut tmp: PathBuf = path.to_owned();
        tmp.as_mut_os_string().push(".tmp");
        let written = self.write_to(&tmp, gives_up).and_then(|is_whole| {
            if is_whole { fs::rename(&tmp, path).map(|()| true) } else { Ok(false) }
        });
        if !matches!(written, Ok(true)) {
            let _ = fs::remove_file(&tmp);
        }
        written.map_err(io_error("assemble", path))
    }

    fn write_to(&self, path: &Path, gives_up: &dyn Fn() -> bool) -> io::Result<bool> {
        let mut out = transect_access::replace_file(path)?;
        for (at, bytes) in &self.head {
            out.seek(SeekFrom::Start(*at))?;
            out.write_all(bytes)?;
        }
        for (spool, at) in self.spools.iter().zip(&self.offsets) {
            out.seek(SeekFrom::Start(*at))?;
            let mut spooled = File::open(&spool.path)?;
            let mut copied = 0;
            while copied < spool.bytes {
                let part = (spool.bytes - copied).min(COPY_BYTES);
                // copy_file_range(2) inside: shares blocks where the file system can.
                let bytes = io::copy(&mut (&mut spooled).take(part), &mut out)?;
                copied += bytes;
                if bytes != part {
                    return Err(io::Error::other(format!(
                        "{}: {copied} of {} bytes copied",
                        spool.path.display(),
                        spool.bytes
                    )));
                }
                if part == COPY_BYTES {
                    // Part by part, so that the last sync is short.
                    out.sync_data()?;
                }
                if gives_up() {
                    return Ok(false);
                }
            }
        }
        out.set_len(self.file_bytes)?;
        out.sync_data()?;
        Ok(true)
    }
}

/// Removes what an assembled source was made of. Best effort: a leftover costs only space.
pub(crate) fn remove_spools(dir: &Path, entry: &SourceEntry) {
    for spool in spool::find(dir, entry).unwrap_or_default() {
        let _ = fs::remove_file(spool.path);
    }
    let _ = fs::remove_dir_all(dir.join(format!("{}.meta", entry.stem())));
}

/// Every meta file by its name below the folder.
fn read_meta(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>, StoreError> {
    let mut meta = BTreeMap::new();
    let mut pending = vec![(folder.to_owned(), String::new())];
    while let Some((dir, prefix)) = pending.pop() {
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            // Killed before the folder was made: the caller says what is missing.
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(io_error("list", dir)(e)),
        };
        for entry in entries {
            let entry = entry.map_err(io_error("list", &dir))?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let path = entry.path();
            let name = format!("{prefix}{name}");
            if path.is_dir() {
                pending.push((path, format!("{name}/")));
            } else if !name.ends_with(".tmp") {
                meta.insert(name, fs::read(&path).map_err(io_error("read", path))?);
            }
        }
    }
    Ok(meta)
}

fn file_spec(
    manifest: &Manifest,
    entry: &SourceEntry,
    meta: &BTreeMap<String, Vec<u8>>,
    spools: &[FoundSpool],
) -> FileSpec {
    let cpus = spools.iter().map(|s| CpuSpec { cpu: s.cpu.0, size_bytes: s.bytes }).collect();
    FileSpec {
        endian: if entry.big_endian { Endian::Big } else { Endian::Little },
        long_bytes: entry.long_bytes,
        page_bytes: entry.sub_buffer_bytes,
        compression: Compression::None,
        metadata: metadata(meta),
        options: options(manifest, entry, meta),
        buffers: vec![BufferSpec {
            name: String::new(),
            clock: entry.clock.clone(),
            page_bytes: entry.sub_buffer_bytes,
            cpus,
        }],
    }
}

fn metadata(meta: &BTreeMap<String, Vec<u8>>) -> Metadata {
    let file = |name: &str| meta.get(name).cloned().unwrap_or_default();
    let mut systems: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
    let formats = meta.iter().filter_map(|(name, bytes)| {
        let (system, _event) =
            name.strip_prefix("events/")?.strip_suffix("/format")?.split_once('/')?;
        Some((system, bytes))
    });
    for (system, bytes) in formats {
        systems.entry(system.to_owned()).or_default().push(bytes.clone());
    }
    let ftrace_events = systems.remove("ftrace").unwrap_or_default();
    Metadata {
        header_page: file("header_page"),
        header_event: file("header_event"),
        ftrace_events,
        systems: systems.into_iter().collect(),
        kallsyms: file("kallsyms"),
        printk_formats: file("printk_formats"),
        saved_cmdlines: file("saved_cmdlines"),
    }
}

fn options(manifest: &Manifest, entry: &SourceEntry, meta: &BTreeMap<String, Vec<u8>>) -> Options {
    Options {
        // As tracefs shows the one in use among others.
        trace_clock: Some(format!("[{}]", entry.clock)),
        uname: Some(entry.uname.clone()),
        cpu_count: Some(entry.cpu_count),
        version: Some(format!("transect {}", manifest.transect)),
        trace_id: Some(entry.trace_id),
        tsc2nsec: entry.tsc_to_ns.map(|rate| Tsc2Nsec {
            mult: rate.mult,
            shift: rate.shift,
            offset_ns: rate.offset_ns,
        }),
        cpu_stats: cpu_stats(meta),
        guests: manifest
            .machines
            .iter()
            .filter(|machine| machine.parent == Some(entry.machine_id))
            .filter_map(|machine| guest(manifest, machine))
            .collect(),
        ..Options::default()
    }
}

/// Meta files `per_cpu/cpuN/stats`, as the kernel printed them at the end.
fn cpu_stats(meta: &BTreeMap<String, Vec<u8>>) -> Vec<CpuStat> {
    let mut stats: Vec<_> = meta
        .iter()
        .filter_map(|(name, bytes)| {
            let cpu: u32 =
                name.strip_prefix("per_cpu/cpu")?.strip_suffix("/stats")?.parse().ok()?;
            Some((cpu, String::from_utf8_lossy(bytes)))
        })
        .collect();
    stats.sort_by_key(|(cpu, _)| *cpu);
    stats.iter().map(|(cpu, text)| CpuStat::parse(&format!("CPU: {cpu}\n{text}"))).collect()
}

/// How trace-cmd finds a guest's file (by its trace id) and which threads are its vCPUs.
fn guest(manifest: &Manifest, machine: &MachineEntry) -> Option<Guest> {
    let source = manifest.sources.iter().find(|source| source.machine_id == machine.id)?;
    let cpus = machine.vcpus.iter().filter_map(|v| Some((v.vcpu.0, v.vmm_tid?.0))).collect();
    Some(Guest { name: machine.name.clone(), trace_id: source.trace_id, cpus })
}
