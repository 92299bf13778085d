//! Who is who in a set of trace.dat files, and how their clocks relate.

use anyhow::{Context as _, bail};
use std::path::Path;
use transect_clock::evidence::{Evidence, RateSource};
use transect_model::ids::{CpuId, MachineId, MachineKind, Tid, VcpuId};
use transect_store::{
    Manifest,
    manifest::{LostCount, MachineEntry, SourceEntry, TscToNs, VcpuEntry},
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
    pub(super) lost: u64,
    pub(super) lost_by_cpu: Vec<(u32, u64)>,
    pub(super) problems: Vec<Problem>,
}

impl<'a> Trace<'a> {
    /// Parses the file and walks all of its events.
    pub(super) fn read(path: &'a Path, bytes: &'a [u8]) -> anyhow::Result<Self> {
        let dat = TraceDat::parse(bytes).with_context(|| path.display().to_string())?;
        let first = dat.buffers().first();
        let first = first.with_context(|| format!("{}: no buffer with events", path.display()))?;
        let clock = first.clock.clone();
        let cpus = first.cpus().count();
        let mut trace = Trace {
            path,
            clock,
            cpus,
            events: 0,
            lost: 0,
            lost_by_cpu: Vec::new(),
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
                let mut lost = 0;
                while let Some(item) = stream.next() {
                    match item {
                        Item::Event { .. } => self.events += 1,
                        Item::Lost { count, .. } => lost += count.unwrap_or(1),
                        Item::Problem(problem) if self.problems.len() < MAX_PROBLEMS => {
                            self.problems.push(problem);
                        }
                        Item::Problem(_) => {}
                    }
                }
                if lost > 0 {
                    self.lost += lost;
                    self.lost_by_cpu.push((cpu, lost));
                }
            }
        }
    }

    fn trace_id(&self) -> Option<u64> {
        self.dat.options().trace_id
    }

    fn is_host_of(&self, other: &Trace<'_>) -> bool {
        other
            .trace_id()
            .is_some_and(|id| self.dat.options().guests.iter().any(|guest| guest.trace_id == id))
            || self.trace_id().is_some_and(|id| {
                other.dat.options().time_shift.as_ref().is_some_and(|s| s.peer_trace_id == id)
            })
    }
}

/// What import found out.
pub(super) struct Survey {
    pub(super) manifest: Manifest,
    pub(super) evidence: Vec<Evidence>,
    /// Which input file becomes which file of the recording.
    pub(super) files: Vec<(usize, String)>,
    machines: Vec<(std::path::PathBuf, MachineId)>,
}

impl Survey {
    /// Relates the files to each other.
    pub(super) fn of(
        traces: &[Trace<'_>],
        tsc_hz: Option<u64>,
        manifest: Manifest,
    ) -> anyhow::Result<Self> {
        let host_at = find_host(traces)?;
        let mut survey =
            Survey { manifest, evidence: Vec::new(), files: Vec::new(), machines: Vec::new() };
        let host = traces.get(host_at).context("no file")?;
        survey.add_host(host_at, host, tsc_hz)?;
        for guest in &host.dat.options().guests {
            survey.add_guest_seen_from_host(guest);
        }
        for (at, trace) in traces.iter().enumerate().filter(|(at, _)| *at != host_at) {
            survey.add_guest_file(at, trace, host)?;
        }
        Ok(survey)
    }

    /// The name of the machine a file is of.
    pub(super) fn machine_of(&self, trace: &Trace<'_>) -> Option<&str> {
        let (_, id) = self.machines.iter().find(|(path, _)| path == trace.path)?;
        Some(&self.manifest.machines.iter().find(|m| m.id == *id)?.name)
    }

    /// Keeps the files' problems in the recording.
    pub(super) fn note_problems(&mut self, traces: &[Trace<'_>]) {
        for trace in traces {
            let shown = trace.problems.iter().take(MAX_NOTES);
            let notes = shown.map(|problem| format!("{}: {problem}", trace.path.display()));
            self.manifest.notes.extend(notes);
            if let Some(more) = trace.problems.len().checked_sub(MAX_NOTES).filter(|n| *n > 0) {
                self.manifest.notes.push(format!("{}: and {more} more", trace.path.display()));
            }
        }
    }

    fn add_host(
        &mut self,
        at: usize,
        trace: &Trace<'_>,
        tsc_hz: Option<u64>,
    ) -> anyhow::Result<()> {
        let name = machine_name(trace, "host");
        let id = self.manifest.add_machine(machine(MachineKind::Host, name, None, trace));
        self.evidence.push(Evidence::Reference { machine: id, clock: trace.clock.clone() });
        let rate = match (trace.dat.options().tsc2nsec, tsc_hz) {
            (_, Some(hz)) => Some((rate_from_hz(hz)?, RateSource::Given)),
            (Some(t), None) => Some(((t.mult, t.shift), RateSource::Tsc2nsec)),
            (None, None) => None,
        };
        if let Some(((mult, shift), how)) = rate {
            // offset_ns 0: trace-cmd prints stamps without the option's offset.
            let rate =
                Evidence::TscRate { machine: id, mult, shift, offset_ns: 0, how, error_ppm: 0.0 };
            self.evidence.push(rate);
        } else if !trace.dat.buffers().iter().all(|b| b.timing.is_nanoseconds()) {
            self.manifest.notes.push(format!(
                "{}: the file does not say how fast its {} clock ticks: times are in ticks, give --tsc-hz",
                trace.path.display(),
                trace.clock
            ));
        }
        if trace.dat.options().time_shift.is_some() {
            self.manifest.notes.push(format!(
                "{}: a guest's file without its host's: its time is not shifted to the host's",
                trace.path.display()
            ));
        }
        self.add_source(at, trace, id, "host.dat".to_owned(), rate.map(|(rate, _)| rate));
        Ok(())
    }

    fn add_guest_seen_from_host(&mut self, guest: &transect_tracedat::Guest) {
        let name = if guest.name.is_empty() {
            format!("guest-{:x}", guest.trace_id)
        } else {
            guest.name.clone()
        };
        let vcpus = guest
            .cpus
            .iter()
            .map(|(cpu, tid)| VcpuEntry { vcpu: VcpuId(*cpu), vmm_tid: Some(Tid(*tid)) });
        self.manifest.add_machine(MachineEntry {
            id: MachineId::default(),
            parent: Some(MachineId(0)),
            kind: MachineKind::Guest,
            name,
            vmm_pid: None,
            cgroup: None,
            uname: None,
            cpu_count: u32::try_from(guest.cpus.len()).ok(),
            clock: None,
            vcpus: vcpus.collect(),
        });
    }

    fn add_guest_file(
        &mut self,
        at: usize,
        trace: &Trace<'_>,
        host: &Trace<'_>,
    ) -> anyhow::Result<()> {
        let guests = &host.dat.options().guests;
        let named = guests.iter().position(|g| Some(g.trace_id) == trace.trace_id());
        let id = match named {
            // The host's guests were added in this order, from machine 1 on.
            Some(at) => MachineId(u32::try_from(at)? + 1),
            None => {
                let name = machine_name(trace, "guest");
                self.manifest.add_machine(machine(
                    MachineKind::Guest,
                    name,
                    Some(MachineId(0)),
                    trace,
                ))
            }
        };
        let at_machine = usize::try_from(id.0)?;
        let entry =
            self.manifest.machines.get_mut(at_machine).context("a guest without an entry")?;
        entry.clock = Some(trace.clock.clone());
        entry.uname.clone_from(&trace.dat.options().uname);
        if let Some(name) = name_after_host(trace, host) {
            entry.name = name;
        }
        let file = format!("{}.dat", stem_from_name("guest-", &entry.name));
        self.evidence.push(Evidence::SourceClock { machine: id, clock: trace.clock.clone() });
        self.add_time_shift(id, trace);
        self.add_source(at, trace, id, file, None);
        Ok(())
    }

    fn add_time_shift(&mut self, machine: MachineId, trace: &Trace<'_>) {
        let Some(shift) = &trace.dat.options().time_shift else {
            self.manifest.notes.push(format!(
                "{}: no TIME_SHIFT option: its time cannot be related to the host's",
                trace.path.display()
            ));
            return;
        };
        let interpolated = shift.flags & transect_tracedat::TimeShift::INTERPOLATE != 0;
        for (cpu, samples) in (0..).zip(&shift.cpus) {
            self.evidence.extend(samples.iter().map(|sample| Evidence::TimeShift {
                machine,
                parent: MachineId(0),
                cpu: CpuId(cpu),
                at_guest: sample.time,
                offset: sample.offset,
                scaling: sample.scaling,
                fraction: u32::try_from(sample.fraction).unwrap_or(u32::MAX),
                interpolated,
            }));
        }
    }

    fn add_source(
        &mut self,
        at: usize,
        trace: &Trace<'_>,
        machine_id: MachineId,
        file: String,
        rate: Option<(u32, u32)>,
    ) {
        let header = trace.dat.header();
        let options = trace.dat.options();
        self.manifest.sources.push(SourceEntry {
            machine_id,
            file: file.clone(),
            spooled: false,
            clock: trace.clock.clone(),
            tsc_to_ns: rate.map(|(mult, shift)| TscToNs { mult, shift, offset_ns: 0 }),
            sub_buffer_bytes: header.page_bytes,
            cpu_count: u32::try_from(trace.cpus).unwrap_or(u32::MAX),
            long_bytes: header.long_bytes,
            big_endian: header.endian == transect_ftrace::Endian::Big,
            trace_id: options.trace_id.unwrap_or(0),
            uname: options.uname.clone().unwrap_or_default(),
        });
        let lost = trace.lost_by_cpu.iter();
        self.manifest.lost.extend(lost.map(|(cpu, count)| LostCount {
            machine_id,
            cpu: CpuId(*cpu),
            count: *count,
        }));
        self.files.push((at, file));
        self.machines.push((trace.path.to_owned(), machine_id));
    }
}

fn machine(
    kind: MachineKind,
    name: String,
    parent: Option<MachineId>,
    trace: &Trace<'_>,
) -> MachineEntry {
    MachineEntry {
        id: MachineId::default(),
        parent,
        kind,
        name,
        vmm_pid: None,
        cgroup: None,
        uname: trace.dat.options().uname.clone(),
        cpu_count: trace.dat.options().cpu_count.or(u32::try_from(trace.cpus).ok()),
        clock: Some(trace.clock.clone()),
        vcpus: Vec::new(),
    }
}

/// trace-cmd calls a guest by its CID in the host's file, but names the guest's own file
/// `HOST-NAME.dat` (`trace-cmd record -A`): that name is the better one.
fn name_after_host(trace: &Trace<'_>, host: &Trace<'_>) -> Option<String> {
    let host = machine_name(host, "");
    let own = machine_name(trace, "");
    own.strip_prefix(&host)?.strip_prefix('-').filter(|n| !n.is_empty()).map(str::to_owned)
}

/// A name for a machine: that of its file.
fn machine_name(trace: &Trace<'_>, otherwise: &str) -> String {
    let stem = trace.path.file_stem().map(|s| s.to_string_lossy().into_owned());
    stem.filter(|s| !s.is_empty()).unwrap_or_else(|| otherwise.to_owned())
}

/// The file the others belong to.
fn find_host(traces: &[Trace<'_>]) -> anyhow::Result<usize> {
    if traces.len() == 1 {
        return Ok(0);
    }
    let is_host = |at: &usize| {
        (0..traces.len()).all(|other| {
            other == *at
                || matches!((traces.get(*at), traces.get(other)), (Some(a), Some(b)) if a.is_host_of(b))
        })
    };
    if let Some(at) = (0..traces.len()).find(is_host) {
        return Ok(at);
    }
    bail!(
        "these files are not one host's and its guests': no file names all others \
         (trace-cmd record -A writes such sets). Import them one by one"
    );
}

/// Multiplier and shift that turn ticks of `hz` into nanoseconds, as precisely as 32 bits allow.
fn rate_from_hz(hz: u64) -> anyhow::Result<(u32, u32)> {
    for shift in (0..=32).rev() {
        let mult = (1_000_000_000_u128 << shift).checked_div(u128::from(hz));
        if let Some(mult) = mult.and_then(|m| u32::try_from(m).ok()).filter(|m| *m > 0) {
            return Ok((mult, shift));
        }
    }
    bail!("--tsc-hz {hz} is not a frequency of a TSC: give ticks per second, like 2596140000");
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
