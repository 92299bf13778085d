//! How a recording is to be read.

use transect_clock::ClockOptions;

/// How a recording is to be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// TSC frequency of the host in Hz, for files in ticks that do not have it.
    pub tsc_hz: Option<u64>,
    /// Estimate the guests' clocks from the channel, although exact TSC offsets are known.
    pub no_tsc_offset: bool,
    /// Facts that a trace of Xen lacks.
    pub xen: XenOptions,
}

impl Options {
    pub(crate) fn clock_options(&self) -> ClockOptions {
        ClockOptions {
            use_tsc_offset: !self.no_tsc_offset,
            tsc_hz: self.tsc_hz,
            ..ClockOptions::default()
        }
    }
}

/// Facts that a trace of Xen lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct XenOptions {
    /// N of the Xen 4.N that wrote the file; records differ little between versions.
    pub version: Option<u8>,
    /// Numbers and names of domains; the first name of a number counts.
    pub domains: Vec<(u16, String)>,
}

impl XenOptions {
    /// The same, with names for domains that have none: `dom0`, `dom7`.
    #[must_use]
    pub fn with_domains(&self, domains: impl Iterator<Item = u16>) -> XenOptions {
        let mut options = self.clone();
        options.domains.extend(domains.map(|id| (id, format!("dom{id}"))));
        options
    }

    /// Numbers and names of domains, without repetitions, in the order of their numbers.
    pub fn named(&self) -> Vec<(u16, String)> {
        let mut domains = self.domains.clone();
        domains.sort_by_key(|(id, _)| *id);
        domains.dedup_by_key(|(id, _)| *id);
        domains
    }
}
