//! Tables, views and functions described as text and Markdown, from the places that define them.

use crate::views::{self, View};
use std::fmt::Write as _;
use transect_model::table::{TABLES, TableDoc};

/// `docs/reference/tables.md`: every table and column.
pub fn tables_markdown() -> String {
    let mut text = String::from(
        "# Tables\n\n\
         The tables of a recording and their columns, in `transect sql` and in the Parquet files.\n\
         Times are ns of trace time, or ticks if `machines.time_unit` states it; intervals are half open,\n\
         `[ts, ts + dur)`. This page is generated\n\
         from the descriptions in the code: `transect sql --schema --markdown`.\n",
    );
    for table in TABLES {
        let _ = write!(text, "\n## {}\n{}\n\n", table.name, one_line(table.doc));
        text.push_str("| column | type | null | meaning |\n|---|---|---|---|\n");
        for column in table.columns {
            let null = if column.nullable { "yes" } else { "" };
            let (kind, doc) = (column.ty.sql_name(), cell(column.doc));
            let _ = writeln!(text, "| `{}` | {kind} | {null} | {doc} |", column.name);
        }
    }
    text.push_str(EVENTS);
    text
}

const EVENTS: &str = "\n## events\nOne event of the recording; every event has exactly one row. The \
columns are those that all events have.\n\n| column | type | null | meaning |\n|---|---|---|---|\n\
| `ts` | bigint |  | Time, ns of trace time. |\n\
| `machine_id` | int unsigned |  | The machine whose kernel recorded it. |\n\
| `cpu` | int unsigned | yes | The CPU of that machine. |\n\
| `tid` | int | yes | The thread that was current. |\n\
| `name` | varchar |  | Name of the event: `sched_switch`, `kvm_exit`, … |\n\
| `args` | varchar |  | Fields of the event as `field=value field=value`. |\n\n\
## ev_NAME\nOne table for each kind of event in the recording, for example `ev_sched_switch`: `ts`, \
`machine_id`, `cpu`,\n`tid`, and one column for each field, with the kernel's name and type. \
`.tables` in the prompt lists the\ntables of a recording.\n";

/// The views as `docs/reference/sql.md` lists them.
pub fn views_markdown() -> String {
    let mut text = String::new();
    for view in views::all() {
        let _ = write!(text, "### {}\n{}\n", view.name, view.title);
        if !view.text.is_empty() {
            let _ = writeln!(text, "{}", view.text);
        }
        text.push_str("\n| column | meaning |\n|---|---|\n");
        for (name, meaning) in &view.columns {
            let _ = writeln!(text, "| `{name}` | {} |", cell(meaning));
        }
        let _ = write!(text, "\n```sql\n{}\n```\n\n", view.example);
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// Tables and their columns as text; all of them, or the one named.
pub fn tables_text(only: Option<&str>) -> String {
    let mut text = String::new();
    for table in TABLES.iter().filter(|t| only.is_none_or(|name| name == t.name)) {
        table_text(&mut text, table);
    }
    text
}

fn table_text(text: &mut String, table: &TableDoc) {
    let gap = if text.is_empty() { "" } else { "\n" };
    let _ = writeln!(text, "{gap}{} – {}", table.name, one_line(table.doc));
    for column in table.columns {
        let null = if column.nullable { ", null" } else { "" };
        let kind = format!("{}{null}", column.ty.sql_name());
        let _ = writeln!(text, "  {:<18} {kind:<22} {}", column.name, one_line(column.doc));
    }
}

/// Views and what they show, as text; all of them, or the one named with its columns.
pub fn views_text(only: Option<&str>) -> String {
    let mut text = String::new();
    for view in views::all().iter().filter(|v| only.is_none_or(|name| name == v.name)) {
        let gap = if text.is_empty() { "" } else { "\n" };
        let _ = writeln!(text, "{gap}{} – {}", view.name, view.title);
        view_text(&mut text, view);
    }
    text
}

fn view_text(text: &mut String, view: &View) {
    if !view.text.is_empty() {
        let _ = writeln!(text, "  {}", view.text);
    }
    for (name, meaning) in &view.columns {
        let _ = writeln!(text, "  {name:<18} {meaning}");
    }
    let _ = writeln!(text, "  example: {}", view.example);
}

/// A doc comment of several lines as one.
fn one_line(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn cell(doc: &str) -> String {
    one_line(doc).replace('|', "\\|")
}
