//! A tracing instance of our own: its buffers, clock, events and triggers, gone when dropped.
//!
//! The global buffer, its clock and its `tracing_on` belong to others; nothing here touches them.

use crate::{CpuStats, TracefsError, files, process::ProcessKey};
use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};
use transect_model::ids::CpuId;

use crate::Tracefs;

/// Instances one process may have at a time; more is a leak.
const MAX_INSTANCES: u32 = 100;
/// How long removing an instance is tried again while its last reader goes away.
const REMOVE_DEADLINE: Duration = Duration::from_secs(2);

/// `tracefs/instances/<prefix>-<pid>-<start ticks>`.
#[derive(Debug)]
pub struct Instance {
    path: PathBuf,
    name: String,
    sub_buffer_bytes: u32,
    /// An open reader makes rmdir(2) by anyone else fail with EBUSY: a recorder in another pid
    /// namespace, which cannot see that this process lives, must not take the instance away.
    hold: Option<fs::File>,
}

impl Instance {
    /// Makes an instance with tracing off.
    pub fn create(tracefs: &Tracefs, prefix: &str) -> Result<Self, TracefsError> {
        let instances = tracefs.path("instances");
        let me = ProcessKey::current().ok_or_else(|| TracefsError::Read {
            path: PathBuf::from("/proc/self/stat"),
            source: io::Error::other("procfs is not mounted; mount -t proc proc /proc"),
        })?;
        let (path, name) =
            make_dir(&instances, &format!("{prefix}-{}-{}", me.pid, me.start_ticks))?;
        let mut instance = Instance { path, name, sub_buffer_bytes: 0, hold: None };
        // A new instance has tracing on (kernel/trace/trace.c, trace_array_create).
        instance.set_tracing(false)?;
        instance.sub_buffer_bytes = sub_buffer_bytes(&tracefs.read("events/header_page")?)
            .ok_or_else(|| TracefsError::Content {
                path: tracefs.path("events/header_page"),
                text: String::new(),
                expected: "a field 'data' with offset and size",
            })?;
        instance.hold = instance.hold_open();
        Ok(instance)
    }

    fn hold_open(&self) -> Option<fs::File> {
        let cpus = fs::read_dir(self.path.join("per_cpu")).ok()?;
        cpus.flatten().find_map(|cpu| fs::File::open(cpu.path().join("trace_pipe_raw")).ok())
    }

    /// Its name under `instances/`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Size of one sub-buffer of its ring buffers, header included.
    pub fn sub_buffer_bytes(&self) -> u32 {
        self.sub_buffer_bytes
    }

    fn set(&self, file: &str, value: &str, mend: &str) -> Result<(), TracefsError> {
        files::write(&self.path.join(file), value, mend)
    }

    /// Sets the clock that stamps events; clears the buffers.
    pub fn set_clock(&self, clock: &str) -> Result<(), TracefsError> {
        self.set(
            "trace_clock",
            clock,
            "see trace_clock in tracefs for the clocks that this kernel offers",
        )
    }

    /// Sets the size of each CPU's buffer.
    pub fn set_buffer_kb_per_cpu(&self, kb: u64) -> Result<(), TracefsError> {
        self.set(
            "buffer_size_kb",
            &kb.to_string(),
            "choose a smaller --buffer-size (allocated once per CPU), or free memory",
        )
    }

    /// The size the kernel gave each CPU's buffer, KiB.
    pub fn buffer_kb_per_cpu(&self) -> Result<u64, TracefsError> {
        let path = self.path.join("buffer_size_kb");
        let text = files::read_text(&path)?;
        // "7 (expanded: 1408)" before anything was enabled.
        let word = text.split_ascii_whitespace().next().unwrap_or_default();
        word.parse().map_err(|_| TracefsError::Content {
            path,
            text: text.trim().to_owned(),
            expected: "a number of KiB, the same for every CPU",
        })
    }

    /// How full a buffer must be before a waiting reader is woken, percent. Kernels before 4.20
    /// do not know it and wake at every page, which costs more but loses nothing.
    pub fn set_wakeup_percent(&self, percent: u8) {
        let _ = files::write_raw(&self.path.join("buffer_percent"), &percent.to_string());
    }

    /// Enables one event, or with `event` none every event of the system.
    pub fn enable(&self, system: &str, event: Option<&str>) -> Result<(), TracefsError> {
        let file = match event {
            Some(event) => format!("events/{system}/{event}/enable"),
            None => format!("events/{system}/enable"),
        };
        self.set(&file, "1", "the kernel may be locked down, or out of memory for its buffers")
    }

    /// Disables every event.
    pub fn disable_all(&self) -> Result<(), TracefsError> {
        self.set("events/enable", "0", "")
    }

    /// Sets the filter of one event.
    ///
    /// # Errors
    /// [`TracefsError::Expression`] with the kernel's own explanation.
    pub fn set_filter(&self, system: &str, event: &str, filter: &str) -> Result<(), TracefsError> {
        let file = self.path.join(format!("events/{system}/{event}/filter"));
        files::write_raw(&file, filter).map_err(|source| {
            let kernel = files::read_text(&file).unwrap_or_default();
            self.expression_error("filter", system, event, filter, source, kernel)
        })
    }

    /// Sets a trigger on one event (`traceoff if …`).
    pub fn set_trigger(
        &self,
        system: &str,
        event: &str,
        trigger: &str,
    ) -> Result<(), TracefsError> {
        let file = self.path.join(format!("events/{system}/{event}/trigger"));
        files::write_raw(&file, trigger).map_err(|source| {
            let kernel = last_error(&self.path).unwrap_or_default();
            self.expression_error("trigger", system, event, trigger, source, kernel)
        })
    }

    fn expression_error(
        &self,
        what: &'static str,
        system: &str,
        event: &str,
        expression: &str,
        source: io::Error,
        kernel: String,
    ) -> TracefsError {
        if source.kind() != io::ErrorKind::InvalidInput {
            return TracefsError::Setting {
                path: self.path.join(format!("events/{system}/{event}/{what}")),
                value: expression.to_owned(),
                source,
                mend: String::new(),
            };
        }
        let fields = fields_of(&self.path.join(format!("events/{system}/{event}/format")));
        let kernel = format!("{}\nfields of this event: {fields}", kernel.trim_end());
        TracefsError::Expression {
            what,
            event: format!("{system}:{event}"),
            expression: expression.to_owned(),
            kernel,
        }
    }

    /// Switches recording into the buffers on or off.
    pub fn set_tracing(&self, on: bool) -> Result<(), TracefsError> {
        self.set("tracing_on", if on { "1" } else { "0" }, "")
    }

    /// Is recording on? A `traceoff` trigger switches it off.
    pub fn is_tracing(&self) -> Result<bool, TracefsError> {
        Ok(files::read_text(&self.path.join("tracing_on"))?.trim() == "1")
    }

    /// What the kernel counted for one CPU.
    pub fn cpu_stats(&self, cpu: CpuId) -> Result<CpuStats, TracefsError> {
        let path = self.path.join(format!("per_cpu/cpu{cpu}/stats"));
        Ok(CpuStats::parse(&files::read_text(&path)?))
    }

    /// Removes the instance. Its readers must be closed.
    pub fn remove(mut self) -> Result<(), TracefsError> {
        self.remove_now()
    }

    fn remove_now(&mut self) -> Result<(), TracefsError> {
        self.hold = None;
        if self.name.is_empty() {
            return Ok(());
        }
        self.name.clear();
        remove_dir(&self.path, REMOVE_DEADLINE)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // On an error path that has its own message; a leftover is removed at the next start.
        let _ = self.remove_now();
    }
}

/// Makes the instance under its plain name, or with a suffix where this process has others.
fn make_dir(instances: &Path, plain: &str) -> Result<(PathBuf, String), TracefsError> {
    let mut suffix = 1;
    let mut name = plain.to_owned();
    loop {
        let path = instances.join(&name);
        match fs::create_dir(&path) {
            Ok(()) => return Ok((path, name)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && suffix < MAX_INSTANCES => {
                suffix += 1;
                name = format!("{plain}-{suffix}");
            }
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                return Err(TracefsError::Permission(path));
            }
            Err(source) => {
                return Err(TracefsError::Setting {
                    path,
                    value: "mkdir".to_owned(),
                    source,
                    mend: "; if the error is out of memory, end other recordings (transect stop)"
                        .to_owned(),
                });
            }
        }
    }
}

pub(crate) fn remove_dir(path: &Path, patience: Duration) -> Result<(), TracefsError> {
    let start = Instant::now();
    loop {
        match fs::remove_dir(path) {
            Ok(()) => return Ok(()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy && start.elapsed() < patience => {
                thread::sleep(Duration::from_millis(10));
            }
            Err(source) => return Err(TracefsError::Remove { path: path.to_owned(), source }),
        }
    }
}

/// Sub-buffer size from `events/header_page`: where `data` starts plus its size.
fn sub_buffer_bytes(header_page: &str) -> Option<u32> {
    let line = header_page.lines().find(|l| l.contains(" data;"))?;
    let number = |key: &str| {
        line.split(';').find_map(|part| part.trim().strip_prefix(key)?.parse::<u32>().ok())
    };
    number("offset:")?.checked_add(number("size:")?)
}

/// The last entry of `error_log`: the line that names the error, and the caret below it.
fn last_error(instance: &Path) -> Option<String> {
    let log = files::read_text(&instance.join("error_log")).ok()?;
    // Entries start with a time stamp: "[ 3142.619436] event filter parse error: …".
    let start = log.rfind("\n[").map_or(0, |newline| newline + 1);
    log[start..].starts_with('[').then(|| log[start..].trim_end().to_owned())
}

fn fields_of(format: &Path) -> String {
    let text = files::read_text(format).unwrap_or_default();
    let names = text.lines().filter_map(|line| {
        let declaration = line.trim().strip_prefix("field:")?.split(';').next()?;
        let name = declaration.rsplit([' ', '*']).next()?;
        Some(name.split('[').next().unwrap_or(name))
    });
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_page_gives_the_sub_buffer_size() {
        let text = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
                    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
                    \tfield: char data;\toffset:16;\tsize:65520;\tsigned:0;\n";
        assert_eq!(sub_buffer_bytes(text), Some(65536));
        assert_eq!(sub_buffer_bytes("\tfield: char data;\toffset:16;"), None);
    }
}
