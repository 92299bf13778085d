//! Filters that the compact collector applies in the kernel: whose events, and how long at least.
//!
//! They are written like the others, after `--filter`: `vm=web1`, `cgroup=/machine.slice`,
//! `pid=4711`, `tid=4712`, `dur>=10us`. An event passes if its thread is any of those named; what
//! is not an interval has no duration to be too short.

use super::units::parse_duration;
use std::time::Duration;

/// Whose events are recorded; everyone's if nothing is named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Narrow {
    /// VMs, by name.
    pub vms: Vec<String>,
    /// Control groups, by path below the cgroup file system.
    pub cgroups: Vec<String>,
    /// Processes, by their ids in this pid namespace.
    pub pids: Vec<u32>,
    /// Threads, by their ids in this pid namespace.
    pub tids: Vec<u32>,
    /// Intervals shorter than this are not recorded.
    pub min_duration: Option<Duration>,
}

impl Narrow {
    /// Takes an expression if it is one of these; `None` if it is the kernel's to understand.
    ///
    /// # Errors
    /// It begins like one, and is none.
    pub fn take(&mut self, expression: &str) -> Option<Result<(), String>> {
        let text = expression.trim();
        if let Some(length) = text.strip_prefix("dur") {
            let length = length.trim_start().strip_prefix(">=")?;
            return Some(parse_duration(length.trim()).map(|d| self.min_duration = Some(d)));
        }
        let (key, value) = text.split_once('=')?;
        let value = value.trim();
        if value.is_empty() || value.starts_with('=') {
            return None;
        }
        let number = || value.parse::<u32>().map_err(|_| format!("{text}: not a number"));
        Some(match key.trim() {
            "vm" => {
                self.vms.push(value.to_owned());
                Ok(())
            }
            "cgroup" => {
                self.cgroups.push(value.to_owned());
                Ok(())
            }
            "pid" => number().map(|pid| self.pids.push(pid)),
            "tid" => number().map(|tid| self.tids.push(tid)),
            _ => return None,
        })
    }

    /// The filter as a user would write it, for the manifest.
    pub fn describe(&self) -> String {
        let pairs = |key: &'static str, values: &[String]| {
            values.iter().map(move |value| format!("{key}={value}")).collect::<Vec<_>>()
        };
        let numbers = |values: &[u32]| values.iter().map(u32::to_string).collect::<Vec<_>>();
        let mut parts = pairs("vm", &self.vms);
        parts.extend(pairs("cgroup", &self.cgroups));
        parts.extend(pairs("pid", &numbers(&self.pids)));
        parts.extend(pairs("tid", &numbers(&self.tids)));
        parts.extend(self.min_duration.map(|least| format!("dur>={}", describe_duration(least))));
        parts.join(", ")
    }

    /// Is everything recorded?
    pub fn is_empty(&self) -> bool {
        *self == Narrow::default()
    }
}

/// In the largest unit that makes a whole number.
fn describe_duration(duration: Duration) -> String {
    match duration.as_nanos() {
        ns if ns % 1_000_000_000 == 0 => format!("{}s", ns / 1_000_000_000),
        ns if ns % 1_000_000 == 0 => format!("{}ms", ns / 1_000_000),
        ns if ns % 1_000 == 0 => format!("{}us", ns / 1_000),
        ns => format!("{ns}ns"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_expressions_are_told_from_the_kernels() {
        let mut narrow = Narrow::default();
        for own in ["vm=web1", "vm = batch", "cgroup=/machine.slice", "pid=1", "tid=2", "dur>=10us"]
        {
            assert_eq!(narrow.take(own), Some(Ok(())), "{own}");
        }
        assert_eq!(narrow.vms, ["web1", "batch"]);
        assert_eq!(
            (narrow.pids.as_slice(), narrow.tids.as_slice()),
            ([1].as_slice(), [2].as_slice())
        );
        assert_eq!(narrow.min_duration, Some(Duration::from_micros(10)));
        assert_eq!(
            narrow.describe(),
            "vm=web1, vm=batch, cgroup=/machine.slice, pid=1, tid=2, dur>=10us"
        );
        for kernels in ["next_prio < 100", "pid == 3", "kvm:kvm_exit if vcpu_id == 0", "prev_pid=3"]
        {
            assert_eq!(narrow.take(kernels), None, "{kernels}");
        }
        assert!(narrow.take("tid=x").unwrap().is_err());
        assert!(narrow.take("dur>=soon").unwrap().is_err());
    }
}
