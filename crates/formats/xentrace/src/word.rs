//! The header word of a record and the numbers that frame a file.
//!
//! Source: `xen/include/public/trace.h`, the same from Xen 4.14 to 4.20.

/// Most words a record has after its header and stamp: the header counts them in three bits.
pub const MAX_EXTRA_WORDS: usize = 7;
/// Set in the header of a record that carries a TSC stamp.
pub const CYCLE_FLAG: u32 = 1 << 31;
/// The bits of the header that say which event it is.
pub const EVENT_MASK: u32 = 0x0fff_ffff;
/// `TRC_64_FLAG`: set in events whose addresses have 64 bits.
pub const FLAG_64: u32 = 0x100;
/// `TRC_HVM_NESTEDFLAG`: set in entries and exits of a nested guest (SVM only).
pub const NESTED_FLAG: u32 = 0x400;

/// `TRC_LOST_RECORDS`.
pub const LOST_RECORDS: u32 = 0x0001_f001;
/// `TRC_TRACE_WRAP_BUFFER`.
pub const WRAP_BUFFER: u32 = 0x0001_f002;
/// `TRC_TRACE_CPU_CHANGE`.
pub const CPU_CHANGE: u32 = 0x0001_f003;
/// The whole header word with which xentrace begins a window: CPU_CHANGE, two words, no stamp.
pub const CPU_CHANGE_HEAD: u32 = CPU_CHANGE | 2 << 28;
/// Bytes of a CPU_CHANGE record: header, CPU, size of the window.
pub const CPU_CHANGE_BYTES: usize = 12;
/// CPUs a hypervisor can have (`CONFIG_NR_CPUS` is at most 16383 in Xen 4.20); a window of a
/// higher number is damage.
pub const MAX_CPUS: u32 = 16_384;

/// A header word, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head(pub u32);

impl Head {
    /// Puts a header together. `words` beyond [`MAX_EXTRA_WORDS`] do not fit and are cut off.
    pub fn new(event: u32, words: usize, stamped: bool) -> Head {
        // At most seven after the mask, so the cast keeps it.
        let words = u32::try_from(words & MAX_EXTRA_WORDS).unwrap_or(0);
        Head(event & EVENT_MASK | words << 28 | if stamped { CYCLE_FLAG } else { 0 })
    }

    /// Which event: class, subclass and number.
    #[inline]
    pub fn event(self) -> u32 {
        self.0 & EVENT_MASK
    }

    /// Words after header and stamp, 0 to 7.
    #[inline]
    pub fn words(self) -> usize {
        (self.0 >> 28) as usize & MAX_EXTRA_WORDS
    }

    /// Does a stamp of two words follow the header?
    #[inline]
    pub fn stamped(self) -> bool {
        self.0 & CYCLE_FLAG != 0
    }

    /// Bytes of the whole record, 4 to 40.
    #[inline]
    pub fn bytes(self) -> usize {
        4 + 8 * (self.0 >> 31) as usize + 4 * self.words()
    }
}

/// The little-endian word at byte `at` of `bytes`, 0 if it is not there.
#[inline]
pub(crate) fn word_at(bytes: &[u8], at: usize) -> u32 {
    match bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        Some(word) => u32::from_le_bytes(*word),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_come_apart_as_they_were_put_together() {
        for words in 0..=MAX_EXTRA_WORDS {
            for stamped in [false, true] {
                let head = Head::new(LOST_RECORDS, words, stamped);
                assert_eq!(
                    (head.event(), head.words(), head.stamped()),
                    (LOST_RECORDS, words, stamped)
                );
                assert_eq!(head.bytes(), 4 + words * 4 + if stamped { 8 } else { 0 });
            }
        }
        assert_eq!(Head::new(CPU_CHANGE, 2, false).0, CPU_CHANGE_HEAD);
    }
}
