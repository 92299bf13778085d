//! A row of the table: one kind of record.

use super::field::Field;
use std::fmt;

/// Class of a record: what `xentrace -e` selects by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// The trace itself.
    Gen,
    /// Runstates.
    SchedMin,
    /// A scheduler's own events.
    SchedClass,
    /// Scheduling operations and switches.
    SchedVerbose,
    /// Domains made and destroyed.
    Dom0Op,
    /// Entry to and exit from HVM and PVH guests.
    HvmEntryExit,
    /// What their exits were handled as.
    HvmHandler,
    /// Emulated devices of HVM guests.
    HvmEmul,
    /// Grants, physical-to-machine map, populate on demand.
    Mem,
    /// Entry of PV guests into the hypervisor.
    PvEntry,
    /// Calls within a multicall.
    PvSubcall,
    /// Shadow page tables.
    Shadow,
    /// Power and frequency of pCPUs.
    HwPm,
    /// Interrupts of the hardware.
    HwIrq,
    /// Written by HVM guests themselves (`HVMOP_xentrace`).
    Guest,
}

impl Class {
    /// Its bits in an event number, which are also its bit in a mask for `xentrace -e`.
    pub fn id(self) -> u32 {
        match self {
            Class::Gen => 0x0001_f000,
            Class::SchedMin => 0x0002_1000,
            Class::SchedClass => 0x0002_2000,
            Class::SchedVerbose => 0x0002_8000,
            Class::Dom0Op => 0x0004_1000,
            Class::HvmEntryExit => 0x0008_1000,
            Class::HvmHandler => 0x0008_2000,
            Class::HvmEmul => 0x0008_4000,
            Class::Mem => 0x0010_f000,
            Class::PvEntry => 0x0020_1000,
            Class::PvSubcall => 0x0020_2000,
            Class::Shadow => 0x0040_f000,
            Class::HwPm => 0x0080_1000,
            Class::HwIrq => 0x0080_2000,
            Class::Guest => 0x0800_f000,
        }
    }

    /// The class an event number says it is of, known or not.
    pub fn of(event: u32) -> Option<Class> {
        Class::ALL.into_iter().find(|class| class.id() == event & 0x0fff_f000)
    }

    /// Every class.
    pub const ALL: [Class; 15] = [
        Class::Gen,
        Class::SchedMin,
        Class::SchedClass,
        Class::SchedVerbose,
        Class::Dom0Op,
        Class::HvmEntryExit,
        Class::HvmHandler,
        Class::HvmEmul,
        Class::Mem,
        Class::PvEntry,
        Class::PvSubcall,
        Class::Shadow,
        Class::HwPm,
        Class::HwIrq,
        Class::Guest,
    ];
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::Gen => "gen",
            Class::SchedMin => "sched_min",
            Class::SchedClass => "sched_class",
            Class::SchedVerbose => "sched_verbose",
            Class::Dom0Op => "dom0op",
            Class::HvmEntryExit => "hvm_entryexit",
            Class::HvmHandler => "hvm_handler",
            Class::HvmEmul => "hvm_emul",
            Class::Mem => "mem",
            Class::PvEntry => "pv_entry",
            Class::PvSubcall => "pv_subcall",
            Class::Shadow => "shadow",
            Class::HwPm => "hw_pm",
            Class::HwIrq => "hw_irq",
            Class::Guest => "guest",
        })
    }
}

/// Which versions of Xen 4 write a record in this form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// First minor version (14 for Xen 4.14).
    pub from: u8,
    /// Last minor version.
    pub to: u8,
    /// False for what the public header defines and no version from 4.14 to 4.20 writes.
    pub written: bool,
}

impl Versions {
    /// Oldest minor version this crate knows.
    pub const OLDEST: u8 = 14;
    /// Newest minor version this crate knows.
    pub const NEWEST: u8 = 20;
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.written, self.from, self.to) {
            (false, ..) => f.write_str("never written"),
            (_, Versions::OLDEST, Versions::NEWEST) => f.write_str("all"),
            (_, Versions::OLDEST, to) => write!(f, "to 4.{to}"),
            (_, from, Versions::NEWEST) => write!(f, "from 4.{from}"),
            (_, from, to) => write!(f, "4.{from} to 4.{to}"),
        }
    }
}

/// Which [`crate::XenEvent`] a record becomes; `Other` has its fields only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the XenEvent of its name")]
pub enum Kind {
    Other,
    Lost,
    Wrap,
    CpuChange,
    RunstateChange,
    ContinueRunning,
    SwitchInfPrev,
    SwitchInfNext,
    SwitchInfCont,
    Switch,
    Wake,
    Sleep,
    Block,
    Yield,
    Shutdown,
    DomainScheduled,
    DomainUnscheduled,
    DomainCreated,
    DomainDestroyed,
    VmEntry,
    VmExit,
    VmExit64,
    Injection,
    Interrupt,
    HvmHypercall,
    Halt,
    Hypercall,
    Subcall,
    PvTrap,
    PvTrap64,
    PvPageFault,
    PvPageFault64,
    PvPrivop,
    PvPrivop64,
    PvMathState,
    PvPtwr,
    PvPtwrPae,
    GrantMap,
    GrantUnmap,
    GrantTransfer,
    IrqHandled,
    IdleEntry,
    IdleExit,
    FrequencyChange,
}

/// One kind of record.
#[derive(Clone, Copy, Debug)]
pub struct RecordDef {
    /// Event number: class, subclass, number. Bits of [`field@Self::varying`] are 0 in it.
    pub id: u32,
    /// Bits of the event number that are fields of the record rather than its kind.
    pub varying: u32,
    /// Name: the public header's without `TRC_`, in lower case. Forms of one event (32 and 64
    /// bits, paging levels, versions) share it.
    pub name: &'static str,
    /// Fewest words after header and stamp.
    pub min_words: u8,
    /// Most words after header and stamp.
    pub max_words: u8,
    /// Does Xen give it a stamp? Without one it happened between its neighbours.
    pub stamped: bool,
    /// Its fields.
    pub fields: &'static [Field],
    /// Versions that write it so.
    pub versions: Versions,
    /// The typed event it becomes.
    pub kind: Kind,
    /// When it is written and what for.
    pub doc: &'static str,
}

impl RecordDef {
    /// Its class.
    pub fn class(&self) -> Class {
        // Every row's id is of a class; a test holds it.
        Class::of(self.id).unwrap_or(Class::Gen)
    }
}

const ALL_VERSIONS: Versions =
    Versions { from: Versions::OLDEST, to: Versions::NEWEST, written: true };

/// A stamped record with exactly the words its fields need.
pub(super) const fn row(
    id: u32,
    name: &'static str,
    words: u8,
    fields: &'static [Field],
    doc: &'static str,
) -> RecordDef {
    RecordDef {
        id,
        varying: 0,
        name,
        min_words: words,
        max_words: words,
        stamped: true,
        fields,
        versions: ALL_VERSIONS,
        kind: Kind::Other,
        doc,
    }
}

/// An event that is defined but that no version writes: whatever words it has.
pub(super) const fn unused(id: u32, name: &'static str) -> RecordDef {
    let mut row = row(id, name, 0, &[], "");
    row.max_words = 7;
    row.versions.written = false;
    row
}

impl RecordDef {
    /// It may have more words.
    pub(super) const fn up_to(mut self, words: u8) -> RecordDef {
        self.max_words = words;
        self
    }

    /// It has no stamp.
    pub(super) const fn unstamped(mut self) -> RecordDef {
        self.stamped = false;
        self
    }

    /// It varies in these bits of the event number.
    pub(super) const fn varying(mut self, bits: u32) -> RecordDef {
        self.varying = bits;
        self
    }

    /// Written so from this minor version on.
    pub(super) const fn from(mut self, minor: u8) -> RecordDef {
        self.versions.from = minor;
        self
    }

    /// Written so up to this minor version.
    pub(super) const fn to(mut self, minor: u8) -> RecordDef {
        self.versions.to = minor;
        self
    }

    /// It becomes this typed event.
    pub(super) const fn kind(mut self, kind: Kind) -> RecordDef {
        self.kind = kind;
        self
    }
}
