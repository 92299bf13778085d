//! What this process itself costs.
#![allow(unsafe_code, reason = "getrusage(2)")]

use std::mem::MaybeUninit;

/// CPU time of all threads of this process, ended ones included; its children are not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In user mode, ns.
    pub user_ns: u64,
    /// In the kernel, ns: moving pages mostly.
    pub sys_ns: u64,
}

impl CpuTime {
    /// Used until now.
    pub fn of_this_process() -> Self {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer is to a rusage that outlives the call, zeroed in case it fails.
        let usage = unsafe {
            libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
            usage.assume_init()
        };
        CpuTime { user_ns: nanos(usage.ru_utime), sys_ns: nanos(usage.ru_stime) }
    }

    /// Both together, ns.
    pub fn total_ns(self) -> u64 {
        self.user_ns + self.sys_ns
    }
}

fn nanos(time: libc::timeval) -> u64 {
    let s = u64::try_from(time.tv_sec).unwrap_or(0);
    let us = u64::try_from(time.tv_usec).unwrap_or(0);
    s * 1_000_000_000 + us * 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_counted() {
        let before = CpuTime::of_this_process().total_ns();
        let mut sum = 0u64;
        while CpuTime::of_this_process().total_ns() < before + 2_000_000 {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(sum > 0);
    }
}
