//! Why a recording ended, and what of it was not kept.

use std::{io, path::Path};
use transect_model::people::one_line;
use transect_store::{Manifest, StoreError};
use transect_tracefs::TracefsError;

/// The manifest's word for a full file system, and the cause of the holes that it leaves.
pub(super) const DISK_FULL: &str = "disk_full";
/// The cause of the holes that any other failure leaves.
pub(super) const NOT_WRITTEN: &str = "not_written";

/// Why a recording ended.
pub(super) struct Ending {
    /// For the manifest.
    pub(super) reason: String,
    /// Why it ended before its time.
    pub(super) failure: Option<anyhow::Error>,
}

impl Ending {
    /// It ended as it should.
    pub(super) fn in_order(reason: String) -> Self {
        Ending { reason, failure: None }
    }

    /// It could not go on.
    pub(super) fn failed(failure: anyhow::Error) -> Self {
        Ending { reason: Ending::reason_of(&failure), failure: Some(failure) }
    }

    /// The manifest's words for a failure.
    pub(super) fn reason_of(failure: &anyhow::Error) -> String {
        if is_storage_full(failure) {
            return DISK_FULL.to_owned();
        }
        format!("failure: {}", one_line(failure.as_ref()))
    }
}

/// Keeps the kind, so that a full disk is still told apart.
pub(super) fn as_io(error: StoreError) -> io::Error {
    let kind = match &error {
        StoreError::NoSpace { .. } => io::ErrorKind::StorageFull,
        StoreError::Io { source, .. } => source.kind(),
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

/// Was the file system full, or a quota used up?
pub(super) fn is_storage_full(failure: &anyhow::Error) -> bool {
    failure.chain().any(|cause| {
        if let Some(error) = cause.downcast_ref::<StoreError>() {
            return matches!(error, StoreError::NoSpace { .. } | StoreError::NoRoom { .. });
        }
        if let Some(error) = cause.downcast_ref::<TracefsError>() {
            return error.is_storage_full();
        }
        cause.downcast_ref::<io::Error>().is_some_and(|error| {
            matches!(
                error.kind(),
                io::ErrorKind::StorageFull
                    | io::ErrorKind::QuotaExceeded
                    | io::ErrorKind::FileTooLarge
            )
        })
    })
}

/// Is the recording's directory gone from where it was made? Then there is nothing to complete.
pub(super) fn is_out_of_place(failure: &anyhow::Error) -> bool {
    failure.chain().any(|cause| {
        let error = cause.downcast_ref::<StoreError>();
        matches!(error, Some(StoreError::Removed(_) | StoreError::Moved { .. }))
    })
}

/// The word for why events were not kept.
pub(super) fn cause_of(ended_by: &str) -> &'static str {
    if ended_by.starts_with(DISK_FULL) { DISK_FULL } else { NOT_WRITTEN }
}

/// The error for the user: the failure, the events that were not kept, and what there is.
pub(super) fn explain(failure: anyhow::Error, manifest: &Manifest, dir: &Path) -> anyhow::Error {
    let missing = match manifest.not_kept_text() {
        None => String::new(),
        Some(text) => format!(" Not kept: {text}."),
    };
    let dir = dir.display();
    match is_storage_full(&failure) {
        true => anyhow::anyhow!(
            "{dir}: recording ended early: the file system is full.{missing} The rest can be read: transect report \
             {dir}. To record more, free space, or use -o on another file system, fewer events (-e) or --duration"
        ),
        false => failure.context(format!("{dir}: recording ended early.{missing}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn a_full_disk_is_recognised_below_any_context() {
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        assert!(is_storage_full(&anyhow::Error::new(full()).context("guest web")));
        let quota = StoreError::NoSpace { path: "x".into() };
        assert!(is_storage_full(&anyhow::Error::new(quota)));
        let other = Err::<(), _>(io::Error::from(io::ErrorKind::NotFound)).context("x");
        assert!(!is_storage_full(&other.unwrap_err()));
        assert_eq!(Ending::failed(anyhow::Error::new(full())).reason, DISK_FULL);
        assert_eq!(cause_of("failure: x"), NOT_WRITTEN);
    }
}
