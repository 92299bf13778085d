//! The version of the hypervisor.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Xen's version, e.g. 4.17.7.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// 4.
    pub major: u32,
    /// 17.
    pub minor: u32,
    /// `.7`, with its dot or whatever else it begins with.
    pub extra: String,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}{}", self.major, self.minor, self.extra)
    }
}

impl Version {
    /// How packages are named: `4.17`.
    pub fn short(&self) -> String {
        format!("{}.{}", self.major, self.minor)
    }
}
