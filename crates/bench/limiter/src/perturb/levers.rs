//! Pulling a lever, and putting it back.

use super::{
    groups::{Group, Resource},
    refusal::refuse,
    target::Target,
};
use procfs::process::{Process, Task};
use rustix::{process::Pid, thread::CpuSet};
use std::{collections::BTreeSet, fs, process::Command};
use transect_bench_core::{Fault, Lever, Refusal};

/// A lever that is pulled. Dropping it puts it back.
#[derive(Debug)]
pub struct Applied(Option<Undo>);

#[derive(Debug)]
enum Undo {
    Group(Group),
    Affinity { pids: Vec<u32>, saved: Vec<(u32, CpuSet)> },
    Shaping { interface: String },
}

impl Applied {
    /// Puts it back now.
    ///
    /// # Errors
    /// What could not be put back, and why.
    pub fn restore(mut self) -> Result<(), Fault> {
        self.undo()
    }

    fn undo(&mut self) -> Result<(), Fault> {
        match self.0.take() {
            Some(Undo::Group(mut group)) => group.leave(),
            Some(Undo::Affinity { pids, saved }) => restore_affinity(&pids, &saved),
            Some(Undo::Shaping { interface }) => {
                tc(&["qdisc", "del", "dev", &interface, "root"]).map(drop)
            }
            None => Ok(()),
        }
    }
}

impl Drop for Applied {
    fn drop(&mut self) {
        // Who wants to know whether it worked calls `restore`.
        let _ = self.undo();
    }
}

/// Pulls it.
///
/// # Errors
/// A refusal for [`Lever::GeneratorThreads`], which is its caller's; a failure with what the kernel or `tc` said.
/// Nothing stays changed then.
pub fn apply(lever: &Lever, target: &Target) -> Result<Applied, Fault> {
    let undo = match lever {
        Lever::Affinity { to, .. } => set_affinity(&target.pids, to)?,
        Lever::CpuQuota { to, .. } => limited(Resource::Cpu, target, |group| quota(group, *to))?,
        Lever::Memory { to, .. } => limited(Resource::Memory, target, |group| {
            let file = if group.is_unified { "memory.max" } else { "memory.limit_in_bytes" };
            group.set(file, &to.to_string())
        })?,
        Lever::Disk { name, bytes_per_s, requests_per_s } => {
            limited(Resource::Io, target, |group| disk(group, name, *bytes_per_s, *requests_per_s))?
        }
        Lever::Network { interface, bits_per_s } => shape(interface, *bits_per_s)?,
        Lever::GeneratorThreads { to, .. } => {
            let why = format!("the generator's job must be started with {to} threads");
            return Err(refuse(why).into());
        }
    };
    Ok(Applied(Some(undo)))
}

fn limited(
    resource: Resource,
    target: &Target,
    set: impl FnOnce(&Group) -> Result<(), Fault>,
) -> Result<Undo, Fault> {
    let group = Group::new(resource, &descendants(&target.pids))?;
    set(&group)?;
    group.enter()?;
    Ok(Undo::Group(group))
}

/// Period of a quota, µs: short, so that a throttled thread does not stand still for long.
const PERIOD_US: u32 = 20_000;

fn quota(group: &Group, cpus: f64) -> Result<(), Fault> {
    let quota_us = format!("{:.0}", (cpus * f64::from(PERIOD_US)).max(1000.0));
    if group.is_unified {
        return group.set("cpu.max", &format!("{quota_us} {PERIOD_US}"));
    }
    group.set("cpu.cfs_period_us", &PERIOD_US.to_string())?;
    group.set("cpu.cfs_quota_us", &quota_us)
}

fn disk(group: &Group, name: &str, bytes: Option<u64>, requests: Option<u64>) -> Result<(), Fault> {
    let file = format!("/sys/class/block/{name}/dev");
    let device = fs::read_to_string(&file)
        .map_err(|error| Fault::failed(format_args!("{file}: {error}")))?;
    let device = device.trim();
    let limits = [("bps", bytes), ("iops", requests)];
    for (of, limit) in limits.into_iter().filter_map(|(of, limit)| Some((of, limit?))) {
        if group.is_unified {
            group.set("io.max", &format!("{device} r{of}={limit} w{of}={limit}"))?;
            continue;
        }
        for way in ["read", "write"] {
            group
                .set(&format!("blkio.throttle.{way}_{of}_device"), &format!("{device} {limit}"))?;
        }
    }
    Ok(())
}

/// The processes and those below them.
fn descendants(pids: &[u32]) -> Vec<u32> {
    let mut all = BTreeSet::new();
    let mut next = pids.to_vec();
    while let Some(pid) = next.pop() {
        if !all.insert(pid) {
            continue;
        }
        for task in tasks(pid) {
            next.extend(task.children().unwrap_or_default());
        }
    }
    // The named ones first: where they are is where the group is made.
    let below: Vec<_> = all.into_iter().filter(|pid| !pids.contains(pid)).collect();
    pids.iter().copied().chain(below).collect()
}

fn tasks(pid: u32) -> impl Iterator<Item = Task> {
    let tasks = Process::new(pid.cast_signed()).and_then(|process| process.tasks());
    tasks.into_iter().flatten().flatten()
}

fn threads(pid: u32) -> impl Iterator<Item = u32> {
    tasks(pid).map(|task| task.tid.cast_unsigned())
}

fn pid_of(tid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(tid).ok()?)
}

fn set_affinity(pids: &[u32], cpus: &[u32]) -> Result<Undo, Fault> {
    let mut set = CpuSet::new();
    for cpu in cpus.iter().filter_map(|cpu| usize::try_from(*cpu).ok()) {
        if cpu >= CpuSet::MAX_CPU {
            return Err(Fault::failed(format_args!("CPU {cpu} is beyond {}", CpuSet::MAX_CPU)));
        }
        set.set(cpu);
    }
    let pids = descendants(pids);
    let mut saved = Vec::new();
    for tid in pids.iter().flat_map(|pid| threads(*pid)) {
        // A thread that has ended meanwhile needs none.
        let Ok(before) = rustix::thread::sched_getaffinity(pid_of(tid)) else { continue };
        if let Err(error) = rustix::thread::sched_setaffinity(pid_of(tid), &set) {
            if error == rustix::io::Errno::SRCH {
                continue;
            }
            let why = Fault::failed(format_args!("CPUs of thread {tid}: {error}"));
            return restore_affinity(&pids, &saved).and(Err(why));
        }
        saved.push((tid, before));
    }
    Ok(Undo::Affinity { pids, saved })
}

/// Threads that came meanwhile get what the first had.
fn restore_affinity(pids: &[u32], saved: &[(u32, CpuSet)]) -> Result<(), Fault> {
    let Some((_, first)) = saved.first() else { return Ok(()) };
    for tid in descendants(pids).into_iter().flat_map(threads) {
        let known = saved.iter().find(|(of, _)| *of == tid);
        let set = known.map_or(first, |(_, set)| set);
        match rustix::thread::sched_setaffinity(pid_of(tid), set) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(error) => {
                return Err(Fault::failed(format_args!("CPUs of thread {tid}: {error}")));
            }
        }
    }
    Ok(())
}

/// Queueing disciplines that an interface has by itself: after `tc qdisc del` they are back.
const DEFAULT_DISCIPLINES: [&str; 5] = ["noqueue", "pfifo_fast", "mq", "fq_codel", "fq"];

/// Can the interface be shaped, and put back afterwards?
pub(super) fn can_shape(interface: &str) -> Result<(), Refusal> {
    let text = tc(&["qdisc", "show", "dev", interface])
        .map_err(|fault| refuse(fault.to_string()).mend("apt install iproute2"))?;
    let root = text.lines().find(|line| line.contains(" root"));
    let kind = root.and_then(|line| line.split(' ').nth(1)).unwrap_or("noqueue");
    match DEFAULT_DISCIPLINES.contains(&kind) {
        true => Ok(()),
        false => Err(refuse(format!(
            "{interface} has its own queueing discipline ({kind}) that could not be put back"
        ))),
    }
}

fn shape(interface: &str, bits_per_s: u64) -> Result<Undo, Fault> {
    can_shape(interface)?;
    let rate = format!("{bits_per_s}bit");
    // A burst of 10 ms, and at least a few packets of the largest size that offloads make.
    let burst = (bits_per_s / 800).max(200_000).to_string();
    let arguments = ["qdisc", "replace", "dev", interface, "root", "tbf", "rate", &rate];
    tc(&[&arguments[..], &["burst", &burst, "latency", "50ms"]].concat())?;
    Ok(Undo::Shaping { interface: interface.to_owned() })
}

fn tc(arguments: &[&str]) -> Result<String, Fault> {
    let output = Command::new("tc")
        .args(arguments)
        .output()
        .map_err(|error| Fault::failed(format_args!("tc: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Fault::failed(format_args!("tc {}: {}", arguments.join(" "), said.trim())))
}
