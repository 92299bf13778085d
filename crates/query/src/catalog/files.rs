//! The Parquet files of one table, and what they prove about themselves.

use super::held::{HeldFile, Reach};
use crate::error::QueryError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::file::statistics::Statistics;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use transect_integrity::Folder;
use url::Url;

/// One file.
#[derive(Clone, Debug)]
pub(crate) struct TableFile {
    pub(crate) path: PathBuf,
    /// The only machine its rows are of, by the folder's name.
    pub(crate) machine_id: Option<u32>,
    pub(crate) held: Arc<HeldFile>,
}

impl TableFile {
    fn new(path: PathBuf, machine_id: Option<u32>, from: From<'_>) -> Result<Self, QueryError> {
        let known = from.folder.file(&path).map_err(|error| QueryError::tables(&path, error))?;
        let held = Arc::new(HeldFile::new(known, from.reach)?);
        Ok(Self { path, machine_id, held })
    }

    pub(crate) fn url(&self) -> &Url {
        self.held.url()
    }

    /// The file's own description: schema, row groups, statistics.
    pub(crate) fn read_metadata(&self) -> Result<ParquetMetaData, QueryError> {
        let failed = |error| QueryError::tables(&self.path, error);
        let file = self.held.checked().map_err(failed)?;
        let mut reader = ParquetMetaDataReader::new();
        let metadata = reader.try_parse(&file).and_then(|()| reader.finish());
        metadata.map_err(|error| failed(io::Error::new(io::ErrorKind::InvalidData, error)))
    }
}

/// Where files are found, and how they are reached.
#[derive(Clone, Copy)]
pub(crate) struct From<'f> {
    /// The folder of tables.
    pub(crate) folder: &'f Folder,
    pub(crate) reach: Reach,
}

/// The files of one table, in the order of their names (`bucket=10` after `bucket=9`).
#[derive(Clone, Debug, Default)]
pub(crate) struct Files(pub(crate) Vec<TableFile>);

impl Files {
    /// The files of a table of this name below `dir`.
    pub(crate) fn of_table(dir: &Path, name: &str, from: From<'_>) -> Result<Self, QueryError> {
        let single = dir.join(format!("{name}.parquet"));
        let mut files = Vec::new();
        if single.is_file() {
            files.push(TableFile::new(single, None, from)?);
        }
        collect(&dir.join(name), None, from, &mut files)?;
        files.sort_by_cached_key(|file| natural(&file.path));
        Ok(Self(files))
    }
}

fn collect(
    dir: &Path,
    machine_id: Option<u32>,
    from: From<'_>,
    files: &mut Vec<TableFile>,
) -> Result<(), QueryError> {
    let failed = |source| QueryError::Tables { path: dir.to_owned(), source };
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if path.is_dir() {
            let machine = name.strip_prefix("machine_id=").and_then(|id| id.parse().ok());
            collect(&path, machine.or(machine_id), from, files)?;
        } else if name.ends_with(".parquet") && !name.starts_with('.') {
            files.push(TableFile::new(path, machine_id, from)?);
        }
    }
    Ok(())
}

/// Orders names as people do: runs of digits by their value.
fn natural(path: &Path) -> Vec<(String, u64)> {
    let mut parts: Vec<(String, u64)> = vec![(String::new(), 0)];
    for c in path.to_string_lossy().chars() {
        let Some((word, number)) = parts.last_mut() else { break };
        match c.to_digit(10) {
            Some(digit) => *number = number.wrapping_mul(10).wrapping_add(u64::from(digit)),
            None if *number > 0 => parts.push((c.to_string(), 0)),
            None => word.push(c),
        }
    }
    parts
}

/// First and last `ts` of a file whose rows are sorted by `ts`: every row group says so, and
/// they follow one another. None if that is not so.
pub(crate) fn sorted_range(metadata: &ParquetMetaData) -> Option<(i64, i64)> {
    let mut range: Option<(i64, i64)> = None;
    for group in metadata.row_groups().iter().filter(|group| group.num_rows() > 0) {
        let first = group.sorting_columns()?.first()?;
        let column = group.column(usize::try_from(first.column_idx).ok()?);
        if first.descending || column.column_path().string() != "ts" {
            return None;
        }
        let Some(Statistics::Int64(stats)) = column.statistics() else { return None };
        let (min, max) = (*stats.min_opt()?, *stats.max_opt()?);
        range = match range {
            Some((_, last)) if min < last => return None,
            Some((first, _)) => Some((first, max)),
            None => Some((min, max)),
        };
    }
    range
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_count_as_numbers() {
        let mut names = ["bucket=10", "bucket=9", "bucket=0", "a2/b=3", "a2/b=20"];
        names.sort_by_cached_key(|name| natural(Path::new(name)));
        assert_eq!(names, ["a2/b=3", "a2/b=20", "bucket=0", "bucket=9", "bucket=10"]);
    }
}
