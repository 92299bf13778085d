//! Every printed row is there once, and as printed.

use super::super::{map::Reading, papers, theirs};

/// Rows and flagged rows of each paper's tables, counted from the source by hand.
const COUNTED: [(&str, usize, usize); 6] = [
    ("lttng-xen", 467, 87),
    ("repeated-research", 19, 3),
    ("xenmon", 30, 2),
    ("gregg2013", 25, 0),
    ("hypertracing", 63, 10),
    ("gebai2016", 12, 0),
];

#[test]
fn every_row_of_every_paper_is_there() {
    let found: Vec<(&str, usize, usize)> = papers::all()
        .unwrap()
        .iter()
        .map(|paper| {
            let flagged = paper.rows.iter().filter(|row| !row.flag.is_empty()).count();
            (paper.name, paper.rows.len(), flagged)
        })
        .collect();
    assert_eq!(found, COUNTED);
    assert_eq!(COUNTED.iter().map(|(_, rows, _)| rows).sum::<usize>(), 616);
}

/// LTTng-Xen's tables have as many cells as their grids: platforms × states (× columns).
#[test]
fn the_tables_of_lttng_xen_are_whole() {
    let papers = papers::all().unwrap();
    let rows_of = |table: &str| papers[0].rows.iter().filter(|row| row.table == table).count();
    for table in ["Table 1", "Table 3", "Table 4", "Table 5", "Table 6"] {
        assert_eq!(rows_of(table), 4 * 4, "{table}");
    }
    for table in ["Table 8", "Table 9", "Table 10", "Table 11"] {
        assert_eq!(rows_of(table), 4 * 5, "{table}");
    }
    for (table, cells) in [
        ("Table 2", 5),
        ("Table 7", 2 * 4),
        ("Table 12", 3 * 5),
        ("Table 13", 6 * 3),
        ("Table 14", 2 * 4),
        ("Table 15", 2 * 4),
        ("Fig. 4", 18),
        ("Fig. 8", 4 * 4),
        ("Fig. 9", 4 * 4),
        ("Fig. 11", 6 * 3),
    ] {
        assert_eq!(rows_of(table), cells, "{table}");
    }
}

/// What the paper prints beside a number is what its number and its base make, so neither was copied wrongly.
#[test]
fn printed_percentages_are_what_the_numbers_make() {
    let mut checked = 0;
    for paper in papers::all().unwrap() {
        for row in paper.rows.iter().filter(|row| row.flag.is_empty()) {
            let entry = paper.map.entry(row).unwrap();
            let theirs = theirs::of(&paper, row, entry).unwrap();
            let is_to_native = entry.base.as_ref().is_some_and(|base| {
                base.platform.as_deref() == Some("native") || row.platform == "native"
            });
            let is_ratio = entry.theirs == Some(Reading::OfBase) && is_to_native;
            let (Some(printed), Some(percent), true) = (row.printed, theirs.percent, is_ratio)
            else {
                continue;
            };
            checked += 1;
            // Printed to two places, some of them truncated.
            assert!(
                (printed - percent).abs() < 0.01,
                "{} {}: {printed} {percent}",
                row.table,
                row.label()
            );
        }
    }
    assert!(checked > 150, "{checked} rows were checked");
}

#[test]
fn a_flag_says_what_is_wrong() {
    for paper in papers::all().unwrap() {
        for row in paper.rows.iter().filter(|row| !row.flag.is_empty()) {
            assert!(row.flag.len() > 20, "{} {}: {}", paper.name, row.table, row.flag);
        }
        let valueless =
            |row: &&super::super::source::Source| row.flag.is_empty() && row.value.is_none();
        for row in paper.rows.iter().filter(valueless) {
            assert_eq!(row.metric, "SMP effect", "{}: a row without a number", row.table);
        }
    }
}
