//! SHADOW: shadow page tables. Bits 8 and 9 of the number are the guest's paging levels less 2, and
//! they decide how wide page-table entries (8 bytes from 3 levels on) and addresses (8 bytes with
//! 4 levels) are.

use super::{
    field::{Field, Meaning, bits, pair, word},
    row::{RecordDef, row},
};

const PTE: Field = word("pte", 0).is(Meaning::Hex);
const PTE64: Field = pair("pte", 0).is(Meaning::Hex);
const GFN: Field = word("gfn", 0).is(Meaning::Hex);
const GFN64: Field = pair("gfn", 0).is(Meaning::Hex);

const fn va(at: u8) -> Field {
    word("addr", at).is(Meaning::Hex)
}

const fn va64(at: u8) -> Field {
    pair("addr", at).is(Meaning::Hex)
}

const fn flags(at: u8) -> Field {
    word("flags", at).is(Meaning::Hex).doc("TRCE_SFLAG_*: actions of the shadow code")
}

const fn shadow(
    number: u32,
    name: &'static str,
    words: u8,
    fields: &'static [Field],
    doc: &'static str,
) -> RecordDef {
    row(0x0040_f000 + number, name, words, fields, doc).unstamped()
}

const VA: &[Field] = &[va(0)];
const VA64: &[Field] = &[va64(0)];
const ENTRY_2: &[Field] = &[PTE, va(1), flags(2)];
const ENTRY_3: &[Field] = &[PTE64, va(2), flags(3)];
const ENTRY_4: &[Field] = &[PTE64, va64(2), flags(4)];
const FRAME_2: &[Field] = &[GFN, va(1), flags(2)];
const FRAME_3: &[Field] = &[GFN64, va(2), flags(3)];
const FRAME_4: &[Field] = &[GFN64, va64(2), flags(4)];

/// The three forms of a record of just an address.
const fn plain(number: u32, name: &'static str, doc: &'static str) -> [RecordDef; 3] {
    [
        shadow(number, name, 1, VA, doc),
        shadow(number + 0x100, name, 1, VA, doc),
        shadow(number + 0x200, name, 2, VA64, doc),
    ]
}

/// The three forms of a record of entry, address and flags.
const fn entry(number: u32, name: &'static str, doc: &'static str) -> [RecordDef; 3] {
    [
        shadow(number, name, 3, ENTRY_2, doc),
        shadow(number + 0x100, name, 4, ENTRY_3, doc),
        shadow(number + 0x200, name, 5, ENTRY_4, doc),
    ]
}

/// The three forms of a record of frame and address; flags came in 4.19.
const fn frame(number: u32, name: &'static str, doc: &'static str) -> [RecordDef; 3] {
    [
        shadow(number, name, 2, FRAME_2, doc).up_to(3),
        shadow(number + 0x100, name, 3, FRAME_3, doc).up_to(4),
        shadow(number + 0x200, name, 4, FRAME_4, doc).up_to(5),
    ]
}

/// A record of a frame, with no levels in its number.
const fn gfn(number: u32, name: &'static str, doc: &'static str) -> RecordDef {
    shadow(number, name, 2, &[GFN64], doc)
}

const fn emulation_count(at: u8) -> Field {
    bits("emulation_count", at, 29, 3).doc("further writes emulated with it; 3 levels only")
}

const fn short_flags(at: u8) -> Field {
    bits("flags", at, 0, 29).is(Meaning::Hex)
}

const EMULATE: &str = "A write to a guest's page table is emulated.";
const NOT: [RecordDef; 3] = entry(0x01, "shadow_not_shadow", "A page fault is the guest's own.");
const PROPAGATE: [RecordDef; 3] =
    plain(0x02, "shadow_fast_propagate", "Fast path: the guest's entry is not present.");
const FAST_MMIO: [RecordDef; 3] = plain(0x03, "shadow_fast_mmio", "Fast path: emulated memory.");
const FALSE_FAST: [RecordDef; 3] =
    plain(0x04, "shadow_false_fast_path", "Fast path taken, but the shadow was out of date.");
const MMIO: [RecordDef; 3] = plain(0x05, "shadow_mmio", "Emulated memory.");
const FIXUP: [RecordDef; 3] =
    entry(0x06, "shadow_fixup", "The shadow is fixed and the guest tries again.");
const DYING: [RecordDef; 3] =
    plain(0x07, "shadow_domf_dying", "A page fault of a domain that is dying.");
const USER: [RecordDef; 3] =
    frame(0x09, "shadow_emulate_unshadow_user", "A page is unshadowed: written from user mode.");
const EVENT: [RecordDef; 3] = frame(
    0x0a,
    "shadow_emulate_unshadow_evtinj",
    "A page is unshadowed: an event was being injected.",
);
const UNHANDLED: [RecordDef; 3] = frame(
    0x0b,
    "shadow_emulate_unshadow_unhandled",
    "A page is unshadowed: the write cannot be emulated.",
);

/// Rows of this class.
pub(super) const ROWS: &[RecordDef] = &[
    NOT[0],
    NOT[1],
    NOT[2],
    PROPAGATE[0],
    PROPAGATE[1],
    PROPAGATE[2],
    FAST_MMIO[0],
    FAST_MMIO[1],
    FAST_MMIO[2],
    FALSE_FAST[0],
    FALSE_FAST[1],
    FALSE_FAST[2],
    MMIO[0],
    MMIO[1],
    MMIO[2],
    FIXUP[0],
    FIXUP[1],
    FIXUP[2],
    DYING[0],
    DYING[1],
    DYING[2],
    shadow(
        0x008,
        "shadow_emulate",
        4,
        &[PTE, word("written", 1).is(Meaning::Hex), va(2), short_flags(3), emulation_count(3)],
        EMULATE,
    ),
    shadow(
        0x108,
        "shadow_emulate",
        6,
        &[PTE64, pair("written", 2).is(Meaning::Hex), va(4), short_flags(5), emulation_count(5)],
        EMULATE,
    ),
    shadow(
        0x208,
        "shadow_emulate",
        7,
        &[PTE64, pair("written", 2).is(Meaning::Hex), va64(4), short_flags(6), emulation_count(6)],
        EMULATE,
    ),
    USER[0],
    USER[1],
    USER[2],
    EVENT[0],
    EVENT[1],
    EVENT[2],
    UNHANDLED[0],
    UNHANDLED[1],
    UNHANDLED[2],
    gfn(0x0c, "shadow_wrmap_bf", "All shadows are searched for a writable mapping."),
    gfn(0x0d, "shadow_prealloc_unpin", "A shadow is unpinned to get memory."),
    gfn(0x0e, "shadow_resync_full", "A page that was out of sync is put back in sync."),
    gfn(0x0f, "shadow_resync_only", "The shadows of a page that stays out of sync are updated."),
];
