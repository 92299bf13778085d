//! What of a job's resources is halved while it runs.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What halves a resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lever {
    /// Fewer CPUs to run on.
    Affinity {
        /// Those it may use now.
        from: Vec<u32>,
        /// Half of them.
        to: Vec<u32>,
    },
    /// A CPU quota.
    CpuQuota {
        /// CPUs' worth used now.
        from: f64,
        /// Half of it.
        to: f64,
    },
    /// A limit on a block device: direct and synchronous I/O of the processes themselves. Version 1 does not limit what
    /// the kernel writes back later.
    Disk {
        /// `vda`.
        name: String,
        /// Bytes a second each way, half of what there was; `None`: not limited.
        bytes_per_s: Option<u64>,
        /// Requests a second each way, half of what there were; `None`: not limited.
        requests_per_s: Option<u64>,
    },
    /// A memory limit. It holds for what is used after it was set: set it before the run.
    Memory {
        /// Bytes used, or allowed, now.
        from: u64,
        /// Half of it.
        to: u64,
    },
    /// A token bucket on an interface.
    Network {
        /// `veth0`.
        interface: String,
        /// Half of what was sent.
        bits_per_s: u64,
    },
    /// Fewer threads of the load generator: a parameter of its job, set by who starts it.
    GeneratorThreads {
        /// Those it has.
        from: u32,
        /// Half of them.
        to: u32,
    },
}

impl Lever {
    /// What is left of the resource, 0 to 1: exactly half only where the resource can be divided so.
    #[must_use]
    pub fn factor(&self) -> f64 {
        match self {
            Self::Affinity { from, to } => to.len() as f64 / from.len().max(1) as f64,
            Self::GeneratorThreads { from, to } => f64::from(*to) / f64::from((*from).max(1)),
            _ => 0.5,
        }
    }
}

/// What is halved, for people.
impl fmt::Display for Lever {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |cpus: &[u32]| cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        match self {
            Self::Affinity { from, to } => write!(f, "CPUs {} → {}", list(from), list(to)),
            Self::CpuQuota { from, to } => write!(f, "CPU time {from:.2} → {to:.2} CPUs"),
            Self::Disk { name, bytes_per_s, requests_per_s } => {
                write!(f, "{name}")?;
                if let Some(bytes) = bytes_per_s {
                    write!(f, ", {} kB/s each way", bytes / 1000)?;
                }
                requests_per_s.map_or(Ok(()), |some| write!(f, ", {some} requests/s each way"))
            }
            Self::Memory { from, to } => {
                write!(f, "memory {} → {} MiB", from >> 20, to >> 20)
            }
            Self::Network { interface, bits_per_s } => {
                write!(f, "{interface}, {} kbit/s", bits_per_s / 1000)
            }
            Self::GeneratorThreads { from, to } => write!(f, "generator's threads {from} → {to}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_of_three_is_told_as_such() {
        let lever = Lever::Affinity { from: vec![0, 1, 2], to: vec![0] };
        assert!((lever.factor() - 1.0 / 3.0).abs() < 1e-9);
    }
}
