//! PV: entries of PV guests into the hypervisor, hypercalls and the calls within a multicall.

use super::{
    field::{Field, Meaning, argument, bits, pair, word},
    row::{Kind, RecordDef, row, unused},
};

const EIP: Field = word("rip", 0).is(Meaning::Hex);
const RIP: Field = pair("rip", 0).is(Meaning::Hex);
const OP: Field = bits("op", 0, 0, 20).is(Meaning::Hypercall);

const fn addr(at: u8) -> Field {
    word("addr", at).is(Meaning::Hex)
}

const fn addr64(at: u8) -> Field {
    pair("addr", at).is(Meaning::Hex)
}

const fn hex(name: &'static str, at: u8) -> Field {
    word(name, at).is(Meaning::Hex)
}

const CALL: &[Field] = &[
    OP,
    argument("arg0", 0).doc("grant_table_op, vcpu_op, sched_op: the command"),
    argument("arg1", 1).doc("mmu_update, multicall, mmuext_op: how many; vcpu_op: the vCPU"),
    argument("arg2", 2).doc("grant_table_op: how many"),
    argument("arg3", 3),
    argument("arg4", 4),
    argument("arg5", 5),
];

const CALL_DOC: &str =
    "A PV guest calls the hypervisor; Xen records arguments of the calls named here only.";
const TRAP: &str = "A trap is given to the guest.";
const FAULT: &str = "A page fault is given to the guest.";
const INVALID: &str = "The guest executes CPUID behind the invalid-opcode prefix.";
const PRIVOP: &str = "A privileged instruction of the guest is emulated.";
const FIXUP: &str = "A page fault is fixed by the paging code (PV guests being migrated).";
const MAPPING: &str = "A page of the guest's LDT is mapped.";
const PTWR: &str = "A write of the guest to a page table is emulated.";

/// Rows of this class.
pub(super) const ROWS: &[RecordDef] = &[
    unused(0x0020_1001, "pv_hypercall"),
    unused(0x0020_1101, "pv_hypercall"),
    row(
        0x0020_1003,
        "pv_trap",
        2,
        &[
            EIP,
            bits("trap", 1, 0, 15),
            bits("has_error_code", 1, 15, 1).is(Meaning::Bool),
            bits("error_code", 1, 16, 16).is(Meaning::Hex),
        ],
        TRAP,
    )
    .kind(Kind::PvTrap),
    row(
        0x0020_1103,
        "pv_trap",
        3,
        &[
            RIP,
            bits("trap", 2, 0, 15),
            bits("has_error_code", 2, 15, 1).is(Meaning::Bool),
            bits("error_code", 2, 16, 16).is(Meaning::Hex),
        ],
        TRAP,
    )
    .kind(Kind::PvTrap64),
    row(0x0020_1004, "pv_page_fault", 3, &[EIP, addr(1), hex("error_code", 2)], FAULT)
        .kind(Kind::PvPageFault),
    row(0x0020_1104, "pv_page_fault", 5, &[RIP, addr64(2), hex("error_code", 4)], FAULT)
        .kind(Kind::PvPageFault64),
    row(0x0020_1005, "pv_forced_invalid_op", 1, &[EIP], INVALID),
    row(0x0020_1105, "pv_forced_invalid_op", 2, &[RIP], INVALID),
    row(0x0020_1006, "pv_emulate_privop", 1, &[EIP], PRIVOP).kind(Kind::PvPrivop),
    row(0x0020_1106, "pv_emulate_privop", 2, &[RIP], PRIVOP).kind(Kind::PvPrivop64),
    unused(0x0020_1007, "pv_emulate_4gb"),
    unused(0x0020_1107, "pv_emulate_4gb"),
    row(
        0x0020_1008,
        "pv_math_state_restore",
        0,
        &[],
        "The guest uses the FPU for the first time since it was scheduled.",
    )
    .kind(Kind::PvMathState),
    row(0x0020_1009, "pv_paging_fixup", 2, &[EIP, addr(1)], FIXUP),
    row(0x0020_1109, "pv_paging_fixup", 4, &[RIP, addr64(2)], FIXUP),
    row(0x0020_100a, "pv_gdt_ldt_mapping_fault", 2, &[EIP, word("offset", 1)], MAPPING),
    row(0x0020_110a, "pv_gdt_ldt_mapping_fault", 4, &[RIP, pair("offset", 2)], MAPPING),
    unused(0x0020_100b, "pv_ptwr_emulation"),
    row(
        0x0020_110b,
        "pv_ptwr_emulation",
        6,
        &[pair("pte", 0).is(Meaning::Hex), addr64(2), pair("rip", 4).is(Meaning::Hex)],
        PTWR,
    )
    .kind(Kind::PvPtwr),
    row(
        0x0020_100c,
        "pv_ptwr_emulation_pae",
        4,
        &[pair("pte", 0).is(Meaning::Hex), addr(2), hex("rip", 3)],
        PTWR,
    )
    .kind(Kind::PvPtwrPae),
    row(0x0020_100d, "pv_hypercall_v2", 1, CALL, CALL_DOC).up_to(7).kind(Kind::Hypercall),
    row(
        0x0020_200e,
        "pv_hypercall_subcall",
        1,
        CALL,
        "A call within a multicall, as pv_hypercall_v2.",
    )
    .up_to(7)
    .kind(Kind::Subcall),
];
