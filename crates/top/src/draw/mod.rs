//! From the state to the cells of a terminal. Nothing else is looked at, and nothing remembered.

mod head;
pub(crate) mod layout;
mod list;

use crate::{
    app::{App, Looks},
    part::{GAP, Parts, fitting},
    table::Tone,
    views::Page,
};
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::{Color, Modifier, Style},
    text::Span,
};
use transect_model::escape::one_line;

/// Draws the screen.
pub fn draw(app: &App, area: Rect, buffer: &mut Buffer) {
    let mut sheet = Sheet { buffer, area, looks: app.looks, cut: app.glyphs.cut };
    let (width, height) = layout::LEAST;
    if area.width < width || area.height < height {
        let told = format!("needs {width}x{height} or more");
        sheet.put(0, 0, usize::from(area.width), &told, Style::new());
        return;
    }
    sheet.parts(0, head::top(app), Style::new());
    let bottom = area.height - 1;
    sheet.parts(bottom, head::bottom(app), Style::new());
    if let Some((overlay, scroll)) = app.overlay {
        return text(&mut sheet, &app.text(overlay), scroll);
    }
    match app.moment() {
        Some(Ok(_)) => view(app, &mut sheet),
        Some(Err(why)) => {
            let lines = [
                "Cannot show this window of the log:".to_owned(),
                why,
                "Press left or right for another window".to_owned(),
            ];
            text(&mut sheet, &lines, 0);
        }
        None => {
            let told = match &app.ended {
                Some(why) => why.clone(),
                None => "waiting for the first window".to_owned(),
            };
            text(&mut sheet, &[told], 0);
        }
    }
}

fn text(sheet: &mut Sheet<'_>, lines: &[String], scroll: usize) {
    let height = layout::text_height(sheet.area.height);
    for (row, line) in lines.iter().skip(scroll).take(height).enumerate() {
        let row = u16::try_from(row + 1).unwrap_or(u16::MAX);
        sheet.put(0, row, usize::from(sheet.area.width), line, Style::new());
    }
}

/// The line that says where one is, what belongs to the view, and its lists.
fn view(app: &App, sheet: &mut Sheet<'_>) {
    let span = app.span();
    let page = app.page(&span);
    let bottom = usize::from(sheet.area.height - 1);
    let mut row = 1;
    let focus = app.level().focus.min(page.tables.len().saturating_sub(1));
    // Very flat terminals have the list instead.
    if bottom > 6 {
        let trail = head::trail(app, &page, focus, usize::from(sheet.area.width), bottom - 2);
        sheet.parts(1, trail, Style::new());
        row += 1;
    }
    let lines = summary_lines(&page, bottom - row);
    for parts in page.summary.iter().take(lines) {
        sheet.parts(u16::try_from(row).unwrap_or(u16::MAX), parts.clone(), Style::new());
        row += 1;
    }
    let wanted: Vec<usize> = page.tables.iter().map(list::wanted_height).collect();
    let heights = layout::heights(&wanted, focus, bottom - row);
    for (at, (table, height)) in page.tables.iter().zip(heights).enumerate() {
        let cursor = (at == focus).then(|| app.level().cursor(at, table));
        let top = u16::try_from(row).unwrap_or(u16::MAX);
        list::draw(sheet, &app.glyphs, table, list::Place { top, height, cursor });
        row += height;
    }
}

/// A list needs four lines before the text about it may have more than one.
fn summary_lines(page: &Page, height: usize) -> usize {
    page.summary.len().min(height.saturating_sub(4).max(1))
}

/// What is drawn on.
struct Sheet<'a> {
    buffer: &'a mut Buffer,
    area: Rect,
    looks: Looks,
    cut: char,
}

impl Sheet<'_> {
    fn style(&self, tone: Tone) -> Style {
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
    fn put(&mut self, x: usize, y: u16, room: usize, text: &str, style: Style) {
        let (Ok(x), true) = (u16::try_from(x), y < self.area.height) else { return };
        let text = shortened(text, room, self.cut);
        self.buffer.set_string(self.area.x + x, self.area.y + y, text, style);
    }

    /// Writes the pieces of a line that fit; the last one to the right if the line is full of them.
    fn parts(&mut self, y: u16, parts: Parts, style: Style) {
        let room = usize::from(self.area.width);
        let mut x = 0;
        for part in fitting(parts, room) {
            let tone = self.style(part.tone);
            self.put(x, y, room.saturating_sub(x), &part.text, style.patch(tone));
            x += width(&part.text) + GAP;
        }
    }
}

/// How many columns a text takes.
pub(crate) fn width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { Span::raw(text).width() }
}

/// A text in so many columns: names keep their beginning, paths their end. A terminal obeys no character of it.
pub(crate) fn shortened(text: &str, room: usize, cut: char) -> String {
    let text = one_line(text);
    if width(&text) <= room {
        return text.into_owned();
    }
    let Some(room) = room.checked_sub(1) else { return String::new() };
    let mut kept = String::new();
    let mut used = 0;
    let is_path = text.starts_with('/');
    let mut chars: Vec<char> = text.chars().collect();
    if is_path {
        chars.reverse();
    }
    for c in chars {
        used += width(c.encode_utf8(&mut [0; 4]));
        if used > room {
            break;
        }
        kept.push(c);
    }
    match is_path {
        true => std::iter::once(cut).chain(kept.chars().rev()).collect(),
        false => format!("{kept}{cut}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_beginning_and_paths_their_end() {
        assert_eq!(shortened("a-long-name", 6, '~'), "a-lon~");
        assert_eq!(shortened("/system.slice/web.service", 8, '~'), "~service");
        assert_eq!(shortened("short", 5, '~'), "short");
        assert_eq!(shortened("x", 0, '~'), "");
        assert_eq!(shortened("a\u{1b}[2J\n\u{202e}", 20, '~'), "a\\x1b[2J\\n\\u{202e}");
        assert_eq!(shortened("a\u{1b}[2J", 6, '~'), "a\\x1b~");
        assert_eq!(shortened("日本語です", 5, '~'), "日本~");
    }
}
