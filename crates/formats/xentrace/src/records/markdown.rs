//! The table as the README shows it.

use super::{At, Field, RecordDef, all};
use std::fmt::Write;

/// Every record as one Markdown table.
pub fn markdown() -> String {
    let mut text = String::from(
        "| event | name | words | stamp | Xen | fields | meaning |\n|---|---|---|---|---|---|---|\n",
    );
    for row in all() {
        // Writing to a String does not fail.
        let _ = writeln!(
            text,
            "| {} | `{}` | {} | {} | {} | {} | {} |",
            event(row),
            row.name,
            words(row),
            if row.stamped { "yes" } else { "no" },
            row.versions,
            fields(row),
            row.doc,
        );
    }
    text
}

fn event(row: &RecordDef) -> String {
    match row.varying {
        0 => format!("`{:08x}`", row.id),
        bits => format!("`{:08x}` + bits `{bits:x}`", row.id),
    }
}

fn words(row: &RecordDef) -> String {
    match (row.min_words, row.max_words) {
        (min, max) if min == max => min.to_string(),
        (min, max) => format!("{min}–{max}"),
    }
}

fn fields(row: &RecordDef) -> String {
    let shown: Vec<String> = row.fields.iter().map(field).collect();
    shown.join(" · ")
}

fn field(field: &Field) -> String {
    let at = match field.at {
        At::Word(word) => format!("w{word}"),
        At::Signed(word) => format!("w{word} signed"),
        At::Pair(word) => format!("w{word}–{}", word + 1),
        At::Bits { word, shift, bits } => format!("w{word}[{shift}+{bits}]"),
        At::SignedBits { word, shift, bits } => format!("w{word}[{shift}+{bits}] signed"),
        At::Event { shift, bits } => format!("event[{shift}+{bits}]"),
        At::Argument(_) => "if recorded".to_owned(),
    };
    match field.doc {
        "" => format!("{} {at}", field.name),
        doc => format!("{} {at} ({doc})", field.name),
    }
}
