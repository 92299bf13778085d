//! How a report is looked at, whatever it is shown in: what belongs together, in which order, and what it is called.

use super::{Comparison, Contrast, Report, ReportedCell, Verdict};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use transect_bench_core::{Better, CacheState};
use transect_bench_run::{
    ledger,
    plan::{Cell, Group},
};

/// A report with its indices.
pub(super) struct View<'a> {
    /// What is shown.
    pub report: &'a Report,
    /// What was measured, by families.
    pub families: Vec<Family<'a>>,
    cells: HashMap<&'a Cell, &'a ReportedCell>,
    reference_platforms: BTreeSet<&'a str>,
    reference_tracers: BTreeSet<&'a str>,
}

/// Where a cell stands within its workload: reference platform first, reference arm first.
type Place<'c> = ((bool, &'c str), (bool, &'c str));

/// Workloads that are judged together.
pub(super) struct Family<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its workloads; empty where only comparisons name the family.
    pub groups: Vec<Work<'a>>,
}

/// One workload in one state, wherever it was measured.
pub(super) struct Work<'a> {
    /// Which.
    pub group: &'a Group,
    /// The reference platform first, on each platform the reference arm first.
    pub cells: Vec<&'a ReportedCell>,
}

/// The families' order: from what is smallest to what is made of everything.
const FAMILIES: [&str; 6] = ["micro", "cpu", "disk", "network", "latency", "footprint"];

impl<'a> View<'a> {
    /// Looks at a report.
    pub(super) fn new(report: &'a Report) -> Self {
        let references = |contrast| {
            let of_contrast = report.comparisons.iter().filter(move |c| c.contrast == contrast);
            of_contrast.map(|comparison| &comparison.reference)
        };
        let mut view = Self {
            report,
            families: Vec::new(),
            cells: report.cells.iter().map(|cell| (&cell.cell, cell)).collect(),
            reference_platforms: references(Contrast::Platform)
                .map(|cell| cell.platform.as_str())
                .collect(),
            reference_tracers: references(Contrast::Tracer)
                .map(|cell| cell.tracer.as_str())
                .chain(["none"])
                .collect(),
        };
        view.families = view.gathered();
        view
    }

    fn gathered(&self) -> Vec<Family<'a>> {
        let mut families: BTreeMap<(usize, &str), BTreeMap<&Group, Vec<&ReportedCell>>> =
            BTreeMap::new();
        for cell in &self.report.cells {
            let family = families.entry(family_key(&cell.family)).or_default();
            family.entry(&cell.cell.group).or_default().push(cell);
        }
        for comparison in &self.report.comparisons {
            families.entry(family_key(self.family_of(comparison))).or_default();
        }
        let work = |(group, mut cells): (&'a Group, Vec<&'a ReportedCell>)| {
            cells.sort_by_key(|cell| self.order(&cell.cell));
            Work { group, cells }
        };
        let family = |((_, name), groups): ((usize, &'a str), BTreeMap<_, _>)| Family {
            name,
            groups: groups.into_iter().map(work).collect(),
        };
        families.into_iter().map(family).collect()
    }

    /// In which order cells are shown.
    pub(super) fn order<'c>(&self, cell: &'c Cell) -> (&'c Group, Place<'c>) {
        (&cell.group, self.place(cell))
    }

    fn place<'c>(&self, cell: &'c Cell) -> Place<'c> {
        let is_other = !self.reference_platforms.contains(cell.platform.as_str());
        let is_traced = !self.is_reference_tracer(&cell.tracer);
        ((is_other, &cell.platform), (is_traced, &cell.tracer))
    }

    /// Is this what tracer arms are compared with?
    pub(super) fn is_reference_tracer(&self, tracer: &str) -> bool {
        self.reference_tracers.contains(tracer)
    }

    /// What was measured of a cell.
    pub(super) fn cell(&self, cell: &Cell) -> Option<&'a ReportedCell> {
        self.cells.get(cell).copied()
    }

    /// The tracer arm of a cell, as it is to be called.
    pub(super) fn arm(&self, cell: &Cell) -> String {
        self.cell(cell).map_or_else(|| cell.tracer.clone(), ReportedCell::arm)
    }

    /// The place of a cell's platform and arm among all there are: the same line looks the same in every chart.
    pub(super) fn kind(&self, cell: &Cell) -> usize {
        let places: BTreeSet<Place<'_>> =
            self.report.cells.iter().map(|cell| self.place(&cell.cell)).collect();
        places.range(..self.place(cell)).count()
    }

    /// The family of a comparison is that of its cell: it may be corrected within a narrower one.
    fn family_of(&self, comparison: &'a Comparison) -> &'a str {
        self.cell(&comparison.cell).map_or(&comparison.family, |cell| &cell.family)
    }

    /// Comparisons of a kind within a family, in order. Rates and times are kept apart, because "more" is good of one
    /// and bad of the other.
    pub(super) fn compared(
        &self,
        family: &str,
        contrast: Contrast,
        better: Better,
    ) -> Vec<&'a Comparison> {
        let is_asked = |c: &&'a Comparison| {
            c.contrast == contrast && c.better == better && self.family_of(c) == family
        };
        let mut found: Vec<&Comparison> = self.report.comparisons.iter().filter(is_asked).collect();
        found.sort_by_key(|comparison| self.order(&comparison.cell));
        found
    }

    /// What a cell is first of all compared with: the same place without the tracer, then the same on the reference
    /// platform, then a single machine.
    pub(super) fn first_comparison(&self, cell: &Cell) -> Option<&'a Comparison> {
        let of_cell = self.report.comparisons.iter().filter(|c| c.cell == *cell);
        of_cell.filter(|c| c.contrast != Contrast::Noise).min_by_key(|c| c.contrast)
    }
}

fn family_key(name: &str) -> (usize, &str) {
    let place = FAMILIES.iter().position(|family| name.eq_ignore_ascii_case(family));
    (place.unwrap_or(FAMILIES.len()), name)
}

impl ReportedCell {
    /// How many of its points count.
    #[must_use]
    pub fn counted(&self) -> usize {
        self.points.iter().filter(|point| point.excluded.is_empty()).count()
    }

    /// The tracer arm as it is to be called: one that lost events is another arm.
    #[must_use]
    pub fn arm(&self) -> String {
        let tracer = &self.cell.tracer;
        if self.lossy_runs == 0 { tracer.clone() } else { ledger::lossy(tracer) }
    }
}

impl Verdict {
    /// In words.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Worse => "worse",
            Self::Better => "better",
            Self::NotResolved => "not resolved",
            Self::TooFew => "too few",
        }
    }
}

impl Comparison {
    /// What it is compared with, as short as the contrast allows.
    #[must_use]
    pub fn against(&self) -> String {
        match self.contrast {
            Contrast::Tracer => self.reference.tracer.clone(),
            Contrast::Platform => self.reference.platform.clone(),
            Contrast::Guests => format!("×{}", self.reference.group.guests),
            Contrast::Noise => "itself".to_owned(),
        }
    }
}

/// A cache state in a word; nothing where nothing was asked for.
pub(super) const fn cache_word(cache: CacheState) -> &'static str {
    match cache {
        CacheState::Any => "",
        asked => asked.name(),
    }
}
