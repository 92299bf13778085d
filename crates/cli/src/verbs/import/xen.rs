//! An xentrace file becomes a recording of Xen and its domains.

use super::{Args, now_unix_ns, survey::rate, write};
use anyhow::Context as _;
use std::{path::Path, process::ExitCode};
use transect_store::{
    Manifest,
    manifest::{MachineEntry, SourceEntry, SourceFormat, TscToNs},
};
use transect_xentrace::{Problem, Totals, XenTrace, XenVersion};

use crate::verbs::load::{
    self, SourceArgs,
    xen::{XEN, reference, topology},
};

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

/// Imports the file.
pub(super) fn run(args: &Args, path: &Path, bytes: &[u8]) -> anyhow::Result<ExitCode> {
    let version = args.xen.version().map_or(XenVersion::Unknown, XenVersion::Minor);
    let name = path.display();
    let trace = XenTrace::parse(bytes, version).with_context(|| name.to_string())?;
    let found = Found::in_file(&trace);
    let mut evidence = vec![reference()];
    let rate = args.tsc_hz.map(|hz| rate(hz, XEN)).transpose()?;
    evidence.extend(rate.iter().map(|(evidence, _)| evidence.clone()));
    let mut manifest = manifest(args, &trace, rate.map(|(_, rate)| rate))?;
    super::survey::note_all(&mut manifest, path, &found.problems);
    write(&args.output, &args.files, &manifest, &evidence, &[(0, FILE.to_owned())])?;
    tell(path, &found);
    stored(args, bytes.len() as u64, found.records())?;
    println!("next: transect report {}", args.output.display());
    Ok(if found.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn manifest(args: &Args, trace: &XenTrace<'_>, rate: Option<TscToNs>) -> anyhow::Result<Manifest> {
    let mut manifest = Manifest::new(now_unix_ns()?, std::env::args().collect());
    let cpus = trace.cpus().map(|cpu| cpu.0 + 1).max().unwrap_or(0);
    let uname = args.xen.version().map(|minor| format!("Xen 4.{minor}"));
    for info in topology(&args.xen).machines {
        let is_xen = info.id == XEN;
        manifest.add_machine(MachineEntry {
            id: info.id,
            parent: info.parent,
            kind: info.kind,
            name: info.name,
            vmm_pid: None,
            cgroup: None,
            domid: info.domid,
            uname: uname.clone().filter(|_| is_xen),
            cpu_count: is_xen.then_some(cpus),
            clock: info.clock,
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

fn tell(path: &Path, found: &Found) {
    let Totals { lost_records, lost, unknown, .. } = found.totals;
    let mut rest = String::new();
    if lost_records > 0 {
        rest += &format!(", {lost} lost in {lost_records} places");
    }
    if unknown > 0 {
        rest += &format!(", {unknown} of unknown kinds");
    }
    let clock = transect_engine::xen::CLOCK;
    let (cpus, records) = (found.cpus, found.records());
    println!("{}: xen, {clock} clock, {cpus} CPUs, {records} records{rest}", path.display());
    super::report_problems(path, &found.problems);
}

/// Makes the tables, which hold every record in a fraction of its bytes.
fn stored(args: &Args, bytes: u64, records: u64) -> anyhow::Result<()> {
    load::tables::ensure(&args.output, &SourceArgs::default())?;
    let tables = transect_store::tables::events_bytes(&args.output).unwrap_or(0);
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let each = |bytes: u64| bytes as f64 / records.max(1) as f64;
    println!(
        "stored: {:.1} B per record as xentrace wrote it, {:.1} B in tables",
        each(bytes),
        each(tables)
    );
    Ok(())
}
