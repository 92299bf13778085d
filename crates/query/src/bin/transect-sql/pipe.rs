//! Protocol of `transect-ask`: queries on standard input, answers on standard output.
//!
//! **Design constraints.** Queries run one at a time; a second thread reads requests, so that a running query can be
//! cancelled. The process exits when standard input ends, also during a query. Limits of an answer are enforced here and
//! checked by the client. The tables are opened first, and the walls ([`walls`]) stand before the first request is read.

use crate::{terminal, walls};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::panic;
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use transect_ask::protocol::{
    self, End, Form, Hello, Kind, Limits, MAX_REQUEST_BYTES, MissingWall, Part, Query, Refusal,
    Request,
};
use transect_query::arrow::array::RecordBatch;
use transect_query::arrow::datatypes::SchemaRef;
use transect_query::arrow::error::ArrowError;
use transect_query::arrow::ipc::writer::StreamWriter;
use transect_query::arrow::json::WriterBuilder;
use transect_query::arrow::json::writer::LineDelimited;
use transect_query::{Database, Options, Parameter, QueryError, Stop, Tables};

/// Panics of queries whose messages go to standard error.
const MAX_PANICS: usize = 16;
/// Limit of a refusal's message.
const MAX_MESSAGE_CHARS: usize = 1000;

/// Answers queries until standard input ends.
pub(crate) fn run(tables: &Path, options: &Options, require_sandbox: bool) -> anyhow::Result<()> {
    // `Stdout` would search every frame for line ends.
    let mut out = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let (database, missing_walls) = match open_walled(tables, options, require_sandbox) {
        Ok(opened) => opened,
        Err(refusal) => {
            protocol::write_json(&mut out, Part::Refusal, &refusal)?;
            return Ok(());
        }
    };
    let asked = Arc::new(Asked::default());
    let (to, questions) = channel();
    let reader = Arc::clone(&asked);
    thread::Builder::new().name("requests".to_owned()).spawn(move || read(&reader, &to))?;
    let hello = Hello { missing_walls, ..Hello::ours() };
    protocol::write_json(&mut out, Part::Hello, &hello)?;
    answer_all(&database, options.threads, &asked, &questions, &mut out)
}

/// Opens the tables and raises the walls.
fn open_walled(
    tables: &Path,
    options: &Options,
    require_sandbox: bool,
) -> Result<(Database, Vec<MissingWall>), Refusal> {
    let failed = |error: &QueryError| Refusal { kind: Kind::Tables, ..refusal(None, error) };
    limit_panic_messages();
    walls::limits::raise_descriptors();
    let tables = Tables::hold(tables).map_err(|error| failed(&error))?;
    let missing = walls::raise_walls(options, tables.count_files());
    if require_sandbox && !missing.is_empty() {
        let missing: Vec<_> = missing.iter().map(MissingWall::to_string).collect();
        let message = format!("the sandbox is incomplete: {}", missing.join("; "));
        return Err(Refusal { id: None, kind: Kind::Walls, message, line: None, column: None });
    }
    let database = Database::with_tables(tables, options).map_err(|error| failed(&error))?;
    Ok((database, missing))
}

/// Writes no more panics to standard error than fit the pipe, which is read once the process has ended.
fn limit_panic_messages() {
    let write = panic::take_hook();
    let left = AtomicUsize::new(MAX_PANICS);
    panic::set_hook(Box::new(move |info| {
        let subtracted =
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        if subtracted.is_ok() {
            write(info);
        }
    }));
}

/// Cancellation flags of the queries that have no answer yet.
#[derive(Default)]
struct Asked(Mutex<HashMap<u64, Arc<AtomicBool>>>);

impl Asked {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<AtomicBool>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A query in the queue.
struct Question {
    id: u64,
    query: Query,
    came: Instant,
    stop: Arc<AtomicBool>,
}

/// Reads requests; ends the process at the end of input or at an invalid request.
fn read(asked: &Asked, to: &Sender<Question>) -> ! {
    let mut from = io::stdin().lock();
    loop {
        let request = match protocol::read(&mut from, MAX_REQUEST_BYTES) {
            Ok(Some((Part::Request, bytes))) => protocol::parse(&bytes),
            Ok(Some((other, _))) => Err(format!("unexpected {other:?} frame")),
            Ok(None) => process::exit(0),
            Err(error) => Err(error.to_string()),
        };
        match request {
            Ok(Request::Query { id, query }) => {
                let stop = Arc::new(AtomicBool::new(false));
                asked.lock().insert(id, Arc::clone(&stop));
                let question = Question { id, query, came: Instant::now(), stop };
                if to.send(question).is_err() {
                    process::exit(1);
                }
            }
            Ok(Request::Cancel { id }) => {
                if let Some(stop) = asked.lock().get(&id) {
                    stop.store(true, Ordering::Relaxed);
                }
            }
            Err(what) => {
                terminal::error("transect-sql", &format!("invalid request: {what}"));
                process::exit(1);
            }
        }
    }
}

fn answer_all(
    database: &Database,
    threads: usize,
    asked: &Asked,
    questions: &Receiver<Question>,
    out: &mut impl Write,
) -> anyhow::Result<()> {
    for question in questions {
        let Question { id, query, came, stop } = &question;
        let time = Duration::from_millis(query.limits.ms);
        walls::limits::limit_cpu_time(time, threads);
        let until = came.checked_add(time);
        let stop = Stop::on(Arc::clone(stop)).at(until);
        let answered = answer(database, query, &stop, out);
        asked.lock().remove(id);
        match answered {
            Ok((rows, truncated)) => {
                let ms = came.elapsed().as_secs_f64() * 1e3;
                protocol::write_json(out, Part::End, &End { id: *id, rows, ms, truncated })?;
            }
            // The client closed the pipe.
            Err(QueryError::Write(error)) => return Err(error.into()),
            Err(error) => protocol::write_json(out, Part::Refusal, &refusal(Some(*id), &error))?,
        }
    }
    Ok(())
}

fn refusal(id: Option<u64>, error: &QueryError) -> Refusal {
    let (kind, place) = match error {
        QueryError::Sql { place, .. } => (Kind::Sql, *place),
        QueryError::Stopped => (Kind::Stopped, None),
        QueryError::Time => (Kind::Time, None),
        QueryError::Tables { .. } | QueryError::Damaged(_) => (Kind::Tables, None),
        QueryError::Run { .. } | QueryError::Write(_) => (Kind::Run, None),
    };
    let (line, column) = (place.map(|place| place.line), place.map(|place| place.column));
    Refusal { id, kind, message: shorten_message(error.to_string()), line, column }
}

/// Cuts a message that repeats a long part of the query.
fn shorten_message(message: String) -> String {
    match message.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{} …", message.get(..end).unwrap_or_default()),
        None => message,
    }
}

/// Writes rows in one of the forms.
enum Encoder {
    Arrow(Box<StreamWriter<Vec<u8>>>),
    Json,
}

impl Encoder {
    fn new(form: Form, schema: &SchemaRef) -> Result<Self, ArrowError> {
        Ok(match form {
            Form::Arrow => Encoder::Arrow(Box::new(StreamWriter::try_new(Vec::new(), schema)?)),
            Form::Json => Encoder::Json,
        })
    }

    /// Sends the next rows as one frame. The writer's buffer is used again.
    fn send(&mut self, batch: &RecordBatch, to: &mut impl Write) -> Result<(), QueryError> {
        match self {
            Encoder::Arrow(writer) => {
                writer.write(batch).map_err(other)?;
                protocol::write(to, Part::Arrow, writer.get_ref())?;
                writer.get_mut().clear();
            }
            Encoder::Json => {
                let builder = WriterBuilder::new().with_explicit_nulls(true);
                let mut writer = builder.build::<_, LineDelimited>(Vec::new());
                writer.write(batch).map_err(other)?;
                writer.finish().map_err(other)?;
                let lines = writer.into_inner();
                if !lines.is_empty() {
                    protocol::write(to, Part::Json, &lines)?;
                }
            }
        }
        Ok(())
    }

    /// Sends the end of an Arrow stream.
    fn finish(self, to: &mut impl Write) -> Result<(), QueryError> {
        if let Encoder::Arrow(mut writer) = self {
            writer.finish().map_err(other)?;
            protocol::write(to, Part::Arrow, writer.get_ref())?;
        }
        Ok(())
    }
}

/// Sends the rows within the limits; returns their number and whether rows were left out.
fn answer(
    database: &Database,
    query: &Query,
    stop: &Stop,
    to: &mut impl Write,
) -> Result<(u64, bool), QueryError> {
    let mut statements = database.parse(&query.sql)?.into_iter();
    let (Some(statement), None) = (statements.next(), statements.next()) else {
        return Err(QueryError::sql("a query must be exactly one statement"));
    };
    let parameters: Vec<Parameter> =
        query.parameters.iter().map(parameter).collect::<Result<_, _>>()?;
    let mut rows = database.run_with(statement, &parameters)?;
    let mut left = Left::new(query.limits);
    let mut encoder = Encoder::new(query.form, &rows.schema()).map_err(other)?;
    while let Some(batch) = rows.next(stop)? {
        let fits = left.take(batch.num_rows(), batch.get_array_memory_size());
        let whole = fits == batch.num_rows();
        if fits > 0 || left.bytes > 0 {
            encoder.send(&batch.slice(0, fits), to)?;
        } else if left.sent == 0 {
            return Err(too_large(batch.num_rows(), batch.get_array_memory_size()));
        }
        if !whole {
            left.truncated = true;
            break;
        }
    }
    encoder.finish(to)?;
    Ok((left.sent, left.truncated))
}

/// Remaining rows and bytes of an answer.
struct Left {
    rows: u64,
    bytes: u64,
    sent: u64,
    truncated: bool,
}

impl Left {
    fn new(limits: Limits) -> Self {
        Left { rows: limits.rows, bytes: limits.bytes, sent: 0, truncated: false }
    }

    /// Number of rows of a batch to send; none if its bytes exceed the rest.
    fn take(&mut self, rows: usize, bytes: usize) -> usize {
        let Some(left) = self.bytes.checked_sub(bytes as u64) else {
            self.bytes = 0;
            return 0;
        };
        self.bytes = left;
        let fits = usize::try_from(self.rows).map_or(rows, |left| rows.min(left));
        self.rows -= fits as u64;
        self.sent += fits as u64;
        fits
    }
}

fn too_large(rows: usize, bytes: usize) -> QueryError {
    QueryError::Run {
        message: format!(
            "the first {rows} rows take {} MiB, more than the limit of an answer: select fewer or shorter columns",
            bytes >> 20
        ),
    }
}

fn parameter(value: &serde_json::Value) -> Result<Parameter, QueryError> {
    use serde_json::Value;
    let bad = || {
        QueryError::sql(format!(
            "{value} is not a valid parameter: use null, true, false, a number or text"
        ))
    };
    Ok(match value {
        Value::Null => Parameter::Null,
        Value::Bool(value) => Parameter::Bool(*value),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(value), _) => Parameter::Int(value),
            (None, Some(value)) => Parameter::Float(value),
            (None, None) => return Err(bad()),
        },
        Value::String(text) => Parameter::Text(text.clone()),
        Value::Array(_) | Value::Object(_) => return Err(bad()),
    })
}

fn other(error: ArrowError) -> QueryError {
    QueryError::Run { message: error.to_string() }
}
