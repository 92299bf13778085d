//! A Xen host on one pCPU, a server in a domU, an asker in dom0.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use transect_testbed::XenHost;
use transect_testbed::xen::{DomU, XenOptions};

use super::plan::{REPLY_BYTES, Setup, Step, WORK_US};
use super::results::Load;

/// Seconds of trace in each run, and of load: before the trace everything gets warm, after it nothing may end early.
const TRACE_S: u32 = 2;
const LOAD_S: u32 = 4;

/// What the metrics need: classes SCHED and PV; of their subclasses MIN, VERBOSE and PV_ENTRY (`xen/include/public/trace.h`
/// of 4.17; a mask's bits of classes and subclasses count each by themselves).
const EVENTS: &str = "0x00229000";

/// A booted host with its server.
pub(super) struct Bed {
    host: XenHost,
    server: DomU,
    tsc_hz: u64,
}

impl Bed {
    /// One pCPU, as the publication's workstation, in counted time: shares are exact whatever else this machine does.
    pub(super) fn boot(setup: &Setup) -> Result<Self> {
        let host = XenHost::boot_with(&XenOptions {
            cpus: 1,
            scheduler: setup.scheduler,
            xen_arguments: setup.xen_arguments.to_owned(),
            lifetime: Duration::from_secs(3600),
            ..XenOptions::default()
        })?;
        let serve = format!("serve:report_ms=60000:reply={REPLY_BYTES}:work_us={WORK_US}");
        let server = host.domu("web").pv().network().workload(&serve).boot()?;
        server.wait_for("serve ready").within(120)?;
        let tsc_hz = host.tsc_hz()?;
        Ok(Self { host, server, tsc_hz })
    }

    /// Ticks of the trace's clock in a second.
    pub(super) fn tsc_hz(&self) -> u64 {
        self.tsc_hz
    }

    /// Xen's number of the server's domU.
    pub(super) fn server_id(&self) -> u32 {
        self.server.id()
    }

    /// Makes a run; its trace, if it has one, goes to `trace`.
    pub(super) fn run(&self, step: &Step, trace: &Path) -> Result<Load> {
        let weights = step.configuration;
        self.host.weigh("Domain-0", weights.dom0_weight)?;
        self.host.weigh(self.server.name(), weights.dom1_weight)?;
        let output = self.host.run(&self.script(step)?).within(300)?.ok()?.stdout;
        ensure!(output.contains("in time"), "the load ended before the trace did:\n{output}");
        if step.traced {
            self.host.get("run.bin", trace)?;
        }
        Load::parse(&output)
    }

    /// Asks for all the time, records in the middle of it. One order, so that nothing but this goes on in dom0.
    fn script(&self, step: &Step) -> Result<String> {
        let program = self.host.workload()?;
        let address = self.server.address().context("the server has no address")?;
        let load = format!(
            "{} load to={address} rate={} seconds={LOAD_S} warm_ms=1000",
            program.display(),
            step.rate
        );
        let record = match step.traced {
            true => format!("xentrace -D -e {EVENTS} -S 512 -T {TRACE_S} run.bin"),
            false => format!("sleep {TRACE_S}"),
        };
        Ok(format!(
            "rm -f run.bin\n{load} >load.txt 2>&1 &\nasker=$!\nsleep 1\n{record} >record.txt 2>&1 || cat record.txt\n\
             kill -0 $asker 2>/dev/null && echo in time\nwait $asker\ncat load.txt"
        ))
    }
}
