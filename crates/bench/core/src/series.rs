//! The course of the main shares, in at most [`Series::LIMIT`] points.

use serde::{Deserialize, Serialize};

/// Columns of equal length; one point is the mean of [`Series::every_ms`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Series {
    /// Time that a point covers, ms.
    pub every_ms: u64,
    /// CPUs busy, all programs'.
    pub busy_cpus: Vec<f32>,
    /// CPUs that the watched threads had.
    pub watched_cpus: Vec<f32>,
    /// Watched threads that waited for a CPU.
    pub watched_waiting: Vec<f32>,
    /// CPUs stolen.
    pub stolen_cpus: Vec<f32>,
    /// Share of time that the busiest disk had anything in flight.
    pub disk_busy: Vec<f32>,
    /// PSI `some` of I/O, share of time.
    pub stalled_io: Vec<f32>,
    /// PSI `some` of memory, share of time.
    pub stalled_memory: Vec<f32>,
    /// Bytes a second through all interfaces but loopback, both ways.
    pub net_bytes_per_s: Vec<f32>,
}

impl Series {
    /// The most points.
    pub const LIMIT: usize = 120;

    /// Points.
    #[must_use]
    pub fn len(&self) -> usize {
        self.busy_cpus.len()
    }

    /// No point at all?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.busy_cpus.is_empty()
    }

    /// All of them, in their order.
    pub fn columns(&mut self) -> [&mut Vec<f32>; 8] {
        [
            &mut self.busy_cpus,
            &mut self.watched_cpus,
            &mut self.watched_waiting,
            &mut self.stolen_cpus,
            &mut self.disk_busy,
            &mut self.stalled_io,
            &mut self.stalled_memory,
            &mut self.net_bytes_per_s,
        ]
    }
}
