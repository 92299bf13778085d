//! Columns that several tables have, and their values.

use super::table::{Column, Kind, Value};
use crate::number::unit_name;
use transect_bench_core::{Better, Unit};
use transect_bench_run::plan::Cell;

pub(super) const fn text(name: &'static str, about: &'static str) -> Column {
    Column { name, kind: Kind::Text, about }
}

pub(super) const fn number(name: &'static str, about: &'static str) -> Column {
    Column { name, kind: Kind::Number, about }
}

pub(super) const fn counts(name: &'static str, about: &'static str) -> Column {
    Column { name, kind: Kind::Count, about }
}

pub(super) const fn switch(name: &'static str, about: &'static str) -> Column {
    Column { name, kind: Kind::Switch, about }
}

pub(super) const WORKLOAD: Column = text("workload", "the workload's name");
pub(super) const CACHE: Column =
    text("cache", "state of the page cache: any, cold, hot, displaced");
pub(super) const GUESTS: Column = counts("guests", "machines that run the workload together");
pub(super) const PLATFORM: Column = text("platform", "the platform that ran it");
pub(super) const TRACER: Column = text("tracer", "the tracer arm; none: no tracer");
pub(super) const FAMILY: Column = text("family", "the workload's family");
pub(super) const METRIC: Column = text("metric", "the metric's name");
pub(super) const UNIT: Column = text("unit", "the unit of values: s, ns, 1/s, B/s, B, 1, share");
pub(super) const BETTER: Column = text("better", "the better direction: less, more");

pub(super) fn cell_values(cell: &Cell) -> [Value; 5] {
    [
        Value::text(&cell.group.workload),
        Value::text(cell.group.cache.name()),
        Value::Count(cell.group.guests.into()),
        Value::text(&cell.platform),
        Value::text(&cell.tracer),
    ]
}

pub(super) const fn better_name(better: Better) -> &'static str {
    match better {
        Better::Less => "less",
        Better::More => "more",
    }
}

pub(super) fn unit_value(unit: Unit) -> Value {
    Value::text(unit_name(unit))
}
