//! What the page asks, one file a question; docs/reference/timeline-format.md has their shapes.

mod arrows;
pub(crate) mod at;
pub(crate) mod busy;
mod causes;
pub(crate) mod export;
pub(crate) mod flows;
mod handover;
pub(crate) mod next;
pub(crate) mod query;
pub(crate) mod recording;
pub(crate) mod search;
pub(crate) mod stats;
pub(crate) mod tiles;

use crate::row::{Row, rows_of};
use crate::state::State;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error as _};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use transect_http::Response;
use transect_model::table::TABLES;
use transect_timeline::{Lookup, TimelineError, View, Wanted};

/// The answer, or the refusal.
pub(crate) type Answered = Result<Response, Response>;

/// The body of a request.
fn body<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Response> {
    serde_json::from_slice(bytes)
        .map_err(|error| Response::error(400, &format!("invalid request: {error}")))
}

/// A time: ns as decimal text, because numbers of JSON end at 2⁵³.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Time(i64);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let time = match Value::deserialize(from)? {
            Value::String(text) => text.parse().ok(),
            Value::Number(number) => number.as_i64(),
            _ => None,
        };
        time.map(Time)
            .ok_or_else(|| D::Error::custom("a time must be a whole number of ns, as text"))
    }
}

fn view(state: &State) -> Result<Arc<View>, Response> {
    state.view().ok_or_else(|| not_yet(state))
}

/// The folder of tables.
pub(crate) fn tables(state: &State) -> Result<PathBuf, Response> {
    state.opened().map(|opened| opened.tables).ok_or_else(|| not_yet(state))
}

/// The rows of the tables.
fn lookup(state: &State) -> Result<Lookup, Response> {
    state.lookup().ok_or_else(|| not_yet(state))
}

/// Rows of a table by column name.
fn table_rows(lookup: &Lookup, table: &str, wanted: &Wanted) -> Result<Vec<Row>, Response> {
    let batches = lookup.rows(table, wanted).map_err(|error| failed(&error))?;
    rows_of(&batches)
}

/// Columns of a table, in the model's order.
fn columns_of(table: &str) -> Vec<&'static str> {
    let table = TABLES.iter().find(|doc| doc.name == table);
    table.map_or_else(Vec::new, |doc| doc.columns.iter().map(|column| column.name).collect())
}

fn failed(error: &TimelineError) -> Response {
    let status = match error {
        TimelineError::Request(_) => 400,
        TimelineError::TooManyRows { .. } => 413,
        _ => 500,
    };
    let response = Response::error(status, &error.to_string());
    if error.table_damage().is_some() { response.of_damaged_tables() } else { response }
}

fn not_yet(state: &State) -> Response {
    match state.building().error {
        Some(error) => Response::error(503, &error),
        None => Response::error(503, "the recording's tables are still being built"),
    }
}

/// Values as the page can hold them: whole numbers beyond 2⁵³ as text.
fn exact(value: Value) -> Value {
    match value.as_i64() {
        Some(number) if number.unsigned_abs() > 1 << 53 => Value::String(number.to_string()),
        _ => value,
    }
}
