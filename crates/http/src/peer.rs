//! Identity of clients for fairness: the user that owns a connection of this machine, the address of any other.
//!
//! A user of this machine has as many connections, ports and loopback addresses as it opens, so none of them is an
//! identity. The kernel has one for each local connection: the user that owns the client's socket
//! (`NETLINK_SOCK_DIAG`, sock_diag(7)). Its subordinate uids are the user's, too ([`accounts`]).

use super::accounts;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};

/// Identity of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    /// A user of this machine by number.
    User(u32),
    /// An address; of IPv6 the first 64 bits, because one host has all addresses below them. All loopback addresses
    /// are one.
    Address(IpAddr),
}

impl fmt::Display for Peer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Peer::User(uid) => write!(out, "user {uid}"),
            Peer::Address(IpAddr::V4(address)) => write!(out, "address {address}"),
            Peer::Address(IpAddr::V6(network)) => write!(out, "address {network}/64"),
        }
    }
}

/// Returns the peer of a connection.
///
/// # Errors
/// The client has closed its socket or reset the connection: it does not read the answer.
pub(crate) fn identify(connection: &TcpStream) -> io::Result<Peer> {
    find_peer(connection.peer_addr()?, connection.local_addr()?)
}

/// True if the client is on this machine and its socket is open, although it may have ended its side of the connection.
pub fn is_open(connection: &TcpStream) -> bool {
    let ends = || Some((connection.peer_addr().ok()?, connection.local_addr().ok()?));
    ends().is_some_and(|(peer, local)| matches!(find_owner(peer, local), Ok(Owner::User(_))))
}

/// Finds the user by the connection's two ends. Remote peers are looked up, too, and not found: whether an address is one
/// of this machine cannot be seen from the address.
///
/// # Errors
/// The client has closed its socket. As an address it would be a second client beside its user.
fn find_peer(peer: SocketAddr, local: SocketAddr) -> io::Result<Peer> {
    let is_local = |end: SocketAddr| end.ip().to_canonical().is_loopback();
    match find_owner(peer, local) {
        Ok(Owner::User(uid)) => Ok(Peer::User(accounts::find_account(uid))),
        Ok(Owner::Closed) => Err(io::ErrorKind::NotConnected.into()),
        // Loopback connections of this machine have both ends in this network namespace.
        Ok(Owner::Absent) if is_local(peer) => Err(io::ErrorKind::NotConnected.into()),
        Ok(Owner::Absent) | Err(_) => Ok(peer_by_address(peer.ip(), local.ip())),
    }
}

/// The identity without a user: the client is remote or in another network namespace, or the kernel does not answer.
fn peer_by_address(peer: IpAddr, local: IpAddr) -> Peer {
    let (peer, local) = (peer.to_canonical(), local.to_canonical());
    Peer::Address(match peer {
        // Any user can have 16 million of them.
        _ if peer.is_loopback() || local.is_loopback() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V4(_) => peer,
        IpAddr::V6(address) => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)))
        }
    })
}

// linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h
const NLMSGHDR_BYTES: usize = 16;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLM_F_REQUEST: u16 = 1;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;
/// All states; the kernel ignores it in a lookup by address.
const ALL_STATES: u32 = u32::MAX;
const INET_DIAG_NOCOOKIE: u32 = u32::MAX;
/// `TCP_TIME_WAIT` and `TCP_LISTEN` of `inet_diag_msg`, net/tcp_states.h.
const TIME_WAIT: u8 = 6;
const LISTEN: u8 = 10;
/// Offsets in a message with `inet_diag_msg`: state, ports, uid, inode.
const STATE_AT: usize = NLMSGHDR_BYTES + 1;
const PORTS_AT: usize = NLMSGHDR_BYTES + 4;
const UID_AT: usize = NLMSGHDR_BYTES + 64;
const INODE_AT: usize = NLMSGHDR_BYTES + 68;

/// The client's end of a connection in this network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// Open, of the user with this uid.
    User(u32),
    /// Closed by its process.
    Closed,
    /// Not in this namespace.
    Absent,
}

/// Asks the kernel for the owner of the socket whose local address is `peer` and whose remote address is `local`.
fn find_owner(peer: SocketAddr, local: SocketAddr) -> io::Result<Owner> {
    let protocol = Some(netlink::SOCK_DIAG);
    let socket =
        socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, protocol)?;
    // A netlink socket without an address sends to the kernel, which answers before `send` returns.
    send(&socket, &lookup_request(peer, local), SendFlags::empty())?;
    let mut answer = [0; 1024];
    let (read, _) = recv(&socket, &mut answer, RecvFlags::DONTWAIT)?;
    let owner =
        answer.get(..read).and_then(|answer| parse_owner(answer, peer.port(), local.port()));
    owner.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// `nlmsghdr` and `inet_diag_req_v2`.
fn lookup_request(peer: SocketAddr, local: SocketAddr) -> Vec<u8> {
    // A socket of IPv6 with mapped addresses is found by those of IPv4.
    let (peer_ip, local_ip) = (peer.ip().to_canonical(), local.ip().to_canonical());
    let family = if peer_ip.is_ipv4() { AF_INET } else { AF_INET6 };
    let mut body = vec![family, IPPROTO_TCP, 0, 0];
    body.extend(ALL_STATES.to_ne_bytes());
    body.extend(peer.port().to_be_bytes());
    body.extend(local.port().to_be_bytes());
    for ip in [peer_ip, local_ip] {
        match ip {
            IpAddr::V4(ip) => {
                body.extend(ip.octets());
                body.extend([0; 12]);
            }
            IpAddr::V6(ip) => body.extend(ip.octets()),
        }
    }
    // Interface 0 is any. The kernel requires it of link-local addresses, which have it as scope.
    let scope = match peer {
        SocketAddr::V6(peer) => peer.scope_id(),
        SocketAddr::V4(_) => 0,
    };
    body.extend(scope.to_ne_bytes());
    body.extend(INET_DIAG_NOCOOKIE.to_ne_bytes());
    body.extend(INET_DIAG_NOCOOKIE.to_ne_bytes());
    let bytes = u32::try_from(NLMSGHDR_BYTES + body.len()).unwrap_or_default();
    let mut request = Vec::new();
    request.extend(bytes.to_ne_bytes());
    request.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend(NLM_F_REQUEST.to_ne_bytes());
    // Sequence number and sender.
    request.extend([0; 8]);
    request.extend(body);
    request
}

/// Reads the answer; None if it is neither `inet_diag_msg` nor the error ENOENT.
fn parse_owner(answer: &[u8], peer_port: u16, local_port: u16) -> Option<Owner> {
    match u16::from_ne_bytes(bytes_at(answer, 4)?) {
        SOCK_DIAG_BY_FAMILY => {}
        NLMSG_ERROR => {
            let error = i32::from_ne_bytes(bytes_at(answer, NLMSGHDR_BYTES)?);
            return (error == -Errno::NOENT.raw_os_error()).then_some(Owner::Absent);
        }
        _ => return None,
    }
    // Without such a connection the kernel returns a socket that listens on the peer's port, of any user.
    let [state] = bytes_at(answer, STATE_AT)?;
    let ports = (
        u16::from_be_bytes(bytes_at(answer, PORTS_AT)?),
        u16::from_be_bytes(bytes_at(answer, PORTS_AT + 2)?),
    );
    // A socket that its process has closed has no inode, and in older kernels the uid 0 (`sock_i_uid`).
    let inode = u32::from_ne_bytes(bytes_at(answer, INODE_AT)?);
    let uid = u32::from_ne_bytes(bytes_at(answer, UID_AT)?);
    Some(match state {
        _ if ports != (peer_port, local_port) => Owner::Absent,
        LISTEN => Owner::Absent,
        TIME_WAIT => Owner::Closed,
        _ if inode == 0 => Owner::Closed,
        _ => Owner::User(uid),
    })
}

fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests report by failing")]
    use super::*;
    use std::io::Read as _;
    use std::net::TcpListener;
    use std::process::{Command, Stdio};

    fn own_uid() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    /// Connects `to` that address of the listener and identifies the client.
    fn identify_own(listener: &TcpListener, to: &str) -> Peer {
        let client = TcpStream::connect((to, listener.local_addr().unwrap().port())).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        let peer = identify(&accepted).unwrap();
        drop(client);
        peer
    }

    #[test]
    fn local_connection_is_its_users() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(identify_own(&listener, "127.0.0.1"), Peer::User(own_uid()));
    }

    #[test]
    fn local_connections_over_ipv6_are_their_users() {
        let Ok(listener) = TcpListener::bind("[::1]:0") else {
            println!("skipped: this machine has no ::1");
            return;
        };
        assert_eq!(identify_own(&listener, "::1"), Peer::User(own_uid()));
        // Peers of a listener for both are of IPv6, with mapped addresses.
        let listener = TcpListener::bind("[::]:0").unwrap();
        assert_eq!(identify_own(&listener, "127.0.0.1"), Peer::User(own_uid()));
        assert_eq!(identify_own(&listener, "::ffff:127.0.0.1"), Peer::User(own_uid()));
    }

    #[test]
    fn connection_of_another_user_is_that_users() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; cat <&3");
        let mut client = Command::new("setpriv");
        client.args(["--reuid=65534", "--clear-groups", "bash", "-c", &script]);
        client.stdout(Stdio::null());
        let spawned = if own_uid() == 0 { client.spawn().ok() } else { None };
        let Some(mut client) = spawned else {
            println!("skipped: not root, or no setpriv here");
            return;
        };
        let (accepted, _) = listener.accept().unwrap();
        assert_eq!(identify(&accepted).unwrap(), Peer::User(65534));
        drop(accepted);
        assert!(client.wait().unwrap().success());
    }

    #[test]
    fn closed_client_has_no_identity() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut accepted, _) = listener.accept().unwrap();
        drop(client);
        assert_eq!(accepted.read(&mut [0]).unwrap(), 0);
        let error = identify(&accepted).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotConnected);
    }

    #[test]
    fn listener_on_the_peers_port_is_no_client() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let other = "127.0.0.1:9".parse().unwrap();
        assert_eq!(find_owner(listener.local_addr().unwrap(), other).unwrap(), Owner::Absent);
    }

    #[test]
    fn remote_peer_is_its_address_or_network() {
        let local = "192.0.2.1".parse().unwrap();
        let of = |ip: &str| peer_by_address(ip.parse().unwrap(), local).to_string();
        assert_eq!(of("192.0.2.7"), "address 192.0.2.7");
        assert_eq!(of("::ffff:192.0.2.7"), "address 192.0.2.7");
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "address 2001:db8:1:2::/64");
        assert_eq!(of("2001:db8:1:2:ffff::"), "address 2001:db8:1:2::/64");
        for loopback in ["127.0.0.1", "127.1.2.3", "::ffff:127.0.0.9", "::1"] {
            assert_eq!(of(loopback), "address 127.0.0.1");
        }
        assert_eq!(Peer::User(1000).to_string(), "user 1000");
        // No machine has this connection.
        let ends = ("192.0.2.7:1".parse().unwrap(), "192.0.2.1:2".parse().unwrap());
        assert_eq!(find_peer(ends.0, ends.1).unwrap().to_string(), "address 192.0.2.7");
    }

    #[test]
    fn torn_answer_has_no_owner() {
        let mut answer = vec![0; INODE_AT + 4];
        answer[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        answer[STATE_AT] = 1;
        answer[PORTS_AT..PORTS_AT + 4].copy_from_slice(&[0, 1, 0, 2]);
        answer[UID_AT..UID_AT + 4].copy_from_slice(&1000_u32.to_ne_bytes());
        answer[INODE_AT] = 5;
        assert_eq!(parse_owner(&answer, 1, 2), Some(Owner::User(1000)));
        for cut in 0..answer.len() {
            assert_eq!(parse_owner(&answer[..cut], 1, 2), None, "{cut}");
        }
        assert_eq!(parse_owner(&answer, 2, 1), Some(Owner::Absent));
        for (at, value, owner) in [
            (STATE_AT, LISTEN, Some(Owner::Absent)),
            (STATE_AT, TIME_WAIT, Some(Owner::Closed)),
            (INODE_AT, 0, Some(Owner::Closed)),
            // An error, which is not ENOENT.
            (4, 2, None),
        ] {
            let mut other = answer.clone();
            other[at] = value;
            assert_eq!(parse_owner(&other, 1, 2), owner, "{at}");
        }
    }
}
