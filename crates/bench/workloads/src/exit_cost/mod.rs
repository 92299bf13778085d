//! What leaving the guest costs, measured from inside it. See README.md.

#[cfg(target_arch = "x86_64")]
mod instructions;

use super::{
    looped::{Counts, Looped, Operation, timed},
    support::{asked, forked::Forked},
    workload::{Place, Workload},
};
use std::{io, time::Duration};
use transect_bench_core::{CacheState, Fault, Job, Kind, Refusal, protocol::Param, this_machine};

/// It.
pub(crate) const EXIT_COST: &dyn Workload = &Looped {
    name: "exit-cost",
    text: "one VM exit and back: by cpuid, a port write, or a hypercall",
    source: "LTTng-Xen Table 12 and hypertracing (cost of one hypercall)",
    counts: Counts::Operations,
    caches: &[CacheState::Any],
    params,
    can_run,
    make,
};

const KINDS: [&str; 3] = ["cpuid", "port", "hypercall"];

fn params() -> Vec<(&'static str, Param, &'static str)> {
    vec![("exit", Param::Text("cpuid".into()), "cpuid | port (port 0x80, root) | hypercall (KVM)")]
}

fn refuse(kind: Kind, why: impl Into<String>) -> Refusal {
    Refusal::new(kind, "workload exit-cost", why)
}

fn can_run(job: &Job) -> Result<(), Refusal> {
    let exit = asked::choice(job, "exit", &KINDS)?;
    if !cfg!(target_arch = "x86_64") {
        return Err(refuse(Kind::NotHere, "its instructions exist only on x86-64"));
    }
    // Set by every hypervisor for its guests, reserved as 0 by both vendors of CPUs.
    let flags = this_machine::cpuinfo("flags").unwrap_or_default();
    if !flags.split(' ').any(|flag| flag == "hypervisor") {
        return Err(refuse(Kind::Senseless, "no hypervisor below to exit to"));
    }
    if exit == "port" && !rustix::process::geteuid().is_root() {
        return Err(refuse(Kind::NotHere, "port writes require root").mend("exit = \"cpuid\""));
    }
    #[cfg(target_arch = "x86_64")]
    if exit == "hypercall" && instructions::hypervisor() != *instructions::KVM {
        let found = String::from_utf8_lossy(&instructions::hypervisor()).into_owned();
        let why = format!("only KVM accepts hypercalls from user space; this is {found:?}");
        return Err(refuse(Kind::NotHere, why).mend("exit = \"cpuid\""));
    }
    Ok(())
}

/// One instruction, again and again.
struct Exits(fn());

impl Operation for Exits {
    fn batch(&mut self, times: u64) -> io::Result<Duration> {
        timed(times, || {
            (self.0)();
            Ok(())
        })
    }
}

#[cfg(target_arch = "x86_64")]
fn make(place: &Place<'_>) -> Result<Box<dyn Operation>, Fault> {
    let exit = asked::choice(place.job, "exit", &KINDS)?;
    if exit == "port" {
        instructions::allow_port()
            .map_err(|error| refuse(Kind::NotHere, format!("port 0x80 is refused: {error}")))?;
    }
    let one = match exit {
        "port" => instructions::write_port,
        "hypercall" => instructions::hypercall(),
        _ => instructions::cpuid,
    };
    // What a hypervisor does not like ends the program: better another one than this.
    let tried = Forked::start(|| {
        one();
        0
    })
    .and_then(Forked::wait);
    match tried {
        Ok(0) => Ok(Box::new(Exits(one))),
        _ => Err(refuse(Kind::NotHere, format!("{exit} ends the program that tries it")).into()),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn make(_: &Place<'_>) -> Result<Box<dyn Operation>, Fault> {
    Err(refuse(Kind::NotHere, "its instructions exist only on x86-64").into())
}
