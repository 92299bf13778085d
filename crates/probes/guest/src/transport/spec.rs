//! What `--guest` says: which channel leads to a guest, and its name.

use crate::proto::DEFAULT_VSOCK_PORT;
use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    str::FromStr,
};
use thiserror::Error;

/// Where an agent can be reached from the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// AF_VSOCK, the guest's address and the agent's port.
    Vsock {
        /// The guest's address (QEMU: `guest-cid`).
        cid: u32,
        /// The agent's port.
        port: u32,
    },
    /// The Unix socket QEMU made for the chardev of a virtio-serial port.
    VirtioSerial(PathBuf),
    /// TCP, for guests that have neither: Xen's domUs, over their network card.
    Tcp(SocketAddr),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Vsock { cid, port } => write!(f, "vsock:{cid}:{port}"),
            Endpoint::VirtioSerial(path) => write!(f, "virtio-serial:{}", path.display()),
            Endpoint::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

/// One `--guest` argument: `[name=NAME,]` and then `vsock:CID[:PORT]`, `virtio-serial:PATH` or
/// `tcp:ADDRESS[:PORT]`.
///
/// ```
/// use transect_guest::transport::GuestSpec;
/// let spec: GuestSpec = "name=web1,vsock:3".parse()?;
/// assert_eq!((spec.name.as_deref(), spec.endpoint.to_string().as_str()),
///            (Some("web1"), "vsock:3:2718"));
/// # Ok::<(), transect_guest::transport::SpecError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestSpec {
    /// The name the user gave; otherwise discovery or the guest itself name it.
    pub name: Option<String>,
    /// Where its agent is.
    pub endpoint: Endpoint,
}

/// Why a `--guest` argument means nothing.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("guest {spec:?}: {why}; write e.g. vsock:3 or name=web1,virtio-serial:/run/web1.sock")]
pub struct SpecError {
    spec: String,
    why: String,
}

impl FromStr for GuestSpec {
    type Err = SpecError;

    fn from_str(spec: &str) -> Result<Self, SpecError> {
        parse(spec).map_err(|why| SpecError { spec: spec.to_owned(), why })
    }
}

fn parse(spec: &str) -> Result<GuestSpec, String> {
    let mut name = None;
    let mut rest = spec;
    // The channel comes last and takes the whole rest: a path may hold commas.
    while let Some(after) = rest.strip_prefix("name=") {
        let (value, tail) = after.split_once(',').ok_or("no channel after the name")?;
        if name.replace(check_name(value)?).is_some() {
            return Err("more than one name".into());
        }
        rest = tail;
    }
    Ok(GuestSpec { name, endpoint: parse_endpoint(rest)? })
}

/// Names become file names (`guest-NAME.dat`), so they may not climb or hide.
fn check_name(name: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.starts_with('.') || name.len() > 64 || !name.chars().all(is_plain) {
        return Err(format!("name {name:?}: use letters, digits, '-', '_' and '.', at most 64"));
    }
    Ok(name.to_owned())
}

fn parse_endpoint(text: &str) -> Result<Endpoint, String> {
    match text.split_once(':') {
        Some(("vsock", address)) => parse_vsock(address),
        Some(("virtio-serial", "")) => Err("no path after virtio-serial:".into()),
        Some(("virtio-serial", path)) => Ok(Endpoint::VirtioSerial(path.into())),
        Some(("tcp", address)) => parse_tcp(address).map(Endpoint::Tcp),
        _ => Err(format!(
            "{text:?} is not a channel (vsock:CID[:PORT], virtio-serial:PATH or tcp:ADDRESS[:PORT])"
        )),
    }
}

/// An address in numbers, `10.0.0.2`, `10.0.0.2:2718`, `fe80::1` or `[fe80::1]:2718`, without a name service between.
///
/// # Errors
/// One sentence.
pub fn parse_tcp(address: &str) -> Result<SocketAddr, String> {
    let port = u16::try_from(DEFAULT_VSOCK_PORT).unwrap_or_default();
    let with_port = || address.parse::<SocketAddr>().ok();
    let without = || address.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, port));
    with_port().or_else(without).ok_or_else(|| {
        format!("{address:?} is not a numeric address, e.g. 10.0.0.2 or 10.0.0.2:{port}")
    })
}

fn parse_vsock(address: &str) -> Result<Endpoint, String> {
    let (cid, port) = match address.split_once(':') {
        Some((cid, port)) => (cid, Some(port)),
        None => (address, None),
    };
    let number = |text: &str, what| {
        text.parse::<u32>().map_err(|_| format!("{what} {text:?} is not a 32-bit number"))
    };
    let cid = number(cid, "CID")?;
    if cid < 3 || cid == u32::MAX {
        return Err(format!("CID {cid} is not the CID of a guest (those start at 3)"));
    }
    let port = port.map_or(Ok(DEFAULT_VSOCK_PORT), |port| number(port, "port"))?;
    Ok(Endpoint::Vsock { cid, port })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_ok(spec: &str) -> GuestSpec {
        spec.parse().unwrap()
    }

    #[test]
    fn every_form_is_understood() {
        let vsock = parse_ok("vsock:3");
        assert_eq!(vsock.endpoint, Endpoint::Vsock { cid: 3, port: DEFAULT_VSOCK_PORT });
        assert_eq!(vsock.name, None);
        let port = parse_ok("name=web1,vsock:42:99");
        assert_eq!(port.endpoint, Endpoint::Vsock { cid: 42, port: 99 });
        assert_eq!(port.name.as_deref(), Some("web1"));
        for (spec, shown) in [
            ("tcp:10.0.0.2", "tcp:10.0.0.2:2718"),
            ("tcp:10.0.0.2:99", "tcp:10.0.0.2:99"),
            ("tcp:::1", "tcp:[::1]:2718"),
            ("tcp:[::1]:99", "tcp:[::1]:99"),
        ] {
            assert_eq!(parse_ok(spec).endpoint.to_string(), shown);
        }
        let serial = parse_ok("name=db,virtio-serial:/run/a,b:c");
        assert_eq!(serial.endpoint, Endpoint::VirtioSerial("/run/a,b:c".into()));
    }

    #[test]
    fn nonsense_is_named() {
        for (spec, part) in [
            ("", "is not a channel"),
            ("udp:1", "is not a channel"),
            ("tcp:1", "not a numeric address"),
            ("tcp:web1:2718", "not a numeric address"),
            ("vsock:2", "not the CID of a guest"),
            ("vsock:x", "not a 32-bit number"),
            ("vsock:3:99999999999", "not a 32-bit number"),
            ("name=a", "no channel after"),
            ("name=../x,vsock:3", "use letters"),
            ("name=a,name=b,vsock:3", "more than one name"),
            ("virtio-serial:", "no path"),
        ] {
            let error = spec.parse::<GuestSpec>().unwrap_err().to_string();
            assert!(error.contains(part), "{spec}: {error}");
        }
    }
}
