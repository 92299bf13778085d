//! What the tests of `bench` share: the binary, and its journal.
#![allow(clippy::unwrap_used, reason = "tests report by failing")]

use serde_json::Value;
use std::{
    path::Path,
    process::{Command, Output},
};

pub(crate) fn transect(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_transect")).args(arguments).output().unwrap()
}

pub(crate) fn said(output: &Output) -> String {
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    format!("{}\n{out}\n{err}", output.status)
}

pub(crate) fn lines(results: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(results.join("journal.jsonl")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

pub(crate) fn of_kind<'a>(entries: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    entries.iter().filter(move |entry| entry["entry"] == kind)
}
