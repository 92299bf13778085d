//! Is this a dom0 of Xen, and can the hypervisor be recorded from here?

use super::check::Check;
use std::{io, time::Duration};
use transect_xen::{
    Collector, Dom0, Ending, EventMask, Place, TracePlan, TraceSink, XenStore, detect, info,
    other_xentrace,
};

/// A tool that has not answered by then hangs.
const LIMIT: Duration = Duration::from_secs(10);
/// A page for each pCPU would do. But Xen keeps the first size until it is booted again, so that this check must not
/// be stingier than a recording.
const BUFFER_BYTES: usize = transect_xen::DEFAULT_BUFFER_BYTES;

/// Nothing where there is no Xen: on a KVM host that is no lack.
pub(super) fn checks() -> Vec<Check> {
    match detect() {
        Place::NotXen => Vec::new(),
        Place::DomU(version) => vec![Check::limited(
            "xen",
            format!(
                "this is a domU of Xen {version}: its dom0 can record Xen and, through an agent here, this kernel"
            ),
            "run transect-agent here and transect record in dom0",
        )],
        Place::Dom0(dom0) if !dom0.lacks.is_empty() => dom0
            .lacks
            .iter()
            .map(|lack| Check::limited("xen", lack.what.clone(), lack.mend.clone()))
            .collect(),
        Place::Dom0(dom0) => vec![toolstack(&dom0), trace(&dom0), domains()],
    }
}

fn toolstack(dom0: &Dom0) -> Check {
    match dom0.tools.run("xl", &["info"], LIMIT).map(|text| info(&text)) {
        Ok(info) => Check::ok(
            "xen",
            format!(
                "dom0 of Xen {}: {} pCPUs, scheduler {}, TSC {} kHz",
                dom0.version,
                info.cpu_count,
                info.scheduler,
                info.cpu_hz.hz / 1000
            ),
        ),
        Err(error) => Check::limited(
            "xen",
            error.to_string(),
            "start the toolstack: systemctl start xenstored xen-init-dom0",
        ),
    }
}

/// Takes records for a moment, as a recording does.
fn trace(dom0: &Dom0) -> Check {
    let facility = "xen trace";
    if let Some(pid) = other_xentrace() {
        let finding = format!(
            "xentrace is already running (pid {pid}), and only one process can read Xen's trace buffers"
        );
        return Check::limited(facility, finding, "end that xentrace before recording");
    }
    let tried = dom0.tools.find("xentrace").and_then(|xentrace| {
        let plan =
            TracePlan { xentrace, mask: EventMask::default(), buffer_bytes_per_cpu: BUFFER_BYTES };
        let finished = Collector::start(plan, Box::new(Nowhere))?.stop();
        finished.failure.map_or(Ok(finished.bytes), Err)
    });
    match tried {
        Ok(bytes) => Check::ok(facility, format!("xentrace wrote {bytes} bytes of records")),
        Err(error) => Check::limited(
            facility,
            error.to_string(),
            "see docs/reference/record-xen.md; to record only dom0's kernel: --xen off",
        ),
    }
}

/// Domains are named by xenstored.
fn domains() -> Check {
    let facility = "xen domains";
    match XenStore::connect().and_then(|mut store| store.domains()) {
        Ok(domains) => {
            let names: Vec<String> =
                domains.iter().map(|(id, domain)| format!("{} ({id})", domain.name)).collect();
            Check::ok(facility, names.join(", "))
        }
        Err(error) => {
            Check::limited(facility, error.to_string(), "start xenstored and run as root")
        }
    }
}

struct Nowhere;

impl TraceSink for Nowhere {
    fn windows(&mut self, _windows: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn ended(&mut self, _ending: &Ending) {}
}
