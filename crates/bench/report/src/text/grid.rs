//! Aligned tables that fit the terminal.
//!
//! A table too wide first loses its least important columns, then its names are cut with an ellipsis. Numbers are never
//! cut: a wrong number is worse than a broken line.

use transect_model::escape::terminal;

/// How a column is set and what may happen to it when space is short.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    header: &'static str,
    is_right: bool,
    /// 0: stays. Higher goes earlier.
    expendable: u8,
}

/// A column of words, set left.
pub(super) const fn left(header: &'static str) -> Column {
    Column { header, is_right: false, expendable: 0 }
}

/// A column of numbers, set right.
pub(super) const fn right(header: &'static str) -> Column {
    Column { header, is_right: true, expendable: 0 }
}

impl Column {
    /// The same column, dropped when space is short; higher ranks go first, 1 only when names would say nothing any more.
    pub(super) const fn expendable(mut self, rank: u8) -> Self {
        self.expendable = rank;
        self
    }
}

/// How a word is coloured, where colours are asked for. Never by red against green.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    /// As the terminal has it.
    Plain,
    /// What matters less.
    Dim,
    /// Headings.
    Bold,
    /// Worse, refused, failed: yellow.
    Bad,
    /// Better: blue.
    Good,
}

impl Tone {
    /// A text in this tone.
    pub(super) fn paint(self, text: &str, has_colour: bool) -> String {
        let code = match self {
            Self::Plain => return text.to_owned(),
            Self::Dim => "2",
            Self::Bold => "1",
            Self::Bad => "33",
            Self::Good => "34",
        };
        if has_colour && !text.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// What stands in a table's field.
#[derive(Clone, Debug)]
pub(super) struct Field {
    text: String,
    tone: Tone,
}

impl Field {
    /// A text in a tone.
    pub(super) fn toned(text: impl AsRef<str>, tone: Tone) -> Self {
        Self { text: terminal(text.as_ref()).into_owned(), tone }
    }
}

impl<T: AsRef<str>> From<T> for Field {
    fn from(text: T) -> Self {
        Self::toned(text, Tone::Plain)
    }
}

/// A line of a table.
enum Row {
    /// A field for every column.
    Fields(Vec<Field>),
    /// What the lines below have in common.
    Title(Field),
}

/// A table under construction.
pub(super) struct Grid {
    columns: Vec<Column>,
    rows: Vec<Row>,
}

const GAP: usize = 2;
const INDENT: usize = 2;
/// A name cut below this many characters says nothing any more.
const SHORTEST_NAME: usize = 8;

impl Grid {
    /// A table with these columns.
    pub(super) fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row; what is missing stays empty.
    pub(super) fn row(&mut self, mut fields: Vec<Field>) {
        fields.resize(self.columns.len(), Field::from(""));
        self.rows.push(Row::Fields(fields));
    }

    /// Adds a line across all columns.
    pub(super) fn title(&mut self, text: impl AsRef<str>) {
        self.rows.push(Row::Title(Field::from(text)));
    }

    /// Has it no rows?
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Writes it within `width` characters, where there is a limit. Columns in which nothing stands are left out.
    pub(super) fn write(&self, out: &mut String, width: Option<usize>, has_colour: bool) {
        let (shown, widths) = self.layout(width.map(|width| width.saturating_sub(INDENT)));
        let header = |column: &Column| Field::toned(column.header, Tone::Dim);
        let header: Vec<Field> = self.columns.iter().map(header).collect();
        self.write_line(out, &header, &shown, &widths, has_colour);
        for row in &self.rows {
            match row {
                Row::Fields(fields) => self.write_line(out, fields, &shown, &widths, has_colour),
                Row::Title(field) => {
                    let room = width.map_or(usize::MAX, |width| width.saturating_sub(INDENT));
                    let title = field.tone.paint(&cut(&field.text, room), has_colour);
                    out.push_str(&format!("{}{title}\n", " ".repeat(INDENT)));
                }
            }
        }
    }

    /// Is a column left out because there is no room for it?
    pub(super) fn is_dropped(&self, at: usize, width: Option<usize>) -> bool {
        let (shown, _) = self.layout(width.map(|width| width.saturating_sub(INDENT)));
        self.is_used(at) && !shown.contains(&at)
    }

    fn is_used(&self, at: usize) -> bool {
        self.fields().any(|fields| !fields[at].text.is_empty())
    }

    fn fields(&self) -> impl Iterator<Item = &Vec<Field>> {
        self.rows.iter().filter_map(|row| match row {
            Row::Fields(fields) => Some(fields),
            Row::Title(_) => None,
        })
    }

    /// Which columns are shown, and how wide each is.
    fn layout(&self, width: Option<usize>) -> (Vec<usize>, Vec<usize>) {
        let mut shown: Vec<usize> =
            (0..self.columns.len()).filter(|at| self.is_used(*at)).collect();
        let mut widths: Vec<usize> =
            (0..self.columns.len()).map(|at| self.natural_width(at)).collect();
        let Some(width) = width else {
            return (shown, widths);
        };
        // Names are shortened to what still tells them apart before a column goes.
        loop {
            let can_go = shown.iter().copied().filter(|at| self.columns[*at].expendable > 0);
            let Some(at) = can_go.max_by_key(|at| self.columns[*at].expendable) else { break };
            let readable = if self.columns[at].expendable == 1 { 10 } else { 20 };
            if self.narrowest(&shown, &widths, readable) <= width {
                break;
            }
            shown.retain(|column| *column != at);
        }
        self.shrink_names(&shown, &mut widths, width);
        (shown, widths)
    }

    fn natural_width(&self, at: usize) -> usize {
        let fields = self.fields().map(|fields| length(&fields[at].text));
        fields.chain([length(self.columns[at].header)]).max().unwrap_or(0)
    }

    /// The width that it has when names are cut to so many characters.
    fn narrowest(&self, shown: &[usize], widths: &[usize], readable: usize) -> usize {
        let width = |at: usize| {
            if self.columns[at].is_right { widths[at] } else { widths[at].min(readable) }
        };
        shown.iter().map(|at| width(*at)).sum::<usize>() + GAP * shown.len().saturating_sub(1)
    }

    fn shrink_names(&self, shown: &[usize], widths: &mut [usize], width: usize) {
        loop {
            let total = shown.iter().map(|at| widths[*at]).sum::<usize>();
            let over = (total + GAP * shown.len().saturating_sub(1)).saturating_sub(width);
            let names = shown.iter().copied().filter(|at| !self.columns[*at].is_right);
            match names.max_by_key(|at| widths[*at]) {
                Some(at) if over > 0 && widths[at] > SHORTEST_NAME => widths[at] -= 1,
                _ => return,
            }
        }
    }

    fn write_line(
        &self,
        out: &mut String,
        row: &[Field],
        shown: &[usize],
        widths: &[usize],
        has_colour: bool,
    ) {
        let mut line = String::new();
        // Blanks are owed until something follows: no line ends with them, coloured or not.
        let mut owed = INDENT;
        for at in shown.iter().copied() {
            let text = cut(&row[at].text, widths[at]);
            let pad = widths[at] - length(&text);
            let (before, after) = if self.columns[at].is_right { (pad, 0) } else { (0, pad) };
            if !text.is_empty() {
                line.push_str(&" ".repeat(owed + before));
                line.push_str(&row[at].tone.paint(&text, has_colour));
                owed = after + GAP;
            } else {
                owed += widths[at] + GAP;
            }
        }
        out.push_str(&line);
        out.push('\n');
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

fn cut(text: &str, width: usize) -> String {
    if length(text) <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(width: Option<usize>, has_colour: bool) -> String {
        let columns = [left("name"), right("time"), right("calls").expendable(1), left("none")];
        let mut grid = Grid::new(&columns);
        grid.row(vec!["a rather long name\u{1b}[2J".into(), "1.00 µs".into(), "7".into()]);
        grid.row(vec![Field::toned("x", Tone::Bad), "12.0 ms".into(), "1,234".into()]);
        let mut out = String::new();
        grid.write(&mut out, width, has_colour);
        out
    }

    #[test]
    fn numbers_are_right_names_left_and_columns_of_nothing_are_left_out() {
        assert_eq!(
            written(None, false),
            "  name                          time  calls\n  \
               a rather long name\\x1b[2J  1.00 µs      7\n  \
               x                          12.0 ms  1,234\n"
        );
    }

    #[test]
    fn what_is_too_wide_loses_columns_then_letters() {
        let text = written(Some(24), false);
        assert!(!text.contains("calls"), "{text}");
        assert!(text.lines().all(|line| length(line) <= 24), "{text}");
    }

    #[test]
    fn colours_come_only_when_asked_for_and_take_no_room() {
        assert!(!written(None, false).contains('\u{1b}'));
        let coloured = written(None, true);
        assert!(coloured.contains("  \u{1b}[33mx\u{1b}[0m        "), "{coloured:?}");
    }
}
