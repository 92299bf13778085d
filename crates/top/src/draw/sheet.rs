//! What the screen is drawn on.

use crate::{
    app::Looks,
    part::{GAP, Parts, fitting},
    table::Tone,
    text::{shortened, width},
};
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::{Color, Modifier, Style},
};

/// What is drawn on.
pub(super) struct Sheet<'a> {
    pub(super) buffer: &'a mut Buffer,
    pub(super) area: Rect,
    pub(super) looks: Looks,
    pub(super) cut: char,
}

impl Sheet<'_> {
    pub(super) fn style(&self, tone: Tone) -> Style {
        let (color, modifier) = match tone {
            Tone::Plain => (None, Modifier::empty()),
            Tone::Dim => (None, Modifier::DIM),
            Tone::Strong => (None, Modifier::BOLD),
            Tone::Warn => (Some(Color::Yellow), Modifier::empty()),
            Tone::Alarm => (Some(Color::Red), Modifier::BOLD),
        };
        let style = Style::new().add_modifier(modifier);
        match color {
            Some(color) if !self.looks.is_plain => style.fg(color),
            Some(_) => style.add_modifier(Modifier::BOLD),
            None => style,
        }
    }

    /// Writes text from column `x` of line `y` on, `room` columns at most.
    pub(super) fn put(&mut self, x: usize, y: u16, room: usize, text: &str, style: Style) {
        let (Ok(x), true) = (u16::try_from(x), y < self.area.height) else { return };
        let text = shortened(text, room, self.cut);
        self.buffer.set_string(self.area.x + x, self.area.y + y, text, style);
    }

    /// Writes the pieces of a line that fit; the last one to the right if the line is full of them.
    pub(super) fn parts(&mut self, y: u16, parts: Parts, style: Style) {
        let room = usize::from(self.area.width);
        let mut x = 0;
        for part in fitting(parts, room) {
            let tone = self.style(part.tone);
            self.put(x, y, room.saturating_sub(x), &part.text, style.patch(tone));
            x += width(&part.text) + GAP;
        }
    }
}
