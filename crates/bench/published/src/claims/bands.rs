//! What a claim allows.

use super::super::{judge::Band, map::Relation, model::Theirs, papers::Paper, source::Source};
use transect_bench_core::Fault;

/// The band of a row's claim.
pub(super) fn wanted(
    source: &Source,
    relation: Relation,
    theirs: &Theirs,
    paper: &Paper,
) -> Result<Band, Fault> {
    let lacks = |what: &str| {
        let row = format!("{}/map.toml: {}: {}", paper.name, source.table, source.label());
        Fault::failed(format!("{row}: needs {what}"))
    };
    let value = || source.value.ok_or_else(|| lacks("a value"));
    Ok(match relation {
        Relation::Ratio | Relation::Added => {
            Band::around(theirs.cost.ok_or_else(|| lacks("a reading (theirs)"))?)
        }
        Relation::AtMost => Band::up_to(1.0 + value()? / 100.0),
        Relation::AtLeast => Band::from(1.0 + value()? / 100.0),
        Relation::FallsMore => Band::from(1.0),
        Relation::Spread => Band::of_size(value()?),
        Relation::MostSpreads | Relation::Limiter | Relation::Size => Band::from(0.5),
    })
}
