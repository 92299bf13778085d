//! What the scheduler and the interrupts of a machine are set to: facts that events do not carry.

use serde::{Deserialize, Serialize};

/// Interrupt lines of one machine that are kept.
pub const MAX_IRQ_LINES: usize = 1 << 16;
/// Bytes of an interrupt line's name that are kept.
pub const MAX_IRQ_NAME_BYTES: usize = 256;
/// Control groups of one machine that are kept.
pub const MAX_CGROUPS: usize = 1 << 14;
/// Bytes of a list of CPUs (`0-3,8`) that is kept. A list cut short would be false, so a longer one is not kept.
pub const MAX_CPU_LIST_BYTES: usize = 4096;

/// The scheduling policy of a thread (`include/uapi/linux/sched.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SchedPolicy {
    /// `SCHED_NORMAL`.
    Other,
    /// `SCHED_FIFO`.
    Fifo,
    /// `SCHED_RR`.
    Rr,
    /// `SCHED_BATCH`.
    Batch,
    /// `SCHED_IDLE`.
    Idle,
    /// `SCHED_DEADLINE`.
    Deadline,
    /// `SCHED_EXT`, since Linux 6.12.
    Ext,
}

impl SchedPolicy {
    /// Every policy.
    pub const ALL: [SchedPolicy; 7] = [
        SchedPolicy::Other,
        SchedPolicy::Fifo,
        SchedPolicy::Rr,
        SchedPolicy::Batch,
        SchedPolicy::Idle,
        SchedPolicy::Deadline,
        SchedPolicy::Ext,
    ];

    /// The policy with the kernel's number; none for numbers that Linux 6.18 does not have.
    pub fn from_number(number: u32) -> Option<Self> {
        match number {
            0 => Some(SchedPolicy::Other),
            1 => Some(SchedPolicy::Fifo),
            2 => Some(SchedPolicy::Rr),
            3 => Some(SchedPolicy::Batch),
            5 => Some(SchedPolicy::Idle),
            6 => Some(SchedPolicy::Deadline),
            7 => Some(SchedPolicy::Ext),
            _ => None,
        }
    }

    /// The policy with this word in tables.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.as_str() == word)
    }

    /// The word in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            SchedPolicy::Other => "other",
            SchedPolicy::Fifo => "fifo",
            SchedPolicy::Rr => "rr",
            SchedPolicy::Batch => "batch",
            SchedPolicy::Idle => "idle",
            SchedPolicy::Deadline => "deadline",
            SchedPolicy::Ext => "ext",
        }
    }
}

/// How a thread is scheduled. A value that is not known is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadSettings {
    /// The online CPUs on which it is allowed to run, as a list (`0-3,8`).
    pub allowed_cpus: Option<String>,
    /// Its policy.
    pub policy: Option<SchedPolicy>,
    /// Its nice value; the policies fifo, rr and deadline have none.
    pub nice: Option<i32>,
    /// Its real-time priority, 1 to 99; only the policies fifo and rr have one.
    pub rt_priority: Option<u32>,
}

/// What a control group is limited to. A value that is not known, or has no limit, is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupSettings {
    /// `cpu.weight`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_weight: Option<u64>,
    /// CPU time per period, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_quota_ns: Option<i64>,
    /// The period, ns; known for a group without a quota, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_period_ns: Option<i64>,
    /// `cpuset.cpus.effective`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// `memory.max`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_max_bytes: Option<u64>,
    /// `memory.high`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_high_bytes: Option<u64>,
    /// The default of `io.weight`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_weight: Option<u64>,
}

/// Writes CPU numbers, in rising order, as the kernel does: `0-3,8`.
pub fn cpu_list(cpus: impl Iterator<Item = u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let text = ranges.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    text.collect::<Vec<_>>().join(",")
}

/// Checks a list of CPUs from outside: the text without blanks around it, if it is a list within its bound.
pub fn checked_cpu_list(text: &str) -> Option<String> {
    let text = text.trim();
    let is_list = text.starts_with(|first: char| first.is_ascii_digit())
        && text.len() <= MAX_CPU_LIST_BYTES
        && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b',' || byte == b'-');
    is_list.then(|| text.to_owned())
}

/// The first bytes of a text, at most `max_bytes`, up to the end of a character.
pub fn shortened(text: &str, max_bytes: usize) -> &str {
    let mut end = text.len().min(max_bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_have_the_kernels_numbers() {
        let known = (0..=9).filter_map(SchedPolicy::from_number);
        assert!(known.eq(SchedPolicy::ALL));
        assert_eq!(SchedPolicy::from_number(4), None, "SCHED_ISO is reserved");
        for policy in SchedPolicy::ALL {
            assert_eq!(SchedPolicy::from_word(policy.as_str()), Some(policy));
        }
        assert_eq!(SchedPolicy::from_word("iso"), None);
    }

    #[test]
    fn lists_of_cpus_are_checked() {
        assert_eq!(cpu_list([0, 1, 2, 3, 8, 10, 11].into_iter()), "0-3,8,10-11");
        assert_eq!(cpu_list(std::iter::empty()), "");
        assert_eq!(checked_cpu_list("0-3,8\n").as_deref(), Some("0-3,8"));
        for bad in ["", "\n", "-", "all", "0-3\u{1b}[2J", &"0,".repeat(MAX_CPU_LIST_BYTES)] {
            assert_eq!(checked_cpu_list(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn texts_are_cut_at_a_character() {
        assert_eq!(shortened("aé", 2), "a");
        assert_eq!(shortened("aé", 3), "aé");
    }
}
