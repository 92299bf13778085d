//! Xen's own tracer, in dom0: everything to disk. See `README.md`.

use crate::{
    tools::{params::Params, program},
    tracer::{Scene, Tracer, Tracing},
};
use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};
use transect_bench_core::{
    Fault, Job, Kind, Refusal,
    protocol::{Param, TracerCost},
};
use transect_xen::{Collector, Dom0, Ending, EventMask, Place, TracePlan, TraceSink};
use transect_xentrace::{Totals, XenTrace, XenVersion};

/// The arm.
#[derive(Debug)]
pub(super) struct Xentrace;

impl Tracer for Xentrace {
    fn name(&self) -> &'static str {
        "xentrace"
    }

    fn about(&self) -> &'static str {
        "xentrace: the hypervisor's own trace buffers, to disk (in dom0)"
    }

    fn params(&self) -> Vec<(&'static str, Param, &'static str)> {
        let classes = "classes of records, in the syntax of transect record --xen-events";
        let buffer = "Xen's buffer for each pCPU, KiB; allocated once per boot and never resized";
        vec![
            ("classes", Param::Text("gen,sched,dom0op,hvm,mem,pv".to_owned()), classes),
            ("buffer_kib", Param::Int(1024), buffer),
        ]
    }

    fn can_run(&self, job: &Job) -> Result<(), Refusal> {
        let params = Params::of(self, job)?;
        mask(&params)?;
        program::need_root(self.name())?;
        place(transect_xen::detect())?;
        match transect_xen::other_xentrace() {
            None => Ok(()),
            Some(pid) => Err(not_here(format!(
                "xentrace {pid} is running, and Xen's buffers allow only one reader"
            ))
            .mend(format!("end it: kill {pid}"))),
        }
    }

    fn start(&self, scene: &Scene<'_>) -> Result<Box<dyn Tracing>, Fault> {
        let params = Params::of(self, scene.job)?;
        let dom0 = place(transect_xen::detect())?;
        transect_xen::end_leftovers();
        let buffer = usize::try_from(params.count("buffer_kib")).unwrap_or(usize::MAX);
        let plan = TracePlan {
            xentrace: dom0.tools.find("xentrace").map_err(Fault::failed)?,
            mask: mask(&params)?,
            buffer_bytes_per_cpu: buffer.saturating_mul(1024),
        };
        let output = scene.folder.join("xen.bin");
        let failed = |error: io::Error| Fault::failed(format!("{}: {error}", output.display()));
        let sink = FileSink(File::create(&output).map_err(failed)?);
        let collector = Collector::start(plan, Box::new(sink)).map_err(Fault::failed)?;
        let cpu_before_ns = collector.cpu_ns();
        Ok(Box::new(Recording { collector, cpu_before_ns, output, dom0 }))
    }
}

fn not_here(why: String) -> Refusal {
    Refusal::new(Kind::NotHere, "tracer xentrace", why)
}

fn mask(params: &Params) -> Result<EventMask, Refusal> {
    let wrong = |why: String| Refusal::new(Kind::Plan, "tracer xentrace", why);
    params.text("classes").parse().map_err(|error: transect_xen::XenError| wrong(error.to_string()))
}

/// The dom0 that this must be, with all it needs.
fn place(place: Place) -> Result<Dom0, Refusal> {
    let dom0 = match place {
        Place::NotXen => return Err(not_here("this machine is not running under Xen".to_owned())),
        Place::DomU(version) => {
            return Err(not_here(format!(
                "this is a domU of Xen {version}: only dom0 can trace Xen"
            )));
        }
        Place::Dom0(dom0) => dom0,
    };
    match dom0.lacks.first() {
        None => Ok(dom0),
        Some(lack) => {
            let refusal = Refusal::new(Kind::Missing, "tracer xentrace", lack.what.clone());
            Err(refusal.mend(lack.mend.clone()))
        }
    }
}

/// Whole windows, one after the other: a file as xentrace writes it.
struct FileSink(File);

impl TraceSink for FileSink {
    fn windows(&mut self, windows: &[u8]) -> io::Result<()> {
        self.0.write_all(windows)
    }

    fn ended(&mut self, _ending: &Ending) {}
}

struct Recording {
    collector: Collector,
    cpu_before_ns: u64,
    output: PathBuf,
    dom0: Dom0,
}

impl Tracing for Recording {
    fn stop(self: Box<Self>) -> Result<TracerCost, Fault> {
        let Recording { collector, cpu_before_ns, output, dom0 } = *self;
        let traced_cpu_ns = collector.cpu_ns().saturating_sub(cpu_before_ns);
        let finished = collector.stop();
        if let Some(failure) = finished.failure {
            return Err(Fault::failed(failure));
        }
        if finished.starts > 1 {
            return Err(Fault::failed(format!(
                "xentrace ended {} times while the workload ran: {}",
                finished.starts - 1,
                finished.notes.join("; ")
            )));
        }
        let totals = count(&output)?;
        let cpu_ns = finished.cpu.user_ns + finished.cpu.sys_ns;
        Ok(TracerCost {
            exits: None,
            events: Some(totals.records - totals.wraps - totals.lost_records),
            bytes: Some(finished.bytes),
            lost_events: Some(totals.lost),
            consumer_cpu_ns: Some(traced_cpu_ns),
            closing_cpu_ns: Some(cpu_ns.saturating_sub(cpu_before_ns + traced_cpu_ns)),
            version: format!("xentrace of Xen {}", dom0.version),
        })
    }
}

/// All records of all pCPUs.
fn count(path: &Path) -> Result<Totals, Fault> {
    let failed = |why: String| Fault::failed(format!("{}: {why}", path.display()));
    let bytes = fs::read(path).map_err(|error| failed(error.to_string()))?;
    let mut totals = Totals::default();
    if bytes.is_empty() {
        return Ok(totals);
    }
    // How records are framed is the same in all versions; which is which does not matter for counting.
    let trace = XenTrace::parse(&bytes, XenVersion::Minor(17))
        .map_err(|error| failed(error.to_string()))?;
    for cpu in trace.cpus() {
        let mut stream = trace.stream(cpu);
        (&mut stream).for_each(drop);
        totals.add(&stream.totals());
    }
    Ok(totals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_and_losses_of_real_traces_are_counted() {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../testdata/succeed/xentrace");
        let totals = |name: &str| count(&data.join(name)).unwrap();
        let pv = totals("pv.bin");
        assert!(pv.records > 1000 && pv.lost == 0, "{pv:?}");
        let lost = totals("lost.bin");
        assert!(lost.lost > 0 && lost.lost_records > 0, "{lost:?}");
        assert!(count(&data.join("README.md")).is_err());
    }

    #[test]
    fn elsewhere_than_in_dom0_it_is_refused() {
        assert_eq!(place(Place::NotXen).unwrap_err().kind, Kind::NotHere);
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/xen")).unwrap();
        fs::write(root.path().join("proc/xen/capabilities"), "control_d\n").unwrap();
        let lacking = place(transect_xen::detect_below(root.path())).unwrap_err();
        assert_eq!((lacking.kind, lacking.mend.is_some()), (Kind::Missing, true));
    }
}
