//! Are processes and control groups visible under the ids and paths that events have?

use super::check::Check;
use transect_tracefs::Namespaces;

pub(super) fn check() -> Check {
    check_these(Namespaces::current())
}

fn check_these(namespaces: &Namespaces) -> Check {
    let facility = "namespaces";
    let fix = namespaces.fix().unwrap_or_default();
    let limited =
        |hidden: &str, why: &str| Check::limited(facility, format!("{hidden}: {why}"), fix);
    if let Some(why) = namespaces.why_no_processes() {
        let hidden = "processes, control groups and VMs are known from events only; filters pid=, tid= and vm= are refused";
        return limited(hidden, why);
    }
    if let Some(why) = namespaces.why_no_cgroups() {
        return limited("control groups of threads and VMs are unknown", why);
    }
    match namespaces.procfs_in_child() {
        None => Check::ok(facility, "initial pid and cgroup namespaces"),
        Some(procfs) => Check::ok(
            facility,
            format!(
                "inside a pid namespace; {} shows the initial one, from which names are taken and to which pid= and tid= \
                 are converted",
                procfs.display()
            ),
        ),
    }
}
