//! What a guest that records compactly says about itself in descriptive files: names and totals.
//!
//! Text, one thing a line, because it is small and rare. Written by the agent ([`Names::to_meta`],
//! [`logs_to_meta`]), read by the recorder; a line that cannot be read is left out.

use crate::serve::MetaFile;
use std::borrow::Cow;
use transect_model::setting::shortened;

/// Name of the file of threads: lines `TID PID NAME`.
const THREADS: &str = "threads";
/// Name of the file of network devices: lines `IFINDEX NAME`.
const DEVICES: &str = "net_devices";
/// Name of the file of totals, known at the end: lines `CPU SIDE BYTES LOST FIRST LAST SATURATED`.
const LOGS: &str = "logs";

/// Name of the file of stacks, known at the end: notes of the compact format, one a line.
const STACKS: &str = "stacks";

/// Threads that are read; a guest with more has them without names.
const MAX_THREADS: usize = 1 << 16;
/// Devices that are read: as many as compact records can name.
const MAX_DEVICES: usize = 1 << 16;
/// Bytes of a name that are read. A kernel's names of threads are shorter.
const MAX_NAME_BYTES: usize = 64;
/// Logs of one CPU: the main log and two side logs.
pub(crate) const MAX_LOGS_PER_CPU: u64 = 3;
/// Totals that are read.
const MAX_LOGS: usize = 1 << 15;

/// A thread of the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Thread id.
    pub tid: i32,
    /// Its process.
    pub pid: i32,
    /// Its name.
    pub name: String,
}

/// Names that compact records leave out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Threads alive.
    pub threads: Vec<Thread>,
    /// Network devices by `ifindex`.
    pub devices: Vec<(u32, String)>,
    /// Lines of threads and devices that were left out because there are too many.
    pub left_out: usize,
}

impl Names {
    /// As descriptive files.
    pub fn to_meta(&self) -> Vec<MetaFile> {
        let mut threads = String::new();
        for Thread { tid, pid, name } in &self.threads {
            threads.push_str(&format!("{tid} {pid} {}\n", one_line(name)));
        }
        let mut devices = String::new();
        for (index, name) in &self.devices {
            devices.push_str(&format!("{index} {}\n", one_line(name)));
        }
        vec![(THREADS.into(), threads.into_bytes()), (DEVICES.into(), devices.into_bytes())]
    }

    /// From descriptive files; empty if there are none.
    pub fn from_meta(meta: &[MetaFile]) -> Self {
        let threads = lines(meta, THREADS).take(MAX_THREADS).filter_map(|line| {
            let mut parts = line.splitn(3, ' ');
            Some(Thread {
                tid: parts.next()?.parse().ok()?,
                pid: parts.next()?.parse().ok()?,
                name: shortened(parts.next()?, MAX_NAME_BYTES).to_owned(),
            })
        });
        let devices = lines(meta, DEVICES).take(MAX_DEVICES).filter_map(|line| {
            let (index, name) = line.split_once(' ')?;
            Some((index.parse().ok()?, shortened(name, MAX_NAME_BYTES).to_owned()))
        });
        let left_out = lines(meta, THREADS).skip(MAX_THREADS).count()
            + lines(meta, DEVICES).skip(MAX_DEVICES).count();
        Names { threads: threads.collect(), devices: devices.collect(), left_out }
    }
}

/// A thread may be named with a line break in it.
pub(crate) fn one_line(name: &str) -> String {
    name.replace('\n', " ")
}

/// What one log came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogTotals {
    /// The CPU.
    pub cpu: u32,
    /// Which of the CPU's logs: 0 is the main log, else a side log.
    pub side: u8,
    /// Bytes ever written.
    pub bytes: u64,
    /// Events that found no room.
    pub lost: u64,
    /// Stamps of the first and the last of them, ns; 0 if none.
    pub lost_first_ns: u64,
    /// See above.
    pub lost_last_ns: u64,
    /// Values that were too large for their field.
    pub saturated: u64,
}

/// Totals as a descriptive file.
pub fn logs_to_meta(logs: &[LogTotals]) -> MetaFile {
    let mut text = String::new();
    for log in logs {
        text.push_str(&format!(
            "{} {} {} {} {} {} {}\n",
            log.cpu,
            log.side,
            log.bytes,
            log.lost,
            log.lost_first_ns,
            log.lost_last_ns,
            log.saturated
        ));
    }
    (LOGS.into(), text.into_bytes())
}

/// Totals from descriptive files; `None` if there are none: the guest was lost.
pub fn logs_from_meta(meta: &[MetaFile]) -> Option<Vec<LogTotals>> {
    meta.iter().find(|(name, _)| name == LOGS)?;
    let log = |line: &str| {
        let numbers: Option<Vec<u64>> = line.split(' ').map(|part| part.parse().ok()).collect();
        let [cpu, side, bytes, lost, lost_first_ns, lost_last_ns, saturated] = numbers?[..] else {
            return None;
        };
        let (cpu, side) = (u32::try_from(cpu).ok()?, u8::try_from(side).ok()?);
        Some(LogTotals { cpu, side, bytes, lost, lost_first_ns, lost_last_ns, saturated })
    };
    Some(lines(meta, LOGS).take(MAX_LOGS).filter_map(|line| log(&line)).collect())
}

/// Stacks as a descriptive file; none if there are none.
pub fn stacks_to_meta(notes: &[String]) -> Option<MetaFile> {
    (!notes.is_empty()).then(|| (STACKS.into(), notes.join("\n").into_bytes()))
}

/// The notes of stacks from descriptive files. Nothing in them is checked yet.
pub fn stacks_from_meta(meta: &[MetaFile]) -> impl Iterator<Item = Cow<'_, str>> {
    lines(meta, STACKS)
}

/// The lines of a file.
pub(crate) fn lines<'m>(meta: &'m [MetaFile], wanted: &str) -> impl Iterator<Item = Cow<'m, str>> {
    let file = meta.iter().find(|(name, _)| name == wanted);
    let bytes = file.map_or(&[][..], |(_, bytes)| bytes.as_slice());
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(String::from_utf8_lossy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_totals_travel() {
        let names = Names {
            threads: vec![
                Thread { tid: 7, pid: 7, name: "two words".into() },
                Thread { tid: 8, pid: 7, name: String::new() },
                Thread { tid: 9, pid: 9, name: "a\nb".into() },
            ],
            devices: vec![(2, "eth0".into())],
            left_out: 0,
        };
        let mut back = Names::from_meta(&names.to_meta());
        assert_eq!(back.threads.pop().unwrap().name, "a b");
        assert_eq!(back.threads, names.threads[..2]);
        assert_eq!(back.devices, names.devices);
        let logs = [
            LogTotals { cpu: 3, bytes: 1 << 40, lost: 5, lost_first_ns: 1, ..LogTotals::default() },
            LogTotals { side: 1, saturated: 9, ..LogTotals::default() },
        ];
        assert_eq!(logs_from_meta(&[logs_to_meta(&logs)]).unwrap(), logs);
        assert_eq!(logs_from_meta(&[]), None);
    }

    /// A guest can have more threads than are read, and names longer than the kernel's.
    #[test]
    fn names_are_read_up_to_their_bounds() {
        let long = "é".repeat(100);
        let mut text = format!("1 1 {long}\n").into_bytes();
        for tid in 2..MAX_THREADS + 5 {
            text.extend(format!("{tid} 1 x\n").bytes());
        }
        let names = Names::from_meta(&[("threads".to_owned(), text)]);
        assert_eq!((names.threads.len(), names.left_out), (MAX_THREADS, 4));
        assert_eq!(names.threads[0].name, "é".repeat(MAX_NAME_BYTES / 2));
    }

    #[test]
    fn lines_that_are_none_are_left_out() {
        let meta = [
            ("threads".to_owned(), b"1 1 init\nx\n2 y z\n3 3 \xff\n".to_vec()),
            ("logs".to_owned(), b"1 2 3\n\n0 0 8 0 0 0 0\n".to_vec()),
        ];
        let tids: Vec<i32> = Names::from_meta(&meta).threads.iter().map(|t| t.tid).collect();
        assert_eq!(tids, [1, 3]);
        assert_eq!(logs_from_meta(&meta).unwrap().len(), 1);
    }
}
