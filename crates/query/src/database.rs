//! A recording's tables, open for queries.

use crate::allowed::check_is_query;
use crate::catalog::Tables;
use crate::error::QueryError;
use crate::stopping::{Abandoned, stoppable};
use crate::views::Views;
use crate::{catalog, explain, functions, operators};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{FairSpillPool, GreedyMemoryPool, MemoryPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::{DFParserBuilder, Statement as Parsed};
use futures::StreamExt;
use std::any::Any;
use std::future::Future;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinHandle;
use transect_ask::Options;
use transect_integrity::{Damage, Folder};

/// The tables of one recording, with views and functions.
pub struct Database {
    /// There until it is dropped.
    runtime: Option<Runtime>,
    context: SessionContext,
    /// The tables' folder.
    folder: Folder,
    views: Arc<Views>,
    memory_bytes: usize,
    /// Is the recording's unit of time known to the functions that print it?
    has_unit: Mutex<bool>,
}

/// A value for a statement's `$1`, `$2`, …
#[derive(Clone, Debug, PartialEq)]
pub enum Parameter {
    /// `NULL`.
    Null,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// Text.
    Text(String),
}

impl Parameter {
    fn scalar(&self) -> ScalarValue {
        match self {
            Parameter::Null => ScalarValue::Null,
            Parameter::Bool(value) => ScalarValue::Boolean(Some(*value)),
            Parameter::Int(value) => ScalarValue::Int64(Some(*value)),
            Parameter::Float(value) => ScalarValue::Float64(Some(*value)),
            Parameter::Text(value) => ScalarValue::Utf8View(Some(value.clone())),
        }
    }
}

/// One statement of a text, parsed and not yet planned.
#[derive(Clone, Debug)]
pub struct Statement(Parsed);

/// Ends a query from outside: from a signal handler or another thread, or when its time is over.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    flag: Arc<AtomicBool>,
    at: Option<Instant>,
}

impl Stop {
    /// One that nobody sets.
    pub fn never() -> Self {
        Self::default()
    }

    /// One that is set whenever `flag` is.
    pub fn on(flag: Arc<AtomicBool>) -> Self {
        Self { flag, at: None }
    }

    /// The same, which ends the query at a moment too; none is never.
    pub fn at(self, at: Option<Instant>) -> Self {
        Self { at, ..self }
    }

    fn look(&self) -> Result<(), QueryError> {
        if self.flag.load(Ordering::Relaxed) {
            return Err(QueryError::Stopped);
        }
        match self.at {
            Some(at) if Instant::now() >= at => Err(QueryError::Time),
            _ => Ok(()),
        }
    }
}

/// Plans nest, and planning recurses: a join of views of unions is deep before it is optimized.
const STACK_BYTES: usize = 32 << 20;

/// How long a query that gives no rows goes on after [`Stop`] is set.
const STOP_LATENCY: Duration = Duration::from_millis(50);

impl Database {
    /// Opens the folder `tables` of a recording.
    ///
    /// # Errors
    /// If the folder or a file in it cannot be read.
    pub fn open(tables: &Path, options: &Options) -> Result<Self, QueryError> {
        Self::with_tables(Tables::find(tables)?, options)
    }

    /// Opens tables that were found before.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn with_tables(tables: Tables, options: &Options) -> Result<Self, QueryError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(options.threads.max(1))
            .thread_name("transect-sql")
            .thread_stack_size(STACK_BYTES)
            .build()?;
        let context = context(options, !tables.is_held())
            .map_err(|error| QueryError::planning(&error, &[], &[]))?;
        let folder = tables.folder().clone();
        functions::register(&context);
        operators::register(&context);
        explain::register(&context);
        catalog::register(&context, tables)?;
        let views = Arc::new(Views::new());
        let (memory_bytes, has_unit) = (options.memory_bytes, Mutex::new(false));
        let runtime = Some(runtime);
        let database = Self { runtime, context, folder, views, memory_bytes, has_unit };
        let context = database.context.clone();
        let registered =
            database.on_worker(async move { functions::register_for_tables(&context).await });
        registered.map_err(|error| database.failed(&error))?;
        Ok(database)
    }

    /// Are there checksums that what is read is verified by?
    pub fn is_verified(&self) -> bool {
        self.folder.is_verified()
    }

    /// Damage of the tables that was found until now.
    pub fn damage(&self) -> Option<&Damage> {
        self.folder.damage()
    }

    /// An error of running. Damage that was found is the reason for any.
    fn failed(&self, error: &DataFusionError) -> QueryError {
        QueryError::running(error, self.memory_bytes).or_damage(self.damage())
    }

    /// Splits a text into statements.
    ///
    /// # Errors
    /// [`QueryError::Sql`] with the place, where the text is no SQL.
    pub fn parse(&self, sql: &str) -> Result<Vec<Statement>, QueryError> {
        let parser = DFParserBuilder::new(sql).build();
        let statements = parser.and_then(|mut parser| parser.parse_statements());
        let failed = |error: DataFusionError| QueryError::planning(&error, &[], &[]);
        Ok(statements.map_err(failed)?.into_iter().map(Statement).collect())
    }

    /// Plans a statement and begins to run it.
    ///
    /// # Errors
    /// [`QueryError::Sql`] where it makes no sense for these tables, else why it cannot run.
    pub fn run(&self, statement: Statement) -> Result<Rows<'_>, QueryError> {
        self.run_with(statement, &[])
    }

    /// The same, with values for `$1`, `$2`, … of it.
    ///
    /// # Errors
    /// As [`Self::run`]; and where a value is missing.
    pub fn run_with(
        &self,
        statement: Statement,
        parameters: &[Parameter],
    ) -> Result<Rows<'_>, QueryError> {
        let plan = self.plan(statement)?;
        let values: Vec<ScalarValue> = parameters.iter().map(Parameter::scalar).collect();
        let plan = match values.is_empty() {
            true => plan,
            false => plan.with_param_values(values).map_err(|error| self.bad(&error))?,
        };
        let failed = |error: DataFusionError| self.bad(&error);
        let context = self.context.clone();
        let abandoned = Abandoned::default();
        let watched = Arc::clone(&abandoned);
        let stream = self.on_worker(async move {
            let frame = context.execute_logical_plan(plan).await?;
            let task = Arc::new(frame.task_ctx());
            let plan = stoppable(frame.create_physical_plan().await?, &watched)?;
            execute_stream(plan, task)
        });
        let stream = stream.map_err(|error| match error.find_root() {
            DataFusionError::ResourcesExhausted(_) => self.failed(&error),
            _ => failed(error),
        })?;
        let runtime = self.runtime.as_ref().ok_or_else(closed).map_err(failed)?;
        Ok(Rows::new(self, runtime, stream, abandoned))
    }

    fn plan(&self, statement: Statement) -> Result<LogicalPlan, QueryError> {
        let text = statement.0.to_string();
        if functions::depends_on_unit(&text) {
            self.require_unit().map_err(|error| self.bad(&error))?;
        }
        self.require_views(text)?;
        let state = self.context.state();
        let planned = self.on_worker(async move { state.statement_to_plan(statement.0).await });
        let plan = planned.map_err(|error| self.bad(&error))?;
        check_is_query(&plan)?;
        Ok(plan)
    }

    /// Makes the recording's unit of time known to the functions that print it. Only when they are called, for it
    /// takes a query.
    fn require_unit(&self) -> DfResult<()> {
        let mut has_unit = self.has_unit.lock().unwrap_or_else(PoisonError::into_inner);
        if *has_unit {
            return Ok(());
        }
        let context = self.context.clone();
        let in_ticks = self.on_worker(async move {
            let sql = "SELECT machine_id FROM machines WHERE time_unit = 'ticks' LIMIT 1";
            Ok(context.sql(sql).await?.count().await? > 0)
        })?;
        if in_ticks {
            functions::register_ticks(&self.context);
        }
        *has_unit = true;
        Ok(())
    }

    /// Makes the views known that a text names.
    fn require_views(&self, text: String) -> Result<(), QueryError> {
        let (views, context) = (Arc::clone(&self.views), self.context.clone());
        let required = self.on_worker(async move { Ok(views.require(&context, &text)) });
        required.map_err(|error| self.failed(&error))?
    }

    /// An error of planning, with what was perhaps meant.
    fn bad(&self, error: &DataFusionError) -> QueryError {
        QueryError::planning(error, &self.tables(), &self.functions()).or_damage(self.damage())
    }

    /// Runs `work` where the stack is deep enough for it, and waits.
    fn on_worker<T: Send + 'static>(
        &self,
        work: impl Future<Output = DfResult<T>> + Send + 'static,
    ) -> DfResult<T> {
        let runtime = self.runtime.as_ref().ok_or_else(closed)?;
        let done = runtime.block_on(runtime.spawn(work));
        done.unwrap_or_else(|error| Err(DataFusionError::ExecutionJoin(Box::new(error))))
    }

    /// Names of all tables and views, sorted.
    pub fn tables(&self) -> Vec<String> {
        let mut names: Vec<String> = self.views.names().map(str::to_owned).collect();
        for catalog in self.context.catalog_names() {
            let Some(catalog) = self.context.catalog(&catalog) else { continue };
            for schema in catalog.schema_names().iter().filter(|s| *s != "information_schema") {
                names.extend(catalog.schema(schema).map(|s| s.table_names()).unwrap_or_default());
            }
        }
        names.sort();
        names.dedup();
        names
    }

    /// The columns of a table or view.
    ///
    /// # Errors
    /// [`QueryError::Sql`] if there is none of that name.
    pub fn schema(&self, table: &str) -> Result<SchemaRef, QueryError> {
        self.require_views(table.to_owned())?;
        let (context, name) = (self.context.clone(), table.to_owned());
        let provider = self.on_worker(async move { context.table_provider(name).await });
        let failed = |error| self.bad(&error);
        Ok(provider.map_err(failed)?.schema())
    }

    /// Names of all functions, sorted.
    pub fn functions(&self) -> Vec<String> {
        let state = self.context.state();
        let mut names: Vec<String> = state.scalar_functions().keys().cloned().collect();
        names.extend(state.aggregate_functions().keys().cloned());
        names.extend(state.window_functions().keys().cloned());
        names.extend(state.table_functions().keys().cloned());
        names.sort();
        names.dedup();
        names
    }
}

/// A session; without `may_spill` its queries write no files.
fn context(options: &Options, may_spill: bool) -> DfResult<SessionContext> {
    let mut config = SessionConfig::new()
        .with_target_partitions(options.threads.max(1))
        .with_information_schema(true)
        .with_default_catalog_and_schema("transect", "public");
    let settings = config.options_mut();
    settings.sql_parser.collect_spans = true;
    // Windows of time are a few pages of a sorted file: judge ts first, decode the rest after.
    settings.execution.parquet.pushdown_filters = true;
    settings.execution.parquet.reorder_filters = true;
    // A view's ORDER BY is the order its rows are meant to be read in.
    settings.sql_parser.enable_subquery_sort_elimination = false;
    settings.execution.split_file_groups_by_statistics = true;
    let memory: Arc<dyn MemoryPool> = match may_spill {
        true => Arc::new(FairSpillPool::new(options.memory_bytes)),
        // Shares for operators that spill would only make them fail sooner.
        false => Arc::new(GreedyMemoryPool::new(options.memory_bytes)),
    };
    let disk = match may_spill {
        true => DiskManagerMode::OsTmpDirectory,
        false => DiskManagerMode::Disabled,
    };
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(memory)
        .with_disk_manager_builder(DiskManagerBuilder::default().with_mode(disk))
        .build_arc()?;
    Ok(SessionContext::new_with_config_rt(config, runtime))
}

fn closed() -> DataFusionError {
    DataFusionError::Internal("the database is closed".to_owned())
}

/// A worker may be deep in a step that does not look up; nobody waits for it.
impl Drop for Database {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Wakes a thread that waits for rows.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The rows of a running query, batch by batch. Dropping it ends the query.
pub struct Rows<'d> {
    database: &'d Database,
    runtime: &'d Runtime,
    schema: SchemaRef,
    batches: Receiver<DfResult<RecordBatch>>,
    query: JoinHandle<()>,
    abandoned: Abandoned,
    is_joined: bool,
}

impl<'d> Rows<'d> {
    /// The query runs on the workers, so that whoever waits for rows can stop waiting at any time.
    fn new(
        database: &'d Database,
        runtime: &'d Runtime,
        mut stream: SendableRecordBatchStream,
        abandoned: Abandoned,
    ) -> Self {
        let schema = stream.schema();
        let (to, batches) = tokio::sync::mpsc::channel(2);
        let query = runtime.spawn(async move {
            while let Some(batch) = stream.next().await {
                if to.send(batch).await.is_err() {
                    return;
                }
            }
        });
        Self { database, runtime, schema, batches, query, abandoned, is_joined: false }
    }

    /// The columns.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// The next rows; none at the end.
    ///
    /// # Errors
    /// Why the query failed, or [`QueryError::Stopped`] once `stop` is set.
    pub fn next(&mut self, stop: &Stop) -> Result<Option<RecordBatch>, QueryError> {
        // The workers' own timers stand still while all of them are busy: this thread waits by
        // itself.
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut task = TaskContext::from_waker(&waker);
        loop {
            stop.look()?;
            match self.batches.poll_recv(&mut task) {
                Poll::Ready(Some(batch)) => {
                    return batch.map(Some).map_err(|error| self.database.failed(&error));
                }
                Poll::Ready(None) => return self.ended(),
                Poll::Pending => std::thread::park_timeout(STOP_LATENCY),
            }
        }
    }

    /// No more rows come: the query is done, or it died.
    fn ended(&mut self) -> Result<Option<RecordBatch>, QueryError> {
        if self.is_joined {
            return Ok(None);
        }
        self.is_joined = true;
        match self.runtime.block_on(&mut self.query) {
            Err(error) if error.is_panic() => {
                let panic = error.into_panic();
                let what = panic_text(panic.as_ref());
                let error = QueryError::Run { message: format!("the query failed: {what}") };
                Err(error.or_damage(self.database.damage()))
            }
            _ => Ok(None),
        }
    }
}

/// The text of a panic in a library.
fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("panic without a message")
}

impl Drop for Rows<'_> {
    fn drop(&mut self) {
        self.abandoned.store(true, Ordering::Relaxed);
        self.query.abort();
    }
}
