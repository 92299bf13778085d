//! GEN, DOM0OP, MEM and GUEST.

use super::{
    field::{Field, Meaning, bits, dom, in_event, pair, word},
    row::{Kind, RecordDef, row},
};
use crate::word::{CPU_CHANGE, LOST_RECORDS, WRAP_BUFFER};

const GFN: Field = pair("gfn", 0).is(Meaning::Hex);
const MFN: Field = pair("mfn", 2).is(Meaning::Hex);

/// Rows of these classes.
pub(super) const ROWS: &[RecordDef] = &[
    row(
        LOST_RECORDS,
        "lost_records",
        4,
        &[
            word("lost", 0).doc("records that did not fit"),
            bits("domid", 1, 0, 16).is(Meaning::Dom).doc("current when room was found again"),
            bits("vcpu", 1, 16, 16).is(Meaning::Vcpu),
            pair("first_tsc", 2).is(Meaning::Tsc).doc("when the first of them was to be written"),
        ],
        "The CPU's buffer was full from first_tsc to this record's stamp.",
    )
    .kind(Kind::Lost),
    row(
        WRAP_BUFFER,
        "trace_wrap_buffer",
        0,
        &[],
        "Fills the end of a CPU's buffer where the next record did not fit; its words have no meaning.",
    )
    .up_to(7)
    .unstamped()
    .kind(Kind::Wrap),
    row(
        CPU_CHANGE,
        "trace_cpu_change",
        2,
        &[
            word("cpu", 0).is(Meaning::Cpu),
            word("window_size", 1).doc("bytes of this CPU's records that follow"),
        ],
        "Written by xentrace before each window.",
    )
    .unstamped()
    .kind(Kind::CpuChange),
    row(0x0004_1001, "dom0_dom_add", 1, &[dom(0)], "A domain has been created.")
        .kind(Kind::DomainCreated),
    row(0x0004_1002, "dom0_dom_rem", 1, &[dom(0)], "A domain is being destroyed.")
        .kind(Kind::DomainDestroyed),
    row(0x0010_f001, "mem_page_grant_map", 1, &[dom(0)], "A grant of this domain is mapped.")
        .kind(Kind::GrantMap),
    row(0x0010_f002, "mem_page_grant_unmap", 1, &[dom(0)], "A grant of this domain is unmapped.")
        .kind(Kind::GrantUnmap),
    row(0x0010_f003, "mem_page_grant_transfer", 1, &[dom(0)], "A page is transferred to this domain.")
        .kind(Kind::GrantTransfer),
    row(
        0x0010_f004,
        "mem_set_p2m_entry",
        6,
        &[
            GFN,
            MFN,
            word("p2m_type", 4),
            bits("domid", 5, 0, 16).is(Meaning::Dom),
            bits("order", 5, 16, 16),
        ],
        "An entry of a domain's physical-to-machine map is set (shadow or NPT).",
    )
    .unstamped(),
    row(
        0x0010_f005,
        "mem_decrease_reservation",
        4,
        &[GFN, bits("domid", 2, 0, 16).is(Meaning::Dom), bits("order", 2, 16, 16)],
        "A domain gives pages back (its last word is padding).",
    )
    .unstamped()
    .to(17),
    row(0x0010_f005, "mem_decrease_reservation", 4, &[GFN, dom(2), word("order", 3)], "A domain gives pages back.")
        .unstamped()
        .from(18),
    row(
        0x0010_f010,
        "mem_pod_populate",
        6,
        &[GFN, MFN, bits("domid", 4, 0, 16).is(Meaning::Dom), bits("order", 4, 16, 16)],
        "A page is populated on demand (its last word is padding).",
    )
    .unstamped()
    .to(17),
    row(0x0010_f010, "mem_pod_populate", 6, &[GFN, MFN, dom(4), word("order", 5)], "A page is populated on demand.")
        .unstamped()
        .from(18),
    row(
        0x0010_f011,
        "mem_pod_zero_reclaim",
        6,
        &[GFN, MFN, bits("domid", 4, 0, 16).is(Meaning::Dom), bits("order", 4, 16, 16)],
        "A page of zeros is taken back to be populated on demand (its last word is padding).",
    )
    .unstamped()
    .to(17),
    row(
        0x0010_f011,
        "mem_pod_zero_reclaim",
        6,
        &[GFN, MFN, dom(4), word("order", 5)],
        "A page of zeros is taken back to be populated on demand.",
    )
    .unstamped()
    .from(18),
    row(
        0x0010_f012,
        "mem_pod_superpage_splinter",
        4,
        &[GFN, bits("domid", 2, 0, 16).is(Meaning::Dom)],
        "A superpage to be populated on demand is split (the rest is padding).",
    )
    .unstamped()
    .to(17),
    row(
        0x0010_f012,
        "mem_pod_superpage_splinter",
        4,
        &[GFN, dom(2), word("order", 3)],
        "A superpage to be populated on demand is split.",
    )
    .unstamped()
    .from(18),
    row(
        0x0800_f000,
        "guest_event",
        0,
        &[
            in_event("nr", 0, 12),
            word("word0", 0).is(Meaning::Hex),
            word("word1", 1).is(Meaning::Hex),
            word("word2", 2).is(Meaning::Hex),
            word("word3", 3).is(Meaning::Hex),
            word("word4", 4).is(Meaning::Hex),
            word("word5", 5).is(Meaning::Hex),
            word("word6", 6).is(Meaning::Hex),
        ],
        "An HVM guest wrote it (HVMOP_xentrace); its number and words are the guest's.",
    )
    .up_to(7)
    .unstamped()
    .varying(0xfff),
];
