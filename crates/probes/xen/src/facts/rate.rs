//! The TSC's rate, from saved output of Xen's tools.
//!
//! Three places print one number, Xen's `cpu_khz`, which is cut to whole kHz (`early_time_init`,
//! xen/arch/x86/time.c of 4.17):
//! - `xl info`, as `cpu_mhz`;
//! - `xl dmesg`, when Xen boots: "Detected 2596.139 MHz processor.", until Xen's console ring wraps;
//! - the TSC report (`xl debug-keys s`), as `khz` of a domain. That is the domain's own rate:
//!   `cpu_khz` for a domain that was created on this host, the former host's for one that was
//!   migrated or restored (`tsc_set_info`). A domain's `inc` counts these, from 1.

use super::info::{CpuHz, cpu_hz, info, khz};
use super::tsc::{TscFacts, without_prefix};

/// The TSC's rate as the text prints it: the output of `xl info`, or of `xl dmesg` with Xen's boot
/// messages or a TSC report. None if the text has no rate, or different ones.
pub fn printed_rate(text: &str) -> Option<CpuHz> {
    let of_info = info(text).cpu_hz;
    if of_info.hz > 0 {
        return Some(of_info);
    }
    let detected = text.lines().rev().find_map(detected_khz);
    if let Some(khz) = detected {
        return cpu_hz(khz, "xl dmesg, processor detected at boot");
    }
    let facts = super::tsc(text)?;
    cpu_hz(common_khz(&facts)?, "Xen's TSC report, domains created on this host")
}

/// `Detected 2596.139 MHz processor.`
fn detected_khz(line: &str) -> Option<u64> {
    let mhz = without_prefix(line).strip_prefix("Detected ")?.strip_suffix(" MHz processor.")?;
    khz(mhz).filter(|khz| *khz > 0)
}

/// The rate of all domains that were created on this host, if it is the same.
fn common_khz(facts: &TscFacts) -> Option<u64> {
    let native = facts.domains.values().filter(|domain| domain.incarnation == 1 && domain.khz > 0);
    let mut rates: Vec<u64> = native.map(|domain| domain.khz).collect();
    rates.dedup();
    let [khz] = rates[..] else { return None };
    Some(khz)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_tools_print_one_rate() {
        let of_info = printed_rate(include_str!("../../testdata/xl-info.txt")).unwrap();
        assert_eq!(of_info.hz, 999_999_000);
        let report = printed_rate(include_str!("../../testdata/xl-dmesg.txt")).unwrap();
        assert_eq!((report.hz, report.rounding_ppm), (of_info.hz, of_info.rounding_ppm));
        let boot = "(XEN) [    0.123456] Detected 2596.139 MHz processor.\n";
        assert_eq!(printed_rate(boot).unwrap().hz, 2_596_139_000);
    }

    #[test]
    fn rate_of_a_migrated_domain_is_not_the_hosts() {
        let begin = "(XEN) TSC marked as reliable, warp = 0 (count=1)\n";
        let rate = |domains: &str| printed_rate(&format!("{begin}{domains}")).map(|rate| rate.hz);
        assert_eq!(rate("(XEN) dom1: mode=0,ofs=0x10,khz=2000000,inc=2\n"), None);
        let both = "(XEN) dom1: mode=0,khz=2000000,inc=2\n(XEN) dom2: mode=0,khz=3000000,inc=1\n";
        assert_eq!(rate(both), Some(3_000_000_000));
        let differing =
            "(XEN) dom1: mode=0,khz=2000000,inc=1\n(XEN) dom2: mode=0,khz=3000000,inc=1\n";
        assert_eq!(rate(differing), None);
        assert_eq!(rate("(XEN) No domains have emulated TSC\n"), None);
        assert_eq!(printed_rate("cpu_mhz : fast\n(XEN) Detected 0.000 MHz processor.\n"), None);
    }
}
