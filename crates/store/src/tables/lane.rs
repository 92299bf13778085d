//! The files of one partition: row groups go in, in the order they were handed out.
//!
//! Groups are encoded by several threads; each waits for its turn before it appends. A thread that
//! has group n of a lane took it from a queue in which n-1 came before, so somebody works on n-1,
//! and waiting cannot lock up.

use super::group::RowGroup;
use super::schema::Layout;
use super::written::Files;
use crate::error::{StoreError, io_error};
use parquet::file::writer::SerializedFileWriter;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use transect_integrity::SummingWriter;

/// Rows of a file whose row groups are in order one behind the other.
const ROWS_PER_FILE: u64 = 4 << 20;
/// Files of all lanes that may be open at once; beyond, files become smaller.
const MAX_OPEN_FILES: usize = 200;

/// Which rows of a partition a lane has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Each row group begins where the one before ended: files of several groups are in order.
    InOrder,
    /// Row groups overlap: each has a file of its own, so that no file is out of order.
    Late,
}

impl Order {
    fn stem(self) -> &'static str {
        match self {
            Order::InOrder => "bucket",
            Order::Late => "late",
        }
    }

    fn rows_per_file(self) -> u64 {
        match self {
            Order::InOrder => ROWS_PER_FILE,
            Order::Late => 1,
        }
    }
}

/// One partition's files: `<dir>/<stem>=0.parquet`, `…=1.parquet`, …
pub(crate) struct Lane {
    layout: Arc<Layout>,
    dir: PathBuf,
    order: Order,
    files: Arc<Files>,
    state: Mutex<State>,
    turned: Condvar,
}

#[derive(Default)]
struct State {
    /// Whose turn it is.
    turn: u64,
    files: u32,
    rows: u64,
    open: Option<Open>,
}

struct Open {
    path: PathBuf,
    rows: u64,
    writer: SerializedFileWriter<SummingWriter<File>>,
}

impl Lane {
    pub(crate) fn new(
        layout: Arc<Layout>,
        dir: PathBuf,
        order: Order,
        files: Arc<Files>,
    ) -> Arc<Self> {
        let (state, turned) = (Mutex::default(), Condvar::new());
        Arc::new(Lane { layout, dir, order, files, state, turned })
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Rows appended so far.
    pub(crate) fn rows(&self) -> u64 {
        self.lock().rows
    }

    /// Waits for turn `number`, appends the group (none if it could not be encoded), and lets the
    /// next one in. `last` closes the file.
    pub(crate) fn append(
        &self,
        number: u64,
        group: Option<RowGroup>,
        last: bool,
    ) -> Result<(), StoreError> {
        let mut state = self.lock();
        while state.turn < number {
            state = self.turned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let mut result = match group {
            Some(group) => self.write(&mut state, group),
            None => Ok(()),
        };
        if let Some(open) = state.open.take_if(|open| last || self.is_full(open)) {
            result = result.and(self.close(open));
        }
        state.turn = number + 1;
        drop(state);
        self.turned.notify_all();
        result
    }

    fn is_full(&self, open: &Open) -> bool {
        open.rows >= self.order.rows_per_file() || self.files.open() > MAX_OPEN_FILES
    }

    fn write(&self, state: &mut State, group: RowGroup) -> Result<(), StoreError> {
        let mut open = match state.open.take() {
            Some(open) => open,
            None => self.open(state)?,
        };
        let rows = group.rows;
        group
            .append_to(&mut open.writer)
            .map_err(|error| self.layout.write_failed(&open.path, error))?;
        state.rows += rows;
        open.rows += rows;
        state.open = Some(open);
        Ok(())
    }

    fn open(&self, state: &mut State) -> Result<Open, StoreError> {
        transect_access::create_dir_all(&self.dir).map_err(io_error("make", &self.dir))?;
        let path = self.dir.join(format!("{}={}.parquet", self.order.stem(), state.files));
        state.files += 1;
        let file = transect_access::create_file(&path).map_err(io_error("make", &path))?;
        self.files.opened();
        let (schema, properties) = (self.layout.schema.clone(), self.layout.properties.clone());
        let writer = SerializedFileWriter::new(SummingWriter::new(file), schema, properties);
        let writer = writer.map_err(|error| self.layout.write_failed(&path, error))?;
        Ok(Open { path, rows: 0, writer })
    }

    fn close(&self, open: Open) -> Result<(), StoreError> {
        self.files.closed();
        let Open { path, mut writer, .. } = open;
        writer.finish().map_err(|error| self.layout.write_failed(&path, error))?;
        writer.flush().map_err(io_error("write", &path))?;
        // Tables that have a stamp are taken for whole, after a power failure too.
        writer.inner().inner().sync_data().map_err(io_error("write", &path))?;
        self.files.add(&path, writer.inner().sums());
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
