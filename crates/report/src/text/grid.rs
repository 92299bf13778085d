//! Aligned tables that fit the terminal.
//!
//! A table too wide for its terminal first loses its least important columns, then its names are
//! cut with an ellipsis. Written to a file or a pipe, it is as wide as it needs to be.

use std::io::{self, Write};
use transect_model::escape::terminal;

/// How a column is set and what may happen to it when space is short.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    header: &'static str,
    right: bool,
    /// 0: stays. Higher goes earlier.
    expendable: u8,
}

/// A column of words, set left.
pub(crate) const fn left(header: &'static str) -> Column {
    Column { header, right: false, expendable: 0 }
}

/// A column of numbers, set right.
pub(crate) const fn right(header: &'static str) -> Column {
    Column { header, right: true, expendable: 0 }
}

impl Column {
    /// The same column, dropped when space is short; higher ranks go first.
    pub(crate) const fn expendable(mut self, rank: u8) -> Column {
        self.expendable = rank;
        self
    }
}

/// A table under construction.
pub(crate) struct Grid {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

const GAP: usize = 2;
/// A name cut below this many characters says nothing any more.
const SHORTEST_NAME: usize = 8;

impl Grid {
    /// A table with these columns.
    pub(crate) fn new(columns: &[Column]) -> Self {
        Grid { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row; missing cells stay empty. Control characters, which a thread may carry in its
    /// name to play with the reader's terminal, are shown as escapes.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        let mut cells: Vec<String> = cells.into_iter().map(|c| terminal(&c).into_owned()).collect();
        cells.resize(self.columns.len(), String::new());
        self.rows.push(cells);
    }

    /// Leaves out what is behind the first `most` rows, and says how many that were.
    pub(crate) fn cut(&mut self, most: usize) -> usize {
        let rest = self.rows.len().saturating_sub(most);
        self.rows.truncate(most);
        rest
    }

    /// Writes it, indented by `indent` blanks, within `width` characters where there is a limit.
    pub(crate) fn write(
        &self,
        out: &mut dyn Write,
        indent: usize,
        width: Option<usize>,
    ) -> io::Result<()> {
        let (shown, widths) = self.layout(width.map(|w| w.saturating_sub(indent)));
        let header: Vec<String> = self.columns.iter().map(|c| c.header.to_owned()).collect();
        self.write_line(out, indent, &header, &shown, &widths)?;
        for row in &self.rows {
            self.write_line(out, indent, row, &shown, &widths)?;
        }
        Ok(())
    }

    /// Which columns are shown, and how wide each is.
    fn layout(&self, width: Option<usize>) -> (Vec<usize>, Vec<usize>) {
        let mut shown: Vec<usize> = (0..self.columns.len()).collect();
        let mut widths: Vec<usize> = shown.iter().map(|at| self.natural_width(*at)).collect();
        let Some(width) = width else {
            return (shown, widths);
        };
        while total(&shown, &widths) > width {
            let Some(at) = self.most_expendable(&shown) else { break };
            shown.retain(|column| *column != at);
        }
        self.shrink_names(&shown, &mut widths, width);
        (shown, widths)
    }

    fn natural_width(&self, at: usize) -> usize {
        let cells = self.rows.iter().map(|row| row[at].chars().count());
        cells.chain([self.columns[at].header.chars().count()]).max().unwrap_or(0)
    }

    fn most_expendable(&self, shown: &[usize]) -> Option<usize> {
        let can_go = shown.iter().copied().filter(|at| self.columns[*at].expendable > 0);
        can_go.max_by_key(|at| self.columns[*at].expendable)
    }

    fn shrink_names(&self, shown: &[usize], widths: &mut [usize], width: usize) {
        loop {
            let over = total(shown, widths).saturating_sub(width);
            let names = shown.iter().copied().filter(|at| !self.columns[*at].right);
            let widest = names.max_by_key(|at| widths[*at]);
            match widest {
                Some(at) if over > 0 && widths[at] > SHORTEST_NAME => widths[at] -= 1,
                _ => return,
            }
        }
    }

    fn write_line(
        &self,
        out: &mut dyn Write,
        indent: usize,
        cells: &[String],
        shown: &[usize],
        widths: &[usize],
    ) -> io::Result<()> {
        let mut line = " ".repeat(indent);
        for (nth, at) in shown.iter().copied().enumerate() {
            if nth > 0 {
                line.push_str(&" ".repeat(GAP));
            }
            let cell = cut(&cells[at], widths[at]);
            let pad = " ".repeat(widths[at] - cell.chars().count());
            let (before, after) =
                if self.columns[at].right { (pad, "".into()) } else { ("".into(), pad) };
            line.push_str(&(before + &cell + &after));
        }
        writeln!(out, "{}", line.trim_end())
    }
}

fn total(shown: &[usize], widths: &[usize]) -> usize {
    shown.iter().map(|at| widths[*at]).sum::<usize>() + GAP * shown.len().saturating_sub(1)
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Grid {
        let mut grid = Grid::new(&[left("name"), right("time"), right("calls").expendable(1)]);
        grid.row(vec!["a rather long thread name".into(), "1.00 µs".into(), "7".into()]);
        grid.row(vec!["x".into(), "12.0 ms".into(), "1,234".into()]);
        grid
    }

    fn written(grid: &Grid, width: Option<usize>) -> String {
        let mut out = Vec::new();
        grid.write(&mut out, 2, width).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_are_set_right_and_names_left() {
        assert_eq!(
            written(&sample(), None),
            "  name                          time  calls\n  \
               a rather long thread name  1.00 µs      7\n  \
               x                          12.0 ms  1,234\n"
        );
    }

    #[test]
    fn a_narrow_terminal_costs_expendable_columns_and_then_letters() {
        let lines = written(&sample(), Some(30));
        assert!(!lines.contains("calls"));
        assert!(lines.contains("a rather long thre…"), "{lines}");
        assert!(lines.lines().all(|line| line.chars().count() <= 30));
    }

    #[test]
    fn control_characters_never_reach_the_terminal() {
        let mut grid = Grid::new(&[left("name")]);
        grid.row(vec!["evil\u{1b}[2J\n".into()]);
        assert_eq!(written(&grid, None), "  name\n  evil\\x1b[2J\\n\n");
    }
}
