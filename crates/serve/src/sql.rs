//! SQL queries of the page and of the server itself, run by the engine's child processes.

use crate::row::Row;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde_json::{Value, json};
use std::net::TcpStream;
use std::path::PathBuf;
use transect_ask::protocol::Kind;
use transect_ask::{Answer, AskError, Client, Form, Limits, Patience, Pool, Query};
use transect_http::{Response, is_open};

/// Columns of a query of the server itself.
const MAX_COLUMNS: usize = 64;

/// The engine's children and the limits of each answer.
pub(crate) struct Sql {
    pub(crate) pool: Pool,
    limits: Limits,
}

impl Sql {
    pub(crate) fn new(options: transect_ask::Options, limits: Limits) -> Self {
        Sql { pool: Pool::new(options), limits }
    }
}

/// One client's access to one recording's tables.
pub(crate) struct Asker<'a> {
    pub(crate) sql: &'a Sql,
    pub(crate) client: &'a Client,
    /// The client's connection; its end cancels the query.
    pub(crate) connection: &'a TcpStream,
    pub(crate) tables: PathBuf,
}

impl Asker<'_> {
    /// Runs one statement and returns up to `limit` rows as an Arrow stream, which the daemon does not decode.
    pub(crate) fn ask(
        &self,
        sql: &str,
        parameters: Vec<Value>,
        limit: usize,
    ) -> Result<Answer, AskError> {
        self.run_query(sql, parameters, limit, Form::Arrow)
    }

    fn run_query(
        &self,
        sql: &str,
        parameters: Vec<Value>,
        limit: usize,
        form: Form,
    ) -> Result<Answer, AskError> {
        let rows = u64::try_from(limit).unwrap_or(u64::MAX);
        let limits = Limits { rows, ..self.sql.limits };
        let query = Query { sql: sql.to_owned(), parameters, form, limits };
        let patience = Patience { wanted: &|| self.is_wanted() };
        self.sql.pool.ask(self.client, &self.tables, &query, &patience)
    }

    /// True while the client's connection is open.
    pub(crate) fn is_wanted(&self) -> bool {
        is_there(self.connection)
    }

    /// The error if there is no engine.
    pub(crate) fn missing(&self) -> Option<String> {
        self.sql.pool.missing().map(|error| error.to_string())
    }

    /// Runs a query of the server itself; rows by column name.
    pub(crate) fn rows(&self, sql: &str, limit: usize) -> Result<Vec<Row>, Response> {
        let answer = self.run_query(sql, Vec::new(), limit, Form::Json);
        let answer = answer.map_err(|error| refusal(&error))?;
        parse_rows(&answer.bytes, limit).map_err(|error| Response::error(500, &error))
    }
}

/// Reads lines of JSON of a child, which may be hostile: no more rows and columns than a query of the server has.
fn parse_rows(bytes: &[u8], limit: usize) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let row: Row = serde_json::from_slice(line)
            .map_err(|error| format!("row {} of the engine's answer: {error}", rows.len() + 1))?;
        if rows.len() >= limit || row.len() > MAX_COLUMNS {
            return Err("the engine's answer is larger than the query allows".to_owned());
        }
        rows.push(row);
    }
    Ok(rows)
}

/// HTTP response for a failed query.
pub(crate) fn refusal(error: &AskError) -> Response {
    let is_of_tables = matches!(error, AskError::Refused(refusal) if refusal.kind == Kind::Tables);
    let status = match error {
        error if error.is_bad_sql() => 400,
        AskError::Missing { .. } | AskError::Version { .. } | AskError::Start { .. } => 501,
        AskError::Refused(refusal) if refusal.kind == Kind::Walls => 501,
        AskError::TooMany(_) => 429,
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
        AskError::Busy | AskError::TooMany(_) => {
            Response::error(status, &error.to_string()).with("Retry-After", "1")
        }
        _ if is_of_tables => Response::error(status, &error.to_string()).of_damaged_tables(),
        _ => Response::error(status, &error.to_string()),
    }
}

/// True if the peer has not closed the connection, whatever it has sent before. Of a remote peer that has ended its side it is
/// not known, and taken for closed.
fn is_there(connection: &TcpStream) -> bool {
    let mut ends = [PollFd::new(connection, PollFlags::RDHUP)];
    match poll(&mut ends, Some(&Timespec::default())) {
        Ok(0) => true,
        // A client that has said all it had to say still reads, if its socket is there: busybox wget, for one.
        Ok(_) => {
            !ends[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) && is_open(connection)
        }
        Err(error) => error == Errno::INTR,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests report by failing")]
    use super::*;
    use std::io::Write as _;
    use std::net::TcpListener;

    /// Unread bytes do not keep a connection.
    #[test]
    fn closed_connection_is_seen_behind_unread_bytes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        assert!(is_there(&accepted));
        client.write_all(b"more").unwrap();
        assert!(is_there(&accepted));
        // The client that has ended its side reads on.
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let wait_for_end = || {
            let mut ends = [PollFd::new(&accepted, PollFlags::RDHUP)];
            poll(&mut ends, None).unwrap();
        };
        wait_for_end();
        assert!(is_there(&accepted));
        drop(client);
        wait_for_end();
        assert!(!is_there(&accepted));
    }

    #[test]
    fn rows_are_lines_of_json_within_the_limits() {
        let rows =
            parse_rows(b"{\"a\":1,\"b\":null}\n{\"a\":-9223372036854775808,\"b\":\"x\\n\"}\n", 2);
        let wanted = json!([{ "a": 1, "b": null }, { "a": i64::MIN, "b": "x\n" }]);
        assert_eq!(serde_json::to_value(rows.unwrap()).unwrap(), wanted);
        assert!(parse_rows(b"{}\n{}\n{}\n", 2).unwrap_err().contains("larger"));
        assert!(parse_rows(b"{}\n[", 2).unwrap_err().starts_with("row 2 of"));
        let wide: Row = (0..65).map(|n| (n.to_string(), Value::Null)).collect();
        assert!(parse_rows(&serde_json::to_vec(&wide).unwrap(), 2).is_err());
    }

    #[test]
    fn query_without_a_child_is_refused_for_now() {
        for (error, status) in [(AskError::Busy, 503), (AskError::TooMany(2), 429)] {
            let response = refusal(&error);
            assert_eq!(response.status, status);
            assert_eq!(response.headers, [("Retry-After", "1".to_owned())]);
        }
    }
}
