//! A list.

use super::{layout, sheet::Sheet};
use crate::{
    table::{Cell, Column, Glyphs, Row, Table, Tone},
    text::{shortened, width},
};
use ratatui::style::{Modifier, Style};

/// Where a list goes.
pub(super) struct Place {
    pub(super) top: u16,
    /// Lines, header included.
    pub(super) height: usize,
    /// The row that keys work on, in the list they work in.
    pub(super) cursor: Option<usize>,
}

/// Lines that it could use.
pub(super) fn wanted_height(table: &Table) -> usize {
    1 + table.rows.len().max(1)
}

pub(super) fn draw(sheet: &mut Sheet<'_>, glyphs: &Glyphs, table: &Table, place: Place) {
    if place.height == 0 {
        return;
    }
    let room = usize::from(sheet.area.width);
    let shown = layout::columns(&table.columns, room).shown;
    let rows = place.height - 1;
    header(sheet, glyphs, table, &shown, &place, rows);
    if table.rows.is_empty() {
        let told = match table.all_rows {
            0 => table.empty.clone(),
            all => format!("none of {all} rows matches the filter (Esc: clear)"),
        };
        let style = sheet.style(Tone::Dim);
        sheet.put(0, place.top + 1, room, &told, style);
        return;
    }
    // The cursor stays in the middle of a list that is longer than its place.
    let last = table.rows.len().saturating_sub(rows);
    let first = place.cursor.map_or(0, |cursor| cursor.saturating_sub(rows / 2)).min(last);
    for (at, row) in table.rows.iter().enumerate().skip(first).take(rows) {
        let y = place.top + 1 + u16::try_from(at - first).unwrap_or(u16::MAX);
        line(sheet, glyphs, table, row, &shown, y, place.cursor == Some(at));
    }
}

fn header(
    sheet: &mut Sheet<'_>,
    glyphs: &Glyphs,
    table: &Table,
    shown: &[(usize, usize)],
    place: &Place,
    rows: usize,
) {
    let base = Style::new().add_modifier(Modifier::UNDERLINED);
    let base = if place.cursor.is_some() { base.add_modifier(Modifier::BOLD) } else { base };
    let room = usize::from(sheet.area.width);
    sheet.put(0, place.top, room, &" ".repeat(room), base);
    let mut x = 0;
    for (at, room) in shown {
        let column = &table.columns[*at];
        let mut title = column.title.clone();
        if *at == 0 && table.rows.len() > rows && rows > 0 && place.cursor.is_none() {
            title = format!("{title} ({rows} of {})", table.rows.len());
        }
        let is_sorted = table.sort.column == *at;
        if is_sorted {
            title.push(if table.sort.is_reversed { glyphs.up } else { glyphs.down });
        }
        let style = if is_sorted { base.add_modifier(Modifier::BOLD) } else { base };
        let text = aligned(&title, *room, column, sheet.cut);
        sheet.put(x, place.top, *room, &text, style);
        x += room + 1;
    }
}

fn line(
    sheet: &mut Sheet<'_>,
    glyphs: &Glyphs,
    table: &Table,
    row: &Row,
    shown: &[(usize, usize)],
    y: u16,
    is_chosen: bool,
) {
    let base = match is_chosen {
        true => Style::new().add_modifier(Modifier::REVERSED),
        false => Style::new(),
    };
    let room = usize::from(sheet.area.width);
    sheet.put(0, y, room, &" ".repeat(room), base);
    let mut x = 0;
    for (at, room) in shown {
        let (Some(cell), column) = (row.cells.get(*at), &table.columns[*at]) else { continue };
        let text = aligned(&cell.text(glyphs), *room, column, sheet.cut);
        let style = match cell {
            // Colours of a chosen row would be hard to read.
            _ if is_chosen => base,
            Cell::Trend(_) => base,
            cell => base.patch(sheet.style(cell.tone())),
        };
        sheet.put(x, y, *room, &text, style);
        x += room + 1;
    }
}

fn aligned(text: &str, room: usize, column: &Column, cut: char) -> String {
    let text = shortened(text, room, cut);
    let blanks = " ".repeat(room.saturating_sub(width(&text)));
    if column.is_left { format!("{text}{blanks}") } else { format!("{blanks}{text}") }
}
