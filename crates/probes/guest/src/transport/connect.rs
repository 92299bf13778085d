//! The recorder's end: reach an agent.

use super::{
    address::VsockAddress,
    channel::{Channel, wait},
    spec::Endpoint,
};
use rustix::{
    event::PollFlags,
    fd::OwnedFd,
    io::Errno,
    net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType,
        sockopt::{set_tcp_nodelay, socket_error},
    },
};
use std::{io, net::SocketAddr, path::Path, time::Duration};
use thiserror::Error;

/// Why no channel could be opened, with what to do.
#[derive(Debug, Error)]
#[error("guest {endpoint}: {what}: {source}; {mend}")]
pub struct ConnectError {
    endpoint: Endpoint,
    what: &'static str,
    mend: &'static str,
    #[source]
    source: io::Error,
}

impl ConnectError {
    /// Could it work a moment later, because the agent is still starting or another client is just
    /// leaving? What needs the user's hands could not.
    pub fn is_transient(&self) -> bool {
        let by_number = self.source.raw_os_error().map(Errno::from_raw_os_error);
        matches!(
            by_number,
            Some(
                Errno::CONNRESET
                    | Errno::CONNREFUSED
                    | Errno::AGAIN
                    | Errno::INTR
                    | Errno::TIMEDOUT
            )
        ) || self.source.kind() == io::ErrorKind::TimedOut
    }
}

/// Opens the channel to an agent, waiting up to `limit` for the peer to accept.
///
/// # Errors
/// [`ConnectError`] says what failed and what to do about it.
pub fn connect(endpoint: &Endpoint, limit: Duration) -> Result<Channel, ConnectError> {
    let opened = match endpoint {
        Endpoint::Vsock { cid, port } => connect_vsock(*cid, *port, limit),
        Endpoint::VirtioSerial(path) => connect_unix(path),
        Endpoint::Tcp(address) => connect_tcp(*address, limit),
    };
    opened.map_err(|source| {
        let (what, mend) = explain(endpoint, &source);
        ConnectError { endpoint: endpoint.clone(), what, mend, source }
    })
}

fn connect_vsock(cid: u32, port: u32, limit: Duration) -> io::Result<Channel> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::VSOCK, SocketType::STREAM, flags, None)?;
    finish(rustix::net::connect(&socket, &VsockAddress::new(cid, port)), &socket, limit)?;
    Channel::new(socket)
}

fn connect_tcp(address: SocketAddr, limit: Duration) -> io::Result<Channel> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    finish(rustix::net::connect(&socket, &address), &socket, limit)?;
    // A question for the clock must not wait for more to come.
    set_tcp_nodelay(&socket, true)?;
    Channel::new(socket)
}

/// Waits for the peer to accept.
fn finish(begun: Result<(), Errno>, socket: &OwnedFd, limit: Duration) -> io::Result<()> {
    match begun {
        Ok(()) => Ok(()),
        Err(Errno::INPROGRESS) => {
            if wait(socket, PollFlags::OUT, limit)?.is_empty() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Ok(socket_error(socket)??)
        }
        Err(error) => Err(error.into()),
    }
}

/// Non-blocking: QEMU takes one client at a time, and the queue behind it is short.
fn connect_unix(path: &Path) -> io::Result<Channel> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Channel::new(socket)
}

fn explain(endpoint: &Endpoint, error: &io::Error) -> (&'static str, &'static str) {
    match endpoint {
        Endpoint::Vsock { .. } => explain_vsock(error),
        Endpoint::VirtioSerial(_) => explain_serial(error),
        Endpoint::Tcp(_) => explain_tcp(error),
    }
}

fn explain_tcp(error: &io::Error) -> (&'static str, &'static str) {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::CONNRESET | Errno::CONNREFUSED) => (
            "the guest is up, but no process listens on this port",
            "start 'transect-agent --tcp ADDRESS' in it, with the address of its network interface",
        ),
        _ => (
            "no answer at this address",
            "check that the guest has booted, its network interface is up and no firewall is in between",
        ),
    }
}

fn explain_vsock(error: &io::Error) -> (&'static str, &'static str) {
    const NO_GUEST: (&str, &str) = (
        "no guest with this CID answers",
        "compare the CID with 'guest-cid=' of the guest, and check that the guest has booted",
    );
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        // Also what vhost-vsock says of a CID it does not serve (drivers/vhost/vsock.c,
        // vhost_transport_send_pkt).
        Some(Errno::NODEV) if Path::new("/dev/vhost-vsock").exists() => NO_GUEST,
        Some(Errno::AFNOSUPPORT | Errno::NODEV) => (
            "this host has no vsock for guests",
            "run 'modprobe vhost_vsock' and start the guest with '-device vhost-vsock-pci,guest-cid=N'",
        ),
        Some(Errno::CONNRESET | Errno::CONNREFUSED) => (
            "the guest is up, but no process listens on this port",
            "start 'transect-agent --vsock' in it",
        ),
        Some(Errno::TIMEDOUT | Errno::HOSTUNREACH | Errno::NETUNREACH) => NO_GUEST,
        _ if error.kind() == io::ErrorKind::TimedOut => NO_GUEST,
        _ => ("cannot connect", "see 'transect doctor'"),
    }
}

fn explain_serial(error: &io::Error) -> (&'static str, &'static str) {
    match error.kind() {
        io::ErrorKind::NotFound => (
            "socket does not exist",
            "start QEMU with '-chardev socket,id=c0,path=PATH,server=on,wait=off \
             -device virtserialport,chardev=c0,name=org.transect.0'",
        ),
        io::ErrorKind::ConnectionRefused => {
            ("no process listens on this socket", "its QEMU has ended; check the path")
        }
        io::ErrorKind::WouldBlock => (
            "the port is in use",
            "another recorder or tool is connected to it; end that one first",
        ),
        io::ErrorKind::PermissionDenied => {
            ("permission denied for the socket", "run as root or as the user of QEMU")
        }
        _ => ("cannot connect", "the path must be the Unix socket of the chardev (server=on)"),
    }
}
