//! Where the pages go: a file for each CPU. Counts what its readers cost.

use rustix::time::{ClockId, clock_gettime};
use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};
use transect_model::ids::CpuId;
use transect_tracefs::{CpuSink, PageSink};

/// The files of all CPUs.
#[derive(Debug)]
pub(super) struct Pages {
    folder: PathBuf,
    sums: Arc<Sums>,
}

#[derive(Debug, Default)]
struct Sums {
    bytes: AtomicU64,
    /// CPU time of the reader threads, each counted whenever it has taken something, and when it ends.
    cpu_ns: AtomicU64,
}

impl Pages {
    /// Files `cpuN.raw` in this folder.
    pub(super) fn into(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), sums: Arc::default() }
    }

    /// What was written until now does not count.
    pub(super) fn traces_now(&self) {
        self.sums.bytes.store(0, Relaxed);
    }

    /// Bytes written.
    pub(super) fn bytes(&self) -> u64 {
        self.sums.bytes.load(Relaxed)
    }

    /// CPU time of the readers, ns: of one that runs, up to what it took last.
    pub(super) fn cpu_ns(&self) -> u64 {
        self.sums.cpu_ns.load(Relaxed)
    }
}

impl PageSink for Pages {
    fn cpu(&self, cpu: CpuId) -> io::Result<Box<dyn CpuSink>> {
        let file = File::create(self.folder.join(format!("cpu{cpu}.raw")))?;
        Ok(Box::new(CpuPages { file, sums: self.sums.clone(), counted_ns: 0 }))
    }
}

struct CpuPages {
    file: File,
    sums: Arc<Sums>,
    /// What of the reader's CPU time is in the sum.
    counted_ns: u64,
}

impl CpuPages {
    fn took(&mut self, bytes: u64) {
        self.sums.bytes.fetch_add(bytes, Relaxed);
        self.count_cpu_time();
    }

    /// In the reader's own thread.
    fn count_cpu_time(&mut self) {
        let used = clock_gettime(ClockId::ThreadCPUTime);
        let s = u64::try_from(used.tv_sec).unwrap_or(0);
        let ns = u64::try_from(used.tv_nsec).unwrap_or(0);
        let used_ns = s * 1_000_000_000 + ns;
        self.sums.cpu_ns.fetch_add(used_ns.saturating_sub(self.counted_ns), Relaxed);
        self.counted_ns = used_ns;
    }
}

impl CpuSink for CpuPages {
    fn file(&self) -> Option<&File> {
        Some(&self.file)
    }

    fn spliced(&mut self, bytes: u64) {
        self.took(bytes);
    }

    fn pages(&mut self, pages: &[u8]) -> io::Result<()> {
        self.file.write_all(pages)?;
        self.took(pages.len() as u64);
        Ok(())
    }
}

impl Drop for CpuPages {
    /// Happens in the reader's own thread, as its last act: all that the thread used is known then.
    fn drop(&mut self) {
        self.count_cpu_time();
    }
}
