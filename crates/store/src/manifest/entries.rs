//! What a manifest has.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use transect_model::ids::{CpuId, MachineId, MachineKind, Tid, VcpuId};
use transect_model::setting::{CgroupSettings, SchedPolicy, ThreadSettings};

/// Version of the directory's layout. A reader refuses a higher one.
pub const FORMAT: u32 = 1;

/// Everything about a recording that is not in its sources.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the layout: [`FORMAT`].
    pub format: u32,
    /// Version of the transect that wrote it.
    pub transect: String,
    /// When recording began: nanoseconds since 1970, UTC.
    pub created_unix_ns: u64,
    /// The command line, word by word.
    #[serde(default)]
    pub command_line: Vec<String>,
    /// Process that records (or recorded).
    #[serde(default)]
    pub recorder_pid: Option<i32>,
    /// When that process was started, in clock ticks since boot: pids are used again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorder_start_ticks: Option<u64>,
    /// False while recording, and for ever if the recorder was killed.
    pub finished: bool,
    /// Why recording ended (duration, interrupt, command ended, disk full, …).
    #[serde(default)]
    pub ended_by: Option<String>,
    /// Every machine observed, densely numbered: entry `i` has id `i`, and comes after the machine it runs on. 0 is
    /// the host, or under Xen the hypervisor, and then 1 is dom0.
    #[serde(default)]
    pub machines: Vec<MachineEntry>,
    /// One entry per file of events.
    #[serde(default)]
    pub sources: Vec<SourceEntry>,
    /// Stretches in which a machine could not be recorded.
    #[serde(default)]
    pub gaps: Vec<Gap>,
    /// Events lost per CPU, as the kernel counted.
    #[serde(default)]
    pub lost: Vec<LostCount>,
    /// CPUs whose last events were recorded and not kept: behind the last one that was, nothing is known of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_kept: Vec<NotKept>,
    /// Threads known from procfs rather than from events.
    #[serde(default)]
    pub threads: Vec<ThreadEntry>,
    /// Interrupt lines when recording began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub irq_lines: Vec<IrqLineEntry>,
    /// Control groups with threads, and those above them, when recording began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cgroups: Vec<CgroupEntry>,
    /// The CPUs of the recorded kernel that were online when recording began; empty where that is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub online: Vec<CpuId>,
    /// What was enabled: `system:event`, with its filter if any.
    #[serde(default)]
    pub events: Vec<String>,
    /// Which threads and intervals were recorded; none: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<FilterEntry>,
    /// From when to when the recorder of the host recorded: raw, on the host's trace clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<(u64, u64)>,
    /// Is it a flight recorder's snapshot? Then its window is not that of its events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotEntry>,
    /// What recording cost.
    #[serde(default)]
    pub cost: Option<Cost>,
    /// What was inferred or could not be done, for people.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Is it a part of another recording? Then it has tables and no sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excerpt: Option<Excerpt>,
    /// Every other file as it was when the recording was finished, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, FileEntry>,
}

/// A file of a finished recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Its length.
    pub bytes: u64,
    /// CRC-32 of its last 4,096 bytes, of a file whose format has checksums of its own: another such file in its place
    /// has another end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<u32>,
    /// Of a trace.dat, the ranges that hold nothing but events: begin and end. Damage there costs events; anywhere
    /// else it makes all of them doubtful.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<(u64, u64)>,
    /// Of a compact file, its logs: CPU, 0 for the main log, and a stamp before which it has no event. A damaged file can
    /// lack all blocks of one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<(CpuId, u8, u64)>,
    /// Of a source, the stamps of its first and its last event, raw: without the file, the recording still has the
    /// same window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<(u64, u64)>,
}

/// A stretch of another recording's time: its tables of that stretch, and nothing they were made of.
/// Everything else in the manifest is that recording's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Excerpt {
    /// The name of the recording.
    pub of: String,
    /// First moment, of trace time. Of an excerpt that was taken from the recording's very beginning,
    /// the window's start: rows may begin before it.
    pub from: i64,
    /// First moment behind; the window's end where it goes to the very end.
    pub until: i64,
    /// What one unit of trace time is: `ns`, or `ticks` where the recording does not tell how long
    /// one is.
    pub unit: String,
    /// Version of the transect that took it.
    pub transect: String,
    /// When: nanoseconds since 1970, UTC.
    pub made_unix_ns: u64,
    /// Events in it, all machines.
    pub events: u64,
}

/// The filter that the recorder of a host applied. A thread passes if it matches any condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilterEntry {
    /// The filter as it was given: `pid=4711, dur>=10us`.
    pub text: String,
    /// Threads.
    #[serde(default)]
    pub tids: Vec<Tid>,
    /// Processes; a VM is the process of its VMM.
    #[serde(default)]
    pub pids: Vec<Tid>,
    /// A control group, with all below it.
    #[serde(default)]
    pub cgroup: Option<String>,
    /// Threads, and processes by their first thread, that were moved to another group while recording.
    #[serde(default)]
    pub moved: Vec<Tid>,
    /// Is it by thread, and not known which threads it let through?
    #[serde(default)]
    pub uncertain: bool,
    /// Intervals shorter than this were not recorded, ns.
    #[serde(default)]
    pub min_ns: u64,
}

/// What a snapshot covers. Stamps are raw, on the host's trace clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotEntry {
    /// Why it was taken: `requested`, `trigger`, …
    pub reason: String,
    /// Start of the window that was asked for; none: the window begins where the events of all CPUs do.
    #[serde(default)]
    pub from: Option<u64>,
    /// When the recorder stopped writing events for it; none: with the last event.
    #[serde(default)]
    pub to: Option<u64>,
    /// The length of the window that was asked for, ns; none: what all CPUs cover, or everything.
    #[serde(default)]
    pub asked_ns: Option<u64>,
}

/// One machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MachineEntry {
    /// Its number; equals its place in [`Manifest::machines`].
    pub id: MachineId,
    /// The machine it runs on; none for the host, and for a hypervisor.
    #[serde(default)]
    pub parent: Option<MachineId>,
    /// Host, guest, …
    pub kind: MachineKind,
    /// The VM's name, or the host's node name.
    pub name: String,
    /// Process of its VMM on the parent.
    #[serde(default)]
    pub vmm_pid: Option<Tid>,
    /// Control group of the VMM on the parent.
    #[serde(default)]
    pub cgroup: Option<String>,
    /// Its domain's number under Xen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domid: Option<u32>,
    /// `uname -a`-like text of its kernel, where known; of a hypervisor its name and version, `Xen 4.17`.
    #[serde(default)]
    pub uname: Option<String>,
    /// How many CPUs it has, where known.
    #[serde(default)]
    pub cpu_count: Option<u32>,
    /// The clock its own events are stamped with (`x86-tsc`, `mono`, …); none if only seen from
    /// outside.
    #[serde(default)]
    pub clock: Option<String>,
    /// Its vCPUs and the parent's threads that run them.
    #[serde(default)]
    pub vcpus: Vec<VcpuEntry>,
}

/// A vCPU and the thread that runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VcpuEntry {
    /// As KVM numbers it.
    pub vcpu: VcpuId,
    /// The parent's thread; none if it could not be found.
    pub vmm_tid: Option<Tid>,
}

/// The form of a source's file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceFormat {
    /// trace.dat v7 (full collector): `<stem>.dat` once assembled, `<stem>.cpu<N>.raw` and
    /// `<stem>.meta/` before.
    #[default]
    TraceDat,
    /// The compact collector's file, `<stem>.compact`, written in its final form from the start.
    Compact,
    /// What Xen's xentrace wrote, `<stem>.bin`, as it came.
    Xentrace,
}

/// One file of events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceEntry {
    /// The machine whose kernel wrote them.
    pub machine_id: MachineId,
    /// The file, relative to the directory: `host.compact`, `guest-web1.dat`.
    pub file: String,
    /// Its form.
    #[serde(default)]
    pub format: SourceFormat,
    /// Is it still in spools (being recorded, killed, or the disk was full at the end)?
    #[serde(default)]
    pub spooled: bool,
    /// The trace clock of its stamps.
    pub clock: String,
    /// How ticks become nanoseconds, if the clock counts ticks.
    #[serde(default)]
    pub tsc_to_ns: Option<TscToNs>,
    /// Size of one sub-buffer (ring-buffer page, header included); in compact files, of a chunk; 0 in
    /// xentrace files.
    pub sub_buffer_bytes: u32,
    /// CPUs of the machine: ids are below it.
    pub cpu_count: u32,
    /// `sizeof(long)` of the kernel.
    #[serde(default = "eight")]
    pub long_bytes: u8,
    /// Byte order of the kernel.
    #[serde(default)]
    pub big_endian: bool,
    /// Identity that pairs host and guest files for trace-cmd.
    #[serde(default)]
    pub trace_id: u64,
    /// Node name, kernel release, version and hardware, as `uname -snrvm` prints.
    #[serde(default)]
    pub uname: String,
}

fn eight() -> u8 {
    8
}

impl SourceEntry {
    /// The file name without its suffix: the stem of the spools' names too.
    pub fn stem(&self) -> &str {
        let suffix = match self.format {
            SourceFormat::TraceDat => ".dat",
            SourceFormat::Compact => ".compact",
            SourceFormat::Xentrace => ".bin",
        };
        self.file.strip_suffix(suffix).unwrap_or(&self.file)
    }
}

/// `ns = ((ticks * mult) >> shift) + offset_ns`, as perf and trace-cmd do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TscToNs {
    /// Multiplier.
    pub mult: u32,
    /// Right shift, in bits.
    pub shift: u32,
    /// Added after the shift, ns (wraps: the kernel's is a u64).
    pub offset_ns: u64,
}

/// A stretch without events of a machine that was to be recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// The machine.
    pub machine_id: MachineId,
    /// Its first stamp, raw on the *host's* trace clock; none: from the start.
    pub from: Option<u64>,
    /// Its last stamp, raw on the host's trace clock; none: to the end.
    pub to: Option<u64>,
    /// guest_disconnected, guest_stalled, guest_cut_off, guest_not_started, snapshot, disk_full, …
    pub cause: String,
}

/// Events a CPU's buffer lost, by the kernel's own count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostCount {
    /// The machine.
    pub machine_id: MachineId,
    /// The CPU.
    pub cpu: CpuId,
    /// Overwritten (`overrun`) and not written for want of room (`dropped events`, `commit
    /// overrun`), together.
    pub count: u64,
}

/// Events of a CPU that a recorder counted and could not keep: all of them are behind the last one kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotKept {
    /// The machine.
    pub machine_id: MachineId,
    /// The CPU.
    pub cpu: CpuId,
    /// How many; none where they were not counted.
    pub count: Option<u64>,
    /// `disk_full`, or `not_written` for any other failure of the recorder.
    pub cause: String,
}

/// A thread known from procfs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadEntry {
    /// Its machine.
    pub machine_id: MachineId,
    /// Thread id.
    pub tid: Tid,
    /// Process id.
    pub pid: Tid,
    /// Name.
    pub comm: String,
    /// Control group of its process.
    #[serde(default)]
    pub cgroup: Option<String>,
    /// In a snapshot: when it was created, at the latest, if it lived when the snapshot was taken;
    /// raw, on the host's trace clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub born: Option<u64>,
    /// The online CPUs on which it was allowed to run when it was seen first, as a list (`0-3,8`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_cpus: Option<String>,
    /// Its scheduling policy then: a word of `transect_model::setting::SchedPolicy`. A reader ignores other words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Its nice value then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nice: Option<i32>,
    /// Its real-time priority then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rt_priority: Option<u32>,
}

impl ThreadEntry {
    /// How the thread was scheduled.
    pub fn settings(&self) -> ThreadSettings {
        ThreadSettings {
            allowed_cpus: self.allowed_cpus.clone(),
            policy: self.policy.as_deref().and_then(SchedPolicy::from_word),
            nice: self.nice,
            rt_priority: self.rt_priority,
        }
    }

    /// The entry with how the thread is scheduled.
    #[must_use]
    pub fn with_settings(self, settings: &ThreadSettings) -> Self {
        ThreadEntry {
            allowed_cpus: settings.allowed_cpus.clone(),
            policy: settings.policy.map(|policy| policy.as_str().to_owned()),
            nice: settings.nice,
            rt_priority: settings.rt_priority,
            ..self
        }
    }
}

/// An interrupt line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IrqLineEntry {
    /// Its machine.
    pub machine_id: MachineId,
    /// Its number.
    pub irq: i32,
    /// The names of its handlers, as `/proc/interrupts` prints them.
    pub name: String,
}

/// A control group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupEntry {
    /// Its machine.
    pub machine_id: MachineId,
    /// Its path, as in [`ThreadEntry::cgroup`].
    pub cgroup: String,
    /// Its limits.
    #[serde(flatten)]
    pub settings: CgroupSettings,
}

/// What recording cost the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// Tracing was on for this long, ns.
    pub wall_ns: u64,
    /// User CPU time of all of transect's threads, ns.
    pub cpu_user_ns: u64,
    /// System CPU time of all of transect's threads, ns (the tracepoints' own cost is the traced
    /// threads', not counted here).
    pub cpu_sys_ns: u64,
    /// Of both together, what was spent while tracing was on, ns: what disturbed the recording.
    /// The rest is setting up, naming threads and assembling files.
    #[serde(default)]
    pub traced_cpu_ns: u64,
    /// Bytes of events written.
    pub bytes: u64,
    /// Events recorded, all machines.
    pub events: u64,
    /// Events lost, all machines.
    pub lost: u64,
}

impl Manifest {
    /// A manifest for a recording that starts now.
    pub fn new(created_unix_ns: u64, command_line: Vec<String>) -> Self {
        Manifest {
            format: FORMAT,
            transect: env!("CARGO_PKG_VERSION").to_owned(),
            created_unix_ns,
            command_line,
            recorder_pid: i32::try_from(std::process::id()).ok(),
            ..Manifest::default()
        }
    }

    /// Adds a machine and returns its id; the entry's own `id` is set to it.
    pub fn add_machine(&mut self, mut entry: MachineEntry) -> MachineId {
        // A recording of 2^32 machines does not fit any memory; the fallback is never taken.
        let id = MachineId(u32::try_from(self.machines.len()).unwrap_or(u32::MAX));
        entry.id = id;
        self.machines.push(entry);
        id
    }
}
