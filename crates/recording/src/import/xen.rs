//! An xentrace file becomes a recording of Xen and its domains.

use super::{
    kernels::{DOM0, Judge, Kernel, as_dat},
    outcome::{self, now_unix_ns, write},
    rate::{self, XenRate, XenReport},
    request::Import,
    survey::Trace,
};
use crate::{
    Options, Watcher, folder,
    xen::{XEN, reference, topology},
};
use anyhow::Context as _;
use std::path::Path;
use transect_engine::ran::Running;
use transect_model::ids::MachineId;
use transect_store::{
    Manifest,
    manifest::{MachineEntry, SourceEntry, SourceFormat, TscToNs},
    stem_from_name,
};
use transect_xentrace::{Problem, Totals, XenTrace, XenVersion};

/// The file in the recording.
const FILE: &str = "xen.bin";

/// What was found in the file.
#[derive(Default)]
struct Found {
    cpus: u32,
    totals: Totals,
    problems: Vec<Problem>,
}

impl Found {
    /// Reads every record.
    fn in_file(trace: &XenTrace<'_>) -> Self {
        let mut found = Found { problems: trace.problems().to_vec(), ..Found::default() };
        for cpu in trace.cpus() {
            let mut stream = trace.stream(cpu);
            (&mut stream).for_each(drop);
            found.totals.add(&stream.totals());
            found.problems.extend_from_slice(stream.problems());
            found.cpus += 1;
        }
        found
    }

    fn records(&self) -> u64 {
        self.totals.records - self.totals.wraps
    }
}

/// Imports the file, and what the kernels of its domains recorded at the same time.
pub(super) fn run(
    args: &Import,
    path: &Path,
    bytes: &[u8],
    others: &[(Option<u16>, &Path, &[u8])],
    watcher: &dyn Watcher,
) -> anyhow::Result<bool> {
    let version = args.xen.version.map_or(XenVersion::Unknown, XenVersion::Minor);
    let name = path.display();
    let trace = XenTrace::parse(bytes, version).with_context(|| name.to_string())?;
    let found = Found::in_file(&trace);
    let dats = others
        .iter()
        .map(|(_, path, bytes)| as_dat(path, bytes))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let traces = others
        .iter()
        .zip(&dats)
        .map(|((dom, path, _), (bytes, _))| Ok((*dom, Trace::read(path, bytes)?)))
        .collect::<anyhow::Result<Vec<_>>>()?;

    let report = args.xen_tsc.as_deref().map(XenReport::read).transpose()?;
    let told = XenRate::find(args.tsc_hz, &traces, report.as_ref())?;
    let rate = told.as_ref().map(|told| told.ns);
    let running = if traces.is_empty() { Running::default() } else { Running::of(&trace) };
    let kernels = Judge { running: &running, rate }.kernels(&traces)?;
    let mut manifest = manifest(args, &trace, rate, &kernels)?;
    super::survey::note_all(&mut manifest, path, &found.problems);
    for (_, trace) in &traces {
        super::survey::note_all(&mut manifest, trace.path, &trace.problems);
    }
    manifest.notes.extend(dats.iter().flat_map(|(_, notes)| notes.clone()));
    let unknown = || rate::unknown_of_xen(report.as_ref());
    let rate_note = told.as_ref().map_or_else(unknown, |told| told.note.clone());
    manifest.notes.push(rate_note.clone());
    let printed = report.as_ref().and_then(|report| report.tsc.as_ref());
    let finding = |kernel: &Kernel<'_, '_>| {
        let printed = printed.and_then(|facts| kernel.printed(facts, &running, rate));
        let printed = printed.map(|printed| format!("; {printed}")).unwrap_or_default();
        kernel.finding(rate) + &printed
    };
    let findings: Vec<String> = kernels.iter().map(finding).collect();
    for (kernel, finding) in kernels.iter().zip(&findings) {
        manifest.notes.push(format!("{}: {finding}", kernel.trace.path.display()));
    }

    let mut evidence = vec![reference()];
    evidence.extend(told.map(|told| told.evidence));
    let mut sources: Vec<(&[u8], String)> = vec![(bytes, FILE.to_owned())];
    for kernel in &kernels {
        let machine = machine_of(&manifest, kernel.dom).context("a kernel without a machine")?;
        let (id, name) = (machine.id, machine.name.clone());
        evidence.extend(kernel.evidence(id, XEN));
        let file = file_of(kernel.dom, &name);
        let source = source(id, file.clone(), kernel.trace)?;
        manifest.sources.push(source);
        sources.push((dats.get(kernel.at).map_or(&[][..], |(bytes, _)| bytes), file));
    }
    let sources: Vec<(&[u8], &str)> = sources.iter().map(|(b, f)| (*b, f.as_str())).collect();
    write(args, &manifest, &evidence, &sources)?;

    tell(path, &found, watcher);
    watcher.say(&format!("  {rate_note}"));
    for (kernel, finding) in kernels.iter().zip(&findings) {
        let name = machine_of(&manifest, kernel.dom).map_or("?", |machine| &machine.name);
        outcome::report(kernel.trace, name, watcher);
        watcher.say(&format!("  {finding}"));
    }
    stored(args, bytes.len() as u64, found.records(), watcher)?;
    Ok(found.problems.is_empty() && traces.iter().all(|(_, t)| t.problems.is_empty()))
}

fn machine_of(manifest: &Manifest, dom: u16) -> Option<&MachineEntry> {
    manifest.machines.iter().find(|machine| machine.domid == Some(u32::from(dom)))
}

/// The name of a kernel's file in the recording.
fn file_of(dom: u16, name: &str) -> String {
    match dom {
        DOM0 => "host.dat".to_owned(),
        _ => format!("{}.dat", stem_from_name("guest-", name)),
    }
}

fn manifest(
    args: &Import,
    trace: &XenTrace<'_>,
    rate: Option<TscToNs>,
    kernels: &[Kernel<'_, '_>],
) -> anyhow::Result<Manifest> {
    let mut manifest = Manifest::new(now_unix_ns()?, args.command_line.clone());
    let cpus = trace.cpus().map(|cpu| cpu.0 + 1).max().unwrap_or(0);
    let uname = args.xen.version.map(|minor| format!("Xen 4.{minor}"));
    for info in topology(&args.xen.with_domains(kernels.iter().map(|kernel| kernel.dom))).machines {
        let is_xen = info.id == XEN;
        let kernel = kernels.iter().find(|kernel| Some(u32::from(kernel.dom)) == info.domid);
        let options = kernel.map(|kernel| kernel.trace.dat.options());
        let told = options.and_then(|options| options.uname.clone());
        let cpu_count = match kernel {
            Some(kernel) => {
                options.and_then(|o| o.cpu_count).or(u32::try_from(kernel.trace.cpus).ok())
            }
            None => is_xen.then_some(cpus),
        };
        manifest.add_machine(MachineEntry {
            id: info.id,
            parent: info.parent,
            kind: info.kind,
            name: info.name,
            vmm_pid: None,
            cgroup: None,
            domid: info.domid,
            uname: uname.clone().filter(|_| is_xen).or(told),
            cpu_count,
            clock: info.clock.or(kernel.map(|kernel| kernel.trace.clock.clone())),
            vcpus: Vec::new(),
        });
    }
    manifest.sources.push(SourceEntry {
        machine_id: XEN,
        file: FILE.to_owned(),
        format: SourceFormat::Xentrace,
        spooled: false,
        clock: transect_engine::xen::CLOCK.to_owned(),
        tsc_to_ns: rate,
        sub_buffer_bytes: 0,
        cpu_count: cpus,
        long_bytes: 8,
        big_endian: false,
        trace_id: 0,
        uname: uname.unwrap_or_default(),
    });
    Ok(manifest)
}

/// A kernel's file.
fn source(machine_id: MachineId, file: String, trace: &Trace<'_>) -> anyhow::Result<SourceEntry> {
    let header = trace.dat.header();
    let options = trace.dat.options();
    Ok(SourceEntry {
        machine_id,
        file,
        format: SourceFormat::TraceDat,
        spooled: false,
        clock: trace.clock.clone(),
        tsc_to_ns: None,
        sub_buffer_bytes: header.page_bytes,
        cpu_count: u32::try_from(trace.cpus)?,
        long_bytes: header.long_bytes,
        big_endian: header.endian == transect_ftrace::Endian::Big,
        trace_id: options.trace_id.unwrap_or(0),
        uname: options.uname.clone().unwrap_or_default(),
    })
}

fn tell(path: &Path, found: &Found, watcher: &dyn Watcher) {
    let Totals { lost_records, lost, unknown, .. } = found.totals;
    let mut rest = String::new();
    if lost_records > 0 {
        rest += &format!(", {lost} lost in {lost_records} gaps");
    }
    if unknown > 0 {
        rest += &format!(", {unknown} of unknown kinds");
    }
    let clock = transect_engine::xen::CLOCK;
    let (cpus, records) = (found.cpus, found.records());
    let name = path.display();
    watcher.say(&format!("{name}: xen, {clock} clock, {cpus} CPUs, {records} records{rest}"));
    outcome::report_problems(path, &found.problems, watcher);
}

/// Makes the tables, which hold every record in a fraction of its bytes.
fn stored(args: &Import, bytes: u64, records: u64, watcher: &dyn Watcher) -> anyhow::Result<()> {
    folder::ensure(&args.output, &Options::default(), watcher)?;
    let tables = transect_store::tables::events_bytes(&args.output).unwrap_or(0);
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let each = |bytes: u64| bytes as f64 / records.max(1) as f64;
    watcher.say(&format!(
        "stored: {:.1} B per record as xentrace wrote it, {:.1} B in tables",
        each(bytes),
        each(tables)
    ));
    Ok(())
}
