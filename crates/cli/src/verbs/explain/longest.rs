//! The N-th longest of what begins and ends in a range.

use anyhow::bail;
use std::cmp::Reverse;
use transect_model::number::counted;
use transect_model::time::Span;

/// What can be long.
pub(super) trait Long {
    /// When it begins, and how long it is.
    fn stretch(&self) -> (i64, Option<i64>);
}

/// The row that is the `number`-th longest; of the same length, in the order of `key`.
pub(super) fn nth<'r, R: Long, K: Ord>(
    rows: impl Iterator<Item = &'r R>,
    (what, which, number): (&str, &str, u64),
    range: Span,
    key: impl Fn(&R) -> K,
) -> anyhow::Result<&'r R> {
    let is_whole = |row: &&R| {
        let (ts, dur) = row.stretch();
        let end = dur.and_then(|dur| ts.checked_add(dur));
        ts >= range.start.get() && end.is_some_and(|end| end <= range.end.get())
    };
    let mut all: Vec<&R> = rows.filter(is_whole).collect();
    all.sort_by_key(|row| (Reverse(row.stretch().1), key(row)));
    let at = usize::try_from(number - 1).unwrap_or(usize::MAX);
    match all.get(at) {
        Some(row) => Ok(row),
        None => {
            let of = counted(all.len() as u64, what);
            bail!("there is no {what} {number}: {of} begin and end in this range{which}")
        }
    }
}
