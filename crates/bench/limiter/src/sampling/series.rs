//! The course of the main shares while it is recorded.

use transect_bench_core::Series;

/// One point.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Point {
    pub(super) busy_cpus: f64,
    pub(super) watched_cpus: f64,
    pub(super) watched_waiting: f64,
    pub(super) stolen_cpus: f64,
    pub(super) disk_busy: f64,
    pub(super) stalled_io: f64,
    pub(super) stalled_memory: f64,
    pub(super) net_bytes_per_s: f64,
}

/// Makes a [`Series`] of any number of points: when it is full, neighbours are merged and a point covers twice the time.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    series: Series,
    merged: u32,
    pending: Vec<Point>,
}

impl Recorder {
    pub(super) fn new(every_ms: u64) -> Self {
        Self { series: Series { every_ms, ..Series::default() }, merged: 1, pending: Vec::new() }
    }

    pub(super) fn push(&mut self, point: Point) {
        self.pending.push(point);
        if self.pending.len() < usize::try_from(self.merged).unwrap_or(usize::MAX) {
            return;
        }
        if self.series.len() == Series::LIMIT {
            self.halve();
            return;
        }
        self.flush();
    }

    fn flush(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let means = means(&self.pending);
        self.pending.clear();
        for (column, mean) in self.series.columns().into_iter().zip(means) {
            column.push(short(mean));
        }
    }

    fn halve(&mut self) {
        for column in self.series.columns() {
            *column = column
                .chunks(2)
                .map(|pair| {
                    let sum: f64 = pair.iter().map(|value| f64::from(*value)).sum();
                    short(sum / pair.len() as f64)
                })
                .collect();
        }
        self.merged = self.merged.saturating_mul(2);
        self.series.every_ms = self.series.every_ms.saturating_mul(2);
    }

    pub(super) fn finish(mut self) -> Series {
        if self.series.len() < Series::LIMIT {
            self.flush();
        }
        self.series
    }
}

fn means(points: &[Point]) -> [f64; 8] {
    let mean = |get: fn(&Point) -> f64| points.iter().map(get).sum::<f64>() / points.len() as f64;
    [
        mean(|point| point.busy_cpus),
        mean(|point| point.watched_cpus),
        mean(|point| point.watched_waiting),
        mean(|point| point.stolen_cpus),
        mean(|point| point.disk_busy),
        mean(|point| point.stalled_io),
        mean(|point| point.stalled_memory),
        mean(|point| point.net_bytes_per_s),
    ]
}

/// Three digits after the point are enough for a chart, and keep the journal small.
fn short(value: f64) -> f32 {
    #[allow(clippy::cast_possible_truncation, reason = "a chart's precision is wanted")]
    let short = ((value * 1000.0).round() / 1000.0) as f32;
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_points_fits_and_keeps_its_mean() {
        for count in [1_u32, 119, 120, 121, 240, 1000, 5000] {
            let mut recorder = Recorder::new(10);
            for index in 0..count {
                recorder.push(Point { busy_cpus: f64::from(index % 2), ..Point::default() });
            }
            let series = recorder.finish();
            assert!(series.len() <= Series::LIMIT && !series.is_empty(), "{count}");
            assert_eq!(series.net_bytes_per_s.len(), series.len());
            let mean = series.busy_cpus.iter().sum::<f32>() / series.len() as f32;
            assert!(count == 1 || (mean - 0.5).abs() < 0.1, "{count}: {mean}");
        }
    }

    #[test]
    fn a_point_covers_what_it_says() {
        let mut recorder = Recorder::new(10);
        for _ in 0..480 {
            recorder.push(Point::default());
        }
        let series = recorder.finish();
        let covered = series.every_ms * series.len() as u64;
        assert!((4400..=4800).contains(&covered), "{covered}");
    }
}
