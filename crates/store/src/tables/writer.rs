//! The sink of the engine that writes every table.

use super::lane::Lane;
use super::part::{BUFFER_BYTES, Part, RowBuffer};
use super::pool::Pool;
use super::schema::Layout;
use super::written::{Files, Written};
use crate::error::StoreError;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use transect_model::column::Columnar;
use transect_model::ids::MachineId;
use transect_model::table::{
    BlockIo, Cause, Cgroup, ClockCheck, ClockEdge, Counter, CpuRow, CpuSlice, DomainStateRow, Exit,
    Held, ImportLog, IoRequest, Irq, IrqLine, LockWait, Lost, Machine, NetIo, Packet, Queue,
    Reclaim, Row, Stack, StackSample, Syscall, TableSink, Thread, ThreadStateRow, Throttle, Vcpu,
    VcpuStateRow, Wakeup, WallClock, Window, WorkItem,
};

/// Up to so many machines each has a folder of its own in the large tables.
const MAX_MACHINE_FOLDERS: usize = 16;

/// One table's partitions.
struct Table<R> {
    layout: Arc<Layout>,
    dir: PathBuf,
    per_machine: bool,
    parts: Vec<Option<Part<RowBuffer<R>>>>,
    files: Arc<Files>,
}

impl<R: Columnar + Send + 'static> Table<R> {
    fn new(tables: &Path, per_machine: bool, files: &Arc<Files>) -> Result<Self, StoreError> {
        Ok(Table {
            layout: Layout::of_table(&R::TABLE)?,
            dir: tables.join(R::TABLE.name),
            per_machine,
            parts: Vec::new(),
            files: Arc::clone(files),
        })
    }

    #[inline]
    fn push(&mut self, machine: MachineId, ts: i64, row: R, pool: &Pool) -> bool {
        let at = if self.per_machine { machine.0 as usize } else { 0 };
        match self.parts.get_mut(at) {
            Some(Some(part)) => part.push(ts, row, pool),
            _ => self.part(at).push(ts, row, pool),
        }
    }

    /// A partition's first row comes.
    #[cold]
    fn part(&mut self, at: usize) -> &mut Part<RowBuffer<R>> {
        if self.parts.len() <= at {
            self.parts.resize_with(at + 1, || None);
        }
        let dir = match self.per_machine {
            true => self.dir.join(format!("machine_id={at}")),
            false => self.dir.clone(),
        };
        let (layout, files) = (&self.layout, &self.files);
        self.parts[at].get_or_insert_with(|| {
            Part::new(&RowBuffer::default(), |order| {
                Lane::new(Arc::clone(layout), dir.clone(), order, Arc::clone(files))
            })
        })
    }
}

/// What all tables can do, whatever their rows.
trait AnyTable {
    fn name(&self) -> &'static str;
    fn bytes(&self) -> usize;
    /// The partition with the most memory, and how much that is.
    fn fullest(&self) -> (usize, usize);
    fn seal(&mut self, part: usize, pool: &Pool);
    fn finish(&mut self, pool: &Pool);
    fn rows(&self) -> u64;
}

impl<R: Columnar + Send + 'static> AnyTable for Table<R> {
    fn name(&self) -> &'static str {
        R::TABLE.name
    }

    fn bytes(&self) -> usize {
        self.parts.iter().flatten().map(Part::bytes).sum()
    }

    fn fullest(&self) -> (usize, usize) {
        let sizes = self.parts.iter().map(|part| part.as_ref().map_or(0, Part::bytes));
        sizes.enumerate().max_by_key(|(_, bytes)| *bytes).unwrap_or((0, 0))
    }

    fn seal(&mut self, part: usize, pool: &Pool) {
        if let Some(Some(part)) = self.parts.get_mut(part) {
            part.seal_all(pool);
        }
    }

    fn finish(&mut self, pool: &Pool) {
        self.parts.iter_mut().flatten().for_each(|part| part.finish(pool));
    }

    fn rows(&self) -> u64 {
        self.parts.iter().flatten().map(Part::rows).sum()
    }
}

macro_rules! tables {
    ($($field:ident: $row:ident = $variant:ident, $per_machine:literal, $ts:expr, $machine:expr;)*) => {
        /// Every table.
        struct All { $( $field: Table<$row>, )* }

        impl All {
            fn new(
                dir: &Path,
                per_machine: bool,
                files: &Arc<Files>,
            ) -> Result<Self, StoreError> {
                Ok(All { $( $field: Table::new(dir, per_machine && $per_machine, files)?, )* })
            }

            fn each(&mut self) -> Vec<&mut dyn AnyTable> {
                vec![ $( &mut self.$field, )* ]
            }

            /// Takes a row; true if a buffer grew.
            #[inline]
            fn push(&mut self, row: Row, pool: &Pool) -> bool {
                match row {
                    $( Row::$variant(row) => {
                        let ts: fn(&$row) -> i64 = $ts;
                        let machine: fn(&$row) -> MachineId = $machine;
                        self.$field.push(machine(&row), ts(&row), row.released(), pool)
                    } )*
                }
            }
        }
    };
}

tables! {
    machines: Machine = Machine, false, |_| 0, |_| MachineId(0);
    cpus: CpuRow = Cpu, false, |_| 0, |_| MachineId(0);
    vcpus: Vcpu = Vcpu, false, |_| 0, |_| MachineId(0);
    threads: Thread = Thread, false, |_| 0, |_| MachineId(0);
    cgroups: Cgroup = Cgroup, false, |_| 0, |_| MachineId(0);
    cpu_slices: CpuSlice = CpuSlice, true, |row| row.ts, |row| row.machine_id;
    vcpu_states: VcpuStateRow = VcpuState, true, |row| row.ts, |row| row.machine_id;
    thread_states: ThreadStateRow = ThreadState, true, |row| row.ts, |row| row.machine_id;
    exits: Exit = Exit, true, |row| row.ts, |row| row.machine_id;
    wakeups: Wakeup = Wakeup, true, |row| row.ts, |row| row.machine_id;
    irqs: Irq = Irq, true, |row| row.ts, |row| row.machine_id;
    syscalls: Syscall = Syscall, true, |row| row.ts, |row| row.machine_id;
    block_io: BlockIo = BlockIo, true, |row| row.ts, |row| row.machine_id;
    io_requests: IoRequest = IoRequest, true, |row| row.ts, |row| row.machine_id;
    net_io: NetIo = NetIo, true, |row| row.ts, |row| row.machine_id;
    packets: Packet = Packet, true, |row| row.ts, |row| row.machine_id;
    stack_samples: StackSample = StackSample, true, |row| row.ts, |row| row.machine_id;
    stacks: Stack = Stack, false, |_| 0, |_| MachineId(0);
    work_items: WorkItem = WorkItem, true, |row| row.ts, |row| row.machine_id;
    causes: Cause = Cause, true, |row| row.ts, |row| row.machine_id;
    irq_lines: IrqLine = IrqLine, false, |_| 0, |_| MachineId(0);
    queues: Queue = Queue, false, |_| 0, |_| MachineId(0);
    locks: LockWait = LockWait, true, |row| row.ts, |row| row.machine_id;
    throttles: Throttle = Throttle, true, |row| row.ts, |row| row.machine_id;
    reclaims: Reclaim = Reclaim, true, |row| row.ts, |row| row.machine_id;
    counters: Counter = Counter, true, |row| row.ts, |row| row.machine_id;
    windows: Window = Window, true, |row| row.ts, |row| row.machine_id;
    domain_states: DomainStateRow = DomainState, true, |row| row.ts, |row| row.machine_id;
    clock_edges: ClockEdge = ClockEdge, false, |_| 0, |_| MachineId(0);
    clock_check: ClockCheck = ClockCheck, false, |_| 0, |_| MachineId(0);
    wall_clock: WallClock = WallClock, false, |row| row.ts, |_| MachineId(0);
    lost: Lost = Lost, false, |row| row.ts, |_| MachineId(0);
    import_log: ImportLog = ImportLog, false, |_| 0, |_| MachineId(0);
}

/// Writes rows into Parquet files as they come. A [`TableSink`] cannot fail, so the first error is
/// kept, further rows are dropped, and [`TablesWriter::finish`] tells.
pub struct TablesWriter {
    all: All,
    pool: Pool,
    files: Arc<Files>,
}

impl TablesWriter {
    /// A writer of tables in the folder `dir`, which is made. `machines` is how many the recording
    /// has: few get a folder each in the large tables (`machine_id=0/`), many share one.
    ///
    /// # Errors
    /// A table's columns cannot be written as Parquet.
    pub fn create(dir: &Path, machines: usize) -> Result<Self, StoreError> {
        let files = Arc::new(Files::below(dir));
        let all = All::new(dir, machines <= MAX_MACHINE_FOLDERS, &files)?;
        Ok(TablesWriter { all, pool: Pool::new(), files })
    }

    /// Has something failed, so that all further work is in vain?
    pub fn has_failed(&self) -> bool {
        self.pool.has_failed()
    }

    /// Writes what is left and waits for it. Rows per table, and the checksums of all files.
    ///
    /// # Errors
    /// The first error of all: a full disk, a file that cannot be made. What was written until
    /// then is of no use.
    pub fn finish(mut self) -> Result<Written, StoreError> {
        self.all.each().into_iter().for_each(|table| table.finish(&self.pool));
        self.pool.finish()?;
        let tables = self.all.each();
        let rows = tables.iter().map(|table| (table.name().to_owned(), table.rows())).collect();
        Ok(Written { rows, sums: self.files.sums(), ..Written::default() })
    }

    /// Writes the fullest buffers until all together are small again.
    #[cold]
    fn shrink(&mut self) {
        let mut tables = self.all.each();
        let mut bytes: usize = tables.iter().map(|table| table.bytes()).sum();
        while bytes > BUFFER_BYTES {
            let fullest = tables.iter_mut().max_by_key(|table| table.fullest().1);
            let Some(table) = fullest else { return };
            let (part, freed) = table.fullest();
            if freed == 0 {
                return;
            }
            table.seal(part, &self.pool);
            bytes -= freed;
        }
    }
}

impl TableSink for TablesWriter {
    #[inline]
    fn row(&mut self, row: Row) {
        if self.all.push(row, &self.pool) {
            self.shrink();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transect_model::table::TABLES;

    #[test]
    fn every_table_of_the_model_is_written() {
        let mut all =
            All::new(Path::new("x"), true, &Arc::new(Files::below(Path::new("x")))).unwrap();
        let names: Vec<_> = all.each().iter().map(|table| table.name()).collect();
        assert_eq!(names, TABLES.iter().map(|table| table.name).collect::<Vec<_>>());
    }
}
