//! `transect flame` of recordings without stacks. Real stacks need a recorder ([`crate::host`]).
#![allow(clippy::unwrap_used, reason = "tests report by failing")]

use crate::view_support::{nested, transect};

#[test]
fn a_recording_without_stacks_is_an_error_with_the_command_that_records_them() {
    let dir = tempfile::tempdir().unwrap();
    let recording = nested(dir.path());
    let page = dir.path().join("stages.html");
    for words in [
        vec!["flame", &recording],
        vec!["flame", &recording, "--folded", "--from", "+1000"],
        vec!["flame", &recording, "-o", page.to_str().unwrap()],
    ] {
        let output = transect(dir.path(), &words);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{words:?}: {error}");
        assert!(output.stdout.is_empty(), "{words:?}");
        assert!(error.contains("no stacks in this r"), "{words:?}: {error}");
        assert!(error.contains("transect record --stacks --profile explain"), "{words:?}: {error}");
    }
    assert!(!page.exists());
}

#[test]
fn packets_and_requests_exclude_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let output = transect(dir.path(), &["flame", "x.transect", "--packets", "--requests"]);
    assert_eq!(output.status.code(), Some(2));
}
