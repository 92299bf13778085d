//! What a figure was measured on.

use procfs::{CpuInfo, Current as _, Meminfo};
use serde::Serialize;

/// A machine, as far as it matters for reading figures.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// What the CPU says of itself.
    pub cpu: String,
    /// CPUs online.
    pub cpus: usize,
    /// Memory in GiB.
    pub memory_gib: f64,
    /// Kernel release.
    pub kernel: String,
    /// Versions of the peers found here.
    pub peers: Vec<String>,
    /// Commit of this tree, if it is one.
    pub commit: String,
    /// When, in seconds since 1970.
    pub unix_s: u64,
}

impl Machine {
    /// This one.
    #[must_use]
    pub fn here() -> Self {
        let uname = rustix::system::uname();
        Self {
            cpu: cpu_model().unwrap_or_default(),
            cpus: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory_gib: memory_gib().unwrap_or(0.0),
            kernel: uname.release().to_string_lossy().into_owned(),
            peers: peers(),
            commit: first_line(&["git", "rev-parse", "--short", "HEAD"]).unwrap_or_default(),
            unix_s: std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
        }
    }
}

fn cpu_model() -> Option<String> {
    Some(CpuInfo::current().ok()?.model_name(0)?.to_owned())
}

#[expect(clippy::cast_precision_loss, reason = "gigabytes for people")]
fn memory_gib() -> Option<f64> {
    let bytes = Meminfo::current().ok()?.mem_total as f64;
    Some((bytes / f64::from(1 << 30) * 10.0).round() / 10.0)
}

fn peers() -> Vec<String> {
    let commands: [&[&str]; 5] = [
        &["perf", "--version"],
        &["bpftrace", "--version"],
        &["trace-cmd", "--version"],
        &["babeltrace2", "--version"],
        &["zstd", "--version"],
    ];
    commands.iter().filter_map(|words| first_line(words)).collect()
}

fn first_line(words: &[&str]) -> Option<String> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let said = crate::bed::output(&words).ok()?;
    Some(said.lines().find(|line| !line.trim().is_empty())?.trim().to_owned())
}
