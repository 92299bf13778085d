//! The cells: what was measured, and what is to be thought of it.

use super::{
    Page,
    comparisons::{change_fields, verdict_field},
    grid::{Column, Field, Grid, Tone, left, right},
};
use crate::report::{
    Comparison, ReportedCell, Suspect,
    number::{DASH, count, per_cent, quantity, quantity_or_dash},
    view::{Family, Work},
};

const COLUMNS: [Column; 14] = [
    left("workload"),
    left("platform"),
    left("tracer"),
    left("metric").expendable(7),
    right("median"),
    right("half within").expendable(6),
    right("n"),
    right("left out").expendable(3),
    left("against").expendable(4),
    right("change"),
    right("interval").expendable(1),
    left("verdict"),
    right("floor").expendable(2),
    left("limiter").expendable(5),
];

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
        self.heading(&name, "medians; changes of the paired blocks' ratio, per cent of 'against'");
        self.grid(&grid);
        self.further_comparisons(at);
        self.elasticities(at);
    }

    fn work(&self, work: &Work<'_>, grid: &mut Grid) {
        let mut last = (String::new(), String::new());
        for cell in &work.cells {
            let mut row = self.cell(cell);
            let this = (work.group.to_string(), cell.cell.platform.clone());
            // What is the same as above is not said again: lines of one workload are read together.
            if last.0 == this.0 {
                row[0] = Field::from("");
                if last.1 == this.1 {
                    row[1] = Field::from("");
                }
            }
            grid.row(row);
            last = this;
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
            cell.cell.group.to_string().into(),
            cell.cell.platform.clone().into(),
            cell.arm().into(),
            cell.metric.clone().into(),
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
            self.out
                .push_str("\n  limiters halved: 1: the result follows in full, 0: not at all\n");
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
