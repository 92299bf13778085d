//! How fast this host is now: the same small piece of work, before and after every block.
//!
//! It says nothing of any platform. It says whether the host that all of them run on was the same all the time.

use std::{hint::black_box, time::Instant};
use transect_bench_stats::statistics::quantile::median;

/// How often it is done: the median of so many is not disturbed by an interrupt.
const TIMES: usize = 9;
/// What is hashed, bytes: some milliseconds, more than a first-level cache.
const BYTES: usize = 1 << 20;

/// What it took, seconds: hashing a mebibyte (SHA-256), the median of several.
pub(super) fn took_s() -> f64 {
    let bytes = vec![0x5a_u8; BYTES];
    let once = || {
        let began = Instant::now();
        black_box(ring::digest::digest(&ring::digest::SHA256, black_box(&bytes)));
        began.elapsed().as_secs_f64()
    };
    let all: Vec<f64> = (0..TIMES).map(|_| once()).collect();
    median(&all).unwrap_or_default().max(f64::MIN_POSITIVE)
}
