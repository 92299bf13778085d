//! A list of rows with columns, before it is known how wide the screen is.

use crate::{number, who::Who};
use std::cmp::Ordering;

/// What a value says about how things are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    #[default]
    Plain,
    /// Less important than the rest.
    Dim,
    /// More important.
    Strong,
    /// Worth a look.
    Warn,
    /// Wrong.
    Alarm,
}

impl Tone {
    /// Of a share of time that somebody waited for a CPU, per cent.
    pub(crate) fn of_waiting(per_cent: f64) -> Self {
        match per_cent {
            20.0.. => Tone::Alarm,
            5.0.. => Tone::Warn,
            _ => Tone::Plain,
        }
    }
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Text(String),
    /// Per cent.
    Share(f64),
    /// Per cent of waiting, with what it means for this row.
    Waiting(f64, Tone),
    /// A number, or so many a second.
    Rate(f64),
    /// A length, ns.
    Time(u64),
    /// Per cent, window by window, oldest first.
    Trend(Vec<f64>),
    /// Cannot be had.
    Missing,
    /// Does not apply, or there was none.
    Nothing,
}

impl Cell {
    /// `value` unless it cannot be had.
    pub(crate) fn unless(is_missing: bool, value: Cell) -> Cell {
        if is_missing { Cell::Missing } else { value }
    }

    pub(crate) fn tone(&self) -> Tone {
        match self {
            Cell::Waiting(_, tone) => *tone,
            Cell::Missing | Cell::Nothing => Tone::Dim,
            _ => Tone::Plain,
        }
    }

    pub(crate) fn text(&self, glyphs: &Glyphs) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Share(value) | Cell::Waiting(value, _) => number::share(*value),
            Cell::Rate(value) => number::rate(*value),
            Cell::Time(ns) => number::time(*ns, glyphs.micro),
            Cell::Trend(values) => glyphs.trend(values),
            Cell::Missing => glyphs.missing.to_owned(),
            Cell::Nothing => String::new(),
        }
    }

    /// Small to large; what is not there is smaller than anything.
    fn order(&self, other: &Cell) -> Ordering {
        match (self, other) {
            // Names sort from A on where numbers sort from the largest on.
            (Cell::Text(a), Cell::Text(b)) => b.to_lowercase().cmp(&a.to_lowercase()),
            (a, b) => a.size().total_cmp(&b.size()),
        }
    }

    fn size(&self) -> f64 {
        match self {
            Cell::Share(value) | Cell::Waiting(value, _) | Cell::Rate(value) => *value,
            Cell::Time(ns) => *ns as f64,
            Cell::Trend(values) => values.iter().sum(),
            Cell::Text(_) => 0.0,
            Cell::Nothing => -1.0,
            Cell::Missing => -2.0,
        }
    }
}

/// What a terminal can show.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Glyphs {
    bars: [char; 9],
    pub(crate) micro: &'static str,
    pub(crate) missing: &'static str,
    pub(crate) cut: char,
    pub(crate) down: char,
    pub(crate) up: char,
    pub(crate) into: &'static str,
}

impl Glyphs {
    pub(crate) fn of(is_ascii: bool) -> Self {
        if is_ascii {
            return Glyphs {
                bars: [' ', '.', ':', '-', '=', '+', '*', '%', '#'],
                micro: "us",
                missing: "-",
                cut: '~',
                down: 'v',
                up: '^',
                into: ">",
            };
        }
        Glyphs {
            bars: [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
            micro: "µs",
            missing: "–",
            cut: '…',
            down: '▼',
            up: '▲',
            into: "›",
        }
    }

    /// A bar for each value: nothing for nothing, the lowest for anything, a full one for 100 %.
    pub(crate) fn trend(&self, per_cent: &[f64]) -> String {
        per_cent.iter().map(|value| self.bars[eighths(*value)]).collect()
    }
}

fn eighths(per_cent: f64) -> usize {
    // Below a thousandth nothing is seen of it in numbers either.
    const STEPS: [f64; 8] = [0.05, 12.5, 25.0, 37.5, 50.0, 62.5, 75.0, 87.5];
    STEPS.iter().filter(|step| per_cent >= **step).count()
}

/// One column.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) title: String,
    /// At least so wide, without the blank before it.
    pub(crate) width: u16,
    /// Up to so wide, if there is room.
    pub(crate) widest: u16,
    /// Columns of higher numbers are left out first; 0 stays.
    pub(crate) rank: u8,
    pub(crate) is_left: bool,
}

impl Column {
    /// Of text; takes what room there is.
    pub(crate) fn text(title: &str, width: u16, widest: u16, rank: u8) -> Self {
        Column { title: title.to_owned(), width, widest, rank, is_left: true }
    }

    /// Of numbers.
    pub(crate) fn number(title: &str, width: u16, rank: u8) -> Self {
        // Room for the sort mark.
        let title_width = u16::try_from(title.chars().count()).unwrap_or(width) + 1;
        let width = width.max(title_width);
        Column { title: title.to_owned(), width, widest: width, rank, is_left: false }
    }
}

/// One row.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) who: Who,
    pub(crate) cells: Vec<Cell>,
}

/// By which column rows are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sort {
    pub(crate) column: usize,
    /// From small to large (names: from Z on).
    pub(crate) is_reversed: bool,
}

/// A list.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Row>,
    pub(crate) sort: Sort,
    /// Rows before the filter.
    pub(crate) all_rows: usize,
    /// What is said where there is no row.
    pub(crate) empty: String,
}

impl Table {
    pub(crate) fn new(columns: Vec<Column>, rows: Vec<Row>, sort: Sort, empty: &str) -> Self {
        let all_rows = rows.len();
        Table { columns, rows, sort, all_rows, empty: empty.to_owned() }
    }

    /// Sorts its rows; those that are equal by `then`, and by name.
    pub(crate) fn sorted(mut self, then: usize) -> Self {
        let Sort { column, is_reversed } = self.sort;
        let by = |a: &Row, b: &Row, column: usize| match (a.cells.get(column), b.cells.get(column))
        {
            (Some(a), Some(b)) => b.order(a),
            _ => Ordering::Equal,
        };
        self.rows.sort_by(|a, b| {
            let first = by(a, b, column);
            let first = if is_reversed { first.reverse() } else { first };
            first.then_with(|| by(a, b, then)).then_with(|| by(a, b, 0)).then(a.who.cmp(&b.who))
        });
        self
    }

    /// Keeps the rows whose name holds `text`, whatever the case.
    pub(crate) fn filtered(mut self, text: &str) -> Self {
        if text.is_empty() {
            return self;
        }
        let text = text.to_lowercase();
        let holds = |row: &Row| match row.cells.first() {
            Some(Cell::Text(name)) => name.to_lowercase().contains(&text),
            _ => true,
        };
        self.rows.retain(holds);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transect_model::ids::Tid;

    fn table(sort: Sort, values: &[(&str, Cell)]) -> Table {
        let columns = vec![Column::text("NAME", 4, 9, 0), Column::number("X", 4, 0)];
        let row = |(at, (name, cell)): (usize, &(&str, Cell))| Row {
            who: Who::Thread(Tid(i32::try_from(at).unwrap())),
            cells: vec![Cell::Text((*name).to_owned()), cell.clone()],
        };
        Table::new(columns, values.iter().enumerate().map(row).collect(), sort, "none")
    }

    fn names(table: &Table) -> Vec<String> {
        table.rows.iter().map(|row| row.cells[0].text(&Glyphs::of(true))).collect()
    }

    #[test]
    fn numbers_from_the_largest_on_names_from_a_on_and_what_is_missing_last() {
        let rows = [
            ("b", Cell::Share(1.0)),
            ("a", Cell::Share(1.0)),
            ("C", Cell::Missing),
            ("d", Cell::Share(7.0)),
            ("e", Cell::Nothing),
        ];
        let by = |column, is_reversed| names(&table(Sort { column, is_reversed }, &rows).sorted(1));
        assert_eq!(by(1, false), ["d", "a", "b", "e", "C"]);
        assert_eq!(by(1, true), ["C", "e", "a", "b", "d"]);
        assert_eq!(by(0, false), ["a", "b", "C", "d", "e"]);
        let sort = Sort { column: 0, is_reversed: false };
        assert_eq!(names(&table(sort, &rows).filtered("c")), ["C"]);
    }

    #[test]
    fn a_trend_shows_anything_and_a_full_bar_is_all() {
        let glyphs = Glyphs::of(false);
        assert_eq!(glyphs.trend(&[0.0, 0.1, 49.9, 50.0, 99.0, 100.0, 300.0]), " ▁▄▅███");
    }
}
