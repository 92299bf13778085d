//! What a single run is of.

use serde::{Deserialize, Serialize};
use std::fmt;
use transect_bench_core::{About, CacheState, Refusal};
use transect_bench_workloads as workloads;

/// One combination of everything that is crossed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cell {
    /// What runs.
    #[serde(flatten)]
    pub group: Group,
    /// Where.
    pub platform: String,
    /// Under whose eyes.
    pub tracer: String,
}

/// What is compared with each other: the same work everywhere.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Group {
    /// The workload's name.
    pub workload: String,
    /// The state of the page cache.
    pub cache: CacheState,
    /// How many machines run it together.
    pub guests: u32,
}

impl Group {
    /// The workload.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn about(&self) -> Result<About, Refusal> {
        Ok(workloads::named(&self.workload)?.about())
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.workload)?;
        if self.cache != CacheState::Any {
            write!(f, " {}", self.cache.name())?;
        }
        if self.guests > 1 {
            write!(f, " ×{}", self.guests)?;
        }
        Ok(())
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.group, self.platform)?;
        if self.tracer != "none" {
            write!(f, " under {}", self.tracer)?;
        }
        Ok(())
    }
}
