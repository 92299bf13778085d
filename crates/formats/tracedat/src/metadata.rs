//! The traced kernel's description of itself, which is read from one file and written to another.

/// The traced kernel's description of itself, as it stands in tracefs and procfs.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    /// `events/header_page`.
    pub header_page: Vec<u8>,
    /// `events/header_event`.
    pub header_event: Vec<u8>,
    /// `events/ftrace/*/format`.
    pub ftrace_events: Vec<Vec<u8>>,
    /// System and the `events/SYSTEM/*/format` of its events.
    pub systems: Vec<(String, Vec<Vec<u8>>)>,
    /// `/proc/kallsyms`; may be empty.
    pub kallsyms: Vec<u8>,
    /// `printk_formats`; may be empty.
    pub printk_formats: Vec<u8>,
    /// `saved_cmdlines`: lines of `TID NAME`.
    pub saved_cmdlines: Vec<u8>,
}
