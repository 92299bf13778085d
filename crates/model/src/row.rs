//! The list of all tables: one row of any, all rows of all, and a walk over them.
//!
//! A new table is a struct in `table.rs` and one line here; who keeps rows learns of it from the
//! compiler.

use crate::cell::Record;
use crate::column::{ColumnSource, ColumnVisitor, TableDoc};
use crate::table::{
    BlockIo, Cause, Cgroup, ClockCheck, ClockEdge, Counter, CpuRow, CpuSlice, DomainStateRow, Exit,
    ImportLog, IoRequest, Irq, IrqLine, LockWait, Lost, Machine, NetIo, Packet, Queue, Reclaim,
    Stack, StackSample, Syscall, Thread, ThreadStateRow, Throttle, Vcpu, VcpuStateRow, Wakeup,
    WallClock, Window, WorkItem,
};

/// A row type that can be walked column by column.
pub trait Columnar: Sized + Into<Row> {
    /// The table its rows belong to.
    const TABLE: TableDoc;

    /// Calls `visit` for each column, in the table's order; ends at the first error.
    ///
    /// # Errors
    /// The visitor's.
    fn each_column<V: ColumnVisitor<Self>>(visit: &mut V) -> Result<(), V::Error>;

    /// Makes a row of the values of `source`: the way back from columns.
    ///
    /// # Errors
    /// The source's.
    fn read<S: ColumnSource>(source: &mut S) -> Result<Self, S::Error>;
}

/// Sees every table's row type once.
pub trait TableVisitor {
    /// Why it may stop.
    type Error;

    /// One table.
    ///
    /// # Errors
    /// The visitor's own.
    fn table<R: Columnar>(&mut self) -> Result<(), Self::Error>;
}

/// Takes the rows the engine makes. Rows about one actor (vCPU, thread, CPU) arrive in order
/// of time; over all actors of a table nearly in the order their interval *ends*. A sink that needs
/// order by `ts` sorts.
pub trait TableSink {
    /// Takes one row.
    fn row(&mut self, row: Row);

    /// Does it want this table's rows at all? Asked once per table before the first row; rows of a
    /// table it does not want are not made, which spares their cost and a keeping sink's memory.
    /// Rows of unwanted tables may still come: `row` has to put up with them.
    fn wants(&self, table: &TableDoc) -> bool {
        let _ = table;
        true
    }
}

/// What a variant of [`Row`] holds: the large ones are boxed, since all variants take the room of the largest.
macro_rules! held {
    ($row:ident) => { $row };
    ($row:ident boxed) => { Box<$row> };
}

/// What a variant of [`Row`] holds.
pub trait Held {
    /// The row.
    type Row;

    /// The row itself.
    fn released(self) -> Self::Row;
}

impl<R> Held for Box<R> {
    type Row = R;

    fn released(self) -> R {
        *self
    }
}

/// The row, held in whatever way.
fn unboxed<R>(row: &R) -> &R {
    row
}

macro_rules! tables {
    ($($field:ident: $row:ident = $variant:ident $($boxed:ident)?;)*) => {
        /// Every table, in the order the docs list them.
        pub const TABLES: &[TableDoc] = &[ $( $row::TABLE, )* ];

        /// Calls `visit` for each table, in the order of [`TABLES`]; ends at the first error.
        ///
        /// # Errors
        /// The visitor's.
        pub fn each_table<V: TableVisitor>(visit: &mut V) -> Result<(), V::Error> {
            $( visit.table::<$row>()?; )*
            Ok(())
        }

        /// One row of any table, on its way from the engine to whoever keeps it. A new table must be
        /// known to all who keep rows: none of them may drop it silently.
        #[derive(Clone, Debug, PartialEq)]
        #[expect(missing_docs, reason = "each variant is the row type of the same name")]
        pub enum Row { $( $variant(held!($row $($boxed)?)), )* }

        impl Row {
            /// Name of the table it belongs to.
            pub fn table(&self) -> &'static str {
                match self { $( Row::$variant(_) => $row::TABLE.name, )* }
            }

            /// Its columns, whatever table it is of.
            pub fn record(&self) -> &dyn Record {
                match self { $( Row::$variant(row) => unboxed::<$row>(row), )* }
            }
        }

        $(impl Held for $row {
            type Row = $row;

            fn released(self) -> $row {
                self
            }
        }

        impl From<$row> for Row {
            fn from(row: $row) -> Row {
                Row::$variant(row.into())
            }
        })*

        /// Some of the tables.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Chosen { $( $field: bool, )* }

        impl Chosen {
            /// Those for which it holds.
            pub fn of(is_chosen: impl Fn(&TableDoc) -> bool) -> Self {
                Chosen { $( $field: is_chosen(&$row::TABLE), )* }
            }

            /// Is the row of one of them?
            pub fn has(&self, row: &Row) -> bool {
                match row { $( Row::$variant(_) => self.$field, )* }
            }

            /// Is the table one of them?
            pub fn names(&self, table: &TableDoc) -> bool {
                $( (table.name == $row::TABLE.name && self.$field) || )* false
            }
        }

        /// Keeps every row of every table: for reports and tests over recordings that fit in memory.
        #[derive(Clone, Debug, Default, PartialEq)]
        #[expect(missing_docs, reason = "each field is the table of the same name")]
        pub struct Tables { $( pub $field: Vec<$row>, )* }

        impl Tables {
            /// Adds the rows of others.
            pub fn append(&mut self, mut other: Tables) {
                $( self.$field.append(&mut other.$field); )*
            }
        }

        impl TableSink for Tables {
            fn row(&mut self, row: Row) {
                match row { $( Row::$variant(row) => self.$field.push(row.released()), )* }
            }
        }
    };
}

// Millions of rows are moved; those of the boxed tables are few.
const _: () = assert!(size_of::<Row>() <= 120);

tables! {
    machines: Machine = Machine boxed;
    cpus: CpuRow = Cpu;
    vcpus: Vcpu = Vcpu;
    threads: Thread = Thread;
    cgroups: Cgroup = Cgroup boxed;
    cpu_slices: CpuSlice = CpuSlice;
    vcpu_states: VcpuStateRow = VcpuState;
    thread_states: ThreadStateRow = ThreadState;
    exits: Exit = Exit;
    wakeups: Wakeup = Wakeup;
    irqs: Irq = Irq;
    syscalls: Syscall = Syscall;
    block_io: BlockIo = BlockIo;
    io_requests: IoRequest = IoRequest boxed;
    net_io: NetIo = NetIo;
    packets: Packet = Packet boxed;
    stack_samples: StackSample = StackSample;
    stacks: Stack = Stack;
    work_items: WorkItem = WorkItem;
    causes: Cause = Cause;
    irq_lines: IrqLine = IrqLine;
    queues: Queue = Queue;
    locks: LockWait = LockWait;
    throttles: Throttle = Throttle;
    reclaims: Reclaim = Reclaim;
    counters: Counter = Counter;
    windows: Window = Window boxed;
    domain_states: DomainStateRow = DomainState;
    clock_edges: ClockEdge = ClockEdge;
    clock_check: ClockCheck = ClockCheck;
    wall_clock: WallClock = WallClock;
    lost: Lost = Lost;
    import_log: ImportLog = ImportLog;
}
