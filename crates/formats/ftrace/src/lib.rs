//! Codec of the Linux ring buffer (ftrace): `format` files, sub-buffer pages, typed fields.
//!
//! **What.** The kernel writes binary records into per-CPU sub-buffers and describes them in text
//! files. This crate reads both: any event of any kernel since 2.6.33, of either byte order and
//! word size, with every field typed; and turns the tracepoints the model knows into
//! [`transect_model::event::CoreEvent`]s.
//!
//! **Data flow.**
//! ```text
//! header_page ─▶ PageLayout ─┐
//! page bytes ────────────────┴▶ Page ─▶ Item { Event(ts, payload) | Lost | Problem }
//! format files ─▶ EventTable ─▶ values(payload)        every field, typed
//!                      └──────▶ CoreDecoder.decode(payload)  core events, precompiled
//! ```
//!
//! **Design constraints.** Sans-IO: bytes in, values out. Payloads and values borrow from the page;
//! walking and core decoding never allocate. No input can panic, hang or read out of bounds:
//! whatever cannot be read is an [`Item::Problem`] with its byte offset, and reading goes on at
//! the next page. Lost events are items of the stream, never silence.
//!
//! ```
//! use transect_ftrace::{CoreDecoder, EventTable, Endian, Item, Page, PageLayout, encode::PageBuilder};
//! # fn main() -> Result<(), transect_ftrace::FormatError> {
//! let mut table = EventTable::new(Endian::Little, 8);
//! table.add("irq", b"name: softirq_entry\nID: 30\nformat:\n\
//!     \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
//!     \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
//!     \tfield:unsigned int vec;\toffset:8;\tsize:4;\tsigned:0;\n")?;
//! let core = CoreDecoder::new(&table);
//!
//! let layout = PageLayout { endian: Endian::Little, ..PageLayout::native(4096) };
//! let mut page = PageBuilder::new(layout, 1_000);
//! assert!(page.push(1_250, &[30, 0, 0, 0, 42, 0, 0, 0, 7, 0, 0, 0]));
//! let page = page.finish();
//!
//! for item in Page::new(&page, &layout) {
//!     let Item::Event { ts, payload } = item else { continue };
//!     assert_eq!(ts.get(), 1_250);
//!     assert_eq!(table.tid_of(payload).map(|tid| tid.0), Some(42));
//!     let event = core.decode(payload);
//!     assert_eq!(format!("{event:?}"), "Some(SoftirqEntry { vector: 7 })");
//! }
//! # Ok(())
//! # }
//! ```

pub mod access;
pub mod core;
pub mod encode;
pub mod endian;
pub mod error;
pub mod event;
pub mod field;
pub mod format;
pub mod header;
pub mod hint;
pub mod names;
pub mod page;
pub mod text;
pub mod value;

pub use crate::{
    core::{CoreDecoder, core_tracepoints},
    endian::Endian,
    error::FormatError,
    event::{Common, EventTable},
    field::{DynamicKind, Element, Field, FieldKind},
    format::EventFormat,
    header::{PageLayout, check_header_event},
    names::Names,
    page::{Item, Page, PageProblem, PageProblemKind, Step, Walk},
    text::RawText,
    value::{Machine, Value},
};
