//! The README is the format's definition: its table of kinds and its example come from the code.
//!
//! After a change: `TRANSECT_UPDATE=1 cargo test -p transect-compact --test it readme`, and review.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use std::{fmt::Write, fs, path::Path};
use transect_compact::{LogId, LogWriter, Slice, kind::TABLE, other::WHATS};
use transect_model::{
    event::CoreEvent,
    ids::{CpuId, Tid},
};

/// Replaces what stands between `<!-- mark -->` (or `<!-- mark: … -->`) and the next blank-line
/// separated paragraph that is not a table or code.
fn with_section(text: &str, mark: &str, content: &str) -> String {
    let begin = text.find(&format!("<!-- {mark}")).unwrap_or_else(|| panic!("no {mark} mark"));
    let begin = begin + text[begin..].find("-->").unwrap() + "-->\n".len();
    let end_mark = format!("<!-- end {mark} -->");
    let end = text[begin..].find(&end_mark).map_or(begin, |at| begin + at + end_mark.len() + 1);
    format!("{}{content}{end_mark}\n{}", &text[..begin], &text[end..])
}

fn kinds() -> String {
    let mut text = String::from("| kind | name | words | a, then the words |\n|---|---|---|---|\n");
    for row in TABLE {
        let fields = row.fields.replace(" | ", " · ");
        writeln!(text, "| {} | {} | {} | {fields} |", row.kind, row.name, row.words).unwrap();
    }
    text
}

fn others() -> String {
    let mut text = String::from("| event | name | x, then the words |\n|---|---|---|\n");
    for (what, (name, fields)) in WHATS.iter().enumerate() {
        writeln!(text, "| {what} | {name} | {} |", fields.replace(" | ", " · ")).unwrap();
    }
    text
}

fn example() -> String {
    let mut bytes = Vec::new();
    let mut out = |slice: Slice<'_>| {
        bytes.extend_from_slice(slice.words);
        Ok::<(), ()>(())
    };
    let mut log = LogWriter::new(LogId { cpu: CpuId(0), side: 0 });
    log.event(1_000, Tid(42), &CoreEvent::SyscallEnter { nr: 39 }, &mut out).unwrap();
    log.event(1_180, Tid(42), &CoreEvent::SyscallExit { nr: 39, ret: 42 }, &mut out).unwrap();
    log.finish(&mut out).unwrap();
    let says = [
        "SYNC: kind 1, current thread 42, flag 1 (first of the stream)",
        "its stamp: 1000 ns",
        "events lost so far: 0",
        "SYSCALL_S: kind 44, delta 0, nr 39, dur 180, ret 42 (+ 64 = 106)",
    ];
    assert_eq!(bytes.len(), says.len() * 8);
    let mut text = String::from("```\n");
    for (word, says) in bytes.chunks(8).zip(says) {
        let hex: Vec<String> = word.iter().map(|byte| format!("{byte:02x}")).collect();
        let value = u64::from_le_bytes(word.try_into().unwrap());
        writeln!(text, "{}   {value:#018x}   {says}", hex.join(" ")).unwrap();
    }
    text.push_str("```\n");
    text
}

#[test]
fn readme_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let is = fs::read_to_string(&path).unwrap();
    let should = with_section(&is, "kinds", &kinds());
    let should = with_section(&should, "others", &others());
    let should = with_section(&should, "example", &example());
    if std::env::var_os("TRANSECT_UPDATE").is_some() {
        fs::write(&path, &should).unwrap();
    }
    assert!(
        is == should,
        "README.md is not what the code says; bless it and review the difference"
    );
}
