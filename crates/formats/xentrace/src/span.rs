//! From when to when a file has records, without reading all of them.

use crate::read::XenTrace;
use transect_model::ids::CpuId;

impl XenTrace<'_> {
    /// The stamps of the first and of the last record; none without records. Takes time by the number of pCPUs: only
    /// the ends of their windows are read.
    pub fn span(&self) -> Option<(u64, u64)> {
        let first = self.cpus().filter_map(|cpu| Some(self.stream(cpu).next()?.tsc)).min()?;
        let last = self.cpus().filter_map(|cpu| self.last_stamp(cpu)).max()?;
        Some((first, last))
    }

    fn last_stamp(&self, cpu: CpuId) -> Option<u64> {
        let windows = self.index().windows(cpu).len();
        (0..windows).rev().find_map(|window| {
            self.stream_of(cpu, window..window + 1).map(|record| record.tsc).max()
        })
    }
}
