//! From when until when tables tell where everybody was.

use super::file::TableFile;
use super::files::{folders, open_folder};
use super::order::Timing;
use crate::error::StoreError;
use std::path::Path;
use transect_model::table::{CpuSlice, VcpuStateRow};

/// The first moment that the slices of the CPUs and the states of the vCPUs tell of, and the end of
/// the last: they tile the recording's window. None where there are none.
///
/// Reads what the files' statistics leave open, which is the end of each folder.
///
/// # Errors
/// A file is damaged or of another version's tables.
pub fn span_of(tables: &Path) -> Result<Option<(i64, i64)>, StoreError> {
    let tables = open_folder(tables)?;
    let mut span: Option<(i64, i64)> = None;
    for table in [CpuSlice::TABLE, VcpuStateRow::TABLE] {
        let timing = Timing::of(&table);
        let (Some(ts), Some(dur)) = (timing.ts, timing.dur) else { continue };
        for folder in folders(&tables, table.name)? {
            // From the end: what begins last ends last, or nearly so.
            for file in folder.late.iter().chain(&folder.buckets).rev() {
                let file = TableFile::open(file)?;
                file.check(&table)?;
                for group in (0..file.groups()).rev() {
                    let bounds = file.bounds(group, ts).zip(file.bounds(group, dur));
                    if let (Some((known, last)), Some(((first, latest), (_, longest)))) =
                        (span, bounds)
                        && latest.checked_add(longest).is_some_and(|end| end <= last)
                    {
                        span = Some((known.min(first), last));
                        continue;
                    }
                    let mut frames = file.frames(group)?;
                    while let Some(frame) = frames.next()? {
                        let [ts, dur] = [ts, dur].map(|at| frame.columns[at].numbers());
                        for (ts, dur) in ts.into_iter().flatten().zip(dur.into_iter().flatten()) {
                            let end = ts.checked_add(dur).unwrap_or(i64::MAX);
                            let known = span.unwrap_or((ts, end));
                            span = Some((known.0.min(ts), known.1.max(end)));
                        }
                    }
                }
            }
        }
    }
    Ok(span)
}
