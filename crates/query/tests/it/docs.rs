//! What the docs say about tables and views is what there is.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests report by failing"
)]

use crate::common;
use std::fs;
use transect_query::{docs, views};

/// Between these lines `docs/reference/sql.md` is generated.
const BEGIN: &str =
    "<!-- views: generated from sql/*.sql by `transect sql --views --markdown` -->\n";
const END: &str = "<!-- end of views -->\n";

fn up_to_date(path: &str, expected: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(path, expected).unwrap();
    }
    let found = fs::read_to_string(path).unwrap_or_default();
    assert!(found == expected, "{path} is out of date: run the test with UPDATE_GOLDEN=1");
}

#[test]
fn docs_tables_md_is_what_the_model_says() {
    up_to_date("../../docs/reference/tables.md", &docs::tables_markdown());
}

#[test]
fn docs_sql_md_lists_the_views() {
    let path = "../../docs/reference/sql.md";
    let text = fs::read_to_string(path).unwrap();
    let (before, rest) =
        text.split_once(BEGIN).expect("docs/reference/sql.md marks where views are listed");
    let (_, after) = rest.split_once(END).expect("docs/reference/sql.md marks where views end");
    up_to_date(path, &format!("{before}{BEGIN}\n{}\n{END}{after}", docs::views_markdown()));
}

#[test]
fn every_file_in_sql_is_a_view() {
    let names: Vec<&str> = views::all().iter().map(|view| view.name).collect();
    for entry in fs::read_dir("../../sql").unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        assert!(names.contains(&name.as_str()), "{} is in no list of views", path.display());
    }
}

#[test]
fn every_view_has_the_columns_its_header_documents_and_its_example_runs() {
    let (_dir, database) = common::open();
    for view in views::all() {
        let schema = database.schema(view.name).unwrap();
        let columns: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
        let documented: Vec<&str> = view.columns.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(columns, documented, "{}", view.name);
        assert!(view.columns.iter().all(|(_, doc)| !doc.is_empty()), "{}", view.name);
        let answer = common::csv(&database, &view.example);
        let answer = answer.unwrap_or_else(|error| panic!("{}: {error}", view.name));
        assert!(answer.lines().count() > 1, "{}: the example finds nothing", view.name);
    }
}

#[test]
fn every_question_of_the_docs_can_be_asked() {
    let (_dir, database) = common::open();
    let text = fs::read_to_string("../../docs/reference/sql.md").unwrap();
    let questions: Vec<&str> =
        text.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(questions.len() > 20, "{}", questions.len());
    for question in questions {
        let answer = common::csv(&database, question);
        assert!(answer.is_ok(), "{question}: {}", answer.unwrap_err());
    }
}
