//! A tile of sums as bytes: per bucket that has something its keys and shares, or what a number
//! was like. All numbers are of variable length; a mean is a double.

use crate::sums::{Sums, TILE_BUCKETS, Values, shares};
use crate::varint::{put, take, unzigzag, zigzag};

/// One key's share of a bucket, in 1/65535.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The bucket within the tile.
    pub bucket: u16,
    /// The key.
    pub key: u32,
    /// Its share.
    pub share: u16,
}

/// What a number was like in a bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValueBucket {
    /// The bucket within the tile.
    pub bucket: u16,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
    /// The mean over the time it was known.
    pub mean: f64,
}

/// The sums of time; `whole` is what fills a bucket, or none where a bucket is filled by all that
/// is in it (instants).
pub(crate) fn encode_shares(sums: &Sums<i64>, whole: Option<i64>, to: &mut Vec<u8>) {
    let mut last = 0;
    for (at, bucket) in sums.buckets().enumerate() {
        let whole = whole.unwrap_or_else(|| bucket.iter().map(|(_, sum)| sum).sum());
        let shares = shares(bucket, whole);
        if shares.is_empty() {
            continue;
        }
        put(to, (at - last) as u64);
        last = at;
        put(to, shares.len() as u64);
        for (key, share) in shares {
            put(to, u64::from(key));
            put(to, u64::from(share));
        }
    }
}

/// The inverse of [`encode_shares`]; none where the bytes make no sense.
pub(crate) fn decode_shares(mut bytes: &[u8], to: &mut Vec<Share>) -> Option<()> {
    let mut bucket = 0;
    while !bytes.is_empty() {
        bucket = next_bucket(bucket, &mut bytes)?;
        for _ in 0..take(&mut bytes)? {
            let key = u32::try_from(take(&mut bytes)?).ok()?;
            let share = u16::try_from(take(&mut bytes)?).ok()?;
            to.push(Share { bucket, key, share });
        }
    }
    Some(())
}

fn next_bucket(last: u16, bytes: &mut &[u8]) -> Option<u16> {
    let bucket = u16::try_from(u64::from(last).checked_add(take(bytes)?)?).ok()?;
    (usize::from(bucket) < TILE_BUCKETS).then_some(bucket)
}

/// The sums of a number.
pub(crate) fn encode_values(sums: &Sums<Values>, to: &mut Vec<u8>) {
    let mut last = 0;
    for (at, bucket) in sums.buckets().enumerate() {
        let Some((_, values)) = bucket.first() else { continue };
        put(to, (at - last) as u64);
        last = at;
        put(to, zigzag(values.min));
        put(to, zigzag(values.max));
        #[expect(clippy::cast_precision_loss, reason = "a mean is not exact")]
        let mean = values.area as f64 / values.known_ns.max(1) as f64;
        to.extend_from_slice(&mean.to_le_bytes());
    }
}

/// The inverse of [`encode_values`], each value times `scale`.
pub(crate) fn decode_values(mut bytes: &[u8], scale: f64, to: &mut Vec<ValueBucket>) -> Option<()> {
    let mut bucket = 0;
    while !bytes.is_empty() {
        bucket = next_bucket(bucket, &mut bytes)?;
        let min = scaled(take(&mut bytes)?, scale);
        let max = scaled(take(&mut bytes)?, scale);
        let (mean, rest) = bytes.split_first_chunk::<8>()?;
        bytes = rest;
        to.push(ValueBucket { bucket, min, max, mean: f64::from_le_bytes(*mean) * scale });
    }
    Some(())
}

/// A stored value as people know it.
#[expect(clippy::cast_precision_loss, reason = "numbers are drawn, not added up")]
pub(crate) fn scaled(code: u64, scale: f64) -> f64 {
    unzigzag(code) as f64 * scale
}
