//! Reads tables back with the Parquet crate's own reader, which shares nothing with our writer but
//! the format.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed expectation is the report")]

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use std::fs::File;
use std::path::{Path, PathBuf};
use transect_model::cell::Cell;

/// A cell that owns its text.
pub(crate) type Value = Cell<'static>;

/// Every Parquet file below a folder, in order of their paths (numbers by value).
pub(crate) fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = std::fs::read_dir(dir) else { return found };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            assert_eq!(path.extension().unwrap(), "parquet", "{}", path.display());
            found.push(path);
        }
    }
    found.sort_by_key(|path| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let (stem, number) = name.split_once('=').unwrap();
        (path.parent().unwrap().to_owned(), stem.to_owned(), number.parse::<u32>().unwrap())
    });
    found
}

pub(crate) fn open(path: &Path) -> SerializedFileReader<File> {
    SerializedFileReader::new(File::open(path).unwrap()).unwrap()
}

/// The rows of one file: name and value of each column.
pub(crate) fn rows(path: &Path) -> Vec<Vec<(String, Value)>> {
    let file = open(path);
    let rows = file.get_row_iter(None).unwrap();
    rows.map(|row| {
        let row = row.unwrap();
        row.get_column_iter().map(|(name, field)| (name.clone(), value(field))).collect()
    })
    .collect()
}

fn value(field: &Field) -> Value {
    match field {
        Field::Null => Cell::Null,
        Field::Bool(v) => Cell::Bool(*v),
        Field::Int(v) => Cell::I64(i64::from(*v)),
        Field::Long(v) => Cell::I64(*v),
        Field::UInt(v) => Cell::U64(u64::from(*v)),
        Field::ULong(v) => Cell::U64(*v),
        Field::Double(v) => Cell::F64(*v),
        Field::Str(v) => Cell::Str(v.clone().into()),
        other => panic!("no column of ours is {other:?}"),
    }
}
