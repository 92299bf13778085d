//! What a column holds, told once by the Rust type of its field.
//!
//! `table!` asks [`ColumnValue`] for every field, so that the Parquet files, SQL's schema and
//! `docs/reference/tables.md` cannot say different things about a column, and [`Columnar`] lets a writer go
//! through a table column by column without knowing which table it is.

use crate::{
    cause::{CauseKind, Evidence, LockKind},
    cell::ToCell,
    event::{BlockOp, Comm},
    exit::{ExitReason, Isa},
    from_cell::FromCell,
    ids::{BlockDevice, CpuId, MachineId, MachineKind, Tid, VcpuId},
    interrupt::{Context, IrqSource},
    setting::SchedPolicy,
    stack::StackPoint,
    state::{CounterName, DomainState, EffectiveState, NetDirection, ThreadState, VcpuState},
};

pub use crate::row::Columnar;

/// What a column's values are, in SQL and on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColumnType {
    /// A truth value.
    Bool,
    /// Signed, 32 bits: thread ids.
    I32,
    /// Unsigned, 32 bits: machines, CPUs, vCPUs.
    U32,
    /// Signed, 64 bits: stamps and lengths in ns.
    I64,
    /// Unsigned, 64 bits: counts, addresses.
    U64,
    /// A ratio, 64 bits.
    F64,
    /// Text, UTF-8. Most text columns hold few different words.
    Text,
}

impl ColumnType {
    /// The name in SQL, as `--schema` and `docs/reference/tables.md` print it.
    pub fn sql_name(self) -> &'static str {
        match self {
            ColumnType::Bool => "boolean",
            ColumnType::I32 => "int",
            ColumnType::U32 => "int unsigned",
            ColumnType::I64 => "bigint",
            ColumnType::U64 => "bigint unsigned",
            ColumnType::F64 => "double",
            ColumnType::Text => "varchar",
        }
    }
}

/// A column: its name in SQL, its type, and what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Name in SQL, Parquet, JSON and CSV.
    pub name: &'static str,
    /// What it means, with unit.
    pub doc: &'static str,
    /// What its values are.
    pub ty: ColumnType,
    /// May a value be missing (null)?
    pub nullable: bool,
}

/// A table: its name, what one row is, and its columns in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableDoc {
    /// Name in SQL and on disk.
    pub name: &'static str,
    /// What one row says.
    pub doc: &'static str,
    /// Its columns in order.
    pub columns: &'static [Column],
}

/// What can be a field of a row. [`ToCell::to_cell`] gives a cell of the type [`Self::TYPE`]
/// names, or null if [`Self::NULLABLE`].
pub trait ColumnValue: ToCell + FromCell {
    /// The column's type.
    const TYPE: ColumnType;
    /// May the value be missing?
    const NULLABLE: bool = false;

    /// For text out of a fixed vocabulary: a number that is the same for the same text, so that a
    /// writer looks the text of a hundred million rows up once per word. None for free text and for
    /// everything that is no text.
    fn word(&self) -> Option<u64> {
        None
    }
}

impl<T: ColumnValue> ColumnValue for Option<T> {
    const TYPE: ColumnType = T::TYPE;
    const NULLABLE: bool = true;

    fn word(&self) -> Option<u64> {
        self.as_ref().and_then(ColumnValue::word)
    }
}

macro_rules! plain {
    ($($ty:ty: $column:ident;)*) => {
        $(impl ColumnValue for $ty {
            const TYPE: ColumnType = ColumnType::$column;
        })*
    };
}

plain! {
    bool: Bool;
    i32: I32;
    i64: I64;
    u32: U32;
    u64: U64;
    f64: F64;
    MachineId: U32;
    CpuId: U32;
    VcpuId: U32;
    Tid: I32;
    String: Text;
    &'static str: Text;
}

macro_rules! words {
    ($($ty:ty: |$value:ident| $word:expr;)*) => {
        $(impl ColumnValue for $ty {
            const TYPE: ColumnType = ColumnType::Text;

            fn word(&self) -> Option<u64> {
                let $value = self;
                $word
            }
        })*
    };
}

words! {
    char: |v| Some(u64::from(*v));
    MachineKind: |v| Some(*v as u64);
    VcpuState: |v| Some(*v as u64);
    DomainState: |v| Some(*v as u64);
    ThreadState: |v| Some(*v as u64);
    EffectiveState: |v| Some(*v as u64);
    BlockDevice: |v| Some(u64::from(v.0));
    BlockOp: |v| Some(*v as u64);
    NetDirection: |v| Some(*v as u64);
    CounterName: |v| Some(*v as u64);
    CauseKind: |v| Some(*v as u64);
    Evidence: |v| Some(*v as u64);
    StackPoint: |v| Some(*v as u64);
    LockKind: |v| Some(*v as u64);
    Context: |v| Some(*v as u64);
    SchedPolicy: |v| Some(*v as u64);
    IrqSource: |v| Some(source_word(*v));
    ExitReason: |v| Some(u64::from(v.code) | isa_word(v.isa)? << 32);
    Comm: |v| short_word(v);
}

/// Names of up to 8 bytes, as most network devices have, are their own number.
fn short_word(name: &Comm) -> Option<u64> {
    let (head, tail) = name.0.split_first_chunk::<8>()?;
    tail.iter().all(|byte| *byte == 0).then(|| u64::from_le_bytes(*head))
}

/// The two sources that are no vector first.
fn source_word(source: IrqSource) -> u64 {
    match source {
        IrqSource::Line => 0,
        IrqSource::Softirq => 1,
        IrqSource::Vector(vector) => 2 + vector as u64,
    }
}

/// Different for every instruction set. Kernels number theirs from 1; a broken file may hold
/// anything, and what would clash has no word.
fn isa_word(isa: Isa) -> Option<u64> {
    const OURS: u64 = 1 << 31;
    match isa {
        Isa::Vmx => Some(OURS),
        Isa::Svm => Some(OURS | 1),
        Isa::Arm64 => Some(OURS | 2),
        Isa::Arm64Ret => Some(OURS | 3),
        Isa::XenHypercall => Some(OURS | 4),
        Isa::XenTrap => Some(OURS | 5),
        Isa::Other(isa) => Some(u64::from(isa)).filter(|isa| *isa < OURS),
    }
}

/// Sees each column of a row type once, with its static type.
pub trait ColumnVisitor<R> {
    /// Why it may stop.
    type Error;

    /// One column: its name and how to get its value from a row.
    fn column<T: ColumnValue>(
        &mut self,
        name: &'static str,
        get: impl Fn(&R) -> &T,
    ) -> Result<(), Self::Error>;
}

/// Gives the values of one row, column by column.
pub trait ColumnSource {
    /// Why it may stop.
    type Error;

    /// The row's value in this column. Asked for in the table's order.
    ///
    /// # Errors
    /// There is none of that type.
    fn value<T: ColumnValue>(&mut self, column: &'static str) -> Result<T, Self::Error>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Exit, TABLES, ThreadStateRow};

    fn column(table: TableDoc, name: &str) -> Column {
        *table.columns.iter().find(|c| c.name == name).unwrap()
    }

    #[test]
    fn stamps_are_signed_64_bit_and_never_null() {
        for table in TABLES {
            for column in table.columns.iter().filter(|c| c.name == "ts") {
                assert_eq!((column.ty, column.nullable), (ColumnType::I64, false));
            }
        }
    }

    #[test]
    fn a_column_has_its_fields_type() {
        assert_eq!(column(Exit::TABLE, "rip").ty, ColumnType::U64);
        assert_eq!(column(Exit::TABLE, "reason").ty, ColumnType::Text);
        assert!(column(Exit::TABLE, "dur").nullable);
        assert_eq!(column(ThreadStateRow::TABLE, "tid").ty, ColumnType::I32);
        assert!(column(ThreadStateRow::TABLE, "effective").nullable);
    }

    #[test]
    fn short_names_are_words() {
        assert_ne!(Comm::new(b"eth0").word(), Comm::new(b"eth1").word());
        assert!(Comm::new(b"enp0s3f4").word().is_some());
        assert_eq!(Comm::new(b"enp0s3f4u").word(), None);
    }

    #[test]
    fn different_reasons_are_different_words() {
        use Isa::{Arm64, Arm64Ret, Other, Svm, Vmx, XenHypercall, XenTrap};
        let isas = [Vmx, Svm, Arm64, Arm64Ret, XenHypercall, XenTrap, Other(0), Other(7)];
        let reasons = isas
            .iter()
            .flat_map(|isa| [0, 12, u32::MAX].map(|code| ExitReason { isa: *isa, code }));
        let mut words: Vec<_> = reasons.map(|reason| reason.word()).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), 24);
    }
}
