//! The tables of a window by name, and their columns.

use transect_live::{
    Antagonist, ContainerWindow, CpuWindow, ExitWindow, FindingWindow, Health, IoWindow, Missing,
    PressureWindow, TABLES, ThreadWindow, WindowDetail,
};
use transect_model::column::Column;
use transect_model::table::{Machine, Window};

/// Its place in `TABLES`.
pub(crate) fn place(name: &str) -> Option<usize> {
    TABLES.iter().position(|known| *known == name)
}

/// The columns of a table.
pub(crate) fn columns(table: usize) -> &'static [Column] {
    match TABLES.get(table).copied().unwrap_or_default() {
        "machines" => Machine::TABLE.columns,
        "windows" => Window::TABLE.columns,
        "window_details" => WindowDetail::DOC,
        "thread_windows" => ThreadWindow::DOC,
        "cpu_windows" => CpuWindow::DOC,
        "exit_windows" => ExitWindow::DOC,
        "antagonists" => Antagonist::DOC,
        "io_windows" => IoWindow::DOC,
        "container_windows" => ContainerWindow::DOC,
        "pressure_windows" => PressureWindow::DOC,
        "findings" => FindingWindow::DOC,
        "missing" => Missing::DOC,
        "health" => Health::DOC,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_has_columns() {
        for (place, name) in TABLES.iter().enumerate() {
            assert!(!columns(place).is_empty(), "{name}");
        }
    }
}
