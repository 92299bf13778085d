//! The parts of the page that are made from rows.

use crate::report::short;
use anyhow::{Context, Result};
use serde_json::Value;
use std::fmt::Write;

/// Parts of the page: the marker's name, and what the names of its rows begin with.
const PARTS: &[(&str, &[&str])] = &[
    ("cost", &["harness/", "cost/"]),
    ("overhead", &["overhead/"]),
    ("lost", &["lost/"]),
    ("bytes", &["bytes/"]),
    ("nested", &["nested/"]),
    ("import", &["import/"]),
    ("xen", &["xen/"]),
    ("sql", &["sql/"]),
    ("explain", &["explain/"]),
    ("timeline", &["timeline/", "page/"]),
    ("scale", &["scale/"]),
];

/// The page with what a run measured.
pub(super) fn filled(page: &str, run: &Value) -> Result<String> {
    let rows = run.get("rows").and_then(Value::as_array).context("no rows in the run")?;
    let mut page = replaced(page, "machine", &machine(run))?;
    for (name, prefixes) in PARTS {
        let of_part = |row: &&Value| {
            let name = row["name"].as_str().unwrap_or_default();
            prefixes.iter().any(|prefix| name.starts_with(prefix))
        };
        let rows: Vec<&Value> = rows.iter().filter(of_part).collect();
        if !rows.is_empty() {
            page = replaced(&page, name, &table(&rows))?;
        }
    }
    Ok(page)
}

/// With `text` between the markers of a part.
fn replaced(page: &str, part: &str, text: &str) -> Result<String> {
    let (open, close) = (format!("<!-- bench: {part} -->"), format!("<!-- end of {part} -->"));
    let (before, rest) =
        page.split_once(&open).with_context(|| format!("marker missing: {open}"))?;
    let (_, after) = rest.split_once(&close).with_context(|| format!("marker missing: {close}"))?;
    Ok(format!("{before}{open}\n{text}{close}{after}"))
}

fn table(rows: &[&Value]) -> String {
    let mut table = String::from(
        "| row | ours | peer | unit | ratio | goal | holds | spread | note |\n\
         |---|--:|--:|---|--:|---|---|---|---|\n",
    );
    for row in rows {
        let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let number = |value: &Value| value.as_f64().map_or_else(|| "–".to_owned(), short);
        let holds = match row["holds"].as_bool() {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => "–",
        };
        let what =
            row["skipped"].as_str().map_or_else(|| text("note"), |why| format!("skipped: {why}"));
        let spread = match row["spread"].as_array().map(Vec::as_slice) {
            Some([low, high]) => format!("{} … {}", number(low), number(high)),
            _ => "–".to_owned(),
        };
        // Writing to a String does not fail.
        let _ = writeln!(
            table,
            "| `{}` | {} | {} | {} | {} | {} | {holds} | {spread} | {} |",
            text("name"),
            number(&row["ours"]),
            number(&row["peer"]),
            text("unit"),
            number(&row["ratio"]),
            text("goal").replace("<=", "≤").replace(">=", "≥").replace('x', "×"),
            what.replace('|', "\\|"),
        );
    }
    table
}

fn machine(run: &Value) -> String {
    let machine = &run["machine"];
    let text = |name: &str| machine[name].as_str().unwrap_or("?").to_owned();
    let peers = machine["peers"].as_array().into_iter().flatten().filter_map(Value::as_str);
    format!(
        "{} × {}, {} GiB, Linux {}; commit {}. Peers: {}.\n",
        machine["cpus"],
        text("cpu"),
        machine["memory_gib"],
        text("kernel"),
        text("commit"),
        peers.collect::<Vec<_>>().join(", "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run() -> Value {
        json!({
            "machine": {"cpu": "C", "cpus": 2, "memory_gib": 8.0, "kernel": "6", "commit": "abc", "peers": ["perf 6"]},
            "rows": [{"name": "cost/a", "ours": 5.0, "peer": 10.0, "unit": "ns", "ratio": 0.5,
                      "goal": "<= 0.6x", "holds": true, "spread": [0.4, 0.6], "note": "a | b", "skipped": null}],
        })
    }

    #[test]
    fn figures_replace_figures_and_nothing_else() {
        let page = "# P\n<!-- bench: machine -->\nstale\n<!-- end of machine -->\nwords\n\
                    <!-- bench: cost -->\nstale\n<!-- end of cost -->\nend\n";
        let new = filled(page, &run()).unwrap();
        assert!(new.starts_with("# P\n") && new.contains("\nwords\n") && new.ends_with("\nend\n"));
        assert!(!new.contains("stale"));
        assert!(new.contains(
            "| `cost/a` | 5.00 | 10.00 | ns | 0.500 | ≤ 0.6× | yes | 0.400 … 0.600 | a \\| b |"
        ));
        assert_eq!(filled(&new, &run()).unwrap(), new, "again changes nothing");
    }

    #[test]
    fn a_page_without_its_parts_is_an_error() {
        let err = filled("# P\n", &run()).unwrap_err().to_string();
        assert!(err.contains("<!-- bench: machine -->"), "{err}");
    }

    #[test]
    fn the_page_has_every_part() {
        let page = include_str!("../../../docs/internals/performance.md");
        for (part, _) in PARTS.iter().chain(&[("machine", &[][..])]) {
            replaced(page, part, "").unwrap();
        }
    }
}
