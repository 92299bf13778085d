//! From an event number to its row, in two loads.

use super::{Kind, RecordDef, Versions, all};
use std::sync::LazyLock;

/// Version of the Xen that wrote a trace, as far as layouts differ by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum XenVersion {
    /// Not known. Where versions disagree, the form of 4.17 is taken.
    #[default]
    Unknown,
    /// Xen 4 with this minor number; older and newer ones than this crate knows are read as the
    /// nearest it knows.
    Minor(u8),
}

impl XenVersion {
    /// The version whose layouts apply.
    fn minor(self) -> u8 {
        match self {
            XenVersion::Unknown => 17,
            XenVersion::Minor(minor) => minor.clamp(Versions::OLDEST, Versions::NEWEST),
        }
    }
}

/// Which row an event number has, for one version of Xen.
///
/// An id that this version does not write but another does is found as well: a file's version
/// may have been stated wrongly, and a record that can be read should be.
#[derive(Debug)]
pub struct Table {
    /// Entry 0 is for events without a row.
    entries: Vec<Entry>,
    /// By class and subclass (event >> 12): which page of `numbers` it has; page 0 has no rows.
    pages: Vec<u8>,
    /// Pages of 4096 numbers of entries.
    numbers: Vec<u16>,
}

/// What a stream must know of an event, at one glance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Its row, if it has one.
    pub(crate) row: Option<&'static RecordDef>,
    /// Bit n: a record with n words is as it should be, and there is nothing to it but its content.
    pub(crate) plain: u8,
    /// The row's.
    pub(crate) kind: Kind,
}

impl Entry {
    fn new(row: &'static RecordDef) -> Entry {
        let about_the_trace = matches!(row.kind, Kind::Wrap | Kind::CpuChange | Kind::Lost);
        let right = (row.min_words..=row.max_words).fold(0, |bits, words| bits | 1 << words);
        Entry { row: Some(row), plain: if about_the_trace { 0 } else { right }, kind: row.kind }
    }

    const NONE: Entry = Entry { row: None, plain: 0, kind: Kind::Other };
}

const PAGE: usize = 4096;

static TABLES: LazyLock<Vec<Table>> =
    LazyLock::new(|| (Versions::OLDEST..=Versions::NEWEST).map(Table::new).collect());

impl Table {
    /// The table for a version of Xen.
    pub fn of(version: XenVersion) -> &'static Table {
        &TABLES[usize::from(version.minor() - Versions::OLDEST)]
    }

    fn new(minor: u8) -> Table {
        let mut table =
            Table { entries: vec![Entry::NONE], pages: vec![0; 1 << 16], numbers: vec![0; PAGE] };
        let covers = |row: &RecordDef| (row.versions.from..=row.versions.to).contains(&minor);
        let (now, otherwise): (Vec<_>, Vec<_>) = all().partition(|row| covers(row));
        for row in now.into_iter().chain(otherwise) {
            table.add(row);
        }
        table
    }

    /// Enters a row under every event number it covers and that has none yet.
    fn add(&mut self, row: &'static RecordDef) {
        let Ok(number) = u16::try_from(self.entries.len()) else { return };
        self.entries.push(Entry::new(row));
        let page = &mut self.pages[(row.id >> 12) as usize];
        if *page == 0 {
            let Ok(next) = u8::try_from(self.numbers.len() / PAGE) else { return };
            *page = next;
            self.numbers.resize(self.numbers.len() + PAGE, 0);
        }
        let page = usize::from(*page) * PAGE;
        for (low, slot) in (0..).zip(&mut self.numbers[page..page + PAGE]) {
            if low & !row.varying == row.id & 0xfff && *slot == 0 {
                *slot = number;
            }
        }
    }

    /// The entry of an event number.
    #[inline]
    pub(crate) fn entry(&self, event: u32) -> Entry {
        let page = self.pages.get((event >> 12) as usize).copied().unwrap_or(0);
        let at = usize::from(page) * PAGE + (event as usize & (PAGE - 1));
        let number = self.numbers.get(at).copied().unwrap_or(0);
        match self.entries.get(usize::from(number)) {
            Some(entry) => *entry,
            None => Entry::NONE,
        }
    }

    /// The row of an event number.
    pub fn lookup(&self, event: u32) -> Option<&'static RecordDef> {
        self.entry(event).row
    }

    /// Its rows, those of its own version first.
    pub fn rows(&self) -> impl Iterator<Item = &'static RecordDef> {
        self.entries.iter().filter_map(|entry| entry.row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Class;
    use std::collections::HashSet;

    #[test]
    fn rows_are_consistent() {
        for row in all() {
            assert!(Class::of(row.id).is_some(), "{row:?}");
            assert_eq!(row.id & row.varying, 0, "{row:?}");
            assert!(row.varying < 0x1000, "{row:?}");
            assert!(row.min_words <= row.max_words && row.max_words <= 7, "{row:?}");
            let mut names = HashSet::new();
            for field in row.fields {
                assert!(names.insert(field.name), "{row:?} has {} twice", field.name);
                assert!(
                    field.words_needed() <= usize::from(row.max_words),
                    "{row:?} {}",
                    field.name
                );
            }
            assert_eq!(row.versions.written, !row.doc.is_empty(), "{row:?}");
        }
    }

    #[test]
    fn no_two_rows_of_one_version_share_a_number() {
        for minor in Versions::OLDEST..=Versions::NEWEST {
            let mut seen = HashSet::new();
            for row in all().filter(|row| (row.versions.from..=row.versions.to).contains(&minor)) {
                for low in 0..0x1000 {
                    if low & !row.varying == row.id & 0xfff {
                        assert!(seen.insert(row.id & !0xfff | low), "4.{minor} {row:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn versions_differ_where_they_should() {
        let name =
            |minor, event| Table::of(XenVersion::Minor(minor)).lookup(event).map(|row| row.doc);
        assert_ne!(
            name(17, 0x0008_1002),
            name(19, 0x0008_1002),
            "VMEXIT of either became VMX_EXIT"
        );
        assert_eq!(name(17, 0x0008_1103), name(20, 0x0008_1103), "found though 4.17 has none");
        assert_eq!(name(17, 0x0008_1009), None);
        assert_eq!(name(17, 0xffff_ffff), None);
    }
}
