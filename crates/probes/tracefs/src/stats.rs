//! `per_cpu/cpuN/stats`: what the kernel counted (kernel/trace/trace.c, `tracing_stats_read`).

/// Counters of one CPU's buffer. A line this kernel lacks counts as 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuStats {
    /// Events waiting in the buffer.
    pub entries: u64,
    /// Events overwritten before they were read.
    pub overrun: u64,
    /// Events lost because an interrupt found the buffer full.
    pub commit_overrun: u64,
    /// Bytes waiting in the buffer.
    pub bytes: u64,
    /// Events not written for want of room (only without overwriting).
    pub dropped: u64,
    /// Events read.
    pub read: u64,
}

impl CpuStats {
    /// Parses the file's text.
    pub fn parse(text: &str) -> Self {
        let mut stats = CpuStats::default();
        for line in text.lines() {
            let Some((key, value)) = line.split_once(':') else { continue };
            let Ok(value) = value.trim().parse() else { continue };
            match key.trim() {
                "entries" => stats.entries = value,
                "overrun" => stats.overrun = value,
                "commit overrun" => stats.commit_overrun = value,
                "bytes" => stats.bytes = value,
                "dropped events" => stats.dropped = value,
                "read events" => stats.read = value,
                _ => {}
            }
        }
        stats
    }

    /// Events that will never be read.
    pub fn lost(&self) -> u64 {
        self.overrun.wrapping_add(self.commit_overrun).wrapping_add(self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_its_place() {
        let text = "entries: 1\noverrun: 2\ncommit overrun: 3\nbytes: 4\noldest event ts: 9.5\n\
                    now ts: 10.1\ndropped events: 5\nread events: 6\n";
        let stats = CpuStats::parse(text);
        let want =
            CpuStats { entries: 1, overrun: 2, commit_overrun: 3, bytes: 4, dropped: 5, read: 6 };
        assert_eq!(stats, want);
        assert_eq!(stats.lost(), 10);
    }
}
