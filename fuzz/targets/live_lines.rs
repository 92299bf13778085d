//! Any bytes as a log of windows: an end, errors with a line of the log, and what was read is written and read
//! again as it is.
#![no_main]

use libfuzzer_sys::fuzz_target;
use transect_live::{
    Snapshot,
    lines::{LinesError, Reader, write},
};

fn text(window: &Snapshot) -> Vec<u8> {
    let mut text = Vec::new();
    write(window, &mut text).unwrap();
    text
}

fuzz_target!(|data: &[u8]| {
    let lines = data.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
    let mut sum: Option<Snapshot> = None;
    for read in Reader::new(data) {
        let window = match read {
            Ok(window) => window,
            Err(
                LinesError::Io { line, .. }
                | LinesError::Broken { line, .. }
                | LinesError::Cut { line, .. },
            ) => {
                assert!((1..=lines + 1).contains(&line));
                continue;
            }
        };
        // Values that the log itself says cannot be had are not written.
        let told = text(&window);
        let again = Reader::new(told.as_slice()).next().unwrap().unwrap();
        assert_eq!(text(&again), told);
        match &mut sum {
            Some(sum) => sum.extend(&window),
            None => sum = Some(window),
        }
    }
});
