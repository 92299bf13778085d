//! Is an answer about a damaged recording right?

use super::{
    answer::{Answer, End, Part},
    daemon::compare as compare_histories,
    damage::{Change, Damage},
    files::Kind,
    report::{compare_answers, compare_reports},
    rows::{Difference, Names, Whole},
    verbs::Verb,
};
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// As the undamaged answer, without a word.
    Equal,
    /// As the undamaged answer, and a message names what was made again.
    Remade,
    /// The answer states the loss and contradicts the undamaged one nowhere.
    Stated,
    /// An error with the file and a remedy.
    Error,
    /// Another answer about a file without checksums that another program could have written: nothing can find a changed
    /// number in it.
    Unverifiable,
    Wrong,
}

#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) outcome: Outcome,
    /// What is wrong, or the message that states the damage.
    pub(crate) why: String,
}

/// The undamaged answer of a verb, prepared for comparisons.
pub(crate) struct Reference {
    pub(crate) answer: Answer,
    rows: Whole,
    json: Value,
}

impl Reference {
    pub(crate) fn new(verb: Verb, answer: Answer) -> Self {
        let text = answer.text("stdout");
        let has_rows = matches!(verb, Verb::Rows | Verb::Excerpt | Verb::Sql);
        let rows = if has_rows { Whole::new(&text) } else { Whole::default() };
        let json = match verb {
            Verb::Report => serde_json::from_str(&text).unwrap_or_default(),
            _ => Value::Null,
        };
        Reference { answer, rows, json }
    }
}

/// Words of a sentence that names what to do.
const REMEDIES: [&str; 15] = [
    "copy ", "again", "remove", "delete", "run ", "verify", "restore", "update", "use ", "give ",
    "make ", "free ", "choose", "check ", "rebuilt",
];

fn judged(outcome: Outcome, why: impl Into<String>) -> Verdict {
    Verdict { outcome, why: why.into() }
}

/// Does a text name the damaged file, or a folder that has it?
fn names(text: &str, damage: &Damage) -> bool {
    let parts: Vec<_> = damage.file.iter().map(|part| part.to_string_lossy()).collect();
    let Some((file, folders)) = parts.split_last() else { return false };
    let is_gone = matches!(damage.change, Change::DeleteFolder { .. });
    let may_be_folder = is_gone || Kind::of(&damage.file).is_derived();
    // The first folder is the recording itself.
    let of_folder = folders.iter().skip(1).any(|folder| text.contains(&**folder));
    text.contains(&**file) || (may_be_folder && of_folder)
}

fn has_remedy(text: &str) -> bool {
    let text = text.to_lowercase();
    REMEDIES.iter().any(|word| text.contains(word))
}

pub(crate) fn judge(verb: Verb, whole: &Reference, damage: &Damage, answer: &Answer) -> Verdict {
    let new = answer.messages_beyond(&whole.answer).join("\n");
    if answer.messages.contains("panicked") {
        return judged(Outcome::Wrong, format!("panic: {new}"));
    }
    let refusals = refusals(answer);
    match answer.end {
        End::Code(0) if refusals.is_empty() => {}
        // An import of the readable part of a file.
        End::Code(1) if verb == Verb::Import && !answer.parts.is_empty() => {
            return match names(&new, damage) {
                true => judged(Outcome::Stated, new),
                false => judged(Outcome::Wrong, format!("a part without the file: {new}")),
            };
        }
        End::Code(0..=2) => {
            let text = format!("{new}\n{}", refusals.join("\n"));
            // The user named the file: that it is not there, or empty, needs no remedy.
            let is_seen = text.contains("No such file") || text.contains("the file is empty");
            let is_typed = verb == Verb::Import && is_seen;
            return match (names(&text, damage), has_remedy(&text) || is_typed) {
                (true, true) => judged(Outcome::Error, text),
                (false, _) => judged(Outcome::Wrong, format!("error without the file: {text}")),
                (_, false) => judged(Outcome::Wrong, format!("error without a remedy: {text}")),
            };
        }
        end => return judged(Outcome::Wrong, format!("{end}: {new}")),
    }
    if answer.parts == whole.answer.parts {
        return match (names(&new, damage), Kind::of(&damage.file).is_derived()) {
            (false, _) => judged(Outcome::Equal, ""),
            (true, true) => judged(Outcome::Remade, new),
            (true, false) => judged(Outcome::Stated, new),
        };
    }
    if verb == Verb::Import {
        return judged(Outcome::Unverifiable, new);
    }
    let names_of = match Kind::of(&damage.file) {
        Kind::Source => Names::MayBeEarlier,
        _ => Names::AreKept,
    };
    let found = difference(verb, whole, answer, names_of);
    if !found.contradictions.is_empty() {
        let stated = if new.is_empty() { "silent" } else { "stated" };
        let text = format!("{stated}: {}\n{new}", found.contradictions.join("\n"));
        return judged(Outcome::Wrong, text);
    }
    let states = |row: &Value| {
        // A stretch of time without events or windows, or a problem of this file.
        row["cause"].is_string()
            || row["from_unix_ns"].is_number()
            || names(&row.to_string(), damage)
    };
    match (found.statements.iter().find(|row| states(row)), names(&new, damage)) {
        (_, true) => judged(Outcome::Stated, new),
        (Some(row), false) => judged(Outcome::Stated, row.to_string()),
        (None, false) => {
            let rows: Vec<String> = found.statements.iter().map(Value::to_string).collect();
            let (rows, first) = (rows.join("\n"), first_difference(&whole.answer, answer));
            judged(Outcome::Wrong, format!("the loss is not stated: {first}\n{new}\n{rows}"))
        }
    }
}

/// Errors of a server: responses with another status, and the reason why a page has no timeline.
pub(crate) fn refusals(answer: &Answer) -> Vec<String> {
    let text = |part: &Part| String::from_utf8_lossy(&part.body).into_owned();
    let mut errors: Vec<String> =
        answer.parts.iter().filter(|part| part.status != 200).map(text).collect();
    let facts: Value = serde_json::from_str(&answer.text("recording")).unwrap_or_default();
    if facts["building"]["state"] == "failed" {
        errors.push(facts["building"]["error"].to_string());
    }
    errors
}

fn difference(verb: Verb, whole: &Reference, answer: &Answer, names: Names) -> Difference {
    let text = answer.text("stdout");
    match verb {
        Verb::Report => match serde_json::from_str(&text) {
            Ok(report) => compare_reports(&whole.json, &report, names),
            Err(error) => Difference {
                contradictions: vec![format!("not JSON: {error}")],
                ..Difference::default()
            },
        },
        Verb::Sql => {
            let mut found = Difference::default();
            let rows = compare_answers(&whole.answer.text("stdout"), &text, &mut found);
            let of_rows = whole.rows.compare(&rows, names);
            found.contradictions.extend(of_rows.contradictions);
            found
        }
        Verb::Rows | Verb::Excerpt => whole.rows.compare(&text, names),
        Verb::View => compare_views(&whole.answer, answer),
        Verb::Serve => compare_histories(&whole.answer, answer),
        Verb::Perfetto | Verb::Import => Difference::default(),
    }
}

/// The page's facts: new problems and losses, and sums of states that are not larger.
fn compare_views(whole: &Answer, answer: &Answer) -> Difference {
    let mut found = Difference::default();
    let json = |answer: &Answer, part: &str| -> Value {
        serde_json::from_str(&answer.text(part)).unwrap_or_default()
    };
    let (was, is) = (json(whole, "recording"), json(answer, "recording"));
    for list in ["lost", "problems"] {
        let known = was[list].as_array();
        let rows = is[list].as_array().into_iter().flatten();
        let new = rows.filter(|row| !known.is_some_and(|known| known.contains(row)));
        found.statements.extend(new.cloned());
    }
    let (was, is) = (states_of(&json(whole, "stats")), states_of(&json(answer, "stats")));
    for (state, sum) in is {
        let most = was.get(&state).copied().unwrap_or(0);
        if state != "unknown" && state != "lost" && sum > most {
            found.add(|| format!("statistics: {state}: {sum}, the whole: {most}"));
        }
    }
    found
}

fn states_of(stats: &Value) -> std::collections::BTreeMap<String, i64> {
    let mut sums = std::collections::BTreeMap::new();
    for track in stats["tracks"].as_array().into_iter().flatten() {
        for state in track["states"].as_array().into_iter().flatten() {
            let name = state["state"].as_str().unwrap_or_default().to_owned();
            let ns = state["ns"].as_i64().or_else(|| state["ns"].as_str()?.parse().ok());
            *sums.entry(name).or_default() += ns.unwrap_or(0);
        }
    }
    sums
}

/// The first lines that differ, for the log.
fn first_difference(whole: &Answer, answer: &Answer) -> String {
    for part in &answer.parts {
        let Some(other) = whole.part(part.name).filter(|other| other.body != part.body) else {
            continue;
        };
        let (a, b) = (String::from_utf8_lossy(&other.body), String::from_utf8_lossy(&part.body));
        let at = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
        let from = |text: &str| -> String {
            let text: String = text.chars().skip(at.saturating_sub(60)).take(200).collect();
            text.escape_debug().to_string()
        };
        let (was, is) = (other.body.len(), part.body.len());
        return format!("{} at byte {at} of {was}, {is}: {}\n  {}", part.name, from(&a), from(&b));
    }
    "other parts".into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    const ROW: &str = r#"{"table":"wakeups","ts":10,"dur":5,"machine_id":0,"tid":8}"#;

    fn answer(end: End, out: &str, messages: &str) -> Answer {
        let part = Part { name: "stdout", status: 200, body: out.as_bytes().to_vec() };
        Answer { end, messages: messages.into(), parts: vec![part] }
    }

    fn outcome(file: &str, damaged: &Answer) -> Outcome {
        let whole = Reference::new(Verb::Rows, answer(End::Code(0), ROW, ""));
        let change = Change::Flip { bit: 0 };
        let damage = Damage { file: PathBuf::from(file), change, keeps_time: false };
        judge(Verb::Rows, &whole, &damage, damaged).outcome
    }

    #[test]
    fn answers_are_judged_by_what_they_state() {
        let (source, table) = ("r.transect/host.compact", "r.transect/tables/a/bucket=0.parquet");
        let other = ROW.replace("\"dur\":5", "\"dur\":6");
        let open = ROW.replace("\"dur\":5", "\"dur\":null");
        let lost =
            format!("{open}\n{}", r#"{"table":"lost","ts":3,"dur":9,"cause":"corrupt_page"}"#);
        for (file, end, out, messages, expected) in [
            (source, End::Code(0), ROW, "", Outcome::Equal),
            (table, End::Code(0), ROW, "made tables again", Outcome::Remade),
            (source, End::Code(0), &open, "host.compact is damaged", Outcome::Stated),
            (source, End::Code(0), &lost, "", Outcome::Stated),
            (source, End::Code(0), &open, "", Outcome::Wrong),
            (source, End::Code(0), &other, "host.compact is damaged", Outcome::Wrong),
            (source, End::Code(1), "", "host.compact is damaged: copy it again", Outcome::Error),
            (source, End::Code(1), "", "host.compact is damaged", Outcome::Wrong),
            (source, End::Code(1), "", "it is damaged: copy it again", Outcome::Wrong),
            (source, End::Code(101), "", "host.compact: copy it again", Outcome::Wrong),
            (source, End::Code(0), ROW, "thread panicked", Outcome::Wrong),
            (source, End::Hang, ROW, "", Outcome::Wrong),
            (source, End::Signal(11), ROW, "", Outcome::Wrong),
        ] {
            assert_eq!(outcome(file, &answer(end, out, messages)), expected, "{end} {messages}");
        }
    }
}
