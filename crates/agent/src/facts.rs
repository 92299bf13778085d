//! What the recorder is told about this machine.

use rustix::system::uname;
use std::fs;
use transect_guest::{proto::MachineFacts, stamp::StampClock, transport::local_cid};
use transect_model::untrusted::Untrusted;
use transect_tracefs::{Tracefs, cpus};

/// The facts; a machine that cannot be traced says so in them, and is still worth a clear message
/// on the host.
pub(crate) fn facts() -> MachineFacts {
    let (clocks, problem) = match trace_clocks() {
        Ok(clocks) => (clocks, String::new()),
        Err(problem) => (Vec::new(), problem),
    };
    let name = uname();
    let text = |field: &std::ffi::CStr| Untrusted::from_bytes(field.to_bytes());
    MachineFacts {
        nodename: text(name.nodename()),
        release: text(name.release()),
        version: text(name.version()),
        arch: text(name.machine()),
        boot_id: line("/proc/sys/kernel/random/boot_id").into(),
        uuid: uuid().into(),
        clocksource: line("/sys/devices/system/clocksource/clocksource0/current_clocksource")
            .into(),
        clocks: clocks.into_iter().map(Untrusted::new).collect(),
        stamp_clocks: StampClock::ALL.into_iter().filter(|clock| clock.is_readable()).collect(),
        cpu_count: cpu_count(),
        page_bytes: u32::try_from(rustix::param::page_size()).unwrap_or_default(),
        vsock_cid: local_cid(),
        problem: problem.into(),
    }
}

fn trace_clocks() -> Result<Vec<String>, String> {
    let tracefs = Tracefs::find().map_err(|error| error.to_string())?;
    let text = tracefs.read("trace_clock").map_err(|error| error.to_string())?;
    Ok(text.split_whitespace().map(|name| name.trim_matches(['[', ']']).to_owned()).collect())
}

/// What the VMM gave this machine. A domU of Xen has no firmware that would tell, but Xen does.
fn uuid() -> String {
    let xen = line("/sys/hypervisor/uuid").to_lowercase();
    if xen.is_empty() { line("/sys/class/dmi/id/product_uuid").to_lowercase() } else { xen }
}

/// One more than the highest CPU number that can appear.
pub(crate) fn cpu_count() -> u32 {
    let highest = cpus::possible().ok().and_then(|cpus| cpus.last().copied());
    highest.map_or(1, |cpu| cpu.0.saturating_add(1))
}

/// The first line of a small file, empty if it cannot be read.
fn line(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_facts() {
        let facts = facts();
        assert_eq!(facts.boot_id.raw_for_storage().len(), 36, "{facts:?}");
        assert!(facts.cpu_count >= 1 && facts.page_bytes >= 4096, "{facts:?}");
        assert!(facts.stamp_clocks.contains(&StampClock::Mono), "{facts:?}");
        assert!(
            !facts.problem.is_empty() || facts.clocks.iter().any(|c| *c == "mono"),
            "{facts:?}"
        );
    }
}
