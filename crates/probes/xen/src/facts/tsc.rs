//! What Xen prints when it is asked about the TSC (`dump_softtsc`, xen/arch/x86/time.c of 4.17).

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How far Xen trusts the TSC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reliability {
    /// It says so, or has tested it: domains that do not ask for anything read it as it is.
    Reliable,
    /// Domains that do not ask for anything get an emulated one.
    #[default]
    Unreliable,
}

/// How a domain is to see the TSC (`tsc_mode` of xl.cfg).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TscMode {
    /// As it is where it is reliable, else emulated.
    Default,
    /// Emulated.
    AlwaysEmulate,
    /// As it is.
    Native,
}

/// A domain's TSC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainTsc {
    /// In a hardware container: its TSC has an offset of its own besides.
    pub is_hvm: bool,
    /// How it is to see the TSC.
    pub mode: TscMode,
    /// `vtsc_offset`: Xen's system time, in ns, at which an emulated TSC would be 0. Xen's system time is not its
    /// TSC in other units: it starts later, and is corrected by a platform timer.
    pub offset_ns: u64,
    /// Ticks of an emulated TSC in a millisecond.
    pub khz: u64,
    /// How often the domain was created or restored, migrations included: 1 for one that was created on
    /// this host. 0 where that was not recorded.
    #[serde(default)]
    pub incarnation: u32,
}

impl DomainTsc {
    /// Does the domain read a made-up TSC?
    pub fn is_emulated(&self, reliability: Reliability) -> bool {
        match self.mode {
            TscMode::AlwaysEmulate => true,
            TscMode::Default => reliability == Reliability::Unreliable,
            TscMode::Native => false,
        }
    }
}

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TscFacts {
    /// How far Xen trusts it.
    pub reliability: Reliability,
    /// Xen's own words about that.
    pub said: String,
    /// By domain. dom0 is in it only if its mode is not the default.
    pub domains: BTreeMap<u32, DomainTsc>,
}

/// The last answer in Xen's console ring; none if there is none.
pub fn tsc(dmesg: &str) -> Option<TscFacts> {
    let lines: Vec<&str> = dmesg.lines().map(without_prefix).collect();
    let begins = ["TSC marked as reliable", "TSC has constant rate", "TSC not marked as either"];
    let is_begin = |line: &str| begins.iter().any(|begin| line.starts_with(begin));
    let at = lines.iter().rposition(|line| is_begin(line))?;
    let said = lines[at];
    let trusted = said.starts_with("TSC marked as reliable") || said.contains("deemed reliable");
    let reliability = if trusted { Reliability::Reliable } else { Reliability::Unreliable };
    let domains = lines[at + 1..].iter().filter_map(|line| domain(line)).collect();
    Some(TscFacts { reliability, said: said.to_owned(), domains })
}

/// `(XEN) ` and, with `console_timestamps`, `[2026-11-21 14:13:00.123] ` or `[  123.456789] `.
pub(super) fn without_prefix(line: &str) -> &str {
    let line = line.strip_prefix("(XEN)").unwrap_or(line).trim();
    match line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((_, rest)) => rest.trim(),
        None => line,
    }
}

/// `dom2(hvm): mode=0,ofs=0x3be66e92d,khz=2596139,inc=1`
fn domain(line: &str) -> Option<(u32, DomainTsc)> {
    let (who, values) = line.strip_prefix("dom")?.split_once(": ")?;
    let id = who.trim_end_matches("(hvm)").parse().ok()?;
    let value =
        |key: &str| values.split(',').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='));
    let mode = match value("mode")? {
        "0" => TscMode::Default,
        "1" => TscMode::AlwaysEmulate,
        "2" => TscMode::Native,
        _ => return None,
    };
    let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let tsc = DomainTsc {
        is_hvm: who.ends_with("(hvm)"),
        mode,
        offset_ns: value("ofs").and_then(hex).unwrap_or(0),
        khz: value("khz").and_then(|khz| khz.parse().ok()).unwrap_or(0),
        incarnation: value("inc").and_then(|inc| inc.parse().ok()).unwrap_or(0),
    };
    Some((id, tsc))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_answer_is_read() {
        let facts = tsc(include_str!("../../testdata/xl-dmesg.txt")).unwrap();
        assert_eq!(facts.reliability, Reliability::Unreliable);
        let (duty, hog) = (facts.domains[&1], facts.domains[&2]);
        assert!(duty.is_emulated(facts.reliability) && !hog.is_emulated(facts.reliability));
        assert_eq!((duty.is_hvm, hog.is_hvm), (false, true));
        assert_eq!(duty.khz, 999_999);
        assert!(duty.offset_ns > 1_000_000_000);
        assert_eq!(hog.mode, TscMode::Native);
    }

    #[test]
    fn the_last_answer_counts() {
        let text = "(XEN) TSC not marked as either constant or reliable, warp=0 (count=1)\n\
                    (XEN) dom7: mode=1,ofs=0x10,khz=5,inc=1\n\
                    (XEN) [2026-11-21 14:13:00] TSC has constant rate, no deep Cstates, passed \
                    warp test, deemed reliable, warp=0 (count=2)\n\
                    (XEN) [2026-11-21 14:13:00] dom3: mode=0\n(XEN) other: line\n";
        let facts = tsc(text).unwrap();
        assert_eq!(facts.domains.keys().copied().collect::<Vec<_>>(), [3]);
        assert!(!facts.domains[&3].is_emulated(facts.reliability));
        assert_eq!(tsc("(XEN) nothing\n"), None);
    }
}
