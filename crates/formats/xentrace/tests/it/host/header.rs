//! Every event of Xen's public header is in the table, under its name.
//!
//! The header is Debian's (libxen-dev); without it this test says so and passes. Set
//! `TRANSECT_XEN_HEADERS` to paths of other versions' `trace.h`, or of the schedulers' sources, to
//! have them checked too.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "test code")]

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};
use transect_xentrace::{
    XenVersion,
    records::{Class, Table},
};

/// `#define TRC_NAME (TRC_OTHER + … + number)` and `TRC_SCHED_CLASS_EVT(SCHEDULER, number)`.
#[derive(Default)]
struct Defines(BTreeMap<String, u32>);

impl Defines {
    fn read(&mut self, text: &str) -> Vec<(String, u32)> {
        let mut found = Vec::new();
        for line in text.lines() {
            let line = line.split("/*").next().unwrap().trim();
            let Some(rest) = line.strip_prefix("#define ") else { continue };
            let Some((name, value)) = rest.trim().split_once(char::is_whitespace) else { continue };
            if !name.starts_with("TRC_") || name.contains('(') {
                continue;
            }
            if let Some(value) = self.value(value.trim()) {
                self.0.insert(name.to_owned(), value);
                found.push((name.to_owned(), value));
            }
        }
        found
    }

    fn value(&self, text: &str) -> Option<u32> {
        if let Some(arguments) = text.strip_prefix("TRC_SCHED_CLASS_EVT(") {
            let (scheduler, number) = arguments.strip_suffix(')')?.split_once(',')?;
            let scheduler = self.0.get(&format!("TRC_SCHED_{}", scheduler.trim()))?;
            return Some(0x0002_2000 | scheduler << 9 | number.trim().parse::<u32>().ok()?);
        }
        let text = text.trim_start_matches('(').trim_end_matches(')');
        text.split('+').map(|part| self.part(part.trim())).sum()
    }

    fn part(&self, text: &str) -> Option<u32> {
        match text.strip_prefix("0x") {
            Some(hex) => u32::from_str_radix(hex, 16).ok(),
            None => text.parse().ok().or_else(|| self.0.get(text).copied()),
        }
    }
}

/// The name a row should have: without `TRC_`, and without what tells its forms apart.
fn row_name(define: &str) -> String {
    let name = define.strip_prefix("TRC_").unwrap().to_lowercase();
    match name.strip_suffix("64").unwrap_or(&name) {
        "hvm_vmx_exit" | "hvm_svm_exit" => "hvm_vmexit".to_owned(),
        name => name.to_owned(),
    }
}

#[test]
fn every_defined_event_is_in_the_table() {
    let mut paths = vec![PathBuf::from("/usr/include/xen/trace.h")];
    if let Some(more) = std::env::var_os("TRANSECT_XEN_HEADERS") {
        paths.extend(std::env::split_paths(&more));
    }
    if !paths[0].exists() {
        println!("skipped: no /usr/include/xen/trace.h (Debian package libxen-dev)");
        return;
    }
    let classes: BTreeSet<u32> = Class::ALL.into_iter().map(Class::id).collect();
    let table = Table::of(XenVersion::Unknown);
    let mut defines = Defines::default();
    let mut checked = BTreeSet::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        defines.read(&text); // TRC_64_FLAG is defined after its uses
        for (name, event) in defines.read(&text) {
            if !classes.contains(&(event & !0xfff)) || event & 0xfff == 0 {
                continue; // a class, a mask, a count
            }
            let row = table.lookup(event);
            let row =
                row.unwrap_or_else(|| panic!("{}: {name} {event:#x} is missing", path.display()));
            assert_eq!(row.name, row_name(&name), "{}: {event:#x}", path.display());
            checked.insert(event);
        }
    }
    println!("{} events checked", checked.len());
    assert!(checked.len() > 120, "only {} events found", checked.len());
}
