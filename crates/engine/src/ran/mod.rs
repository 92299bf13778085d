//! When Xen had a domain's vCPUs running, and what that says about the domain's kernel's clock.
//!
//! **What.** A kernel stamps events only while one of its vCPUs runs. So if the kernel's trace and
//! Xen's were taken at the same time, whether the stamps of the one lie inside the running
//! intervals of the other tells how the two clocks are related: [`same_tsc`] tests whether they are
//! the same counter, and [`place`] finds how they are related if not.
//!
//! **Data flow.**
//! ```text
//! XenTrace ─▶ Running (vCPU → intervals, TSC) ─┬─▶ same_tsc ─▶ Share
//! TraceDat ─▶ Stamps (CPU → stamps, own clock) ┴─▶ place: vote → track → reads ─▶ Placed (Evidence::VcpuRan, ClockRead)
//! ```
//! The clock graph makes the estimate and its bound of that evidence (`transect_clock::ran`).
//!
//! **Design constraints.** Sans-IO; memory is 16 bytes for each running interval and 8 for each
//! event of a kernel, and both are capped. Nothing is assumed about where the other clock began:
//! its offset is searched for.

mod place;
mod reads;
mod running;
mod stamps;
mod vote;

pub use place::{PlaceError, Placed, place};
pub use running::{Interval, Running, VcpuRuns};
pub use stamps::Stamps;

/// How many of a kernel's events lie inside running intervals of their vCPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Events between the first and the last interval of their vCPU, beside no lost records.
    pub tested: u64,
    /// Those inside an interval, edges included.
    pub inside: u64,
    /// How many would be by chance alone, as the vCPU runs so much of the time.
    pub by_chance: u64,
}

impl Share {
    /// Do all fit, and would enough of them not do so by chance that this tells anything?
    pub fn is_proof(&self) -> bool {
        let by_chance = self.tested.saturating_sub(self.by_chance);
        self.all_fit() && by_chance >= 16
    }

    /// Do all fit, whatever that tells? (One event in a thousand may have a damaged stamp.)
    pub fn all_fit(&self) -> bool {
        self.tested > 0 && (self.tested - self.inside) * 1000 <= self.tested
    }

    /// How much better than chance, 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    fn skill(&self) -> f64 {
        let room = self.tested as f64 - self.by_chance as f64;
        if room < 1.0 {
            return 0.0;
        }
        (self.inside as f64 - self.by_chance as f64) / room
    }

    fn add(&mut self, other: Share) {
        self.tested += other.tested;
        self.inside += other.inside;
        self.by_chance += other.by_chance;
    }
}

/// Tests whether a domain's kernel stamps with the counter that Xen stamps with: all of its events
/// have to lie inside.
pub fn same_tsc(running: &Running, dom: u16, stamps: &Stamps) -> Share {
    share(running, dom, stamps, i128::from)
}

/// The share of a domain's events inside, with a map from its clock to Xen's TSC.
pub(crate) fn share(
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
