//! Questions to the SQL engine, a process of its own: asked by the server itself, or by the page.

use crate::http::Response;
use crate::row::{Row, rows_of};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use serde_json::{Value, json};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;
use transect_ask::{Answer, AskError, Client, Limits, Patience, Pool, Query};

/// What a result may take in memory.
const MAX_RESULT_BYTES: u64 = 64 << 20;

/// The engine's children, and how long one may take for an answer.
pub(crate) struct Sql {
    pub(crate) pool: Pool,
    time: Duration,
}

impl Sql {
    pub(crate) fn new(options: transect_ask::Options, time: Duration) -> Self {
        Sql { pool: Pool::new(options), time }
    }
}

/// A client that asks of a recording.
pub(crate) struct Asker<'a> {
    pub(crate) sql: &'a Sql,
    pub(crate) client: &'a Client,
    /// Its connection: what it does not wait for any more is not answered.
    pub(crate) connection: &'a TcpStream,
    pub(crate) tables: PathBuf,
}

impl Asker<'_> {
    /// Runs one statement; up to `limit` rows of its answer.
    pub(crate) fn ask(
        &self,
        sql: &str,
        parameters: Vec<Value>,
        limit: usize,
    ) -> Result<Answer, AskError> {
        let rows = u64::try_from(limit).unwrap_or(u64::MAX);
        let ms = u64::try_from(self.sql.time.as_millis()).unwrap_or(u64::MAX);
        let limits = Limits { rows, bytes: MAX_RESULT_BYTES, ms };
        let query = Query { sql: sql.to_owned(), parameters, limits };
        let patience = Patience { wanted: &|| self.is_wanted() };
        self.sql.pool.ask(self.client, &self.tables, &query, &patience)
    }

    /// Does the client still wait?
    pub(crate) fn is_wanted(&self) -> bool {
        is_there(self.connection)
    }

    /// Why nothing can be asked by SQL; none if it can be.
    pub(crate) fn missing(&self) -> Option<String> {
        self.sql.pool.missing().map(|error| error.to_string())
    }

    /// Runs one of the server's own questions; its rows by name.
    pub(crate) fn rows(&self, sql: &str, limit: usize) -> Result<Vec<Row>, Response> {
        let answer = self.ask(sql, Vec::new(), limit).map_err(|error| refusal(&error))?;
        let batches = answer.batches();
        let batches = batches.map_err(|error| Response::error(500, &error.to_string()))?;
        rows_of(&batches)
    }
}

/// The answer to who asked what cannot be answered.
pub(crate) fn refusal(error: &AskError) -> Response {
    let status = match error {
        error if error.is_bad_sql() => 400,
        AskError::Missing { .. } | AskError::Version { .. } | AskError::Start { .. } => 501,
        AskError::Busy => 503,
        AskError::TooLong(_) => 504,
        _ => 500,
    };
    match error {
        AskError::Refused(refusal) if refusal.line.is_some() => {
            let message = error.to_string();
            let place = json!({ "error": message, "line": refusal.line, "column": refusal.column });
            Response::json(&place).status(status)
        }
        _ => Response::error(status, &error.to_string()),
    }
}

/// Is the other end of a connection still there?
fn is_there(connection: &TcpStream) -> bool {
    let mut byte = [0];
    match recv(connection, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((read, _)) => read > 0,
        Err(error) => matches!(error, Errno::AGAIN | Errno::INTR),
    }
}
