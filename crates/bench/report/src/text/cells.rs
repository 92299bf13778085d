//! The cells: what was measured, and what is to be thought of it.

use super::{
    Page,
    comparisons::{change_fields, verdict_field},
    grid::{Column, Field, Grid, Tone, left, right},
};
use crate::{
    Comparison, ReportedCell, Suspect,
    number::{DASH, count, per_cent, quantity, quantity_or_dash},
    view::{Family, Work},
};
use transect_bench_core::Better;

const COLUMNS: [Column; 12] = [
    left("platform"),
    left("tracer"),
    right("median"),
    right("half within").expendable(6),
    right("n"),
    right("left out").expendable(4),
    left("against").expendable(5),
    right("change"),
    right("interval").expendable(1),
    left("verdict"),
    right("floor").expendable(3),
    left("limiter").expendable(2),
];
const FLOOR: usize = 10;
const LIMITER: usize = 11;

impl Page<'_> {
    pub(super) fn families(&mut self) {
        for at in 0..self.view.families.len() {
            self.family(at);
        }
    }

    fn family(&mut self, at: usize) {
        let Family { name, groups } = &self.view.families[at];
        let name = (*name).to_owned();
        let mut grid = Grid::new(&COLUMNS);
        for work in groups {
            self.work(work, &mut grid);
        }
        let about = "medians; change: from ratios within blocks, in per cent of 'against'";
        self.heading(&name, if at == 0 { about } else { "" });
        self.grid(&grid);
        let width = self.style.width;
        let cells = || self.view.families[at].groups.iter().flat_map(|work| &work.cells);
        let all = cells().count();
        let compared = cells().filter(|cell| self.view.first_comparison(&cell.cell).is_some());
        let compared = compared.count();
        if grid.is_dropped(FLOOR, width) {
            self.instead((at, compared), "floor", |page, cell| {
                Some(per_cent(page.view.first_comparison(&cell.cell)?.floor?))
            });
        }
        if grid.is_dropped(LIMITER, width) {
            self.instead((at, all), "limiter", |_, cell| cell.limiter.as_ref().map(limiter));
        }
        self.further_comparisons(at);
        self.elasticities(at);
    }

    /// What a column that had to go would have said, each value once; "everywhere", where the same is true of at least so
    /// many cells, which are all that it can be true of.
    fn instead(
        &mut self,
        (at, least): (usize, usize),
        what: &str,
        value: impl Fn(&Self, &ReportedCell) -> Option<String>,
    ) {
        let mut values: Vec<(String, Vec<String>)> = Vec::new();
        for cell in self.view.families[at].groups.iter().flat_map(|work| &work.cells) {
            let Some(value) = value(self, cell) else { continue };
            match values.iter_mut().find(|(other, _)| *other == value) {
                Some((_, cells)) => cells.push(cell.cell.to_string()),
                None => values.push((value, vec![cell.cell.to_string()])),
            }
        }
        if let [(value, cells)] = values.as_slice()
            && cells.len() >= least
        {
            let text = format!("{what} {value}: everywhere");
            return self.wrapped("  ", 4, &text);
        }
        for (value, cells) in values {
            self.wrapped("  ", 4, &format!("{what} {value}: {}", cells.join(", ")));
        }
    }

    fn work(&self, work: &Work<'_>, grid: &mut Grid) {
        if let Some(cell) = work.cells.first() {
            let good = if cell.better == Better::Less { "less" } else { "more" };
            grid.title(format!("{}: {}, {good} is better", work.group, cell.metric));
        }
        let mut last = None;
        for cell in &work.cells {
            let mut row = self.cell(cell);
            // What is the same as above is not said again: lines of one platform are read together.
            if last == Some(&cell.cell.platform) {
                row[0] = Field::from("");
            }
            last = Some(&cell.cell.platform);
            grid.row(row);
        }
    }

    fn cell(&self, cell: &ReportedCell) -> Vec<Field> {
        let quartiles = cell.quartiles.map(|[low, high]| {
            format!("{} … {}", quantity(low, cell.unit), quantity(high, cell.unit))
        });
        let counted = cell.counted();
        let left_out = match cell.points.len() - counted {
            0 => String::new(),
            some => count(some as u64),
        };
        let mut row: Vec<Field> = vec![
            cell.cell.platform.clone().into(),
            cell.arm().into(),
            quantity_or_dash(cell.median, cell.unit).into(),
            quartiles.unwrap_or_default().into(),
            count(counted as u64).into(),
            Field::toned(left_out, Tone::Dim),
        ];
        row.extend(compared(self.view.first_comparison(&cell.cell)));
        row.push(cell.limiter.as_ref().map(limiter).unwrap_or_default().into());
        row
    }

    /// What confirmed the suspects, where that was asked for.
    fn elasticities(&mut self, at: usize) {
        let mut grid = Grid::new(&[
            left("halved"),
            left("of"),
            right("elasticity"),
            right("interval"),
            left("evidence").expendable(1),
        ]);
        let cells = self.view.families[at].groups.iter().flat_map(|work| &work.cells);
        for cell in cells {
            let Some(suspect) = &cell.limiter else { continue };
            let Some([middle, low, high]) = suspect.elasticity else { continue };
            grid.row(vec![
                suspect.name.clone().into(),
                cell.cell.to_string().into(),
                format!("{middle:.2}").into(),
                format!("[{low:.2} … {high:.2}]").into(),
                suspect.evidence.clone().into(),
            ]);
        }
        if !grid.is_empty() {
            self.out.push_str(
                "\n  limiters halved: elasticity 1: the result follows in full, 0: no effect\n",
            );
            self.grid(&grid);
        }
    }
}

fn compared(comparison: Option<&Comparison>) -> Vec<Field> {
    let Some(comparison) = comparison else {
        return vec![
            Field::toned("reference", Tone::Dim),
            "".into(),
            "".into(),
            "".into(),
            "".into(),
        ];
    };
    let mut fields = vec![comparison.against().into()];
    fields.extend(change_fields(comparison));
    fields.push(verdict_field(comparison.verdict));
    fields.push(comparison.floor.map_or_else(|| DASH.to_owned(), per_cent).into());
    fields
}

fn limiter(suspect: &Suspect) -> String {
    let doubt = if suspect.runs == suspect.of_runs {
        String::new()
    } else {
        format!(" ({}/{})", suspect.runs, suspect.of_runs)
    };
    format!("{}{doubt}", suspect.name)
}
