//! The table on a terminal.

use crate::report::{assert_golden, sample};
use transect_bench_report::{
    Report,
    text::{Style, report},
};

fn at(width: usize) -> Style {
    Style { width: Some(width), has_colour: false }
}

#[test]
fn everything_is_told_at_every_width() {
    let rich = sample::rich();
    assert_golden("rich-80.txt", &report(&rich, at(80)));
    assert_golden("rich-120.txt", &report(&rich, at(120)));
    assert_golden("rich-200.txt", &report(&rich, at(200)));
}

#[test]
fn little_is_told_of_little() {
    assert_golden("empty.txt", &report(&Report::default(), at(100)));
    assert_golden("one-block.txt", &report(&sample::one_block(), at(100)));
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for width in [80, 100, 120, 160, 200] {
        for line in report(&sample::rich(), at(width)).lines() {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
    }
}

#[test]
fn verdict_and_change_are_never_dropped() {
    let narrow = report(&sample::rich(), at(80));
    for word in ["worse", "better", "not resolved", "too few", "×14.2", "lossy"] {
        assert!(narrow.contains(word), "{word} in\n{narrow}");
    }
}

#[test]
fn names_play_no_tricks_with_the_terminal() {
    let style = Style { width: None, has_colour: false };
    let plain = report(&sample::rich(), style);
    assert!(plain.chars().all(|c| c == '\n' || !c.is_control()), "{plain:?}");
    assert!(!plain.contains('\u{202e}'));
    let coloured = report(&sample::rich(), Style { has_colour: true, ..style });
    let bare: String = coloured.split('\u{1b}').enumerate().map(strip).collect();
    assert_eq!(bare, plain, "colours change nothing else");
}

/// A piece of text behind an escape, without the colour that it begins with.
fn strip((nth, piece): (usize, &str)) -> &str {
    if nth == 0 {
        return piece;
    }
    let (code, rest) = piece.split_once('m').unwrap();
    assert!(["[0", "[1", "[2", "[33", "[34"].contains(&code), "{code:?}");
    rest
}
