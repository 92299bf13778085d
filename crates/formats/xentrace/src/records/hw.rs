//! HW: power, frequency and interrupts of the pCPUs.

use super::{
    field::{Field, Meaning, bits, cpu, pair, word},
    row::{Kind, RecordDef, row},
};

const IRQ: Field = word("irq", 0);
const VECTOR: Field = word("vector", 1);
const MASKED: &[Field] = &[
    bits("irq", 0, 0, 16),
    bits("vector", 0, 16, 16),
    pair("cpus_0_63", 1).is(Meaning::Hex),
    pair("cpus_64_127", 3).is(Meaning::Hex),
    pair("cpus_128_191", 5).is(Meaning::Hex),
];

/// Rows of this class.
pub(super) const ROWS: &[RecordDef] = &[
    row(
        0x0080_1001,
        "pm_freq_change",
        2,
        &[word("from_mhz", 0), word("to_mhz", 1)],
        "The frequency of a pCPU changes.",
    )
    .kind(Kind::FrequencyChange),
    row(
        0x0080_1002,
        "pm_idle_entry",
        4,
        &[
            word("state", 0).doc("index (ACPI) or type (mwait) of the C-state"),
            word("tick", 1).doc("low word of the idle driver's tick counter"),
            word("expected_us", 2).is(Meaning::Us),
            word("predicted_us", 3).is(Meaning::Us),
        ],
        "A pCPU goes to a C-state.",
    )
    .kind(Kind::IdleEntry),
    row(
        0x0080_1003,
        "pm_idle_exit",
        6,
        &[
            word("state", 0),
            word("tick", 1),
            word("vector0", 2).doc("pending when it woke; 0: none"),
            word("vector1", 3),
            word("vector2", 4),
            word("vector3", 5),
        ],
        "A pCPU comes from a C-state.",
    )
    .kind(Kind::IdleExit),
    row(
        0x0080_2001,
        "hw_irq_move_cleanup_delay",
        3,
        &[IRQ, VECTOR, cpu(2)],
        "The old vector of a moved interrupt is still pending.",
    ),
    row(
        0x0080_2002,
        "hw_irq_move_cleanup",
        3,
        &[IRQ, VECTOR, cpu(2)],
        "The old vector of a moved interrupt is freed.",
    ),
    row(
        0x0080_2003,
        "hw_irq_bind_vector",
        7,
        MASKED,
        "An interrupt is bound to a vector on these pCPUs.",
    ),
    row(
        0x0080_2004,
        "hw_irq_clear_vector",
        7,
        MASKED,
        "An interrupt's vector is freed on these pCPUs.",
    ),
    row(
        0x0080_2005,
        "hw_irq_move_finish",
        3,
        &[IRQ, VECTOR, cpu(2)],
        "An interrupt that was being moved is freed.",
    ),
    row(
        0x0080_2006,
        "hw_irq_assign_vector",
        7,
        MASKED,
        "An interrupt is assigned a vector on these pCPUs.",
    ),
    row(
        0x0080_2007,
        "hw_irq_unmapped_vector",
        1,
        &[word("vector", 0)],
        "An interrupt arrived on an unassigned vector.",
    ),
    row(
        0x0080_2008,
        "hw_irq_handled",
        3,
        &[
            IRQ,
            word("tsc_in", 1).is(Meaning::Tsc).doc("low word of the TSC when the handler began"),
            word("tsc_out", 2).is(Meaning::Tsc).doc("low word of the TSC when it ended"),
        ],
        "An interrupt has been handled.",
    )
    .kind(Kind::IrqHandled),
];
