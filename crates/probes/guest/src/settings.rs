//! What the scheduler and the interrupts of a guest are set to, in descriptive files (version 3).
//!
//! Text, one thing a line, with `-` for a value that is not known. The agent writes the files
//! ([`irq_lines_to_meta`], [`cgroups_to_meta`], [`tasks_to_meta`]) for both collectors; the recorder reads them within
//! bounds ([`GuestSettings::from_meta`]). A line that cannot be read is left out.

use crate::{
    describe::{lines, one_line},
    proto::{CGROUPS, IRQ_LINES, TASKS},
    serve::MetaFile,
};
use std::str::{FromStr, SplitN};
use transect_model::{
    setting::{
        CgroupSettings, MAX_CGROUPS, MAX_IRQ_LINES, MAX_IRQ_NAME_BYTES, SchedPolicy,
        ThreadSettings, checked_cpu_list, shortened,
    },
    untrusted::Untrusted,
};

/// Threads that are read.
const MAX_TASKS: usize = 1 << 16;
/// Bytes of a file that an agent sends: all files together must stay far below what a recorder takes
/// ([`Bounds::meta_bytes`](crate::bounds::Bounds::meta_bytes)).
const MAX_FILE_BYTES: usize = 4 << 20;
/// Bytes of a thread's name that are read.
const MAX_NAME_BYTES: usize = 64;
/// Bytes of a control group's path: `PATH_MAX`. A path cut short would be another group's.
const MAX_PATH_BYTES: usize = 4096;

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Thread id.
    pub tid: i32,
    /// Its process.
    pub pid: i32,
    /// Its name.
    pub name: Untrusted<String>,
    /// How it is scheduled.
    pub settings: ThreadSettings,
    /// Its control group, as an index of [`GuestSettings::cgroups`].
    pub cgroup: Option<usize>,
}

/// A thread as the agent describes it.
#[derive(Clone, Copy, Debug)]
pub struct OwnTask<'a> {
    /// Thread id.
    pub tid: i32,
    /// Its process.
    pub pid: i32,
    /// Its name.
    pub name: &'a str,
    /// How it is scheduled.
    pub settings: &'a ThreadSettings,
    /// The number of its control group among those of [`cgroups_to_meta`].
    pub cgroup: Option<usize>,
}

/// What a guest says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuestSettings {
    /// Interrupt lines and the names of their handlers.
    pub irq_lines: Vec<(i32, Untrusted<String>)>,
    /// Control groups by their paths; none where a line could not be read.
    pub cgroups: Vec<Option<(Untrusted<String>, CgroupSettings)>>,
    /// Threads.
    pub tasks: Vec<Task>,
}

/// Interrupt lines as a descriptive file: lines `IRQ NAME`.
pub fn irq_lines_to_meta<'a>(lines: impl IntoIterator<Item = (i32, &'a str)>) -> MetaFile {
    let line = |(irq, name): (i32, &str)| format!("{irq} {}\n", one_line(name));
    file(IRQ_LINES, lines.into_iter().map(line))
}

/// Control groups as a descriptive file: lines `WEIGHT QUOTA PERIOD CPUS MEMORY_MAX MEMORY_HIGH IO_WEIGHT PATH`.
pub fn cgroups_to_meta<'a>(
    groups: impl IntoIterator<Item = (&'a str, &'a CgroupSettings)>,
) -> MetaFile {
    let line = |(path, settings): (&str, &CgroupSettings)| {
        format!(
            "{} {} {} {} {} {} {} {}\n",
            word(settings.cpu_weight),
            word(settings.cpu_quota_ns),
            word(settings.cpu_period_ns),
            word(settings.cpus.as_deref()),
            word(settings.memory_max_bytes),
            word(settings.memory_high_bytes),
            word(settings.io_weight),
            one_line(path)
        )
    };
    file(CGROUPS, groups.into_iter().map(line))
}

/// Threads as a descriptive file: lines `TID PID POLICY NICE RT_PRIORITY CPUS GROUP NAME`. GROUP is the number of the
/// control group's line in its file, from 0.
pub fn tasks_to_meta<'a>(tasks: impl IntoIterator<Item = OwnTask<'a>>) -> MetaFile {
    let line = |task: OwnTask<'_>| {
        format!(
            "{} {} {} {} {} {} {} {}\n",
            task.tid,
            task.pid,
            word(task.settings.policy.map(SchedPolicy::as_str)),
            word(task.settings.nice),
            word(task.settings.rt_priority),
            word(task.settings.allowed_cpus.as_deref()),
            word(task.cgroup),
            one_line(task.name)
        )
    };
    file(TASKS, tasks.into_iter().take(MAX_TASKS).map(line))
}

/// A file of the first lines, as many as fit it.
fn file(name: &str, lines: impl Iterator<Item = String>) -> MetaFile {
    let mut text = String::new();
    for line in lines {
        if text.len() + line.len() > MAX_FILE_BYTES {
            break;
        }
        text.push_str(&line);
    }
    (name.into(), text.into_bytes())
}

impl GuestSettings {
    /// From descriptive files; empty if there are none.
    pub fn from_meta(meta: &[MetaFile]) -> Self {
        let irq_lines = lines(meta, IRQ_LINES).take(MAX_IRQ_LINES).filter_map(|line| {
            let (irq, name) = line.split_once(' ')?;
            Some((irq.parse().ok()?, text(name, MAX_IRQ_NAME_BYTES)))
        });
        let cgroups = lines(meta, CGROUPS).take(MAX_CGROUPS).map(|line| parse_cgroup(&line));
        let tasks = lines(meta, TASKS).take(MAX_TASKS).filter_map(|line| parse_task(&line));
        GuestSettings {
            irq_lines: irq_lines.collect(),
            cgroups: cgroups.collect(),
            tasks: tasks.collect(),
        }
    }
}

fn parse_cgroup(line: &str) -> Option<(Untrusted<String>, CgroupSettings)> {
    let mut words = line.splitn(8, ' ');
    let settings = CgroupSettings {
        cpu_weight: value(&mut words)?,
        cpu_quota_ns: value(&mut words)?,
        cpu_period_ns: value(&mut words)?,
        cpus: checked_cpu_list(words.next()?),
        memory_max_bytes: value(&mut words)?,
        memory_high_bytes: value(&mut words)?,
        io_weight: value(&mut words)?,
    };
    let path = words.next().filter(|path| path.starts_with('/') && path.len() <= MAX_PATH_BYTES)?;
    Some((Untrusted::new(path.to_owned()), settings))
}

fn parse_task(line: &str) -> Option<Task> {
    let mut words = line.splitn(8, ' ');
    let (tid, pid) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let settings = ThreadSettings {
        policy: SchedPolicy::from_word(words.next()?),
        nice: value(&mut words)?,
        rt_priority: value(&mut words)?,
        allowed_cpus: checked_cpu_list(words.next()?),
    };
    let cgroup = value(&mut words)?;
    Some(Task { tid, pid, name: text(words.next()?, MAX_NAME_BYTES), settings, cgroup })
}

/// A value as a word of a line.
fn word(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// The next word's value, which may be unknown; none if the line has no such word.
#[allow(
    clippy::option_option,
    reason = "a value that is not known, and a line that ends too early"
)]
fn value<T: FromStr>(words: &mut SplitN<'_, char>) -> Option<Option<T>> {
    Some(words.next()?.parse().ok())
}

fn text(text: &str, max_bytes: usize) -> Untrusted<String> {
    Untrusted::new(shortened(text, max_bytes).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::is_settings;

    #[test]
    fn settings_travel() {
        let rt = ThreadSettings {
            allowed_cpus: Some("0-1,3".into()),
            policy: Some(SchedPolicy::Fifo),
            nice: None,
            rt_priority: Some(50),
        };
        let group = CgroupSettings {
            cpu_weight: Some(300),
            cpu_quota_ns: Some(20_000_000),
            cpu_period_ns: Some(100_000_000),
            cpus: Some("0".into()),
            memory_max_bytes: Some(1 << 40),
            memory_high_bytes: None,
            io_weight: Some(1),
        };
        let own = |tid, name, settings, cgroup| OwnTask { tid, pid: 7, name, settings, cgroup };
        let none = ThreadSettings::default();
        let meta = [
            irq_lines_to_meta([(36, "virtio1-req.0"), (9, "acpi, i2c bus")]),
            cgroups_to_meta([("/", &CgroupSettings::default()), ("/a b", &group)]),
            tasks_to_meta([own(7, "two words", &rt, Some(1)), own(8, "a\nb", &none, None)]),
        ];
        assert!(meta.iter().all(|(name, _)| is_settings(name)));
        let task = |tid, name: &str, settings, cgroup| {
            let name = Untrusted::new(name.to_owned());
            Task { tid, pid: 7, name, settings, cgroup }
        };
        let expected = GuestSettings {
            irq_lines: vec![(36, "virtio1-req.0".into()), (9, "acpi, i2c bus".into())],
            cgroups: vec![
                Some(("/".into(), CgroupSettings::default())),
                Some(("/a b".into(), group)),
            ],
            tasks: vec![task(7, "two words", rt, Some(1)), task(8, "a b", none, None)],
        };
        assert_eq!(GuestSettings::from_meta(&meta), expected);
        assert_eq!(GuestSettings::from_meta(&[]), GuestSettings::default());
    }

    /// A group that cannot be read keeps its number, or threads would be in another one's.
    #[test]
    fn lines_that_are_none_are_left_out() {
        let long = format!("- - - - - - - /{}", "x".repeat(MAX_PATH_BYTES));
        let cgroups =
            format!("- - - - - - - relative\n100 - - 0-3\u{1b} max - - /a\n{long}\n1 2\n");
        let meta = [
            ("irq_lines".to_owned(), b"1\nx y\n99999999999 z\n-1 \xff\n".to_vec()),
            ("cgroups".to_owned(), cgroups.into_bytes()),
            (
                "tasks".to_owned(),
                b"1 1 iso x 5 0-1 99 a\n2\n3 3 other 0 - 0\nx 1 - - - - - a\n".to_vec(),
            ),
        ];
        let read = GuestSettings::from_meta(&meta);
        assert_eq!(read.irq_lines, [(-1, "\u{fffd}".into())]);
        let group = CgroupSettings { cpu_weight: Some(100), ..CgroupSettings::default() };
        assert_eq!(read.cgroups, [None, Some(("/a".into(), group)), None, None]);
        let tasks: Vec<i32> = read.tasks.iter().map(|task| task.tid).collect();
        assert_eq!(tasks, [1]);
        assert_eq!((read.tasks[0].settings.policy, read.tasks[0].cgroup), (None, Some(99)));
    }

    #[test]
    fn settings_are_read_up_to_their_bounds() {
        let many = |count: usize, rest: &str| -> Vec<u8> {
            (0..count + 5).flat_map(|at| format!("{at} {rest}\n").into_bytes()).collect()
        };
        let meta = [
            ("irq_lines".to_owned(), many(MAX_IRQ_LINES, &"é".repeat(200))),
            ("cgroups".to_owned(), many(MAX_CGROUPS, "- - - - - - /a")),
            ("tasks".to_owned(), many(MAX_TASKS, &format!("1 - - - - - {}", "é".repeat(100)))),
        ];
        let read = GuestSettings::from_meta(&meta);
        let lens = (read.irq_lines.len(), read.cgroups.len(), read.tasks.len());
        assert_eq!(lens, (MAX_IRQ_LINES, MAX_CGROUPS, MAX_TASKS));
        assert_eq!(read.irq_lines[0].1.len(), MAX_IRQ_NAME_BYTES);
        assert_eq!(read.tasks[0].name.len(), MAX_NAME_BYTES);
    }

    #[test]
    fn an_agent_sends_what_a_recorder_takes() {
        let long = "x".repeat(4000);
        let group = CgroupSettings::default();
        let (_, bytes) = cgroups_to_meta((0..MAX_CGROUPS).map(|_| (long.as_str(), &group)));
        assert!(bytes.len() <= MAX_FILE_BYTES && bytes.len() > MAX_FILE_BYTES - 5000);
        assert_eq!(bytes.last(), Some(&b'\n'), "whole lines");
    }
}
