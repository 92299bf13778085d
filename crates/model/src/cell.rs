//! One value of one column, so that a face can write any table without knowing it.
//!
//! Every row type lists its columns in one place (`table!`); [`Record`] walks them. JSON, CSV and
//! other text faces are written once against [`Cell`], so two of them cannot disagree on a number.

use crate::{
    cause::{CauseKind, Evidence, LockKind},
    event::{BlockOp, Comm},
    exit::ExitReason,
    ids::{BlockDevice, CpuId, MachineId, MachineKind, Tid, VcpuId},
    interrupt::{Context, IrqSource},
    setting::SchedPolicy,
    stack::StackPoint,
    state::{CounterName, DomainState, EffectiveState, NetDirection, ThreadState, VcpuState},
    xen::Runstate,
};
use std::borrow::Cow;

/// A value as SQL would hold it. Integers keep their full width.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell<'a> {
    /// Not known or not applicable.
    Null,
    /// A truth value.
    Bool(bool),
    /// A signed number: stamps and lengths in ns, thread ids.
    I64(i64),
    /// An unsigned number: ids, counts, addresses.
    U64(u64),
    /// A ratio.
    F64(f64),
    /// A name or a word of the vocabulary.
    Str(Cow<'a, str>),
}

/// What can stand in a column.
pub trait ToCell {
    /// The value as a cell; borrows where it can.
    fn to_cell(&self) -> Cell<'_>;
}

/// A row that can list its columns in order.
pub trait Record {
    /// Calls `visit` with each column's name and value, in the table's order.
    fn each_cell<'a>(&'a self, visit: &mut dyn FnMut(&'static str, Cell<'a>));
}

impl<T: ToCell> ToCell for Option<T> {
    fn to_cell(&self) -> Cell<'_> {
        self.as_ref().map_or(Cell::Null, ToCell::to_cell)
    }
}

macro_rules! to_cell {
    ($($ty:ty: |$value:ident| $cell:expr;)*) => {
        $(impl ToCell for $ty {
            fn to_cell(&self) -> Cell<'_> {
                let $value = self;
                $cell
            }
        })*
    };
}

to_cell! {
    bool: |v| Cell::Bool(*v);
    i32: |v| Cell::I64(i64::from(*v));
    i64: |v| Cell::I64(*v);
    u32: |v| Cell::U64(u64::from(*v));
    u64: |v| Cell::U64(*v);
    f64: |v| Cell::F64(*v);
    &'static str: |v| Cell::Str(Cow::Borrowed(v));
    String: |v| Cell::Str(Cow::Borrowed(v));
    char: |v| Cell::Str(Cow::Owned(v.to_string()));
    MachineId: |v| Cell::U64(u64::from(v.0));
    CpuId: |v| Cell::U64(u64::from(v.0));
    VcpuId: |v| Cell::U64(u64::from(v.0));
    Tid: |v| Cell::I64(i64::from(v.0));
    MachineKind: |v| Cell::Str(Cow::Borrowed(v.as_str()));
    VcpuState: |v| Cell::Str(Cow::Borrowed(v.as_str()));
    DomainState: |v| Cell::Str(Cow::Borrowed(v.as_str()));
    Runstate: |v| Cell::Str(Cow::Borrowed(v.as_str()));
    ThreadState: |v| Cell::Str(Cow::Borrowed(v.as_str()));
    EffectiveState: |v| Cell::Str(Cow::Borrowed(v.as_str()));
    ExitReason: |v| Cell::Str(v.name());
    Comm: |v| Cell::Str(v.to_str());
    BlockDevice: |v| Cell::Str(Cow::Owned(v.to_string()));
    BlockOp: |v| Cell::Str(Cow::Borrowed(v.as_str()));
    NetDirection: |v| Cell::Str(Cow::Borrowed(v.as_str()));
    CounterName: |v| Cell::Str(Cow::Borrowed(v.as_str()));
    CauseKind: |v| Cell::Str(Cow::Borrowed(v.as_str()));
    Evidence: |v| Cell::Str(Cow::Borrowed(v.as_str()));
    StackPoint: |v| Cell::Str(Cow::Borrowed(v.as_str()));
    LockKind: |v| Cell::Str(Cow::Borrowed(v.as_str()));
    Context: |v| Cell::Str(Cow::Borrowed(v.as_str()));
    IrqSource: |v| Cell::Str(Cow::Borrowed(v.as_str()));
    SchedPolicy: |v| Cell::Str(Cow::Borrowed(v.as_str()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{exit::Isa, table::Exit};

    #[test]
    fn a_row_lists_its_columns_in_the_tables_order_at_full_width() {
        let row = Exit {
            ts: -5,
            dur: None,
            handling_ns: Some(i64::MAX),
            machine_id: MachineId(1),
            vcpu: VcpuId(2),
            reason: ExitReason { isa: Isa::Svm, code: 0x78 },
            rip: u64::MAX,
            to_user: false,
            detail: None,
        };
        let mut cells = Vec::new();
        row.each_cell(&mut |name, cell| cells.push((name, cell)));
        let names: Vec<_> = cells.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, Exit::TABLE.columns.iter().map(|c| c.name).collect::<Vec<_>>());
        let value = |at: usize| cells[at].1.clone();
        assert_eq!(value(0), Cell::I64(-5));
        assert_eq!(value(1), Cell::Null);
        assert_eq!(value(2), Cell::I64(i64::MAX));
        assert_eq!(value(5), Cell::Str("hlt".into()));
        assert_eq!(value(6), Cell::U64(u64::MAX));
    }
}
