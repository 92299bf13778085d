//! What the kernel of the host counts itself while a recording runs, read every quarter second: an explanation of the time
//! between two readings has the same quantity as their difference.

use anyhow::{Context, Result, ensure};
use std::{collections::BTreeMap, ops::Range};

/// Prints the time (the recording's clock), the name and the content of each file, so many times.
pub(super) const SAMPLER: &str = r#"use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC sleep);
my ($times, @files) = @ARGV;
for (1 .. $times) {
    for my $file (@files) {
        my $ns = int(clock_gettime(CLOCK_MONOTONIC) * 1e9);
        open(my $in, "<", $file) or next;
        local $/;
        my $content = <$in>;
        $content =~ s/\n/;/g;
        print "$ns\t$file\t$content\n";
    }
    sleep 0.25;
}"#;
/// A reading counts from here on and up to here, counted from the ends of the recording.
const INSET_NS: i64 = 200_000_000;

/// What was read: for each file when, and what.
#[derive(Debug)]
pub(super) struct Samples {
    by_file: BTreeMap<String, Vec<(i64, String)>>,
    first: String,
}

impl Samples {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut by_file: BTreeMap<String, Vec<(i64, String)>> = BTreeMap::new();
        let mut first = None;
        for line in text.lines() {
            let (ns, rest) = line.split_once('\t').context("a sample without a time")?;
            let (file, content) = rest.split_once('\t').context("a sample without a file")?;
            first.get_or_insert(file.to_owned());
            by_file.entry(file.to_owned()).or_default().push((ns.parse()?, content.to_owned()));
        }
        Ok(Samples { by_file, first: first.context("nothing was read")? })
    }

    /// From the first reading in a range to the last one.
    pub(super) fn within(&self, range: &Range<i64>) -> Result<Range<i64>> {
        let inner = range.start + INSET_NS..range.end - INSET_NS;
        let times = self.by_file[&self.first].iter().map(|(ns, _)| *ns);
        let times: Vec<i64> = times.filter(|ns| inner.contains(ns)).collect();
        let (from, until) = times.first().zip(times.last()).context("no reading in the range")?;
        ensure!(until - from > 2_000_000_000, "{} readings in {inner:?}", times.len());
        Ok(*from..*until)
    }

    /// The readings of a file at the ends of a range, and the time between them.
    fn ends(&self, file: &str, range: &Range<i64>) -> Result<(&str, &str, f64)> {
        let all = self.by_file.get(file).with_context(|| format!("{file} was not read"))?;
        // The files are read one after the other: the first reading after each end.
        let at = |end: i64| all.iter().find(|(ns, _)| *ns >= end).or(all.last());
        let ((from, old), (until, new)) =
            at(range.start).zip(at(range.end)).context("no reading")?;
        #[expect(clippy::cast_precision_loss, reason = "some seconds")]
        let length = (until - from) as f64;
        Ok((old, new, length))
    }

    /// The share of the range in which a thread had a CPU, and in which it waited for one
    /// (Documentation/scheduler/sched-stats.rst).
    pub(super) fn ran_and_waited(&self, file: &str, range: &Range<i64>) -> Result<[f64; 2]> {
        Ok([self.nanoseconds(file, 0, range)?, self.nanoseconds(file, 1, range)?])
    }

    /// The share of the range by which a number of a file with nanoseconds has grown.
    pub(super) fn nanoseconds(&self, file: &str, at: usize, range: &Range<i64>) -> Result<f64> {
        let (old, new, length) = self.ends(file, range)?;
        let column = |text: &str| -> Result<f64> {
            text.split([' ', ';']).nth(at).context("too few numbers")?.parse().context("a number")
        };
        Ok((column(new)? - column(old)?) / length)
    }

    /// The share of the range by which a counter of microseconds in a file `NAME NUMBER` has grown.
    pub(super) fn microseconds(&self, file: &str, key: &str, range: &Range<i64>) -> Result<f64> {
        let (old, new, length) = self.ends(file, range)?;
        let counter = |text: &str| -> Result<f64> {
            let mut lines = text.split(';').filter_map(|line| line.split_once(' '));
            let found =
                lines.find(|(name, _)| *name == key).with_context(|| format!("no {key}"))?;
            found.1.parse().context("a number")
        };
        Ok((counter(new)? - counter(old)?) * 1000.0 / length)
    }

    /// The share of the range in which a CPU was idle, by the ticks of `/proc/stat`.
    pub(super) fn idle(&self, cpu: u32, range: &Range<i64>) -> Result<f64> {
        let (old, new, _) = self.ends("/proc/stat", range)?;
        let ticks = |text: &str| -> Result<Vec<f64>> {
            let head = format!("cpu{cpu} ");
            let line = text.split(';').find_map(|line| line.strip_prefix(&head));
            let columns = line.context("no such CPU")?.split(' ');
            columns.map(|ticks| ticks.parse().context("a number")).collect()
        };
        let grown: Vec<f64> = ticks(new)?.iter().zip(ticks(old)?).map(|(a, b)| a - b).collect();
        Ok(grown.get(3).context("no idle")? / grown.iter().sum::<f64>())
    }
}
