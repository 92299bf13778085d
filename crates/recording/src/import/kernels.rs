//! What the kernels of domains recorded while Xen was traced: whose each file is, and how its clock
//! is related to Xen's.
//!
//! Whose: as `ID=FILE` says, else the domain in whose running intervals the events lie. How: they
//! are Xen's own counter, or a clock that has to be placed ([`transect_engine::ran`]).

use super::survey::Trace;
use anyhow::{Context as _, bail};
use std::{
    borrow::Cow,
    path::{Path, PathBuf},
};
use transect_clock::{ClockKind, Evidence, clock_kind};
use transect_engine::ran::{Placed, Running, Share, Stamps, place, same_tsc};
use transect_model::ids::{MachineId, VcpuId};
use transect_store::manifest::TscToNs;
use transect_tracedat::text;
use transect_xen::TscFacts;

/// dom0's number.
pub(super) const DOM0: u16 = 0;

/// A kernel's file as given: `ID=FILE` or `FILE`.
pub(super) fn named(path: &Path) -> (Option<u16>, PathBuf) {
    let told = path.to_str().filter(|_| !path.exists()).and_then(|text| text.split_once('='));
    match told.and_then(|(id, file)| Some((id.parse().ok()?, file))) {
        Some((id, file)) => (Some(id), PathBuf::from(file)),
        None => (None, path.to_owned()),
    }
}

/// The bytes of a trace.dat, made of text if it is that.
pub(super) fn as_dat<'a>(
    path: &Path,
    bytes: &'a [u8],
) -> anyhow::Result<(Cow<'a, [u8]>, Vec<String>)> {
    if !text::is_text(bytes) {
        return Ok((Cow::Borrowed(bytes), Vec::new()));
    }
    let made = text::convert(bytes).with_context(|| path.display().to_string())?;
    let mut notes = vec![format!("{}: text of tracefs, converted to trace.dat", path.display())];
    if made.not_understood > 0 {
        notes.push(format!(
            "{}: {} lines could not be parsed, first at line {}",
            path.display(),
            made.not_understood,
            made.first_not_understood
        ));
    }
    if made.overwritten > 0 {
        notes.push(format!(
            "{}: {} events were overwritten before the text was saved",
            path.display(),
            made.overwritten
        ));
    }
    Ok((Cow::Owned(made.file), notes))
}

/// How a kernel's clock is related to Xen's TSC.
pub(super) enum Relation {
    /// It is that.
    Same(Share),
    /// It is another.
    Placed(Box<Placed>),
}

/// One kernel's file and whose it is.
pub(super) struct Kernel<'t, 'a> {
    pub(super) trace: &'t Trace<'a>,
    /// Which of the files given.
    pub(super) at: usize,
    pub(super) dom: u16,
    pub(super) relation: Relation,
}

/// Xen's side of the question.
pub(super) struct Judge<'a> {
    pub(super) running: &'a Running,
    /// Xen's, if anything tells it.
    pub(super) rate: Option<TscToNs>,
}

impl Judge<'_> {
    /// Finds whose each file is. Those that were told come first.
    pub(super) fn kernels<'t, 'a>(
        &self,
        traces: &'t [(Option<u16>, Trace<'a>)],
    ) -> anyhow::Result<Vec<Kernel<'t, 'a>>> {
        let mut kernels: Vec<Kernel<'t, 'a>> = Vec::new();
        let told = traces.iter().enumerate().filter(|(_, (dom, _))| dom.is_some());
        let untold = traces.iter().enumerate().filter(|(_, (dom, _))| dom.is_none());
        for (at, (dom, trace)) in told.chain(untold) {
            let taken: Vec<u16> = kernels.iter().map(|kernel| kernel.dom).collect();
            let stamps = Stamps::of(&trace.dat);
            let (dom, relation) = match dom {
                Some(dom) => (*dom, self.relation(*dom, trace, &stamps)?),
                None => self.find(trace, &stamps, &taken)?,
            };
            if taken.contains(&dom) {
                bail!("{}: domain {dom} already has a file", trace.path.display());
            }
            kernels.push(Kernel { trace, at, dom, relation });
        }
        kernels.sort_by_key(|kernel| kernel.dom);
        Ok(kernels)
    }

    /// The only domain that the events fit.
    fn find(
        &self,
        trace: &Trace<'_>,
        stamps: &Stamps,
        taken: &[u16],
    ) -> anyhow::Result<(u16, Relation)> {
        let free: Vec<u16> =
            self.running.domains().into_iter().filter(|dom| !taken.contains(dom)).collect();
        let mut found = Vec::new();
        if is_tsc(trace) {
            let shares = free.iter().map(|dom| (*dom, same_tsc(self.running, *dom, stamps)));
            let same = shares.filter(|(_, share)| share.is_proof());
            found.extend(same.map(|(dom, share)| (dom, Relation::Same(share))));
        }
        if found.is_empty() {
            for dom in free {
                let placed = self.place(dom, trace, stamps);
                found.extend(placed.ok().map(|placed| (dom, Relation::Placed(Box::new(placed)))));
            }
        }
        let path = trace.path.display();
        match (found.pop(), found.pop()) {
            (Some(only), None) => Ok(only),
            (None, _) => bail!(
                "{path}: the events do not fit the running intervals of any domain in Xen's trace; if both were \
                 recorded at the same time, name the domain: ID={path}"
            ),
            (Some((a, _)), Some((b, _))) => bail!(
                "{path}: the events fit both domain {b} and domain {a}; name the domain: ID={path}"
            ),
        }
    }

    fn relation(&self, dom: u16, trace: &Trace<'_>, stamps: &Stamps) -> anyhow::Result<Relation> {
        let path = trace.path.display();
        if !self.running.domains().contains(&dom) {
            let domains = self.running.domains();
            bail!(
                "{path}: no vCPU of domain {dom} ran in Xen's trace, only of domains {domains:?}"
            );
        }
        if is_tsc(trace) {
            let share = same_tsc(self.running, dom, stamps);
            if share.all_fit() {
                return Ok(Relation::Same(share));
            }
        }
        let placed = self.place(dom, trace, stamps)?;
        Ok(Relation::Placed(Box::new(placed)))
    }

    fn place(&self, dom: u16, trace: &Trace<'_>, stamps: &Stamps) -> anyhow::Result<Placed> {
        let path = || trace.path.display().to_string();
        let rate = match clock_kind(&trace.clock) {
            ClockKind::Tsc => (1, 1),
            ClockKind::Nanoseconds => {
                let rate = self.rate.with_context(|| {
                    format!(
                        "{}: the clock '{}' counts nanoseconds, Xen's counts ticks: give the TSC frequency (--cpu-hz)",
                        path(),
                        trace.clock
                    )
                })?;
                ticks_per_ns(rate)
            }
            ClockKind::Other => {
                bail!("{}: the clock '{}' does not measure time", path(), trace.clock)
            }
        };
        // Machines have no numbers yet; `told` puts them in.
        place(self.running, dom, stamps, rate, (MachineId(0), MachineId(0))).with_context(path)
    }
}

fn is_tsc(trace: &Trace<'_>) -> bool {
    clock_kind(&trace.clock) == ClockKind::Tsc
}

/// As a fraction of numbers below 2^32.
fn ticks_per_ns(rate: TscToNs) -> (u64, u64) {
    let (num, den) = (1u64 << rate.shift.min(62), u64::from(rate.mult));
    let bits = 64 - num.max(den).leading_zeros();
    let shift = bits.saturating_sub(32);
    (num >> shift, den >> shift)
}

impl Kernel<'_, '_> {
    /// What the clock graph is to know.
    pub(super) fn evidence(&self, machine: MachineId, xen: MachineId) -> Vec<Evidence> {
        let mut evidence = vec![Evidence::SourceClock { machine, clock: self.trace.clock.clone() }];
        match &self.relation {
            Relation::Same(_) => evidence.push(Evidence::TscOffset {
                machine,
                parent: xen,
                vcpu: VcpuId(0),
                offset: 0,
                ratio: None,
                frac_bits: None,
                at_host: 0,
            }),
            Relation::Placed(placed) => {
                evidence.extend(placed.evidence.iter().map(|e| told(e, machine, xen)));
            }
        }
        evidence
    }

    /// What came of the offset that Xen prints, for people who took it at face value.
    pub(super) fn printed(
        &self,
        facts: &TscFacts,
        running: &Running,
        rate: Option<TscToNs>,
    ) -> Option<String> {
        let printed = facts.domains.get(&u32::from(self.dom))?;
        let Relation::Placed(placed) = &self.relation else { return None };
        if !printed.is_emulated(facts.reliability) || !is_tsc(self.trace) {
            return None;
        }
        let ticks = i128::from(printed.offset_ns) * i128::from(printed.khz) / 1_000_000;
        let stamps = Stamps::of(&self.trace.dat);
        let share = running.share_at(self.dom, &stamps, (1, 1), ticks);
        let later = u64::try_from(placed.offset_ticks - ticks).ok()?;
        Some(format!(
            "at the offset that Xen prints (ofs, {ticks} ticks), {} of {} events lie in running intervals: Xen \
             counts that offset in its system time, which began when Xen's TSC was at about {}",
            share.inside,
            share.tested,
            in_us(later, rate)
        ))
    }

    /// What was found out, in a sentence.
    pub(super) fn finding(&self, rate: Option<TscToNs>) -> String {
        match &self.relation {
            Relation::Same(share) => {
                let told = match share.tested.saturating_sub(share.by_chance) {
                    0..16 => " (weak evidence: the domain ran nearly all the time)",
                    _ => "",
                };
                format!(
                    "clock is Xen's own TSC, offset 0: {} of {} testable events lie in running intervals{told}",
                    share.inside, share.tested
                )
            }
            Relation::Placed(placed) => {
                let time = |ticks: u64| in_us(ticks, rate);
                let read = match placed.read {
                    0 => String::new(),
                    read => format!(" (in {read} of them Xen recorded clock readings)"),
                };
                format!(
                    "separate clock, {} ticks behind Xen's TSC at the start of Xen's trace, from {} running \
                     intervals{read}; half of the events are within ±{}, all within ±{}; {} of {} testable events lie \
                     in running intervals",
                    placed.offset_ticks,
                    placed.stretches,
                    time(placed.median_bound_ticks),
                    time(placed.bound_ticks),
                    placed.share.inside,
                    placed.share.tested
                )
            }
        }
    }
}

/// The same with the machines' numbers.
fn told(evidence: &Evidence, of: MachineId, on: MachineId) -> Evidence {
    let mut evidence = evidence.clone();
    if let Evidence::VcpuRan { machine, parent, .. } | Evidence::ClockRead { machine, parent, .. } =
        &mut evidence
    {
        (*machine, *parent) = (of, on);
    }
    evidence
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn in_us(ticks: u64, rate: Option<TscToNs>) -> String {
    match rate {
        Some(rate) => {
            let ns = (u128::from(ticks) * u128::from(rate.mult)) >> rate.shift;
            format!("{:.1} µs", ns as f64 / 1e3)
        }
        None => format!("{ticks} ticks"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_a_file_is_can_be_told() {
        let name = |text: &str| named(Path::new(text));
        assert_eq!(name("2=a/b.dat"), (Some(2), PathBuf::from("a/b.dat")));
        assert_eq!(name("a=b.dat"), (None, PathBuf::from("a=b.dat")));
        assert_eq!(name("b.dat"), (None, PathBuf::from("b.dat")));
    }

    #[test]
    fn a_rate_is_a_fraction_of_small_numbers() {
        let (num, den) = ticks_per_ns(TscToNs { mult: 1_654_435_054, shift: 32, offset_ns: 0 });
        assert!(num < 1 << 32 && den < 1 << 32);
        assert!((num as f64 / den as f64 - 2.596).abs() < 0.001);
    }
}
