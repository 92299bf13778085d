//! Descriptive files with settings (version 3), by their names; `crate::settings` writes and reads them.

/// The first protocol version with these files.
pub(crate) const SETTINGS_VERSION: u8 = 3;
/// Name of the file of interrupt lines.
pub(crate) const IRQ_LINES: &str = "irq_lines";
/// Name of the file of control groups.
pub(crate) const CGROUPS: &str = "cgroups";
/// Name of the file of threads.
pub(crate) const TASKS: &str = "tasks";

/// Does this descriptive file have settings? Such a file is not part of the trace, and may differ between connections
/// to the same kernel.
pub fn is_settings(name: &str) -> bool {
    [IRQ_LINES, CGROUPS, TASKS].contains(&name)
}
