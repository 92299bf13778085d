//! From a table's rows to intervals: one small reader a table, which says whose an interval is and
//! what its key is.

mod io;
mod numbers;
mod states;
mod table_reader;

pub use io::interrupt_name;

use crate::unit::Unit;
use std::sync::Arc;
use table_reader::TableReader;

/// The tables that tracks are made of, in the order in which they are read: what a person looks at
/// first is there first.
pub(crate) const TABLES: &[&str] = &[
    "cpu_slices",
    "vcpu_states",
    "domain_states",
    "lost",
    "windows",
    "counters",
    "thread_states",
    "irqs",
    "block_io",
    "net_io",
    "work_items",
    "syscalls",
    "exits",
];

/// The table whose units have to be there before a table's own can be made.
pub(crate) fn needs(table: &str) -> Option<&'static str> {
    match table {
        "thread_states" => Some("vcpu_states"),
        INSIDE => Some("cpu_slices"),
        _ => None,
    }
}

/// No table: what is made of the units of `cpu_slices`.
pub(crate) const INSIDE: &str = "inside";

/// The reader of a table, given the units it needs, and whether times are in ticks of unknown length. None
/// for tables that no track is made of.
pub(crate) fn reader(
    table: &str,
    needed: &[Arc<Unit>],
    in_ticks: bool,
) -> Option<Box<dyn TableReader>> {
    Some(match table {
        "cpu_slices" => Box::new(states::CpuSlices::default()),
        "vcpu_states" => Box::new(states::VcpuStates::default()),
        "domain_states" => Box::new(states::DomainStates::default()),
        "thread_states" => Box::new(states::ThreadStates::new(needed)),
        "exits" => Box::new(states::Exits::default()),
        "irqs" => Box::new(io::Irqs::default()),
        "syscalls" => Box::new(io::Syscalls::default()),
        "block_io" => Box::new(io::BlockIo::default()),
        "net_io" => Box::new(io::NetIo::default()),
        "work_items" => Box::new(io::WorkItems::default()),
        "lost" => Box::new(io::Lost::default()),
        "counters" => Box::new(numbers::Counters::default()),
        "windows" => Box::new(numbers::Windows::new(in_ticks)),
        _ => match table.strip_prefix("events/") {
            Some(name) => Box::new(io::Events::new(name)),
            None => return None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_is_one_of_the_model() {
        for table in TABLES {
            let doc = transect_model::table::TABLES.iter().find(|doc| doc.name == *table);
            let doc = doc.unwrap_or_else(|| panic!("{table} is no table"));
            for column in reader(table, &[], false).unwrap().columns() {
                let known = doc.columns.iter().any(|known| known.name == *column);
                assert!(known, "{table} has no column {column}");
            }
        }
    }
}
