//! One table of every record, from which decoder, schema and docs come.
//!
//! Sources: `xen/include/public/trace.h` and the places that write the records
//! (`xen/common/sched/*.c`, `xen/common/{trace,grant_table,memory,domain}.c`,
//! `xen/arch/x86/{pv,hvm,mm,acpi,cpu,irq.c,traps.c}`, `xen/drivers/cpufreq`) of Xen 4.14, 4.15,
//! 4.16, 4.17, 4.18, 4.19 and 4.20, compared with one another.

mod field;
mod hvm;
mod hw;
mod list;
mod markdown;
mod misc;
mod pv;
mod row;
mod sched;
mod schema;
mod shadow;
mod table;

pub use field::{At, Field, FieldType, Meaning, Value};
pub use list::all;
pub use markdown::markdown;
pub use row::{Class, Kind, RecordDef, Versions};
pub use schema::{Column, RecordSchema, schemas};
pub use table::{Table, XenVersion};
