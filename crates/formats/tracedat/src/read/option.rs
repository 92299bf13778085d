//! Options: small facts about the recording, each with a number and a size.

use super::cursor::{Cursor, Cut};
use crate::timing::{ShiftSample, TimeShift, Tsc2Nsec};
use transect_ftrace::Endian;

/// Numbers of the options (trace-cmd.dat.v7(5)); in version 7 most are section numbers too.
#[expect(missing_docs, reason = "the names are the file format's")]
pub mod id {
    pub const DONE: u16 = 0;
    pub const DATE: u16 = 1;
    pub const CPUSTAT: u16 = 2;
    pub const BUFFER: u16 = 3;
    pub const TRACECLOCK: u16 = 4;
    pub const UNAME: u16 = 5;
    pub const HOOK: u16 = 6;
    pub const OFFSET: u16 = 7;
    pub const CPUCOUNT: u16 = 8;
    pub const VERSION: u16 = 9;
    pub const PROCMAPS: u16 = 10;
    pub const TRACEID: u16 = 11;
    pub const TIME_SHIFT: u16 = 12;
    pub const GUEST: u16 = 13;
    pub const TSC2NSEC: u16 = 14;
    pub const STRINGS: u16 = 15;
    pub const HEADER_INFO: u16 = 16;
    pub const FTRACE_EVENTS: u16 = 17;
    pub const EVENT_FORMATS: u16 = 18;
    pub const KALLSYMS: u16 = 19;
    pub const PRINTK: u16 = 20;
    pub const CMDLINES: u16 = 21;
    pub const BUFFER_TEXT: u16 = 22;
}

/// Name of an option or section for messages.
pub(crate) fn name(id: u16) -> &'static str {
    const NAMES: [&str; 23] = [
        "OPTIONS",
        "DATE",
        "CPUSTAT",
        "BUFFER",
        "TRACECLOCK",
        "UNAME",
        "HOOK",
        "OFFSET",
        "CPUCOUNT",
        "VERSION",
        "PROCMAPS",
        "TRACEID",
        "TIME_SHIFT",
        "GUEST",
        "TSC2NSEC",
        "STRINGS",
        "HEADER_INFO",
        "FTRACE_EVENTS",
        "EVENT_FORMATS",
        "KALLSYMS",
        "PRINTK",
        "CMDLINES",
        "BUFFER_TEXT",
    ];
    NAMES.get(usize::from(id)).copied().unwrap_or("of unknown number")
}

/// A guest whose own file belongs to this host's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guest {
    /// Name (trace-cmd: the VM's, or its CID).
    pub name: String,
    /// TRACEID of the guest's file.
    pub trace_id: u64,
    /// (guest CPU, host thread that runs it).
    pub cpus: Vec<(u32, i32)>,
}

/// What the kernel said about one CPU's buffer when recording ended (`per_cpu/cpuN/stats`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuStat {
    /// The CPU.
    pub cpu: u32,
    /// Events left unread in the buffer.
    pub entries: u64,
    /// Events overwritten because nobody read them in time (lost in overwrite mode).
    pub overrun: u64,
    /// Events lost because a writer interrupted another through a whole buffer.
    pub commit_overrun: u64,
    /// Events lost because the buffer was full (producer/consumer mode).
    pub dropped_events: u64,
    /// Events read out.
    pub read_events: u64,
    /// The text.
    pub text: String,
}

impl CpuStat {
    /// Reads the kernel's text; lines that are missing or odd count as 0.
    pub fn parse(text: &str) -> Self {
        let number = |key: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
            value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
        };
        CpuStat {
            cpu: u32::try_from(number("CPU")).unwrap_or(0),
            entries: number("entries"),
            overrun: number("overrun"),
            commit_overrun: number("commit overrun"),
            dropped_events: number("dropped events"),
            read_events: number("read events"),
            text: text.to_owned(),
        }
    }

    /// Events the kernel says it lost on this CPU.
    pub fn lost(&self) -> u64 {
        self.overrun.saturating_add(self.commit_overrun).saturating_add(self.dropped_events)
    }
}

/// The options of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// DATE: difference between trace time and the time of day, microseconds as hexadecimal text.
    pub date: Option<String>,
    /// OFFSET: added to every stamp, nanoseconds as text.
    pub offset: Option<String>,
    /// CPUSTAT, in the file's order. Instances' statistics follow the top buffer's.
    pub cpu_stats: Vec<CpuStat>,
    /// TRACECLOCK: the kernel's list of clocks, the one in use in brackets.
    pub trace_clock: Option<String>,
    /// UNAME of the traced machine.
    pub uname: Option<String>,
    /// HOOK: event pairings (`trace-cmd record --hook`).
    pub hooks: Vec<String>,
    /// CPUCOUNT of the traced machine.
    pub cpu_count: Option<u32>,
    /// VERSION of the program that wrote the file.
    pub version: Option<String>,
    /// PROCMAPS: memory maps of filtered processes.
    pub proc_maps: Vec<String>,
    /// TRACEID of this recording, by which host and guest files find each other.
    pub trace_id: Option<u64>,
    /// TIME_SHIFT: this is a guest's file, and how its time relates to the host's.
    pub time_shift: Option<TimeShift>,
    /// GUEST: files of guests recorded with this one.
    pub guests: Vec<Guest>,
    /// TSC2NSEC.
    pub tsc2nsec: Option<Tsc2Nsec>,
    /// Options this codec has no meaning for: number and size in bytes.
    pub unknown: Vec<(u16, usize)>,
}

impl Options {
    /// Clock in use according to TRACECLOCK (`local … [x86-tsc]`).
    pub fn clock(&self) -> Option<&str> {
        bracketed(self.trace_clock.as_deref()?)
    }

    /// Sum of the DATE and OFFSET options, nanoseconds; text that is no number counts as 0, as
    /// trace-cmd has it.
    pub fn offset_ns(&self) -> i64 {
        let number = |text: &Option<String>| text.as_deref().map_or(0, parse_c_integer);
        number(&self.date).wrapping_mul(1000).wrapping_add(number(&self.offset))
    }

    /// Takes an option in; `false` if its number is not one of those kept here.
    pub(crate) fn add(&mut self, id: u16, data: &[u8], endian: Endian) -> Result<bool, Cut> {
        let text = || String::from_utf8_lossy(until_zero(data)).into_owned();
        let mut cursor = Cursor::new(data, 0, endian);
        match id {
            id::DATE => self.date = Some(text()),
            id::OFFSET => self.offset = Some(text()),
            id::CPUSTAT => self.cpu_stats.push(CpuStat::parse(&text())),
            id::TRACECLOCK => self.trace_clock = Some(text()),
            id::UNAME => self.uname = Some(text()),
            id::HOOK => self.hooks.push(text()),
            id::CPUCOUNT => self.cpu_count = Some(cursor.u32("CPU count")?),
            id::VERSION => self.version = Some(text()),
            id::PROCMAPS => self.proc_maps.push(text()),
            id::TRACEID => self.trace_id = Some(cursor.u64("trace id")?),
            id::TIME_SHIFT => self.time_shift = Some(time_shift(&mut cursor)?),
            id::GUEST => self.guests.push(guest(&mut cursor)?),
            id::TSC2NSEC => {
                self.tsc2nsec = Some(Tsc2Nsec {
                    mult: cursor.u32("multiplier")?,
                    shift: cursor.u32("shift")?,
                    offset_ns: cursor.u64("offset")?,
                });
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

pub(crate) fn until_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|b| *b == 0).next().unwrap_or_default()
}

/// `mono [x86-tsc] tai` → `x86-tsc`.
pub(crate) fn bracketed(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    rest.split_once(']').map(|(name, _)| name)
}

/// What C's `strtoll(text, NULL, 0)` makes of it.
fn parse_c_integer(text: &str) -> i64 {
    let text = text.trim_start();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (radix, digits) = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        Some(hex) => (16, hex),
        None if digits.len() > 1 && digits.starts_with('0') => (8, digits),
        None => (10, digits),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let magnitude = i64::from_str_radix(&digits[..end], radix).unwrap_or(0);
    if negative { -magnitude } else { magnitude }
}

fn time_shift(cursor: &mut Cursor<'_>) -> Result<TimeShift, Cut> {
    let peer_trace_id = cursor.u64("peer's trace id")?;
    let flags = cursor.u32("protocol flags")?;
    let count = cursor.u32("CPU count")?;
    let mut cpus = Vec::new();
    for _ in 0..count {
        let samples = u64::from(cursor.u32("sample count")?);
        // Three columns of 8 bytes must follow, which bounds what a wrong count can cost.
        let mut columns =
            Cursor::new(cursor.take(samples.saturating_mul(24), "samples")?, 0, cursor.endian);
        let mut list = Vec::new();
        for _ in 0..samples {
            let time = columns.u64("sample time")?;
            list.push(ShiftSample { time, offset: 0, scaling: 1, fraction: 0 });
        }
        for sample in &mut list {
            sample.offset = columns.u64("sample offset")?.cast_signed();
        }
        for sample in &mut list {
            sample.scaling = columns.u64("sample scaling")?;
        }
        cpus.push(list);
    }
    // Fractions were appended later (trace-cmd 3.0): absent in older files.
    if !cursor.is_at_end() {
        for sample in cpus.iter_mut().flatten() {
            sample.fraction = cursor.u64("sample fraction")?;
        }
    }
    for list in &mut cpus {
        list.sort_by_key(|sample| sample.time.cast_signed());
        list.dedup_by_key(|sample| sample.time);
    }
    Ok(TimeShift { peer_trace_id, flags, cpus })
}

fn guest(cursor: &mut Cursor<'_>) -> Result<Guest, Cut> {
    let name = cursor.string("guest name")?;
    let trace_id = cursor.u64("guest trace id")?;
    let count = cursor.u32("guest CPU count")?;
    let mut cpus = Vec::new();
    for _ in 0..count {
        let cpu = cursor.u32("guest CPU")?;
        cpus.push((cpu, cursor.u32("host thread")?.cast_signed()));
    }
    Ok(Guest { name, trace_id, cpus })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_c_reads_them() {
        assert_eq!(parse_c_integer("0x10"), 16);
        assert_eq!(parse_c_integer(" -12x"), -12);
        assert_eq!(parse_c_integer("010"), 8);
        assert_eq!(parse_c_integer("0"), 0);
        assert_eq!(parse_c_integer("soon"), 0);
    }

    #[test]
    fn a_wrong_count_costs_nothing() {
        let mut data = vec![0; 12];
        data.extend(1u32.to_le_bytes());
        data.extend(u32::MAX.to_le_bytes());
        let mut options = Options::default();
        assert!(options.add(id::TIME_SHIFT, &data, Endian::Little).is_err());
        assert!(options.add(id::GUEST, b"web\0\0\0", Endian::Little).is_err());
        assert_eq!(options.add(99, b"", Endian::Little), Ok(false));
    }

    #[test]
    fn clock_in_brackets() {
        let options =
            Options { trace_clock: Some("local global [x86-tsc] tai\n".into()), ..<_>::default() };
        assert_eq!(options.clock(), Some("x86-tsc"));
    }
}
