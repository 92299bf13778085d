//! The rate of Xen's TSC: as given, else as dom0's file has it, else as Xen printed it. A file of
//! xentrace has none.

use super::kernels::DOM0;
use super::survey::{self, Trace};
use crate::xen::XEN;
use anyhow::{Context as _, ensure};
use std::path::{Path, PathBuf};
use transect_clock::{Evidence, evidence::RateSource};
use transect_store::manifest::TscToNs;
use transect_xen::{CpuHz, TscFacts};

/// Saved output of Xen's tools.
pub(super) struct XenReport {
    path: PathBuf,
    rate: Option<CpuHz>,
    /// The TSC report, if the file has one.
    pub(super) tsc: Option<TscFacts>,
}

impl XenReport {
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let name = || path.display().to_string();
        let bytes = std::fs::read(path).with_context(name)?;
        let text = String::from_utf8_lossy(&bytes);
        let (rate, tsc) = (transect_xen::printed_rate(&text), transect_xen::tsc(&text));
        ensure!(
            rate.is_some() || tsc.is_some(),
            "{}: neither a TSC report of Xen nor a TSC frequency found: save the output of \
             'xl debug-keys s; xl dmesg' or of 'xl info'",
            name()
        );
        Ok(XenReport { path: path.to_owned(), rate, tsc })
    }
}

/// The rate of Xen's TSC, and its source in words.
pub(super) struct XenRate {
    pub(super) evidence: Evidence,
    pub(super) ns: TscToNs,
    pub(super) note: String,
}

impl XenRate {
    pub(super) fn find(
        given_hz: Option<u64>,
        traces: &[(Option<u16>, Trace<'_>)],
        report: Option<&XenReport>,
    ) -> anyhow::Result<Option<Self>> {
        if let Some(hz) = given_hz {
            let (evidence, ns) = survey::rate(hz, XEN)?;
            let note = format!("TSC frequency {hz} Hz, from --cpu-hz");
            return Ok(Some(XenRate { evidence, ns, note }));
        }
        let dom0 = traces.iter().find(|(dom, _)| *dom == Some(DOM0)).map(|(_, trace)| trace);
        if let Some(found) = dom0.and_then(Self::of_kernel) {
            return Ok(Some(found));
        }
        let printed = report.and_then(|report| Some((report, report.rate.as_ref()?)));
        printed.map(|(report, rate)| Self::of_report(&report.path, rate)).transpose()
    }

    /// The kernel's own factors in its file.
    fn of_kernel(trace: &Trace<'_>) -> Option<Self> {
        let told = trace.dat.options().tsc2nsec?;
        let (mult, shift, offset_ns) = (told.mult, told.shift, 0);
        let how = RateSource::Tsc2nsec;
        let error_ppm = 0.0;
        let evidence = Evidence::TscRate { machine: XEN, mult, shift, offset_ns, how, error_ppm };
        let note = format!("TSC frequency from dom0's file {} (TSC2NSEC)", trace.path.display());
        Some(XenRate { evidence, ns: TscToNs { mult, shift, offset_ns: 0 }, note })
    }

    fn of_report(path: &Path, rate: &CpuHz) -> anyhow::Result<Self> {
        let (hz, error_ppm) = (rate.hz, rate.rounding_ppm);
        let (mult, shift) = survey::rate_from_hz(hz).with_context(|| path.display().to_string())?;
        let (offset_ns, how) = (0, RateSource::XenReport);
        let evidence = Evidence::TscRate { machine: XEN, mult, shift, offset_ns, how, error_ppm };
        let note = format!(
            "TSC frequency {hz} Hz, from {} ({}), where Xen prints whole kHz: durations are off by at most \
             {error_ppm:.2} ppm, in addition to the error of Xen's measurement at boot",
            path.display(),
            rate.source
        );
        Ok(XenRate { evidence, ns: TscToNs { mult, shift, offset_ns: 0 }, note })
    }
}

/// The note of a recording whose TSC frequency is unknown.
pub(super) const UNKNOWN: &str =
    "TSC frequency unknown: all times are in ticks; give it with --cpu-hz";

/// The same for a recording of Xen, with what was found in a report that was given.
pub(super) fn unknown_of_xen(report: Option<&XenReport>) -> String {
    let found = report.map_or_else(String::new, |report| {
        let path = report.path.display();
        format!("; {path} has no rate, or only of domains that were migrated or restored")
    });
    format!("{UNKNOWN} (xl info prints it as cpu_mhz) or --xen-tsc{found}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn how(found: Option<XenRate>) -> Option<(RateSource, f64)> {
        match found.map(|found| found.evidence) {
            Some(Evidence::TscRate { how, error_ppm, .. }) => Some((how, error_ppm)),
            _ => None,
        }
    }

    #[test]
    fn given_rate_wins_over_dom0_and_dom0_over_the_report() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let path = root.join("testdata/succeed/tracedat/v7-tsc2nsec.dat");
        let bytes = std::fs::read(&path).unwrap();
        let dom0 = [(Some(DOM0), Trace::read(&path, &bytes).unwrap())];
        assert!(dom0[0].1.dat.options().tsc2nsec.is_some());
        let report = root.join("crates/probes/xen/testdata/xl-info.txt");
        let report = XenReport::read(&report).unwrap();
        let find = |hz, traces: &[_], report| how(XenRate::find(hz, traces, report).unwrap());
        assert_eq!(find(Some(1), &dom0, Some(&report)), Some((RateSource::Given, 0.0)));
        assert_eq!(find(None, &dom0, Some(&report)), Some((RateSource::Tsc2nsec, 0.0)));
        let Some((RateSource::XenReport, ppm)) = find(None, &[], Some(&report)) else {
            panic!("the report has a rate")
        };
        assert!((ppm - 1.0).abs() < 0.01, "{ppm}");
        assert_eq!(find(None, &[], None), None);
    }

    #[test]
    fn file_without_a_rate_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, "(XEN) nothing\n").unwrap();
        let Err(error) = XenReport::read(file.path()) else { panic!("there is none") };
        assert!(error.to_string().contains("xl info"), "{error}");
        // A TSC report of a host without domains.
        let text = "(XEN) TSC marked as reliable, warp = 0 (count=2)\n(XEN) No domains have emulated TSC\n";
        std::fs::write(&file, text).unwrap();
        let report = XenReport::read(file.path()).unwrap();
        assert!(XenRate::find(None, &[], Some(&report)).unwrap().is_none());
        let name = file.path().display().to_string();
        assert!(unknown_of_xen(Some(&report)).contains(&name));
    }
}
