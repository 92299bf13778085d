//! Questions to the tables, asked by the server itself or by the page.

use crate::http::Response;
use crate::row::Row;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use transect_query::output::{Format, writer};
use transect_query::{Database, QueryError, Stop};

/// Memory that a result may take.
const MAX_RESULT_BYTES: usize = 64 << 20;

/// A result, whole or its beginning.
pub(crate) struct Result {
    pub(crate) schema: SchemaRef,
    pub(crate) batches: Vec<RecordBatch>,
    /// Were there more rows than asked for, or than there is room for?
    pub(crate) is_truncated: bool,
}

pub(crate) fn refusal(error: &QueryError) -> Response {
    let status = if error.is_bad_sql() { 400 } else { 500 };
    Response::error(status, &error.to_string())
}

/// Runs one statement and keeps up to `limit` rows.
pub(crate) fn run(
    database: &Database,
    sql: &str,
    limit: usize,
    stop: &Stop,
) -> std::result::Result<Result, QueryError> {
    let bad = |message: &str| QueryError::Sql { message: message.to_owned() };
    let mut statements = database.parse(sql)?.into_iter();
    let (Some(statement), None) = (statements.next(), statements.next()) else {
        return Err(bad("exactly one statement at a time"));
    };
    let mut rows = database.run(statement)?;
    let mut result = Result { schema: rows.schema(), batches: Vec::new(), is_truncated: false };
    let (mut count, mut bytes) = (0, 0);
    while let Some(batch) = rows.next(stop)? {
        let fits = batch.num_rows().min(limit - count);
        bytes += batch.get_array_memory_size();
        result.is_truncated = fits < batch.num_rows() || bytes > MAX_RESULT_BYTES;
        count += fits;
        result.batches.push(batch.slice(0, fits));
        if result.is_truncated {
            break;
        }
    }
    Ok(result)
}

/// Runs one of the server's own questions; its rows by name.
pub(crate) fn rows(
    database: &Database,
    sql: &str,
    limit: usize,
    stop: &Stop,
) -> std::result::Result<Vec<Row>, Response> {
    let result = run(database, sql, limit, stop).map_err(|error| refusal(&error))?;
    let mut bytes = Vec::new();
    let mut out = writer(Format::Json, &result.schema, &mut bytes).map_err(|e| refusal(&e))?;
    for batch in &result.batches {
        out.write(batch).map_err(|error| refusal(&error))?;
    }
    out.finish().map_err(|error| refusal(&error))?;
    drop(result);
    serde_json::from_slice(&bytes).map_err(|error| Response::error(500, &error.to_string()))
}

/// Does `work`, which stops as soon as the client goes away.
pub(crate) fn while_wanted<T>(client: &TcpStream, work: impl FnOnce(&Stop) -> T) -> T {
    let gone = Arc::new(AtomicBool::new(false));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let watch = || watch(client, &gone, &done);
        // Without a watcher a query goes on that nobody wants, no more.
        let watcher = thread::Builder::new().name("view-watch".to_owned());
        let watcher = watcher.spawn_scoped(scope, watch).ok();
        let result = work(&Stop::on(Arc::clone(&gone)));
        done.store(true, Ordering::Relaxed);
        if let Some(watcher) = watcher {
            watcher.thread().unpark();
        }
        result
    })
}

fn watch(client: &TcpStream, gone: &AtomicBool, done: &AtomicBool) {
    // A duplicate shares the timeout with the connection; peeking does not take anything.
    while !done.load(Ordering::Relaxed) {
        thread::park_timeout(Duration::from_millis(200));
        if client.set_nonblocking(true).is_err() {
            return;
        }
        let peeked = client.peek(&mut [0]);
        let blocking = client.set_nonblocking(false);
        match peeked {
            Ok(0) => gone.store(true, Ordering::Relaxed),
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                gone.store(true, Ordering::Relaxed);
            }
            _ => {}
        }
        if blocking.is_err() {
            return;
        }
    }
}
