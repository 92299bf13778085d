//! `/api/sql`: any question, as `transect sql` answers it.

use super::{Answered, body};
use crate::sql::{Asker, refusal};
use serde_json::Value;
use transect_http::Response;

/// Rows that are given if nobody says how many.
const DEFAULT_ROWS: usize = 10_000;
/// Rows that are given at most.
const MAX_ROWS: usize = 200_000;

#[derive(serde::Deserialize)]
struct Question {
    sql: String,
    limit: Option<usize>,
    #[serde(default)]
    parameters: Vec<Value>,
}

pub(crate) fn answer(asker: &Asker<'_>, bytes: &[u8]) -> Answered {
    let question: Question = body(bytes)?;
    let limit = question.limit.unwrap_or(DEFAULT_ROWS).min(MAX_ROWS);
    let answer = asker.ask(&question.sql, question.parameters, limit);
    let answer = answer.map_err(|error| refusal(&error))?;
    // What the engine wrote is what the page reads.
    Ok(Response::arrow(answer.bytes).with("X-Truncated", answer.end.truncated.to_string()))
}
