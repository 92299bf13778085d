//! From a cell back to the value it was made of: how rows are read from files that hold columns.
//!
//! What a cell says is kept to the letter ([`ToCell`](crate::cell::ToCell) of what is read gives the
//! same cell), what it never said is not: an exit reason that has no name in any instruction set is
//! its number in the first that does not know it, and names of devices end after 15 bytes.

use crate::{
    cause::{CauseKind, Evidence, LockKind},
    cell::Cell,
    event::{BlockOp, Comm},
    exit::ExitReason,
    ids::{BlockDevice, CpuId, MachineId, MachineKind, Tid, VcpuId},
    interrupt::{Context, IrqSource},
    setting::SchedPolicy,
    stack::StackPoint,
    state::{CounterName, DomainState, EffectiveState, NetDirection, ThreadState, VcpuState},
};

/// What can be read back from a column.
pub trait FromCell: Sized {
    /// The value; none if the cell is of another type, out of range, or no word of the vocabulary.
    fn from_cell(cell: &Cell<'_>) -> Option<Self>;
}

impl<T: FromCell> FromCell for Option<T> {
    fn from_cell(cell: &Cell<'_>) -> Option<Self> {
        match cell {
            Cell::Null => Some(None),
            cell => T::from_cell(cell).map(Some),
        }
    }
}

macro_rules! from_cell {
    ($($ty:ty: $variant:ident($value:ident) => $made:expr;)*) => {
        $(impl FromCell for $ty {
            fn from_cell(cell: &Cell<'_>) -> Option<Self> {
                match cell {
                    Cell::$variant($value) => $made,
                    _ => None,
                }
            }
        })*
    };
}

from_cell! {
    bool: Bool(v) => Some(*v);
    i32: I64(v) => i32::try_from(*v).ok();
    i64: I64(v) => Some(*v);
    u32: U64(v) => u32::try_from(*v).ok();
    u64: U64(v) => Some(*v);
    f64: F64(v) => Some(*v);
    String: Str(v) => Some(v.as_ref().to_owned());
    char: Str(v) => only_char(v);
    MachineId: U64(v) => u32::try_from(*v).ok().map(MachineId);
    CpuId: U64(v) => u32::try_from(*v).ok().map(CpuId);
    VcpuId: U64(v) => u32::try_from(*v).ok().map(VcpuId);
    Tid: I64(v) => i32::try_from(*v).ok().map(Tid);
    ExitReason: Str(v) => ExitReason::by_name(v);
    Comm: Str(v) => Some(Comm::new(v.as_bytes()));
    BlockDevice: Str(v) => device(v);
}

/// Words that rows of live views hold as such: what threads are and where, which way I/O goes.
const WORDS: &[&str] = &[
    "vcpu",
    "vmm",
    "vhost",
    "thread",
    "running",
    "preempted",
    "waking",
    "asleep",
    "halted",
    "gone",
    "unknown",
    "read",
    "write",
    "xmit",
    "receive",
];

impl FromCell for &'static str {
    fn from_cell(cell: &Cell<'_>) -> Option<Self> {
        let Cell::Str(word) = cell else { return None };
        WORDS.iter().find(|known| **known == word.as_ref()).copied()
    }
}

fn only_char(text: &str) -> Option<char> {
    let mut chars = text.chars();
    chars.next().filter(|_| chars.next().is_none())
}

/// `8:16`, as [`BlockDevice`] shows itself.
fn device(text: &str) -> Option<BlockDevice> {
    let (major, minor) = text.split_once(':')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    (major < 1 << 12 && minor < 1 << 20).then_some(BlockDevice(major << 20 | minor))
}

macro_rules! words {
    ($($ty:ident: $($variant:ident)*;)*) => {
        $(impl FromCell for $ty {
            fn from_cell(cell: &Cell<'_>) -> Option<Self> {
                // A variant that is missing from the list does not compile.
                const fn _complete(value: $ty) {
                    match value { $( $ty::$variant => {} )* }
                }
                let Cell::Str(word) = cell else { return None };
                [$( $ty::$variant ),*].into_iter().find(|known| known.as_str() == word.as_ref())
            }
        })*
    };
}

words! {
    MachineKind: Host Hypervisor Guest Container;
    VcpuState: Guest Exit User HaltPoll Halted Preempted Waking Blocked Running Hypercall Trap
        Offline Unknown;
    DomainState: Blocked PartialRun FullRun PartialContention ConcurrencyHazard FullContention
        Unknown;
    ThreadState: Running Runnable Blocked Unknown;
    EffectiveState: Running VcpuPreempted ExitHandling VcpuHalted Unknown;
    BlockOp: Read Write Flush Discard Other;
    NetDirection: Xmit Receive;
    CounterName: HaltPollNs BlockInFlight;
    CauseKind: Wakeup Fork Timer Ipi Completion Packet Softirq Kick Injection Line Work Lock;
    Evidence: Id Context Order;
    StackPoint: Issue Transmit Receive Accept Wake;
    LockKind: Spinlock RwlockRead RwlockWrite RwsemRead RwsemWrite Mutex RtMutex PercpuRwsem;
    Context: Task Softirq Irq Nmi;
    SchedPolicy: Other Fifo Rr Batch Idle Deadline Ext;
}

impl FromCell for IrqSource {
    fn from_cell(cell: &Cell<'_>) -> Option<Self> {
        let Cell::Str(word) = cell else { return None };
        IrqSource::all().find(|known| known.as_str() == word.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::ToCell;

    /// Reads back what the value says.
    fn again<T: ToCell + FromCell>(value: &T) -> Option<T> {
        T::from_cell(&value.to_cell())
    }

    #[test]
    fn numbers_keep_their_width() {
        assert_eq!(again(&i64::MIN), Some(i64::MIN));
        assert_eq!(again(&u64::MAX), Some(u64::MAX));
        assert_eq!(again(&Tid(-1)), Some(Tid(-1)));
        assert_eq!(again(&Some(CpuId(u32::MAX))), Some(Some(CpuId(u32::MAX))));
        assert_eq!(again(&None::<CpuId>), Some(None));
        assert_eq!(Tid::from_cell(&Cell::I64(1 << 40)), None);
        assert_eq!(CpuId::from_cell(&Cell::Null), None);
    }

    #[test]
    fn words_come_back_and_others_do_not() {
        for state in VcpuState::ALL {
            assert_eq!(again(&state), Some(state));
        }
        for source in IrqSource::all() {
            assert_eq!(again(&source), Some(source));
        }
        assert_eq!(again(&BlockDevice(8 << 20 | 16)), Some(BlockDevice(8 << 20 | 16)));
        assert_eq!(again(&BlockDevice(u32::MAX)), Some(BlockDevice(u32::MAX)));
        assert_eq!(again(&'D'), Some('D'));
        for text in ["", "8:", ":1", "4096:0", "1:1048576", "-1:2", "DD", "gast"] {
            let cell = Cell::Str(text.into());
            assert_eq!(BlockDevice::from_cell(&cell), None, "{text}");
            assert_eq!(char::from_cell(&cell), None, "{text}");
            assert_eq!(VcpuState::from_cell(&cell), None, "{text}");
        }
    }

    #[test]
    fn short_device_names_come_back() {
        for name in [&b"eth0"[..], b"", b"fifteen-bytes-x", b"\xff\xfe"] {
            let shown = Comm::new(name).to_str().into_owned();
            let read = again(&Comm::new(name)).map(|read| read.to_str().into_owned());
            assert_eq!(read, Some(shown));
        }
    }
}
