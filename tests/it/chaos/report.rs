//! The sections of `report --json`, and rows of SQL that name what they count, beside those of the whole recording.

use super::rows::{Difference, Names, Numbers, SUMS, UNKNOWN};
use serde_json::Value;

/// The columns that name the subject of a row.
const SUBJECT: [&str; 14] = [
    "q",
    "t",
    "m",
    "k",
    "machine_id",
    "vcpu",
    "cpu",
    "tid",
    "cgroup",
    "reason",
    "device",
    "by_machine_id",
    "by_tid",
    "ts",
];
/// Sections of sums; a row of them has at most the sums of the whole.
const SECTIONS: [&str; 9] =
    ["vcpus", "vms", "domains", "antagonists", "exits", "cpus", "threads", "wakeups", "windows"];

fn subject_of(row: &Value) -> Vec<String> {
    SUBJECT.iter().map(|column| row[*column].to_string()).collect()
}

/// A report of a damaged recording beside that of the whole.
pub(crate) fn compare_reports(whole: &Value, damaged: &Value, names: Names) -> Difference {
    let mut found = Difference::default();
    for section in ["lost", "import_log", "notes"] {
        let known = whole[section].as_array();
        let rows = damaged[section].as_array().into_iter().flatten();
        let new = rows.filter(|row| !known.is_some_and(|known| known.contains(row)));
        found.statements.extend(new.cloned());
    }
    let list = |report: &Value| report["machines"].as_array().cloned().unwrap_or_default();
    let numbers = Numbers::new(&list(whole), &list(damaged));
    for section in SECTIONS {
        let known = whole[section].as_array().map_or(&[][..], Vec::as_slice);
        for row in damaged[section].as_array().into_iter().flatten() {
            let mut row = row.clone();
            numbers.apply(&mut row);
            if !known.contains(&row) {
                compare_sums(section, &row, known, names, &mut found);
            }
        }
    }
    for column in ["created_unix_ns", "command", "transect_version", "filter"] {
        let (was, is) = (&whole["recording"][column], &damaged["recording"][column]);
        if !is.is_null() && was != is {
            found.add(|| format!("recording: {column}: {is}, the whole: {was}"));
        }
    }
    found
}

/// Names of a subject do not change, and its known sums are at most those of the whole.
fn compare_sums(section: &str, row: &Value, known: &[Value], names: Names, found: &mut Difference) {
    let same = |other: &&Value| {
        SUBJECT.iter().all(|column| {
            // The control group of a thread is known if an event or the manifest names it.
            row[*column] == other[*column] || (*column == "cgroup" && row["cgroup"].is_null())
        })
    };
    let Some(other) = known.iter().find(same) else {
        // Windows begin with the recording: another beginning gives other windows. A subject of which nothing is known has
        // a row only where it could have done something.
        let is_unknown = SUMS.iter().all(|column| row[*column].as_i64().unwrap_or(0) == 0);
        if section != "windows" && !is_unknown {
            found.add(|| format!("{section}: the whole has no such row: {row}"));
        }
        return;
    };
    for (column, value) in row.as_object().into_iter().flatten() {
        let expected = &other[column];
        let is_wrong = match (value.as_i64(), expected.as_i64()) {
            (Some(value), Some(most)) if SUMS.contains(&column.as_str()) => {
                value > most + other[UNKNOWN].as_i64().unwrap_or(0)
            }
            // The name of a thread whose name was lost is its number.
            (None, _) if column == "name" && *value == format!("tid {}", row["tid"]) => false,
            (None, _) if column == "name" && names == Names::MayBeEarlier => false,
            (None, _) if value.is_string() => value != expected,
            _ => false,
        };
        if is_wrong {
            found.add(|| format!("{section}: {column}: {row}, the whole: {other}"));
        }
    }
}

/// The lines of the questions of `sql`: sums and counts of known things are at most those of the whole. Rows of tables are
/// returned, to be compared as rows.
pub(crate) fn compare_answers(whole: &str, damaged: &str, found: &mut Difference) -> String {
    let machines = |text: &str| -> Vec<Value> {
        let lines = text.lines().filter(|line| line.starts_with("{\"table\":\"machines\""));
        lines.filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    let numbers = Numbers::new(&machines(whole), &machines(damaged));
    let known: Vec<Value> = whole
        .lines()
        .filter(|line| line.starts_with("{\"q\""))
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let mut rows = String::new();
    for line in damaged.lines() {
        if !line.starts_with("{\"q\"") {
            rows.push_str(line);
            rows.push('\n');
            continue;
        }
        let Ok(mut row) = serde_json::from_str::<Value>(line) else {
            found.add(|| format!("not JSON: {line}"));
            continue;
        };
        numbers.apply(&mut row);
        if row["k"] == "unknown" {
            continue;
        }
        let subject = subject_of(&row);
        let other = known.iter().find(|other| subject_of(other) == subject);
        let unknown = known.iter().find(|other| {
            other["k"] == "unknown" && ["q", "t", "m"].iter().all(|c| other[*c] == row[*c])
        });
        let unknown = unknown.and_then(|row| row["v"].as_i64()).unwrap_or(0);
        let most = match other.and_then(|other| other["v"].as_i64()) {
            None if unknown > 0 => Some(unknown),
            most => most.map(|most| most + unknown),
        };
        if row["v"].as_i64() > most {
            found.add(|| format!("{row} is more than {most:?}"));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn larger_sums_and_other_names_contradict() {
        let whole = json!({"threads": [{"machine_id": 0, "tid": 7, "name": "a", "running_ns": 5, "p50_ns": 2}], "lost": []});
        let with = |name: &str, running: i64| {
            json!({"threads": [{"machine_id": 0, "tid": 7, "name": name, "running_ns": running, "p50_ns": 9}],
                "lost": [{"cause": "corrupt_page"}]})
        };
        assert!(compare_reports(&whole, &with("a", 4), Names::AreKept).contradictions.is_empty());
        assert_eq!(compare_reports(&whole, &with("a", 4), Names::AreKept).statements.len(), 1);
        assert_eq!(compare_reports(&whole, &with("a", 6), Names::AreKept).contradictions.len(), 1);
        assert_eq!(compare_reports(&whole, &with("b", 5), Names::AreKept).contradictions.len(), 1);
    }

    #[test]
    fn larger_answers_contradict() {
        let whole = r#"{"q":"sum","t":"thread_states","m":0,"k":"running","v":5}"#;
        let contradictions = |text: &str| {
            let mut found = Difference::default();
            compare_answers(whole, text, &mut found);
            found.contradictions.len()
        };
        assert_eq!(contradictions(whole), 0);
        assert_eq!(contradictions(&whole.replace('5', "4")), 0);
        assert_eq!(contradictions(&whole.replace('5', "6")), 1);
        assert_eq!(contradictions(&whole.replace("running", "blocked")), 1);
        assert_eq!(contradictions(&whole.replace("running", "unknown")), 0);
    }
}
