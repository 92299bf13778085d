//! Questions and their answers, as text: `tests/golden/*.slt`.
//!
//! A block is `query` or `error`, the SQL, `----`, and the answer as CSV or the message. With
//! `UPDATE_GOLDEN=1` the answers are written anew, to be read before they are committed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests report by failing"
)]

use crate::common;
use std::fmt::Write as _;
use std::fs;
use transect_query::Database;

#[test]
fn the_answers_are_the_golden_ones() {
    let (_dir, database) = common::open();
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut wrong = String::new();
    for entry in fs::read_dir("tests/golden").unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let blocks: Vec<&str> = text.trim_end().split("\n\n").collect();
        let answered: Vec<String> = blocks.iter().map(|block| answer(&database, block)).collect();
        if update {
            fs::write(&path, answered.join("\n\n") + "\n").unwrap();
            continue;
        }
        for (block, answered) in blocks.iter().zip(&answered) {
            if block.trim_end() != answered {
                let _ =
                    write!(wrong, "\n{}: expected\n{block}\nand got\n{answered}\n", path.display());
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// A function that reads files, the network or the environment would give strangers more than the tables. A library
/// version with new functions fails here until they are reviewed.
#[test]
fn functions_are_the_reviewed_ones() {
    let (_dir, database) = common::open();
    let found = database.functions().join("\n") + "\n";
    let path = "tests/functions.txt";
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(path, found).unwrap();
        return;
    }
    assert_eq!(found, fs::read_to_string(path).unwrap());
}

/// The block with the answer that the database gives.
fn answer(database: &Database, block: &str) -> String {
    let (question, _) = block.split_once("\n----").expect("a block has a line ----");
    let is_head = |line: &&str| line.starts_with('#') || *line == "query" || *line == "error";
    let sql: Vec<&str> = question.lines().skip_while(is_head).collect();
    let head: Vec<&str> =
        question.lines().take_while(is_head).filter(|l| l.starts_with('#')).collect();
    let (kind, answer) = match common::csv(database, &sql.join("\n")) {
        Ok(csv) => ("query", csv.trim_end().to_owned()),
        Err(error) => ("error", error.to_string()),
    };
    let mut lines: Vec<&str> = head;
    lines.push(kind);
    lines.extend(&sql);
    lines.push("----");
    lines.push(&answer);
    lines.join("\n")
}
