//! Pieces of a line, of which the least important are left out where there is no room.

use crate::{table::Tone, text};

/// A piece.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part {
    pub(crate) text: String,
    pub(crate) tone: Tone,
    /// Pieces of higher numbers are left out first; 0 stays.
    pub(crate) rank: u8,
}

/// A line of pieces.
pub(crate) type Parts = Vec<Part>;

pub(crate) fn part(rank: u8, text: impl Into<String>) -> Part {
    Part { text: text.into(), tone: Tone::Plain, rank }
}

impl Part {
    pub(crate) fn tone(self, tone: Tone) -> Self {
        Part { tone, ..self }
    }
}

/// Blanks between pieces.
pub(crate) const GAP: usize = 2;

/// The pieces that fit.
pub(crate) fn fitting(mut parts: Parts, width: usize) -> Parts {
    let total = |parts: &Parts| -> usize {
        let texts: usize = parts.iter().map(|part| text::width(&part.text)).sum();
        texts + GAP * parts.len().saturating_sub(1)
    };
    while total(&parts) > width {
        let worst = parts.iter().map(|part| part.rank).max().unwrap_or(0);
        match parts.iter().rposition(|part| part.rank == worst && worst > 0) {
            Some(at) => parts.remove(at),
            None => break,
        };
    }
    parts
}
