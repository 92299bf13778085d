//! Events inside running intervals, and whether a kernel therefore stamps with Xen's TSC.

use super::{Running, Share, Stamps};

/// Tests whether a domain's kernel stamps with the counter that Xen stamps with: all of its events
/// have to lie inside.
pub fn same_tsc(running: &Running, dom: u16, stamps: &Stamps) -> Share {
    share(running, dom, stamps, i128::from)
}

/// The share of a domain's events inside, with a map from its clock to Xen's TSC.
pub(super) fn share(
    running: &Running,
    dom: u16,
    stamps: &Stamps,
    mut to_xen: impl FnMut(u64) -> i128,
) -> Share {
    let mut all = Share::default();
    for (cpu, stamps) in stamps.cpus() {
        if let Some(runs) = running.vcpu(dom, cpu) {
            all.add(runs.share(stamps.iter().map(|stamp| to_xen(*stamp))));
        }
    }
    all
}
