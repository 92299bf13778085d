//! Classes of trace records, and the mask that switches them on.
//!
//! A record is written if its class *and* its subclass are in the mask (`trace_will_trace_event`,
//! xen/common/trace.c of 4.17), and the mask has one set of subclasses for all classes: `sched-min,hvm` is also all
//! of SCHED, because HVM brings its subclasses along.

use crate::XenError;
use std::{fmt, str::FromStr};

/// Which records Xen writes: `-e` of xentrace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventMask(pub u32);

/// Names and masks (xen/include/public/trace.h), as `--xen-events` takes them.
pub const CLASSES: &[(&str, u32)] = &[
    ("all", 0x0fff_f000),
    ("gen", 0x0001_f000),
    ("sched", 0x0002_f000),
    ("sched-min", 0x0002_1000),
    ("sched-class", 0x0002_2000),
    ("sched-verbose", 0x0002_8000),
    ("dom0op", 0x0004_f000),
    ("hvm", 0x0008_f000),
    ("hvm-entryexit", 0x0008_1000),
    ("hvm-handler", 0x0008_2000),
    ("hvm-emul", 0x0008_4000),
    ("mem", 0x0010_f000),
    ("pv", 0x0020_f000),
    ("pv-entry", 0x0020_1000),
    ("pv-subcall", 0x0020_2000),
    ("shadow", 0x0040_f000),
    ("hw", 0x0080_f000),
    ("hw-pm", 0x0080_1000),
    ("hw-irq", 0x0080_2000),
    ("guest", 0x0800_f000),
];

/// What states, exits and I/O counts are made of: all but shadow paging, power and interrupt
/// management, and what guests write themselves.
const DEFAULT: u32 = 0x003f_f000;

impl Default for EventMask {
    fn default() -> Self {
        EventMask(DEFAULT)
    }
}

impl FromStr for EventMask {
    type Err = XenError;

    /// `sched,hvm-entryexit`, `all`, or a mask in hexadecimal.
    fn from_str(text: &str) -> Result<Self, XenError> {
        let unknown = |asked: &str| XenError::Class {
            asked: asked.to_owned(),
            known: CLASSES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "),
        };
        let mut mask = 0;
        for word in text.split(',').map(str::trim) {
            let named = CLASSES.iter().find(|(name, _)| *name == word).map(|(_, bits)| *bits);
            let bits = match word.strip_prefix("0x") {
                Some(digits) => u32::from_str_radix(digits, 16).ok(),
                None => named,
            };
            mask |= bits.filter(|bits| *bits != 0).ok_or_else(|| unknown(word))?;
        }
        Ok(EventMask(mask))
    }
}

impl fmt::Display for EventMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:08x}", self.0)
    }
}

impl EventMask {
    /// The classes it is made of, the widest names that fit: what a reader of the recording finds.
    pub fn names(self) -> Vec<&'static str> {
        let fits = |bits: u32| self.0 & bits == bits;
        let all = CLASSES.iter().filter(|(_, bits)| fits(*bits));
        let mut named: Vec<&(&str, u32)> = Vec::new();
        for class in all {
            let is_part = named.iter().any(|(_, wider)| wider & class.1 == class.1);
            if !is_part {
                named.push(class);
            }
        }
        named.into_iter().map(|(name, _)| *name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_make_masks() {
        let mask = |text: &str| text.parse::<EventMask>().map(|mask| mask.0);
        assert_eq!(mask("all").unwrap(), 0x0fff_f000);
        assert_eq!(mask("sched").unwrap(), 0x0002_f000);
        assert_eq!(mask("sched-min, hvm").unwrap(), 0x000a_f000);
        assert_eq!(mask("0x00069000").unwrap(), 0x0006_9000);
        for bad in ["", "sched,", "cpu", "0x", "0xg", "0x0", "0x1ffffffff"] {
            let error = mask(bad).unwrap_err().to_string();
            assert!(error.contains("known are all, gen, sched"), "{error}");
        }
    }

    #[test]
    fn masks_have_names() {
        assert_eq!(EventMask(0x0fff_f000).names(), ["all"]);
        assert_eq!(EventMask(0x0002_1000).names(), ["sched-min"]);
        assert_eq!(EventMask::default().names(), ["gen", "sched", "dom0op", "hvm", "mem", "pv"]);
        // One set of subclasses for all classes.
        let mixed: EventMask = "sched-min,hvm".parse().unwrap();
        assert_eq!(mixed.names(), ["sched", "hvm"]);
    }
}
