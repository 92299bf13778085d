//! `/proc/diskstats`.

use super::line::{column, lines, numbers};
use transect_bench_core::samples::DiskCounts;

/// One device of `/proc/diskstats`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskLine {
    /// `vda`, `vda1`.
    pub name: String,
    /// Counters.
    pub counts: DiskCounts,
    /// Requests in flight at this moment.
    pub in_flight: u64,
}

/// Reads `/proc/diskstats` (Documentation/admin-guide/iostats.rst). Sectors are 512 bytes whatever the device.
#[must_use]
pub fn diskstats(text: &[u8]) -> Vec<DiskLine> {
    lines(text).filter_map(line).collect()
}

fn line(line: &str) -> Option<DiskLine> {
    let name = line.split_ascii_whitespace().nth(2)?.to_owned();
    let all = numbers(line);
    let figures = all.get(3..).filter(|figures| figures.len() >= 11)?;
    let count = |index| column(figures, index);
    let sectors = |index| column(figures, index).saturating_mul(512);
    let ms = |index| column(figures, index).saturating_mul(1_000_000);
    Some(DiskLine {
        name,
        counts: DiskCounts {
            reads: count(0),
            read_bytes: sectors(2),
            read_ns: ms(3),
            writes: count(4),
            written_bytes: sectors(6),
            write_ns: ms(7),
            busy_ns: ms(9),
            queue_ns: ms(10),
            flushes: count(15),
            flush_ns: ms(16),
        },
        in_flight: count(8),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_and_without_flushes() {
        let text =
            b" 254       0 vda 184735 35390 7173098 133224 30757 48820 7605768 29690 2 19376 164134 6936 18 1035248 982 3850 237\n\
              8 0 sda 10 0 80 5 20 0 160 9 0 12 14\n 8 0 broken 1 2\n";
        let disks = diskstats(text);
        assert_eq!(disks.len(), 2);
        let vda = disks.first().unwrap();
        assert_eq!((vda.name.as_str(), vda.in_flight), ("vda", 2));
        assert_eq!(vda.counts.read_bytes, 7_173_098 * 512);
        assert_eq!(vda.counts.busy_ns, 19_376_000_000);
        assert_eq!((vda.counts.flushes, vda.counts.flush_ns), (3850, 237_000_000));
        assert_eq!(disks.last().unwrap().counts.flushes, 0);
    }
}
