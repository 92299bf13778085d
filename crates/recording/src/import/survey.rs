//! Who is who in a set of trace.dat files, and how their clocks relate.

use anyhow::{Context as _, bail};
use std::{fmt::Display, path::Path};
use transect_clock::evidence::{Evidence, RateSource};
use transect_clock::{ClockGraph, ClockOptions, Unit};
use transect_engine::{Topology, dat::pair};
use transect_model::ids::MachineId;
use transect_store::{
    Manifest,
    manifest::{MachineEntry, SourceEntry, SourceFormat, TscToNs, VcpuEntry},
    stem_from_name,
};
use transect_tracedat::{Item, Problem, TraceDat};

/// Problems kept per file: a broken file can have as many as it has events.
const MAX_PROBLEMS: usize = 1000;
/// Notes kept in the manifest per file.
const MAX_NOTES: usize = 100;

/// One file, read through once.
pub(super) struct Trace<'a> {
    pub(super) path: &'a Path,
    pub(super) dat: TraceDat<'a>,
    pub(super) clock: String,
    pub(super) cpus: usize,
    pub(super) events: u64,
    /// Events lost, as far as the marks in the streams count them.
    pub(super) lost: u64,
    /// Places where events were lost, counted or not.
    pub(super) holes: u64,
    pub(super) problems: Vec<Problem>,
}

impl<'a> Trace<'a> {
    /// Parses the file and walks all of its events.
    pub(super) fn read(path: &'a Path, bytes: &'a [u8]) -> anyhow::Result<Self> {
        let dat = TraceDat::parse(bytes).with_context(|| path.display().to_string())?;
        let first = dat.buffers().first();
        let first = first.with_context(|| {
            format!(
                "{}: no buffer with events; copy the file again, or record again",
                path.display()
            )
        })?;
        let clock = first.clock.clone();
        let cpus = first.cpus().count();
        let mut trace = Trace {
            path,
            clock,
            cpus,
            events: 0,
            lost: 0,
            holes: 0,
            problems: dat.problems().to_vec(),
            dat,
        };
        trace.walk();
        Ok(trace)
    }

    fn walk(&mut self) {
        for buffer in self.dat.buffers() {
            for cpu in buffer.cpus() {
                let Some(mut stream) = self.dat.stream(buffer, cpu) else { continue };
                while let Some(item) = stream.next() {
                    match item {
                        Item::Event { .. } => self.events += 1,
                        Item::Lost { count, .. } => {
                            self.holes += 1;
                            // A broken file can hold any count.
                            self.lost = self.lost.saturating_add(count.unwrap_or(0));
                        }
                        Item::Problem(problem) if self.problems.len() < MAX_PROBLEMS => {
                            self.problems.push(problem);
                        }
                        Item::Problem(_) => {}
                    }
                }
            }
        }
    }
}

/// What import found out.
pub(super) struct Survey {
    pub(super) manifest: Manifest,
    pub(super) evidence: Vec<Evidence>,
    /// Which input file becomes which file of the recording.
    pub(super) files: Vec<(usize, String)>,
    machine_of_file: Vec<MachineId>,
}

impl Survey {
    /// Relates the files to each other.
    pub(super) fn of(
        traces: &[Trace<'_>],
        tsc_hz: Option<u64>,
        manifest: Manifest,
    ) -> anyhow::Result<Self> {
        let names: Vec<String> = traces.iter().map(|t| t.path.display().to_string()).collect();
        let files: Vec<_> =
            names.iter().map(String::as_str).zip(traces.iter().map(|t| &t.dat)).collect();
        let pairing = pair(&files)?;
        let mut survey = Survey {
            manifest,
            evidence: pairing.evidence,
            files: Vec::new(),
            machine_of_file: pairing.machine_of_file,
        };
        survey.add_machines(&pairing.topology, traces);
        survey.manifest.notes.extend(pairing.notes);
        survey.set_rate(tsc_hz)?;
        for (at, trace) in traces.iter().enumerate() {
            survey.add_source(at, trace)?;
        }
        Ok(survey)
    }

    /// Is the length of a tick of the host's clock unknown?
    pub(super) fn is_in_ticks(&self) -> anyhow::Result<bool> {
        let clocks = ClockGraph::from_evidence(&self.evidence, ClockOptions::default())?;
        Ok(clocks.unit() == Unit::Ticks)
    }

    /// The name of the machine a file is of.
    pub(super) fn machine_name(&self, at: usize) -> &str {
        let id = self.machine_of_file.get(at).and_then(|id| usize::try_from(id.0).ok());
        id.and_then(|id| self.manifest.machines.get(id)).map_or("?", |machine| &machine.name)
    }

    /// Keeps the files' problems in the recording.
    pub(super) fn note_problems(&mut self, traces: &[Trace<'_>]) {
        for trace in traces {
            note_all(&mut self.manifest, trace.path, &trace.problems);
        }
    }

    fn add_machines(&mut self, topology: &Topology, traces: &[Trace<'_>]) {
        for info in &topology.machines {
            let file = self.machine_of_file.iter().position(|id| *id == info.id);
            let trace = file.and_then(|at| traces.get(at));
            let vcpus = topology.vcpus.iter().filter(|v| v.machine == info.id);
            let vcpus: Vec<VcpuEntry> =
                vcpus.map(|v| VcpuEntry { vcpu: v.vcpu, vmm_tid: v.vmm_tid }).collect();
            let options = trace.map(|t| t.dat.options());
            self.manifest.add_machine(MachineEntry {
                id: info.id,
                parent: info.parent,
                kind: info.kind,
                name: name_of(&info.name, trace, traces),
                vmm_pid: info.vmm_pid,
                cgroup: None,
                domid: info.domid,
                uname: options.and_then(|o| o.uname.clone()),
                cpu_count: options.and_then(|o| o.cpu_count).or(u32::try_from(vcpus.len()).ok()),
                clock: info.clock.clone(),
                vcpus,
            });
        }
    }

    /// The host's tick rate, if the user gives one: it wins over the file's.
    fn set_rate(&mut self, tsc_hz: Option<u64>) -> anyhow::Result<()> {
        let Some(hz) = tsc_hz else { return Ok(()) };
        let (rate, _) = rate(hz, MachineId(0))?;
        self.evidence.retain(|e| !matches!(e, Evidence::TscRate { machine: MachineId(0), .. }));
        self.evidence.push(rate);
        Ok(())
    }

    fn add_source(&mut self, at: usize, trace: &Trace<'_>) -> anyhow::Result<()> {
        let machine_id = *self.machine_of_file.get(at).context("a file without a machine")?;
        let file = match machine_id {
            MachineId(0) => "host.dat".to_owned(),
            _ => format!("{}.dat", stem_from_name("guest-", self.machine_name(at))),
        };
        let header = trace.dat.header();
        let options = trace.dat.options();
        let rate = self.evidence.iter().find_map(|e| match e {
            Evidence::TscRate { mult, shift, .. } => {
                Some(TscToNs { mult: *mult, shift: *shift, offset_ns: 0 })
            }
            _ => None,
        });
        self.manifest.sources.push(SourceEntry {
            machine_id,
            file: file.clone(),
            format: SourceFormat::TraceDat,
            spooled: false,
            clock: trace.clock.clone(),
            tsc_to_ns: rate.filter(|_| machine_id == MachineId(0)),
            sub_buffer_bytes: header.page_bytes,
            cpu_count: u32::try_from(trace.cpus)?,
            long_bytes: header.long_bytes,
            big_endian: header.endian == transect_ftrace::Endian::Big,
            trace_id: options.trace_id.unwrap_or(0),
            uname: options.uname.clone().unwrap_or_default(),
        });
        self.files.push((at, file));
        Ok(())
    }
}

/// A name people know. Files say little: trace-cmd calls a guest by its CID in the host's file but
/// names the guest's own file `HOST-NAME.dat` (`record -A`), and a kernel without a host name says
/// `(none)`.
fn name_of(told: &str, trace: Option<&Trace<'_>>, traces: &[Trace<'_>]) -> String {
    let telling = told.bytes().any(|b| b.is_ascii_alphabetic()) && told != "(none)";
    let Some(trace) = trace.filter(|_| !telling) else { return told.to_owned() };
    let stem = |t: &Trace<'_>| t.path.file_stem().map(|s| s.to_string_lossy().into_owned());
    let own = stem(trace).unwrap_or_else(|| told.to_owned());
    let after_host = traces.iter().filter_map(|other| {
        let rest = own.strip_prefix(&stem(other)?)?.strip_prefix('-')?;
        (!rest.is_empty()).then(|| rest.to_owned())
    });
    after_host.min_by_key(String::len).unwrap_or(own)
}

/// Keeps a file's problems in the recording.
pub(super) fn note_all<P: Display>(manifest: &mut Manifest, path: &Path, problems: &[P]) {
    let shown = problems.iter().take(MAX_NOTES);
    manifest.notes.extend(shown.map(|problem| format!("{}: {problem}", path.display())));
    if let Some(more) = problems.len().checked_sub(MAX_NOTES).filter(|n| *n > 0) {
        manifest.notes.push(format!("{}: and {more} more", path.display()));
    }
}

/// A tick rate as the user gives it.
pub(super) fn rate(hz: u64, machine: MachineId) -> anyhow::Result<(Evidence, TscToNs)> {
    let (mult, shift) = rate_from_hz(hz)?;
    let how = RateSource::Given;
    let evidence = Evidence::TscRate { machine, mult, shift, offset_ns: 0, how, error_ppm: 0.0 };
    Ok((evidence, TscToNs { mult, shift, offset_ns: 0 }))
}

/// Multiplier and shift that turn ticks of `hz` into nanoseconds, as precisely as 32 bits allow.
pub(super) fn rate_from_hz(hz: u64) -> anyhow::Result<(u32, u32)> {
    for shift in (0..=32).rev() {
        let mult = (1_000_000_000_u128 << shift).checked_div(u128::from(hz));
        if let Some(mult) = mult.and_then(|m| u32::try_from(m).ok()).filter(|m| *m > 0) {
            return Ok((mult, shift));
        }
    }
    bail!("{hz} is not a TSC frequency: give ticks per second, such as 2596140000 (--cpu-hz)");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_become_multipliers() {
        for hz in [1_000_000, 19_200_000, 1_000_000_000, 2_596_140_000, 5_000_000_000] {
            let (mult, shift) = rate_from_hz(hz).unwrap();
            let second = (u128::from(hz) * u128::from(mult)) >> shift;
            assert!(second.abs_diff(1_000_000_000) < 10, "{hz}: {second}");
        }
        assert!(rate_from_hz(0).is_err());
    }
}
