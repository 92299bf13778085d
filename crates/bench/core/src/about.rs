//! What a workload is, for whoever plans, judges or shows it.

use crate::{
    metric::{Better, Unit},
    protocol::{CacheState, Param},
};
use serde::{Deserialize, Serialize};

/// What a workload is, for plans, lists and reports.
#[derive(Clone, Debug)]
pub struct About {
    /// Its name in plans: `micro/pipe`.
    pub name: &'static str,
    /// One line for people.
    pub text: &'static str,
    /// Where it comes from: the paper and table that it continues.
    pub source: &'static str,
    /// Results of one family are corrected together (Holm).
    pub family: Family,
    /// The primary metric.
    pub metric: (&'static str, Unit, Better),
    /// Cache states that make sense for it, the default first.
    pub caches: &'static [CacheState],
    /// Parameters with their defaults.
    pub params: Vec<(&'static str, Param, &'static str)>,
    /// Debian packages of the programs it runs.
    pub packages: &'static [&'static str],
    /// Does it consist of servers in the machines and a generator outside?
    pub is_distributed: bool,
    /// About how long one run takes on a native machine with the default parameters, seconds.
    pub expected_s: f64,
}

/// Families of workloads: corrected together, and each with its precision goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Single operations of the kernel or hypervisor. Precision goal 1 %.
    Micro,
    /// CPU-bound programs. 1 %.
    Cpu,
    /// Disk-bound programs. 2 %.
    Disk,
    /// Network, web, databases. 5 %.
    Network,
    /// Latency of timers and boot. 5 %.
    Latency,
    /// Memory and CPU taken by mere existence. 5 %.
    Footprint,
}
