//! The trace clock: which to take, and how to read the same one from user space.

use crate::{Tracefs, TracefsError, posix::posix_now_ns};
use procfs::{CpuInfo, Current};
use rustix::time::ClockId;
use std::fs;

/// The TSC itself: the only clock that host and guests share exactly.
pub const X86_TSC: &str = "x86-tsc";

/// The clock for a recording, and why that one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClockChoice {
    /// Name as in `trace_clock`.
    pub name: String,
    /// Why not the TSC, where it is not; for people.
    pub reason: Option<String>,
}

/// Takes the clock asked for, else the TSC where it is fit to be compared between CPUs, else the
/// kernel's monotonic clock.
///
/// # Errors
/// The clock asked for is not offered.
pub fn choose(tracefs: &Tracefs, asked: Option<&str>) -> Result<ClockChoice, TracefsError> {
    let text = tracefs.read("trace_clock")?;
    let offered = offered(&text);
    let choice = |name: &str, reason| ClockChoice { name: name.to_owned(), reason };
    if let Some(asked) = asked {
        if offered.contains(&asked) {
            return Ok(choice(asked, None));
        }
        let (asked, offered) = (asked.to_owned(), offered.join(", "));
        return Err(TracefsError::NoClock { asked, offered });
    }
    let unfit = match offered.contains(&X86_TSC) {
        false => "this kernel offers no x86-tsc clock".to_owned(),
        true => match tsc_unfit() {
            None => return Ok(choice(X86_TSC, None)),
            Some(reason) => reason,
        },
    };
    // `mono` came in 3.19; `global` is older than any kernel with instances.
    let other = if offered.contains(&"mono") { "mono" } else { "global" };
    Ok(choice(other, Some(unfit)))
}

/// The clocks offered; the current one is in brackets: `[local] global … x86-tsc`.
fn offered(text: &str) -> Vec<&str> {
    text.split_ascii_whitespace().map(|word| word.trim_matches(['[', ']'])).collect()
}

/// Why the TSCs of this machine's CPUs cannot be compared, if they cannot. The kernel takes `tsc`
/// off the list of clock sources when it finds them apart (`mark_tsc_unstable`).
fn tsc_unfit() -> Option<String> {
    let sources = "/sys/devices/system/clocksource/clocksource0/available_clocksource";
    let listed = fs::read_to_string(sources).unwrap_or_default();
    if listed.split_ascii_whitespace().any(|source| source == "tsc") {
        return None;
    }
    let cpuinfo = CpuInfo::current().ok();
    let flags = cpuinfo.as_ref().and_then(|cpuinfo| cpuinfo.flags(0)).unwrap_or_default();
    // Steady but unlisted: a guest whose kernel prefers its hypervisor's clock.
    if ["constant_tsc", "nonstop_tsc"].iter().all(|flag| flags.contains(flag)) {
        return None;
    }
    Some(format!(
        "the kernel does not trust the TSC ({sources} lists {}); if the TSC is reliable, boot with tsc=reliable or use --clock x86-tsc",
        listed.trim()
    ))
}

/// Reads a trace clock from user space, so that evidence and events are on the same clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserClock {
    /// The TSC, ordered as the kernel's `rdtsc_ordered`.
    Tsc,
    /// A clock of clock_gettime(2).
    Posix(ClockId),
}

impl UserClock {
    /// The trace clock of that name; `None` if user space cannot read it (`local`, `global`,
    /// `perf`, `uptime`, `counter`; `tai` is not needed).
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            X86_TSC if cfg!(target_arch = "x86_64") => Some(UserClock::Tsc),
            "mono" => Some(UserClock::Posix(ClockId::Monotonic)),
            "mono_raw" => Some(UserClock::Posix(ClockId::MonotonicRaw)),
            "boot" => Some(UserClock::Posix(ClockId::Boottime)),
            _ => None,
        }
    }

    /// Its value now: ticks or nanoseconds.
    pub fn now(self) -> u64 {
        match self {
            UserClock::Tsc => crate::tsc::read(),
            UserClock::Posix(id) => posix_now_ns(id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracefs_with(clocks: &str) -> (tempfile::TempDir, Tracefs) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("trace_clock"), clocks).unwrap();
        let tracefs = Tracefs::at(dir.path().to_owned());
        (dir, tracefs)
    }

    #[test]
    fn a_clock_not_offered_is_refused_with_those_that_are() {
        let (_dir, tracefs) = tracefs_with("[local] global mono\n");
        assert_eq!(choose(&tracefs, Some("local")).unwrap().name, "local");
        let error = choose(&tracefs, Some("x86-tsc")).unwrap_err().to_string();
        assert!(error.contains("local, global, mono"), "{error}");
        assert_eq!(choose(&tracefs, None).unwrap().name, "mono");
    }

    #[test]
    fn clocks_run_forward() {
        for name in ["x86-tsc", "mono", "mono_raw", "boot"] {
            let Some(clock) = UserClock::from_name(name) else { continue };
            let first = clock.now();
            assert!(clock.now() >= first, "{name}");
        }
        assert_eq!(UserClock::from_name("local"), None);
    }
}
