//! A log as a directory of tables: `x.parquet/windows/*.parquet` and so on.
//!
//! Parquet files are read by their end, so a part is written every minute, under another name until it
//! is whole: what a killed writer leaves can be read.

use super::sink::Sink;
use anyhow::Context as _;
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, ZstdLevel},
    file::properties::WriterProperties,
};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use transect_live::{Snapshot, TABLES};
use transect_serve::service::tables::Batch;

/// How often parts are written.
const EVERY: Duration = Duration::from_secs(60);
/// Earlier, if there are so many rows: they are kept in memory until then.
const MAX_ROWS: usize = 200_000;

/// The directory.
pub(super) struct Parquet {
    dir: PathBuf,
    tables: Vec<Batch>,
    /// ms since 1970 when this log was begun: numbers of machines hold within it.
    run: u64,
    since: Instant,
    parts: u64,
}

impl Parquet {
    /// Opens a directory to add parts to it, or makes one.
    pub(super) fn open(dir: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("cannot write {}", dir.display()))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Parquet {
            dir: dir.to_owned(),
            tables: (0..TABLES.len()).map(Batch::new).collect(),
            run: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
            since: Instant::now(),
            parts: 0,
        })
    }

    fn write_parts(&mut self) -> anyhow::Result<()> {
        let part = format!("{}-{:05}", self.run, self.parts);
        for (name, table) in TABLES.iter().zip(&mut self.tables) {
            if table.rows() > 0 {
                write_part(&self.dir.join(name), &part, table)?;
            }
        }
        self.parts += 1;
        self.since = Instant::now();
        Ok(())
    }
}

impl Sink for Parquet {
    fn write(&mut self, snapshot: &Snapshot) -> anyhow::Result<()> {
        for table in &mut self.tables {
            table.add(snapshot, self.run);
        }
        let rows: usize = self.tables.iter().map(Batch::rows).sum();
        if self.since.elapsed() >= EVERY || rows >= MAX_ROWS { self.write_parts() } else { Ok(()) }
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        self.write_parts()
    }
}

/// Writes one part of one table, and only then under its name.
fn write_part(dir: &Path, part: &str, table: &mut Batch) -> anyhow::Result<()> {
    fs::create_dir_all(dir)?;
    let unfinished = dir.join(format!(".{part}.unfinished"));
    let level = ZstdLevel::try_new(3)?;
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
    let file = File::create(&unfinished)?;
    let mut writer = ArrowWriter::try_new(file, table.schema(), Some(properties))?;
    writer.write(&table.take()?)?;
    writer.close()?;
    Ok(fs::rename(unfinished, dir.join(format!("{part}.parquet")))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::{array::AsArray as _, datatypes::Int64Type};
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use transect_live::lines::Reader;

    #[test]
    fn each_table_has_a_file_with_the_rows_of_all_windows() {
        let log = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/succeed/live/nested.jsonl");
        let log = std::io::BufReader::new(File::open(log).unwrap());
        let windows: Vec<Snapshot> = Reader::new(log).map(Result::unwrap).collect();
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("x.parquet");
        let mut sink = Parquet::open(&dir).unwrap();
        for window in &windows {
            sink.write(window).unwrap();
        }
        sink.finish().unwrap();
        let files: Vec<PathBuf> =
            fs::read_dir(dir.join("windows")).unwrap().map(|entry| entry.unwrap().path()).collect();
        let [file] = files.as_slice() else { panic!("{files:?}") };
        let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(file).unwrap()).unwrap();
        let mut waited = 0;
        for batch in reader.build().unwrap() {
            let batch = batch.unwrap();
            let column = batch.column_by_name("waited_ns").unwrap();
            waited += column.as_primitive::<Int64Type>().iter().flatten().sum::<i64>();
        }
        let expected: i64 = windows
            .iter()
            .flat_map(|window| &window.actors)
            .map(|actor| actor.window.waited_ns)
            .sum();
        assert_eq!(waited, expected);
        assert!(dir.join("thread_windows").is_dir() && dir.join("exit_windows").is_dir());
        assert!(!dir.join("container_windows").exists(), "nothing to write");
    }
}
