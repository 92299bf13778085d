//! A file read again: by `read`, and through a mapping.

use super::memory::{CHUNK_WORDS, sum};
use crate::{
    looped::{Operation, timed},
    support::{asked, mapped::Mapped, random::Random},
    workload::Place,
};
use std::{
    fs::File,
    hint::black_box,
    io,
    io::Write,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::Duration,
};
use transect_bench_core::{Fault, protocol::Param};

/// What one `read` takes, as LMbench's `bw_file_rd`.
const READ_BYTES: usize = 64 << 10;

pub(super) fn params() -> Vec<(&'static str, Param, &'static str)> {
    vec![("mib", Param::Int(64), "size of the file, MiB; more than the CPU's caches")]
}

fn new_file(place: &Place<'_>) -> Result<(PathBuf, File), Fault> {
    let mib = asked::number(place.job, "mib", 1..=1 << 16)?;
    let path = place.folder.join("file");
    let file = write(&path, mib);
    let file =
        file.map_err(|error| Fault::failed(format!("cannot make {}: {error}", path.display())))?;
    Ok((path, file))
}

fn write(path: &Path, mib: u64) -> io::Result<File> {
    let mut file = File::options().create(true).read(true).write(true).truncate(true).open(path)?;
    let mut random = Random(mib);
    let block: Vec<u8> = (0..READ_BYTES / 8).flat_map(|_| random.next().to_le_bytes()).collect();
    for _ in 0..mib * (1 << 20) / READ_BYTES as u64 {
        file.write_all(&block)?;
    }
    // Nothing is to be written back while it is read.
    file.sync_all()?;
    Ok(file)
}

struct Reading {
    path: PathBuf,
    file: File,
    at: u64,
    bytes: u64,
    buffer: Vec<u8>,
}

impl Operation for Reading {
    fn batch(&mut self, times: u64) -> io::Result<Duration> {
        timed(times, || {
            self.file.read_exact_at(&mut self.buffer, self.at)?;
            self.at = (self.at + READ_BYTES as u64) % self.bytes;
            Ok(())
        })
    }

    fn weight(&self) -> u64 {
        READ_BYTES as u64
    }

    fn files(&self) -> Vec<PathBuf> {
        vec![self.path.clone()]
    }
}

pub(super) fn make_read(place: &Place<'_>) -> Result<Box<dyn Operation>, Fault> {
    let (path, file) = new_file(place)?;
    let bytes = file.metadata().map_err(Fault::failed)?.len();
    Ok(Box::new(Reading { path, file, at: 0, bytes, buffer: vec![0; READ_BYTES] }))
}

struct Summing {
    path: PathBuf,
    mapped: Mapped,
    chunk: usize,
}

impl Operation for Summing {
    fn batch(&mut self, times: u64) -> io::Result<Duration> {
        let words = self.mapped.words();
        let chunks = words.len() / CHUNK_WORDS;
        timed(times, || {
            let from = self.chunk * CHUNK_WORDS;
            self.chunk = (self.chunk + 1) % chunks;
            black_box(sum(&words[from..from + CHUNK_WORDS]));
            Ok(())
        })
    }

    fn weight(&self) -> u64 {
        8 * CHUNK_WORDS as u64
    }

    fn files(&self) -> Vec<PathBuf> {
        vec![self.path.clone()]
    }
}

pub(super) fn make_mapped(place: &Place<'_>) -> Result<Box<dyn Operation>, Fault> {
    let (path, file) = new_file(place)?;
    let mapped = Mapped::file(&file);
    let mapped =
        mapped.map_err(|error| Fault::failed(format!("cannot map {}: {error}", path.display())))?;
    Ok(Box::new(Summing { path, mapped, chunk: 0 }))
}
