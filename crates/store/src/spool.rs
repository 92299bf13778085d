//! Spools: where the raw sub-buffers of one source wait, one file per CPU, until it is assembled.
//!
//! A spool file holds whole sub-buffers back to back and nothing else, so that it is readable at
//! any moment up to its last complete one. It is only ever appended to, by one thread.

use crate::{
    error::{StoreError, io_error},
    manifest::SourceEntry,
    names::check_meta,
    replace::replace_unsynced,
};
use std::{
    collections::{BTreeMap, btree_map::Entry},
    fs::{self, File},
    io::{self, Read as _, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};
use transect_ftrace::{Item, Page, PageLayout};
use transect_model::ids::CpuId;

/// The most one meta file may hold; a guest that sends more is refused (kallsyms is ~12 MB).
pub const MAX_META_BYTES: usize = 64 << 20;
/// Spools that one source has open at once.
const MAX_OPEN: usize = 128;

/// The spools and meta files of one source. Cheap to clone; clones share the files.
#[derive(Clone, Debug)]
pub struct SourceSpool {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    dir: PathBuf,
    stem: String,
    sub_buffer_bytes: u32,
    /// Spools that are open for [`SourceSpool::append`].
    open: Mutex<BTreeMap<CpuId, CpuSpool>>,
}

impl SourceSpool {
    pub(crate) fn create(dir: &Path, entry: &SourceEntry) -> Result<Self, StoreError> {
        let stem = entry.stem().to_owned();
        let meta = dir.join(format!("{stem}.meta"));
        transect_access::create_dir(&meta).map_err(io_error("make the folder", &meta))?;
        Ok(SourceSpool {
            inner: Arc::new(Inner {
                dir: dir.to_owned(),
                stem,
                sub_buffer_bytes: entry.sub_buffer_bytes,
                open: Mutex::new(BTreeMap::new()),
            }),
        })
    }

    /// Keeps one meta file. `name` is its path below tracefs (`header_page`,
    /// `events/sched/sched_switch/format`, `printk_formats`, `saved_cmdlines`, `kallsyms`); what
    /// was kept under that name before is replaced.
    ///
    /// # Errors
    /// Names that would leave the folder, and more than [`MAX_META_BYTES`].
    pub fn meta(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        check_meta(name)?;
        let path = self.inner.dir.join(format!("{}.meta", self.inner.stem)).join(name);
        if bytes.len() > MAX_META_BYTES {
            let source = io::Error::other(format!(
                "{} bytes are more than the {MAX_META_BYTES} a meta file may have",
                bytes.len()
            ));
            return Err(StoreError::Io { action: "keep", path, source });
        }
        if let Some(parent) = path.parent() {
            transect_access::create_dir_all(parent).map_err(io_error("make the folder", parent))?;
        }
        // Not synced: a kernel has thousands of such files, and power loss takes the events that they describe as well.
        replace_unsynced(&path, bytes)
    }

    /// A writer for one CPU of its own file handle, made if absent. Each CPU must have one
    /// appending thread at a time; a later writer goes on where the former stopped.
    pub fn cpu(&self, cpu: CpuId) -> Result<CpuSpool, StoreError> {
        CpuSpool::open(self.path_of(cpu), self.inner.sub_buffer_bytes)
    }

    /// Appends whole sub-buffers of one CPU: for sources whose pages arrive as bytes (guests).
    pub fn append(&self, cpu: CpuId, pages: &[u8]) -> Result<(), StoreError> {
        let mut open = self.inner.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= MAX_OPEN && !open.contains_key(&cpu) {
            // A guest can have more CPUs than this process may have files.
            open.clear();
        }
        match open.entry(cpu) {
            Entry::Occupied(spool) => spool.into_mut(),
            Entry::Vacant(place) => place.insert(self.cpu(cpu)?),
        }
        .append(pages)
    }

    /// Size of one sub-buffer of this source, bytes.
    pub fn sub_buffer_bytes(&self) -> u32 {
        self.inner.sub_buffer_bytes
    }

    /// Counts the events in the spool of one CPU of this machine's own kernel; reads all of it.
    pub fn count_events(&self, cpu: CpuId) -> Result<u64, StoreError> {
        let path = self.path_of(cpu);
        let layout = PageLayout::native(self.inner.sub_buffer_bytes as usize);
        count_events(&path, &layout).map_err(io_error("read back the spool", path))
    }

    fn path_of(&self, cpu: CpuId) -> PathBuf {
        self.inner.dir.join(format!("{}.cpu{cpu}.raw", self.inner.stem))
    }
}

/// The spool of one CPU.
#[derive(Debug)]
pub struct CpuSpool {
    file: File,
    path: PathBuf,
    sub_buffer_bytes: u32,
    bytes: u64,
}

impl CpuSpool {
    fn open(path: PathBuf, sub_buffer_bytes: u32) -> Result<Self, StoreError> {
        // Not O_APPEND: splice(2) refuses such files. The position is kept at the end instead.
        let opened = match transect_access::create_file(&path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                File::options().write(true).open(&path)
            }
            made => made,
        };
        let mut file = opened.map_err(io_error("open the spool", &path))?;
        let bytes = end_of_last_page(&file, sub_buffer_bytes)
            .and_then(|end| io::Seek::seek(&mut file, io::SeekFrom::Start(end)))
            .map_err(io_error("find the end of the spool", &path))?;
        Ok(CpuSpool { file, path, sub_buffer_bytes, bytes })
    }

    /// The file, for splice(2): its position is at the end, and what is spliced must be whole
    /// sub-buffers. Tell [`CpuSpool::spliced`] afterwards.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Where the spool is, for error texts.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Notes that `bytes` were written through [`CpuSpool::file`].
    pub fn spliced(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Bytes in this spool, as far as its writer knows.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends whole sub-buffers. After an error (disk full) the spool ends where it did before.
    pub fn append(&mut self, pages: &[u8]) -> Result<(), StoreError> {
        if !is_whole(pages.len(), self.sub_buffer_bytes) {
            return Err(StoreError::NotWholePages {
                path: self.path.clone(),
                bytes: pages.len(),
                sub_buffer_bytes: self.sub_buffer_bytes,
            });
        }
        if let Err(error) = self.file.write_all(pages) {
            self.cut_back();
            return Err(io_error("append to the spool", &self.path)(error));
        }
        // usize is at most 64 bits wide on every target.
        self.bytes += pages.len() as u64;
        Ok(())
    }

    /// Cuts a half-written page off, so that later pages stay aligned. Best effort: readers cut
    /// at the last whole page as well.
    pub fn cut_back(&mut self) {
        let end = self.bytes;
        let _ = self.file.set_len(end);
        let _ = io::Seek::seek(&mut self.file, io::SeekFrom::Start(end));
    }
}

fn count_events(path: &Path, layout: &PageLayout) -> io::Result<u64> {
    let mut file = match File::open(path) {
        Ok(file) => io::BufReader::with_capacity(1 << 20, file),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(e) => return Err(e),
    };
    let mut page = vec![0; layout.page_bytes];
    let mut events = 0;
    loop {
        match file.read_exact(&mut page) {
            Ok(()) => {}
            // A page that was cut off is not read by anybody else either.
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(events),
            Err(e) => return Err(e),
        }
        let items = Page::new(&page, layout);
        events += items.filter(|item| matches!(item, Item::Event { .. })).count() as u64;
    }
}

fn is_whole(bytes: usize, sub_buffer_bytes: u32) -> bool {
    bytes.is_multiple_of(sub_buffer_bytes as usize)
}

fn end_of_last_page(file: &File, sub_buffer_bytes: u32) -> io::Result<u64> {
    Ok(whole_bytes(file.metadata()?.len(), sub_buffer_bytes))
}

/// `bytes` without an incomplete last sub-buffer.
pub(crate) fn whole_bytes(bytes: u64, sub_buffer_bytes: u32) -> u64 {
    bytes - bytes % u64::from(sub_buffer_bytes.max(1))
}

/// A spool as found on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundSpool {
    pub(crate) cpu: CpuId,
    pub(crate) path: PathBuf,
    /// Whole sub-buffers only.
    pub(crate) bytes: u64,
    /// Bytes of an incomplete last sub-buffer.
    pub(crate) torn_bytes: u64,
}

/// The spools of a source, by CPU.
pub(crate) fn find(dir: &Path, entry: &SourceEntry) -> Result<Vec<FoundSpool>, StoreError> {
    let prefix = format!("{}.cpu", entry.stem());
    let mut found = Vec::new();
    for item in fs::read_dir(dir).map_err(io_error("list the recording", dir))? {
        let item = item.map_err(io_error("list the recording", dir))?;
        let name = item.file_name();
        let cpu = name
            .to_str()
            .and_then(|n| n.strip_prefix(&prefix)?.strip_suffix(".raw"))
            .and_then(|n| n.parse().ok());
        let Some(cpu) = cpu else { continue };
        let len = item.metadata().map_err(io_error("look at", item.path()))?.len();
        let bytes = whole_bytes(len, entry.sub_buffer_bytes);
        found.push(FoundSpool {
            cpu: CpuId(cpu),
            path: item.path(),
            bytes,
            torn_bytes: len - bytes,
        });
    }
    found.sort_by_key(|spool| spool.cpu);
    Ok(found)
}
