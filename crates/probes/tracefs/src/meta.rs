//! What explains the pages: header and event formats, printk formats, thread names.
//!
//! A meta file is a name (its path below tracefs) and its bytes. The same pairs travel over the
//! guest channel, lie in the recording's meta folder and become the sections of trace.dat.

use crate::{Selection, Tracefs, TracefsError, files};
use std::{collections::BTreeMap, fs};

/// One meta file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaFile {
    /// Path below tracefs, e.g. `events/sched/sched_switch/format`.
    pub name: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// What is known at the start: the page header, the formats of the ftrace system (any buffer may
/// hold its records) and of the selected events, and printk formats.
pub fn at_start(tracefs: &Tracefs, selection: &Selection) -> Result<Vec<MetaFile>, TracefsError> {
    let mut meta = Vec::new();
    for name in ["events/header_page", "events/header_event"] {
        let bytes = files::read_bytes(&tracefs.path(name))?;
        let name = name.trim_start_matches("events/").to_owned();
        meta.push(MetaFile { name, bytes });
    }
    for event in ftrace_events(tracefs) {
        meta.push(format_file(tracefs, "ftrace", &event)?);
    }
    for event in &selection.events {
        meta.push(format_file(tracefs, &event.system, &event.event)?);
    }
    // Absent without CONFIG_PRINTK-like options; then there is nothing to explain either.
    if let Ok(bytes) = files::read_bytes(&tracefs.path("printk_formats")) {
        meta.push(MetaFile { name: "printk_formats".to_owned(), bytes });
    }
    Ok(meta)
}

fn format_file(tracefs: &Tracefs, system: &str, event: &str) -> Result<MetaFile, TracefsError> {
    let name = format!("events/{system}/{event}/format");
    let bytes = files::read_bytes(&tracefs.path(&name))?;
    Ok(MetaFile { name, bytes })
}

fn ftrace_events(tracefs: &Tracefs) -> Vec<String> {
    let Ok(entries) = fs::read_dir(tracefs.path("events/ftrace")) else { return Vec::new() };
    let mut names: Vec<_> = entries
        .flatten()
        .filter(|entry| entry.path().join("format").exists())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// `/proc/kallsyms`, where it tells addresses (several MB: only on request).
pub fn kallsyms() -> Option<MetaFile> {
    let bytes = fs::read("/proc/kallsyms").ok()?;
    Some(MetaFile { name: "kallsyms".to_owned(), bytes })
}

/// Thread names, gathered from several moments: threads that ended are known from the start or
/// from the kernel's own small cache, those that began later from the end.
#[derive(Clone, Debug, Default)]
pub struct Cmdlines {
    names: BTreeMap<i32, Vec<u8>>,
}

impl Cmdlines {
    /// Adds what procfs and the kernel's cache (`saved_cmdlines`, shared by all of the machine's
    /// tracers and by default of 128 entries) say now. Later names win.
    pub fn gather(&mut self, tracefs: &Tracefs) {
        if let Ok(saved) = files::read_bytes(&tracefs.path("saved_cmdlines")) {
            self.add_saved(&saved);
        }
        self.add_procfs();
    }

    fn add_saved(&mut self, saved: &[u8]) {
        for line in saved.split(|b| *b == b'\n') {
            let Some(space) = line.iter().position(|b| *b == b' ') else { continue };
            let pid = std::str::from_utf8(&line[..space]).ok().and_then(|pid| pid.parse().ok());
            // "<...>" and "<XXX>" are the kernel's words for "not known".
            if let Some(pid) = pid.filter(|_| line.get(space + 1) != Some(&b'<')) {
                self.names.insert(pid, line[space + 1..].to_vec());
            }
        }
    }

    fn add_procfs(&mut self) {
        self.names.extend(crate::threads::list_names());
    }

    /// As the meta file `saved_cmdlines`: `PID NAME` per line.
    pub fn to_meta(&self) -> MetaFile {
        let mut bytes = Vec::new();
        for (tid, name) in &self.names {
            bytes.extend_from_slice(tid.to_string().as_bytes());
            bytes.push(b' ');
            // A newline in a name would start a line of its own.
            bytes.extend(name.iter().map(|b| if *b == b'\n' { b' ' } else { *b }));
            bytes.push(b'\n');
        }
        MetaFile { name: "saved_cmdlines".to_owned(), bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_names_win_and_unknown_ones_do_not() {
        let mut cmdlines = Cmdlines::default();
        cmdlines.add_saved(b"7 kworker/0:1 x\n8 old\nbad\n9 <...>\n");
        cmdlines.add_saved(b"8 new\n");
        assert_eq!(cmdlines.to_meta().bytes, b"7 kworker/0:1 x\n8 new\n");
    }

    #[test]
    fn this_process_is_named() {
        if crate::Namespaces::current().procfs() != Some(std::path::Path::new("/proc")) {
            println!("skipped: /proc does not show the initial pid namespace");
            return;
        }
        let mut cmdlines = Cmdlines::default();
        cmdlines.add_procfs();
        let pid = i32::try_from(std::process::id()).unwrap();
        assert!(cmdlines.names.contains_key(&pid));
    }
}
