//! A row, its entry in the map, and what the reports have of it.

mod bands;
mod judged;
mod kinds;
mod share;

use super::{
    candidates::{self, Words},
    map::{Entry, Relation},
    model::{Agreement, Row, Theirs},
    papers::Paper,
    source::Source,
    theirs,
};
use judged::{Judged, silent};
use transect_bench_core::Fault;
use transect_bench_report::Report;

/// Judges a row.
pub(super) fn row(paper: &Paper, source: &Source, reports: &[&Report]) -> Result<Row, Fault> {
    let row = |theirs, judged: Judged, note: &str| Row {
        paper: paper.name.to_owned(),
        table: source.table.clone(),
        label: source.label(),
        theirs,
        ours: judged.ours,
        agrees: judged.agrees,
        note: [note, &judged.note]
            .into_iter()
            .filter(|note| !note.is_empty())
            .collect::<Vec<_>>()
            .join("; "),
    };
    if !source.flag.is_empty() {
        let theirs = Theirs { value: source.value, unit: source.unit.clone(), ..Theirs::default() };
        return Ok(row(theirs, silent(Agreement::LeftOut { why: source.flag.clone() }), ""));
    }
    let entry = paper.map.entry(source)?;
    let theirs = theirs::of(paper, source, entry)?;
    let judged = match (&entry.why, entry.relation) {
        (Some(why), None) => silent(Agreement::CannotSpeak { why: reason(paper, why)? }),
        (None, Some(relation)) => claim(paper, source, entry, relation, &theirs, reports)?,
        _ => {
            let what = format!("{}/map.toml: {}: {}", paper.name, source.table, source.label());
            return Err(Fault::failed(
                what + ": an entry has either `relation` or `why`, not both",
            ));
        }
    };
    Ok(row(theirs, judged, &entry.note))
}

fn reason(paper: &Paper, name: &str) -> Result<String, Fault> {
    let found = paper.map.reasons.get(name).cloned();
    found
        .ok_or_else(|| Fault::failed(format!("{}/map.toml: there is no reason {name}", paper.name)))
}

fn claim(
    paper: &Paper,
    source: &Source,
    entry: &Entry,
    relation: Relation,
    theirs: &Theirs,
    reports: &[&Report],
) -> Result<Judged, Fault> {
    let pairs = if relation == Relation::MostSpreads {
        Vec::new()
    } else {
        candidates::pairs(paper, &Words::of(paper, source, entry)?, entry.against)
    };
    let wanted = bands::wanted(source, relation, theirs, paper)?;
    Ok(match relation {
        Relation::Ratio | Relation::AtMost | Relation::AtLeast => {
            kinds::costs(reports, &pairs, wanted)
        }
        Relation::Added => kinds::added(paper, source, entry, &pairs, wanted, reports)?,
        Relation::FallsMore => {
            let than = Entry { on: entry.than_on.clone(), ..entry.clone() };
            let than = Words::of(paper, source, &than)?;
            let than = candidates::pairs(paper, &than, entry.against);
            kinds::falls_more(reports, &pairs, &than, wanted)
        }
        Relation::Spread => share::spread(reports, &pairs, wanted),
        Relation::MostSpreads => share::most_spreads(reports, &entry.on, source),
        Relation::Size => kinds::size(reports, &pairs),
        Relation::Limiter => share::limiter(reports, &pairs, &entry.limiters, &source.limiter),
    })
}
