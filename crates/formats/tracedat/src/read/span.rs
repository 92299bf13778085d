//! From when to when a file has events, without reading all of them.

use super::TraceDat;
use transect_model::time::{Source, Timestamp};

impl TraceDat<'_> {
    /// The stamps of the first and of the last event in the buffers with this clock (also in those that do not name
    /// theirs); none without events. Takes time by the number of CPUs: only the ends of their data are read.
    pub fn span(&self, clock: &str) -> Option<(Timestamp<Source>, Timestamp<Source>)> {
        let is_meant = |name: &str| name.is_empty() || name == clock;
        let mut span: Option<(Timestamp<Source>, Timestamp<Source>)> = None;
        for buffer in self.buffers().iter().filter(|buffer| is_meant(&buffer.clock)) {
            for cpu in buffer.cpus() {
                let first = self.stream(buffer, cpu).and_then(|stream| stream.first_stamp());
                let last = self.stream(buffer, cpu).and_then(|stream| stream.last_stamp());
                let Some(ends) = first.zip(last) else { continue };
                let so_far = span.unwrap_or(ends);
                span = Some((so_far.0.min(ends.0), so_far.1.max(ends.1)));
            }
        }
        span
    }
}
