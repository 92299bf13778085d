//! Xen's own traces: which Xen wrote them, and which domains there were.
//!
//! A file of xentrace says neither the TSC's rate nor any name. So both can be told on the command
//! line; domains that nobody named are `dom7`, and appear when the trace first names them.

use crate::facts::Facts;
use crate::{SourceBytes, XenOptions, endings::Endings, opened::Opened};
use transect_clock::Evidence;
use transect_engine::{Topology, topology::MachineInfo, xen::CLOCK};
use transect_model::ids::MachineId;
use transect_store::Manifest;
use transect_xentrace::{IDLE_DOMAIN, XenVersion};

/// The machine that is Xen itself, in recordings of nothing else.
pub const XEN: MachineId = MachineId(0);

/// The N of a Xen 4.N, as its tools print it.
///
/// # Errors
/// It is none.
pub fn minor(text: &str) -> Result<u8, String> {
    let minor = text.strip_prefix("4.").and_then(|rest| rest.split('.').next()?.parse().ok());
    minor.ok_or_else(|| "not a Xen version such as 4.17".to_owned())
}

/// Number and name of a domain: `1=web`.
///
/// # Errors
/// It is none, or the number is one of Xen's own.
pub fn named(text: &str) -> Result<(u16, String), String> {
    let parts = text.split_once('=').filter(|(_, name)| !name.trim().is_empty());
    let parts = parts.and_then(|(id, name)| Some((id.parse().ok()?, name.to_owned())));
    parts
        .filter(|(id, _)| *id < IDLE_DOMAIN)
        .ok_or_else(|| "not a domain number and name such as 1=web".to_owned())
}

/// The version of the Xen that a machine of a recording is.
pub(crate) fn version_of(manifest: &Manifest, id: MachineId) -> XenVersion {
    let machine = manifest.machines.iter().find(|machine| machine.id == id);
    let text = machine.and_then(|machine| machine.uname.as_deref()?.strip_prefix("Xen "));
    text.and_then(|text| minor(text).ok()).map_or(XenVersion::Unknown, XenVersion::Minor)
}

/// Xen and the domains that have names.
pub fn topology(options: &XenOptions) -> Topology {
    let mut xen = MachineInfo::hypervisor(XEN, "xen");
    xen.clock = Some(CLOCK.to_owned());
    let domains = (1..).zip(options.named()).map(|(id, (domid, name))| MachineInfo {
        domid: Some(u32::from(domid)),
        ..MachineInfo::guest(MachineId(id), XEN, name)
    });
    Topology { machines: std::iter::once(xen).chain(domains).collect(), ..Topology::default() }
}

/// Trace time is Xen's TSC.
pub fn reference() -> Evidence {
    Evidence::Reference { machine: XEN, clock: CLOCK.to_owned() }
}

/// A bare file.
pub(crate) fn opened<'a>(
    facts: Facts,
    name: String,
    bytes: &'a [u8],
    options: &XenOptions,
) -> Opened<'a> {
    let xen_version = options.version.map_or(XenVersion::Unknown, XenVersion::Minor);
    Opened {
        facts,
        topology: topology(options),
        evidence: vec![reference()],
        sources: vec![SourceBytes::bare(name, XEN, bytes, xen_version)],
        gaps: Vec::new(),
        filters: Vec::new(),
        window: None,
        written: None,
        lost: Vec::new(),
        endings: Endings::default(),
        remarks: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_names_are_understood() {
        assert_eq!(minor("4.17"), Ok(17));
        assert_eq!(minor("4.17.7-pre"), Ok(17));
        assert!(minor("5.1").is_err() && minor("4.x").is_err());
        assert_eq!(named("3=web=1"), Ok((3, "web=1".to_owned())));
        assert!(named("web").is_err() && named("3=").is_err() && named("99999=x").is_err());
    }

    #[test]
    fn the_first_name_of_a_domain_counts() {
        let domains = vec![(2, "b".to_owned()), (1, "a".to_owned()), (2, "c".to_owned())];
        let options = XenOptions { version: None, domains };
        assert_eq!(options.named(), [(1, "a".to_owned()), (2, "b".to_owned())]);
        let topology = topology(&options);
        assert_eq!(topology.machines.len(), 3);
    }
}
