//! Flat rows and CSV.

use crate::report::{assert_golden, sample};
use transect_bench_report::rows::{Kind, Rows, Value, all, comparisons, runs};

fn check(table: &Rows) {
    for row in table.rows() {
        assert_eq!(row.len(), table.columns().len(), "{}", table.name);
        for (column, value) in table.columns().iter().zip(row) {
            let is_right = matches!(
                (column.kind, value),
                (_, Value::Missing)
                    | (Kind::Text, Value::Text(_))
                    | (Kind::Count, Value::Count(_))
                    | (Kind::Number, Value::Number(_))
                    | (Kind::Switch, Value::Switch(_))
            );
            assert!(is_right, "{} of {}: {value:?}", column.name, table.name);
        }
    }
}

#[test]
fn every_value_is_of_its_columns_kind() {
    for report in [sample::rich(), sample::one_block(), sample::large()] {
        all(&report).iter().for_each(check);
    }
}

#[test]
fn columns_are_told_apart_and_explained() {
    for table in all(&sample::rich()) {
        let mut names: Vec<&str> = table.columns().iter().map(|column| column.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), table.columns().len(), "{}", table.name);
        assert!(table.columns().iter().all(|column| !column.about.is_empty()));
    }
}

#[test]
fn no_run_and_no_comparison_is_missing() {
    let report = sample::rich();
    let points: usize = report.cells.iter().map(|cell| cell.points.len()).sum();
    assert_eq!(runs(&report).rows().len(), points);
    assert_eq!(comparisons(&report).rows().len(), report.comparisons.len());
}

#[test]
fn csv_is_as_it_was() {
    let mut found = String::new();
    for table in all(&sample::rich()) {
        let csv = table.csv();
        assert!(csv.ends_with("\r\n"));
        let head: Vec<&str> = csv.split("\r\n").take(6).collect();
        found.push_str(&format!("== {}\n{}\n", table.name, head.join("\n")));
    }
    assert_golden("rows.csv.txt", &found);
}

/// Reads CSV as RFC 4180 has it: the file must say what the rows say.
#[test]
fn csv_reads_back() {
    for table in all(&sample::rich()) {
        let lines = parsed(&table.csv());
        assert_eq!(lines.len(), table.rows().len() + 1);
        for (line, row) in lines[1..].iter().zip(table.rows()) {
            assert_eq!(line.len(), row.len());
            for (field, value) in line.iter().zip(row) {
                let is_same = match value {
                    Value::Missing => field.is_empty(),
                    Value::Text(text) => field == text,
                    Value::Count(count) => field.parse() == Ok(*count),
                    Value::Number(number) => field.parse() == Ok(*number),
                    Value::Switch(switch) => field.parse() == Ok(*switch),
                };
                assert!(is_same, "{field:?} is not {value:?}");
            }
        }
    }
}

fn parsed(csv: &str) -> Vec<Vec<String>> {
    let (mut lines, mut line, mut field) = (Vec::new(), Vec::new(), String::new());
    let mut is_quoted = false;
    let mut chars = csv.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if is_quoted && chars.peek() == Some(&'"') => field.extend(chars.next()),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => line.push(std::mem::take(&mut field)),
            '\r' if !is_quoted => {}
            '\n' if !is_quoted => {
                line.push(std::mem::take(&mut field));
                lines.push(std::mem::take(&mut line));
            }
            c => field.push(c),
        }
    }
    lines
}
