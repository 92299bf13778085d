//! Comparisons that a cell's line has no room for, and the noise.

use super::{
    Page,
    grid::{Column, Field, Grid, Tone, left, right},
};
use crate::{
    Comparison, Contrast, Verdict,
    number::{DASH, change, per_cent, probability},
};
use transect_bench_core::Better;

const COLUMNS: [Column; 8] = [
    left("cell"),
    left("against"),
    right("blocks").expendable(1),
    right("change"),
    right("interval"),
    left("verdict"),
    right("floor").expendable(2),
    right("p").expendable(3),
];

impl Page<'_> {
    /// Comparisons of a family that are not in the cells' lines.
    pub(super) fn further_comparisons(&mut self, at: usize) {
        let name = self.view.families[at].name;
        let mut grid = Grid::new(&COLUMNS);
        for contrast in [Contrast::Tracer, Contrast::Platform, Contrast::Guests] {
            for better in [Better::Less, Better::More] {
                for comparison in self.view.compared(name, contrast, better) {
                    let first = self.view.first_comparison(&comparison.cell);
                    let has_line = self.view.cell(&comparison.cell).is_some();
                    if !has_line || !first.is_some_and(|first| std::ptr::eq(first, comparison)) {
                        grid.row(line(comparison));
                    }
                }
            }
        }
        if !grid.is_empty() {
            self.out.push_str("\n  further comparisons\n");
            self.grid(&grid);
        }
    }

    /// The reference compared with itself.
    pub(super) fn noise(&mut self) {
        let mut grid = Grid::new(&COLUMNS);
        let mut noise: Vec<&Comparison> = self.view.report.comparisons.iter().collect();
        noise.retain(|comparison| comparison.contrast == Contrast::Noise);
        noise.sort_by_key(|comparison| self.view.order(&comparison.cell));
        for comparison in noise {
            grid.row(line(comparison));
        }
        if !grid.is_empty() {
            self.heading("noise (A/A)", "the reference measured twice in every block");
            self.grid(&grid);
        }
    }
}

fn line(comparison: &Comparison) -> Vec<Field> {
    let mut row: Vec<Field> = vec![
        comparison.cell.to_string().into(),
        comparison.against().into(),
        comparison.ratios.len().to_string().into(),
    ];
    row.extend(change_fields(comparison));
    row.push(verdict_field(comparison.verdict));
    row.push(comparison.floor.map_or_else(|| DASH.to_owned(), per_cent).into());
    row.push(comparison.p_corrected.map_or_else(|| DASH.to_owned(), probability).into());
    row
}

/// The change and its interval.
pub(super) fn change_fields(comparison: &Comparison) -> [Field; 2] {
    match &comparison.estimate {
        Some(estimate) => {
            let (middle, interval) = change(estimate);
            [middle.into(), interval.into()]
        }
        None => [DASH.into(), "".into()],
    }
}

/// The verdict's word.
pub(super) fn verdict_field(verdict: Verdict) -> Field {
    let tone = match verdict {
        Verdict::Worse => Tone::Bad,
        Verdict::Better => Tone::Good,
        Verdict::NotResolved | Verdict::TooFew => Tone::Dim,
    };
    Field::toned(verdict.word(), tone)
}
