//! What rules found in the window: a line about it in other views, and all of it.

use super::scene::{Page, Scene};
use crate::{
    part::{Parts, part},
    table::{Cell, Column, Row, Sort, Table, Tone},
    who::Who,
};
use transect_live::FindingWindow;

/// Windows shorter than this have none.
const LEAST_NS: i64 = 1_000_000_000;

/// How many there are, and the first of them.
pub(super) fn line(scene: &Scene<'_>) -> Option<Parts> {
    let now = scene.now()?;
    Some(line_of(scene, |_| true).unwrap_or_else(|| {
        let none = match now.snapshot.dur < LEAST_NS {
            true => "no findings: they need windows of 1 s or more (--interval)",
            false => "no findings in this window",
        };
        vec![part(0, none).tone(Tone::Dim)]
    }))
}

/// The same of those about some actors; nothing if there are none.
pub(super) fn line_of(scene: &Scene<'_>, concerns: impl Fn(&Who) -> bool) -> Option<Parts> {
    let of_these = |row: &&FindingWindow| concerns(&Who::of_finding(row));
    let mut found = scene.now()?.findings.iter().filter(of_these);
    let first = found.next()?;
    let more = found.count();
    let counted = match more {
        0 => "1 finding (f):".to_owned(),
        more => format!("{} findings (f):", more + 1),
    };
    Some(vec![part(0, counted).tone(Tone::Strong), part(0, first.sentence.clone())])
}

/// All of them; what is chosen in full.
pub(super) fn page(scene: &Scene<'_>) -> Page {
    let columns = vec![
        Column::text("FINDING", 11, 11, 0),
        Column::text("WHO", 12, 30, 0),
        Column::number("SHARE%", 6, 0),
        Column::number("TIME", 6, 1),
        Column::number("TIMES", 5, 4),
        Column::text("CONFIDENCE", 10, 10, 3),
        Column::text("IN WORDS", 20, 160, 2),
    ];
    let found = scene.now().map(|now| now.findings.as_slice()).unwrap_or_default();
    let sort = scene.level.sort(0).unwrap_or(Sort { column: 3, is_reversed: false });
    let table = Table::new(columns, found.iter().map(row).collect(), sort, "no findings");
    let table = table.sorted(2).filtered(&scene.level.filter);
    let chosen = table.rows.get(scene.level.cursor(0, &table));
    let chosen = chosen.and_then(|chosen| found.iter().find(|row| who(row) == chosen.who));
    let summary = match chosen {
        Some(row) => vec![
            vec![part(0, row.sentence.clone())],
            vec![part(0, format!("try: {}", row.hint)).tone(Tone::Dim)],
        ],
        None => line(scene).into_iter().collect(),
    };
    Page { summary, tables: vec![table] }
}

/// Of one actor there may be several, each of another rule.
fn who(row: &FindingWindow) -> Who {
    Who::Finding(Box::new(Who::of_finding(row)), row.detector)
}

fn row(row: &FindingWindow) -> Row {
    let times = match row.count {
        0 => Cell::Nothing,
        count => Cell::Rate(count as f64),
    };
    let cells = vec![
        Cell::Text(row.detector.to_owned()),
        Cell::Text(row.subject.clone()),
        Cell::Share(row.share * 100.0),
        Cell::Time(row.held_ns.unsigned_abs()),
        times,
        Cell::Text(row.confidence.to_owned()),
        // Whom it is about stands before.
        Cell::Text(
            row.sentence.strip_prefix(&row.subject).unwrap_or(&row.sentence).trim().to_owned(),
        ),
    ];
    Row { who: who(row), cells }
}
