//! HVM and PVH guests: entry and exit, handlers, emulated devices.
//!
//! Up to 4.18 VMX and SVM exits share one number, so that only their reasons tell them apart
//! ([`crate::isa_of_reason`]); from 4.19 on they have one each.

use super::{
    field::{Field, Meaning, in_event, pair, signed, word},
    row::{Kind, RecordDef, row, unused},
};
use crate::word::NESTED_FLAG;

const NESTED: Field =
    in_event("nested", 10, 1).is(Meaning::Bool).doc("of a guest's guest; SVM only");
const REASON: Field = word("reason", 0).is(Meaning::ExitReason);
const RIP: Field = word("rip", 1).is(Meaning::Hex);
const RIP64: Field = pair("rip", 1).is(Meaning::Hex);
const EXIT: &[Field] = &[NESTED, REASON, RIP];
const EXIT64: &[Field] = &[NESTED, REASON, RIP64];
const EITHER: &str = "A guest exits, by SVM or VMX.";
const VMX: &str = "A guest exits, by VMX.";
const SVM: &str = "A guest exits, by SVM.";

const fn hex(name: &'static str, at: u8) -> Field {
    word(name, at).is(Meaning::Hex)
}

const fn hex64(name: &'static str, at: u8) -> Field {
    pair(name, at).is(Meaning::Hex)
}

/// Handlers have no stamp: they lie between an exit and the next entry.
const fn handler(
    number: u32,
    name: &'static str,
    words: u8,
    fields: &'static [Field],
    doc: &'static str,
) -> RecordDef {
    row(0x0008_2000 + number, name, words, fields, doc).unstamped()
}

const FAULT: &str = "The guest faults on a page.";
const PF: &[Field] = &[hex("error_code", 0), hex("addr", 1)];
const PF64: &[Field] = &[hex("error_code", 0), hex64("addr", 1)];
const REG64: &[Field] = &[word("reg", 0), hex64("value", 1)];
const PORT: &[Field] = &[hex("port", 0), hex("data", 1)];
const PORT64: &[Field] = &[hex64("port", 0), hex64("data", 2)];
const MEMORY: &[Field] = &[hex("gpa", 0), hex("data", 1)];
const MEMORY64: &[Field] = &[hex64("gpa", 0), hex64("data", 2)];
const MSR: &[Field] = &[hex("msr", 0), hex64("value", 1)];
const IO_IN: &str = "The guest reads a port (data missing: it is in memory).";
const IO_OUT: &str = "The guest writes a port (data missing: it is in memory).";
const MMIO_IN: &str = "The guest reads emulated memory (data missing: it is in memory).";
const MMIO_OUT: &str = "The guest writes emulated memory (data missing: it is in memory).";

/// Rows of entry, exit and handlers.
pub(super) const ROWS: &[RecordDef] = &[
    row(0x0008_1001, "hvm_vmentry", 0, &[NESTED], "A guest is entered.")
        .varying(NESTED_FLAG)
        .kind(Kind::VmEntry),
    row(0x0008_1002, "hvm_vmexit", 2, EXIT, EITHER).varying(NESTED_FLAG).to(18).kind(Kind::VmExit),
    row(0x0008_1102, "hvm_vmexit", 3, EXIT64, EITHER)
        .varying(NESTED_FLAG)
        .to(18)
        .kind(Kind::VmExit64),
    row(0x0008_1002, "hvm_vmexit", 2, EXIT, VMX).varying(NESTED_FLAG).from(19).kind(Kind::VmExit),
    row(0x0008_1102, "hvm_vmexit", 3, EXIT64, VMX)
        .varying(NESTED_FLAG)
        .from(19)
        .kind(Kind::VmExit64),
    row(0x0008_1003, "hvm_vmexit", 2, EXIT, SVM).varying(NESTED_FLAG).from(19).kind(Kind::VmExit),
    row(0x0008_1103, "hvm_vmexit", 3, EXIT64, SVM)
        .varying(NESTED_FLAG)
        .from(19)
        .kind(Kind::VmExit64),
    handler(0x001, "hvm_pf_xen", 2, PF, FAULT),
    handler(0x101, "hvm_pf_xen", 3, PF64, FAULT),
    unused(0x0008_2002, "hvm_pf_inject"),
    handler(0x102, "hvm_pf_inject", 3, PF64, "A page fault is injected."),
    handler(
        0x003,
        "hvm_inj_exc",
        2,
        &[word("vector", 0), signed("error_code", 1)],
        "An exception is injected.",
    ),
    handler(
        0x004,
        "hvm_inj_virq",
        2,
        &[word("vector", 0), word("fake", 1).is(Meaning::Bool)],
        "An interrupt is injected.",
    )
    .kind(Kind::Injection),
    unused(0x0008_2005, "hvm_reinj_virq"),
    unused(0x0008_2006, "hvm_io_read"),
    unused(0x0008_2007, "hvm_io_write"),
    unused(0x0008_2008, "hvm_cr_read"),
    handler(0x108, "hvm_cr_read", 3, REG64, "The guest reads a control register."),
    unused(0x0008_2009, "hvm_cr_write"),
    handler(0x109, "hvm_cr_write", 3, REG64, "The guest writes a control register."),
    unused(0x0008_200a, "hvm_dr_read"),
    handler(0x00b, "hvm_dr_write", 0, &[], "The guest accesses a debug register."),
    handler(0x00c, "hvm_msr_read", 3, MSR, "The guest reads an MSR."),
    handler(0x00d, "hvm_msr_write", 3, MSR, "The guest writes an MSR."),
    handler(
        0x00e,
        "hvm_cpuid",
        6,
        &[
            hex("leaf", 0),
            hex("subleaf", 1),
            hex("eax", 2),
            hex("ebx", 3),
            hex("ecx", 4),
            hex("edx", 5),
        ],
        "The guest executes CPUID.",
    ),
    handler(
        0x00f,
        "hvm_intr",
        0,
        &[word("vector", 0).doc("VMX only")],
        "An interrupt of the hardware ended the guest's turn.",
    )
    .up_to(1)
    .kind(Kind::Interrupt),
    handler(0x010, "hvm_nmi", 0, &[], "A non-maskable interrupt ended the guest's turn."),
    handler(0x011, "hvm_smi", 0, &[], "A system-management interrupt ended the guest's turn."),
    handler(
        0x012,
        "hvm_vmmcall",
        1,
        &[hex("eax", 0)],
        "The guest calls the hypervisor; eax is the hypercall's number.",
    )
    .kind(Kind::HvmHypercall),
    handler(
        0x013,
        "hvm_hlt",
        1,
        &[word("pending", 0)
            .is(Meaning::Bool)
            .doc("something to do already, so it will not sleep")],
        "The guest halts.",
    )
    .kind(Kind::Halt),
    unused(0x0008_2014, "hvm_invlpg"),
    handler(
        0x114,
        "hvm_invlpg",
        3,
        &[word("invlpga", 0).is(Meaning::Bool), hex64("addr", 1)],
        "The guest invalidates a page.",
    ),
    handler(0x015, "hvm_mce", 0, &[], "A machine check ended the guest's turn."),
    handler(0x016, "hvm_ioport_read", 1, PORT, IO_IN).up_to(2),
    handler(0x116, "hvm_ioport_read", 2, PORT64, IO_IN).up_to(4),
    handler(0x216, "hvm_ioport_write", 1, PORT, IO_OUT).up_to(2),
    handler(0x316, "hvm_ioport_write", 2, PORT64, IO_OUT).up_to(4),
    handler(0x017, "hvm_iomem_read", 1, MEMORY, MMIO_IN).up_to(2),
    handler(0x117, "hvm_iomem_read", 2, MEMORY64, MMIO_IN).up_to(4),
    handler(0x217, "hvm_iomem_write", 1, MEMORY, MMIO_OUT).up_to(2),
    handler(0x317, "hvm_iomem_write", 2, MEMORY64, MMIO_OUT).up_to(4),
    handler(0x018, "hvm_clts", 0, &[], "The guest clears CR0.TS."),
    unused(0x0008_2019, "hvm_lmsw"),
    handler(0x119, "hvm_lmsw", 2, &[hex64("value", 0)], "The guest loads the machine status word."),
    handler(
        0x01a,
        "hvm_rdtsc",
        2,
        &[pair("guest_tsc", 0).is(Meaning::Tsc)],
        "The guest reads the TSC, and Xen answers.",
    ),
    handler(
        0x020,
        "hvm_intr_window",
        3,
        &[
            word("vector", 0),
            word("source", 1),
            signed("pending", 2).doc("vector already being injected; -1: none"),
        ],
        "An interrupt must wait until the guest can take it.",
    ),
    handler(
        0x021,
        "hvm_npf",
        6,
        &[
            hex64("gpa", 0),
            hex64("mfn", 2),
            hex("qualification", 4).doc("VMX only"),
            word("p2m_type", 5),
        ],
        "A nested page fault (EPT violation).",
    ),
    handler(0x022, "hvm_realmode_emulate", 0, &[], "Real-mode code is emulated."),
    handler(0x023, "hvm_trap", 1, &[word("vector", 0)], "An exception is intercepted."),
    handler(
        0x024,
        "hvm_trap_debug",
        1,
        &[hex("qualification", 0)],
        "A debug exception is intercepted.",
    ),
    handler(0x025, "hvm_vlapic", 0, &[], "The guest writes its virtual local APIC."),
    handler(0x126, "hvm_xcr_read", 3, REG64, "The guest reads an extended control register."),
    handler(0x127, "hvm_xcr_write", 3, REG64, "The guest writes an extended control register."),
];

const fn emul(
    number: u32,
    name: &'static str,
    words: u8,
    fields: &'static [Field],
    doc: &'static str,
) -> RecordDef {
    row(0x0008_4000 + number, name, words, fields, doc)
}

const TIMER: &[Field] =
    &[word("delta", 0).doc("ns until it fires"), word("period", 1).doc("ns between; 0: once")];

/// Rows of emulated devices.
pub(super) const EMULATED: &[RecordDef] = &[
    emul(
        0x01,
        "hvm_emul_hpet_start_timer",
        6,
        &[
            word("timer", 0),
            word("irq", 1),
            pair("delta_ns", 2).is(Meaning::Ns),
            pair("period_ns", 4).is(Meaning::Ns).doc("0: once"),
        ],
        "A timer of the emulated HPET is started.",
    ),
    emul(0x02, "hvm_emul_pit_start_timer", 2, TIMER, "The emulated PIT is started."),
    emul(0x03, "hvm_emul_rtc_start_timer", 2, TIMER, "The emulated RTC's timer is started."),
    emul(
        0x04,
        "hvm_emul_lapic_start_timer",
        5,
        &[
            pair("delta_ns", 0).is(Meaning::Ns),
            pair("period_ns", 2).is(Meaning::Ns).doc("0: once"),
            word("irq", 4),
        ],
        "The emulated local APIC's timer is started.",
    ),
    emul(
        0x05,
        "hvm_emul_hpet_stop_timer",
        1,
        &[word("timer", 0)],
        "A timer of the emulated HPET is stopped.",
    ),
    emul(0x06, "hvm_emul_pit_stop_timer", 0, &[], "The emulated PIT is stopped."),
    emul(0x07, "hvm_emul_rtc_stop_timer", 0, &[], "The emulated RTC's timer is stopped."),
    emul(0x08, "hvm_emul_lapic_stop_timer", 0, &[], "The emulated local APIC's timer is stopped."),
    emul(0x09, "hvm_emul_pit_timer_cb", 0, &[], "The emulated PIT fires."),
    emul(0x0a, "hvm_emul_lapic_timer_cb", 0, &[], "The emulated local APIC's timer fires."),
    emul(
        0x0b,
        "hvm_emul_pic_int_output",
        3,
        &[word("output", 0), word("is_master", 1).is(Meaning::Bool), signed("irq", 2)],
        "The output of an emulated PIC changes.",
    ),
    emul(0x0c, "hvm_emul_pic_kick", 1, &[signed("irq", 0)], "The emulated PIC kicks the vCPU."),
    emul(
        0x0d,
        "hvm_emul_pic_intack",
        2,
        &[word("is_master", 0).is(Meaning::Bool), signed("irq", 1)],
        "The vCPU acknowledges an interrupt of the emulated PIC.",
    ),
    emul(0x0e, "hvm_emul_pic_posedge", 1, &[word("irq", 0)], "A line of the emulated PIC rises."),
    emul(0x0f, "hvm_emul_pic_negedge", 1, &[word("irq", 0)], "A line of the emulated PIC falls."),
    emul(
        0x10,
        "hvm_emul_pic_pend_irq_call",
        2,
        &[signed("accept", 0), word("output", 1)],
        "Whether an interrupt of the emulated PIC is pending for the vCPU.",
    ),
    emul(
        0x11,
        "hvm_emul_lapic_pic_intr",
        2,
        &[word("is_target", 0).is(Meaning::Bool), signed("accept", 1)],
        "Whether the local APIC accepts an interrupt of the PIC.",
    ),
];
