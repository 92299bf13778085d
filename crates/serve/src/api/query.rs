//! `/api/sql`: any question, as `transect sql` answers it.

use super::{Answered, body, database};
use crate::http::Response;
use crate::sql::{refusal, run, while_wanted};
use crate::state::State;
use std::net::TcpStream;
use transect_query::arrow::record_batch::RecordBatch;
use transect_timeline::streams;

/// Rows that are given if nobody says how many.
const DEFAULT_ROWS: usize = 10_000;
/// Rows that are given at most.
const MAX_ROWS: usize = 200_000;

#[derive(serde::Deserialize)]
struct Question {
    sql: String,
    limit: Option<usize>,
}

pub(crate) fn answer(state: &State, bytes: &[u8], client: &TcpStream) -> Answered {
    let question: Question = body(bytes)?;
    let database = database(state)?;
    let limit = question.limit.unwrap_or(DEFAULT_ROWS).min(MAX_ROWS);
    let result = while_wanted(client, |stop| run(&database, &question.sql, limit, stop));
    let result = result.map_err(|error| refusal(&error))?;
    let batches: &[RecordBatch] = &result.batches;
    let bytes = streams(&result.schema, batches);
    let bytes = bytes.map_err(|error| Response::error(500, &error.to_string()))?;
    Ok(Response::arrow(bytes).with("X-Truncated", result.is_truncated.to_string()))
}
