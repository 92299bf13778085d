//! What control groups and the host were short of: time held back by `cpu.max`, and pressure stalls.
//!
//! **What.** The kernel keeps totals in files; [`Pressure::look`] gives what they grew by since the look
//! before. These are the kernel's own counters, so a row's time is from look to look (some 10 ms behind
//! the windows' edges) and not the window itself.
//!
//! **Constraints.** A read costs microseconds: only groups of which a thread ran are looked at, bounds
//! once in 10 s, and what a group is held back only while it has a bound. Groups beyond
//! `MOST_GROUPS` are left out and counted.

mod mounts;
mod parse;

use crate::{
    groups::PressureWindow,
    missing::{Metric, Missing},
};
use mounts::Mounts;
use parse::{Limit, Stalls, Throttled};
use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use transect_model::ids::MachineId;

/// A bound on CPU time seldom changes: so long a look holds.
const HOLDS: Duration = Duration::from_secs(10);
/// Groups that are watched at most.
const MOST_GROUPS: usize = 2048;
/// Files that are held open at most, of all groups: opening one costs as much as reading it.
const MOST_FILES: usize = 512;
const RESOURCES: [&str; 3] = ["cpu", "io", "memory"];
/// The files are a few lines.
const LARGEST: usize = 2048;

/// A file of counters: held open, or opened whenever it is read.
#[derive(Debug)]
struct Counters {
    path: PathBuf,
    file: Option<File>,
    /// It was never there: that does not change while its group lives.
    is_absent: bool,
}

impl Counters {
    fn at(path: PathBuf) -> Self {
        Counters { path, file: None, is_absent: false }
    }

    fn read(&mut self, files: &mut usize) -> io::Result<String> {
        if self.is_absent {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mut text = [0; LARGEST];
        let length = match &self.file {
            Some(file) => file.read_at(&mut text, 0)?,
            None => {
                let opened = File::open(&self.path);
                self.is_absent = opened.is_err();
                let mut opened = opened?;
                let length = opened.read(&mut text)?;
                if *files < MOST_FILES {
                    *files += 1;
                    self.file = Some(opened);
                }
                length
            }
        };
        Ok(String::from_utf8_lossy(text.get(..length).unwrap_or(&[])).into_owned())
    }
}

/// One look at a group's counters.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    at_ns: u64,
    throttled: Option<Throttled>,
    stalls: [Stalls; 3],
}

#[derive(Debug)]
struct Group {
    stat: Option<Counters>,
    stalls: [Option<Counters>; 3],
    limit: Option<Limit>,
    limit_checked: Option<Instant>,
    last: Option<Look>,
    /// Since the last sweep.
    seen: bool,
}

/// Watches the counters of groups that are named to it.
#[derive(Debug)]
pub(crate) struct Pressure {
    mounts: Mounts,
    host: Group,
    groups: HashMap<String, Group>,
    files: usize,
    left_out: usize,
    has_group_stalls: bool,
    /// Why the host has no pressure files.
    why_not: Option<String>,
    /// Of version 2.
    has_cpu_controller: bool,
}

impl Pressure {
    /// Begins with the host's first look, at `now_ns`.
    pub(crate) fn start(now_ns: u64) -> Self {
        let mounts = mounts::here();
        let mut pressure = Pressure {
            has_cpu_controller: mounts.has_cpu_controller(),
            mounts,
            host: Group::new(
                None,
                RESOURCES.map(|name| Some(Path::new("/proc/pressure").join(name))),
            ),
            groups: HashMap::new(),
            files: 0,
            left_out: 0,
            has_group_stalls: false,
            why_not: why_no_stalls(),
        };
        pressure.look(now_ns, std::iter::empty());
        pressure
    }

    /// What the host and these groups (by their paths) were short of since the look before; a group's
    /// first look only begins. `now_ns` is CLOCK_MONOTONIC.
    pub(crate) fn look<'a>(
        &mut self,
        now_ns: u64,
        groups: impl Iterator<Item = &'a str>,
    ) -> Vec<PressureWindow> {
        let mut rows: Vec<PressureWindow> =
            self.host.look(None, now_ns, &self.mounts, &mut self.files).into_iter().collect();
        self.left_out = 0;
        for name in groups {
            let is_new = !self.groups.contains_key(name);
            if is_new && (self.groups.len() >= MOST_GROUPS || !self.add(name)) {
                self.left_out += 1;
                continue;
            }
            let Some(group) = self.groups.get_mut(name) else { continue };
            group.seen = true;
            rows.extend(group.look(Some(name), now_ns, &self.mounts, &mut self.files));
            self.has_group_stalls |= group.stalls.iter().flatten().any(|file| !file.is_absent);
        }
        rows
    }

    fn add(&mut self, name: &str) -> bool {
        // Above our own namespace's root, from where nothing leads back.
        if name.split('/').any(|part| part == "..") {
            return false;
        }
        let inside = |mount: &Option<PathBuf>| {
            mount.as_ref().map(|mount| mount.join(name.trim_start_matches('/')))
        };
        let stat = inside(&self.mounts.cpu).or_else(|| inside(&self.mounts.unified));
        let unified = inside(&self.mounts.unified);
        let stalls = RESOURCES.map(|name| Some(unified.as_ref()?.join(format!("{name}.pressure"))));
        self.groups.insert(name.to_owned(), Group::new(stat, stalls));
        true
    }

    /// Drops groups that were not named since the last call: to be called seldom, as what comes back has
    /// to begin anew.
    pub(crate) fn forget_the_gone(&mut self) {
        self.groups.retain(|_, group| std::mem::take(&mut group.seen));
        let open = |group: &Group| {
            let files = group.stalls.iter().chain([&group.stat]).flatten();
            files.filter(|file| file.file.is_some()).count()
        };
        self.files = self.groups.values().chain([&self.host]).map(open).sum();
    }

    /// What cannot be had here.
    pub(crate) fn missing(&self) -> Vec<Missing> {
        let mut missing = Vec::new();
        if let Some(why) = &self.why_not {
            missing.push(Missing::everywhere(Metric::Pressure, why.clone()));
            missing.push(Missing::everywhere(Metric::GroupPressure, why.clone()));
        } else if !self.has_group_stalls {
            let why = match &self.mounts.unified {
                None => "cgroup v1 has no PSI; only the host's pressure is available",
                Some(_) => {
                    "no process is in a cgroup v2 group with PSI; only the host's pressure is available"
                }
            };
            missing.push(Missing::everywhere(Metric::GroupPressure, why));
        }
        if self.mounts.cpu.is_none() {
            let why = match &self.mounts.unified {
                None => Some("no cgroup file system is mounted"),
                Some(_) => {
                    let has = self.has_cpu_controller;
                    (!has).then_some("the kernel has no cgroup cpu controller")
                }
            };
            missing.extend(why.map(|why| Missing::everywhere(Metric::Throttling, why)));
        }
        if self.left_out > 0 {
            let why = format!(
                "throttling and pressure of {} control groups are not available: at most {MOST_GROUPS} groups are \
                 observed, and none outside of this process's namespace",
                self.left_out
            );
            missing.push(Missing::everywhere(Metric::GroupPressure, why));
        }
        missing
    }
}

fn why_no_stalls() -> Option<String> {
    let error =
        File::open("/proc/pressure/cpu").and_then(|mut file| file.read(&mut [0; 8])).err()?;
    let off = "psi=1 on the kernel's command line enables it if the kernel was built with PSI";
    Some(match error.kind() {
        io::ErrorKind::NotFound => format!("the kernel has no PSI ({off})"),
        _ => format!("cannot read /proc/pressure/cpu ({off}): {error}"),
    })
}

impl Group {
    fn new(stat: Option<PathBuf>, stalls: [Option<PathBuf>; 3]) -> Self {
        Group {
            stat: stat.map(|dir| Counters::at(dir.join("cpu.stat"))),
            stalls: stalls.map(|path| path.map(Counters::at)),
            limit: None,
            limit_checked: None,
            last: None,
            seen: true,
        }
    }

    fn check_limit(&mut self, mounts: &Mounts) {
        if self.limit_checked.is_some_and(|checked| checked.elapsed() < HOLDS) {
            return;
        }
        self.limit_checked = Some(Instant::now());
        let Some(dir) = self.stat.as_ref().and_then(|stat| stat.path.parent()) else { return };
        let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap_or_default();
        self.limit = match mounts.cpu.is_some() {
            true => parse::cfs_quota(&read("cpu.cfs_quota_us"), &read("cpu.cfs_period_us")),
            false => parse::cpu_max(&read("cpu.max")),
        };
    }

    /// The row since the look before, if there is anything to tell. Of the first look: a row of no length, if there is a limit.
    fn look(
        &mut self,
        name: Option<&str>,
        now_ns: u64,
        mounts: &Mounts,
        files: &mut usize,
    ) -> Option<PressureWindow> {
        self.check_limit(mounts);
        let throttled = self.stat.as_mut().filter(|_| self.limit.is_some());
        let throttled = throttled.and_then(|stat| parse::cpu_stat(&stat.read(files).ok()?));
        let mut stalls = [Stalls::default(); 3];
        for (stalls, counters) in stalls.iter_mut().zip(&mut self.stalls) {
            let text = counters.as_mut().and_then(|counters| counters.read(files).ok());
            *stalls = text.map(|text| parse::pressure(&text)).unwrap_or_default();
        }
        let look = Look { at_ns: now_ns, throttled, stalls };
        let never = Look { at_ns: now_ns, throttled: None, stalls: Default::default() };
        let row = row(name, self.last.as_ref().unwrap_or(&never), &look, self.limit);
        self.last = Some(look);
        row
    }
}

/// What counters grew by. One that is smaller than before was begun anew: nothing is known.
fn grown(before: Option<u64>, now: Option<u64>) -> Option<u64> {
    now?.checked_sub(before?)
}

fn row(
    name: Option<&str>,
    last: &Look,
    now: &Look,
    limit: Option<Limit>,
) -> Option<PressureWindow> {
    let signed = |ns: u64| i64::try_from(ns).ok();
    let of = |value: fn(&Throttled) -> u64| {
        grown(last.throttled.as_ref().map(value), now.throttled.as_ref().map(value))
    };
    let stalls = last.stalls.iter().zip(&now.stalls).map(|(last, now)| Stalls {
        some_ns: grown(last.some_ns, now.some_ns),
        full_ns: grown(last.full_ns, now.full_ns),
    });
    let mut stalls = stalls
        .map(|Stalls { some_ns, full_ns }| (some_ns.and_then(signed), full_ns.and_then(signed)));
    let mut next = || stalls.next().unwrap_or_default();
    let [cpu, io, memory] = [next(), next(), next()];
    let row = PressureWindow {
        ts: signed(last.at_ns)?,
        dur: signed(now.at_ns.checked_sub(last.at_ns)?)?,
        machine_id: MachineId(0),
        cgroup: name.map(str::to_owned),
        quota_ns: limit.and_then(|(quota, _)| signed(quota)),
        period_ns: limit.and_then(|(_, period)| signed(period)),
        periods: of(|t| t.periods),
        periods_throttled: of(|t| t.periods_throttled),
        throttled_ns: of(|t| t.throttled_ns).and_then(signed),
        cpu_some_ns: cpu.0,
        cpu_full_ns: cpu.1,
        io_some_ns: io.0,
        io_full_ns: io.1,
        memory_some_ns: memory.0,
        memory_full_ns: memory.1,
    };
    let (ts, dur, cgroup) = (row.ts, row.dur, row.cgroup.clone());
    let empty = PressureWindow { ts, dur, cgroup, ..PressureWindow::default() };
    (row != empty).then_some(row)
}

#[cfg(test)]
mod tests;
