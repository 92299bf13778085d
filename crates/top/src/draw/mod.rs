//! From the state to the cells of a terminal. Nothing else is looked at, and nothing remembered.

mod head;
pub(crate) mod layout;
mod list;
mod sheet;

use crate::{app::App, views::Page};
use ratatui::{buffer::Buffer, layout::Rect, style::Style};
use sheet::Sheet;

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

/// A list needs four lines before there is text about it.
fn summary_lines(page: &Page, height: usize) -> usize {
    page.summary.len().min(height.saturating_sub(4))
}
