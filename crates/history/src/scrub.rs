//! Verification of old files in the background, so that damage is known before a client asks.

use super::index::Index;
use std::time::Duration;

/// Bytes that are read at once.
const PART_BYTES: u64 = 1 << 20;
/// The wait behind each part: 50 MB are read in a second at most.
const PART_WAIT: Duration = Duration::from_millis(20);

/// Verifies every frame that the index has now, once. `is_over` waits for so long and tells whether to end.
pub fn scrub(index: &Index, is_over: &dyn Fn(Duration) -> bool) {
    let mut read = 0;
    for place in index.parts(0, u64::MAX).into_iter().flat_map(|part| part.places) {
        // What cannot be read now is verified when a client asks for it.
        let _ = index.check([&place].into_iter());
        read += place.note.whole_bytes();
        if read >= PART_BYTES {
            read = 0;
            if is_over(PART_WAIT) {
                return;
            }
        }
    }
}
