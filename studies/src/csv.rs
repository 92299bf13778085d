//! Tables in CSV files: a header line, quotes where a field needs them.

use anyhow::{Context, Result, bail, ensure};

/// A table: the names of its columns, and its rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// One row of a table.
#[derive(Clone, Copy, Debug)]
pub struct Row<'t> {
    columns: &'t [String],
    fields: &'t [String],
    /// Its line of data, from 1.
    number: usize,
}

impl Table {
    /// Reads the text of a CSV file.
    ///
    /// # Errors
    /// If a quoted field does not end, or a row has more or fewer fields than the header.
    pub fn parse(text: &str) -> Result<Self> {
        let mut records = records(text)?.into_iter();
        let columns = records.next().context("an empty CSV file")?;
        let rows: Vec<_> = records.collect();
        for (at, row) in rows.iter().enumerate() {
            let (have, want) = (row.len(), columns.len());
            ensure!(have == want, "row {} has {have} fields where the header has {want}", at + 1);
        }
        Ok(Self { columns, rows })
    }

    /// Its rows.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        let columns = &self.columns;
        let numbered = self.rows.iter().enumerate();
        numbered.map(|(at, fields)| Row { columns, fields, number: at + 1 })
    }
}

impl<'t> Row<'t> {
    /// The text of a column.
    ///
    /// # Errors
    /// If there is no such column.
    pub fn text(&self, column: &str) -> Result<&'t str> {
        let at = self.columns.iter().position(|name| name == column);
        let at = at.with_context(|| format!("no column {column}"))?;
        Ok(&self.fields[at])
    }

    /// The number in a column.
    ///
    /// # Errors
    /// If there is no such column, or no such number in it.
    pub fn number<T>(&self, column: &str) -> Result<T>
    where
        T: std::str::FromStr,
        T::Err: std::error::Error + Send + Sync + 'static,
    {
        let text = self.text(column)?;
        text.parse().with_context(|| format!("row {}, column {column}: '{text}'", self.number))
    }
}

/// One line of a CSV file.
pub fn line(fields: &[String]) -> String {
    let quoted = fields.iter().map(|field| match field.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.clone(),
    });
    quoted.collect::<Vec<_>>().join(",") + "\n"
}

fn records(text: &str) -> Result<Vec<Vec<String>>> {
    let (mut records, mut record, mut field) = (Vec::new(), Vec::new(), String::new());
    let mut inside = false;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if inside && letters.peek() == Some(&'"') => {
                letters.next();
                field.push('"');
            }
            '"' if inside || field.is_empty() => inside = !inside,
            ',' if !inside => record.push(std::mem::take(&mut field)),
            '\r' if !inside && letters.peek() == Some(&'\n') => {}
            '\n' if !inside => {
                record.push(std::mem::take(&mut field));
                records.push(std::mem::take(&mut record));
            }
            _ => field.push(letter),
        }
    }
    if inside {
        bail!("a quoted field of a CSV file does not end");
    }
    if !(field.is_empty() && record.is_empty()) {
        record.push(field);
        records.push(record);
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let fields = ["plain", "a, b", "say \"x\"", "", "two\nlines"].map(str::to_owned);
        let text = "a,b,c,d,e\n".to_owned() + &line(&fields);
        let table = Table::parse(&text).unwrap();
        let row = table.rows().next().unwrap();
        for (name, field) in ["a", "b", "c", "d", "e"].iter().zip(&fields) {
            assert_eq!(row.text(name).unwrap(), field);
        }
        assert!(row.text("f").is_err());
    }

    #[test]
    fn what_is_broken_is_refused() {
        for text in ["", "a,b\n1\n", "a\n\"1\n"] {
            assert!(Table::parse(text).is_err(), "{text:?}");
        }
        let table = Table::parse("a\nx\n").unwrap();
        let error = table.rows().next().unwrap().number::<u64>("a").unwrap_err();
        assert!(format!("{error:#}").contains("row 1, column a: 'x'"), "{error:#}");
    }
}
