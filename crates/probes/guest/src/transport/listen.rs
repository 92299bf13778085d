//! The agent's end: wait for a recorder.

use super::{
    address::VsockAddress,
    channel::{Channel, wait},
};
use rustix::{
    event::PollFlags,
    fs::{Mode, OFlags},
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType, sockopt::set_tcp_nodelay},
};
use std::{
    fs, io,
    net::{SocketAddr, TcpListener},
    os::{fd::OwnedFd, unix::net::UnixListener},
    path::{Path, PathBuf},
    time::Duration,
};

/// Recorders that may wait while one is served; each is told at once that the agent is busy.
const BACKLOG: i32 = 4;

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    is_tcp: bool,
}

impl Listener {
    /// Listens on an AF_VSOCK port of this machine.
    ///
    /// # Errors
    /// `AddrInUse` if another agent runs; `Unsupported` or similar if there is no vsock device.
    pub fn vsock(port: u32) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket =
            rustix::net::socket_with(AddressFamily::VSOCK, SocketType::STREAM, flags, None)?;
        rustix::net::bind(&socket, &VsockAddress::any(port))?;
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(Listener { socket, is_tcp: false })
    }

    /// Listens on a TCP port of one of this machine's addresses. Whoever reaches that can record this kernel:
    /// there is no word to be said at the door.
    ///
    /// # Errors
    /// `AddrInUse` if another agent runs; `AddrNotAvailable` if no card has this address (yet).
    pub fn tcp(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Listener { socket: listener.into(), is_tcp: true })
    }

    /// Listens on a Unix socket: the same protocol without a guest, for tests.
    ///
    /// # Errors
    /// If the path cannot be bound.
    pub fn unix(path: &Path) -> io::Result<Self> {
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        Ok(Listener { socket: listener.into(), is_tcp: false })
    }

    /// The next recorder, `None` if none came within `limit`.
    ///
    /// # Errors
    /// What `accept` reports beyond connections that broke before they were accepted.
    pub fn accept(&self, limit: Duration) -> io::Result<Option<Channel>> {
        if wait(&self.socket, PollFlags::IN, limit)?.is_empty() {
            return Ok(None);
        }
        match rustix::net::accept_with(&self.socket, SocketFlags::CLOEXEC) {
            Ok(socket) => {
                if self.is_tcp {
                    // An answer about the clock must not wait for more to come.
                    set_tcp_nodelay(&socket, true)?;
                }
                Channel::new(socket).map(Some)
            }
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Finds a virtio-serial port by name, also where no udev makes `/dev/virtio-ports/NAME`.
#[derive(Clone, Debug)]
pub struct PortFinder {
    wanted: String,
    root: PathBuf,
}

impl PortFinder {
    /// A port by name (`org.transect.0`) or, with a slash in it, by path.
    pub fn new(wanted: impl Into<String>) -> Self {
        PortFinder { wanted: wanted.into(), root: "/".into() }
    }

    /// The device file of the port.
    ///
    /// # Errors
    /// `NotFound`, with the names of the ports that are there.
    pub fn find(&self) -> io::Result<PathBuf> {
        if self.wanted.contains('/') {
            return Ok(self.root.join(self.wanted.trim_start_matches('/')));
        }
        let link = self.root.join("dev/virtio-ports").join(&self.wanted);
        if link.exists() {
            return Ok(link);
        }
        let ports = self.ports();
        let found = ports.iter().find(|(_, name)| *name == self.wanted);
        match found {
            Some((device, _)) => Ok(self.root.join("dev").join(device)),
            None => Err(io::Error::new(io::ErrorKind::NotFound, self.not_found(&ports))),
        }
    }

    /// Opens the port; the host need not be connected yet.
    ///
    /// # Errors
    /// `NotFound` as [`PortFinder::find`]; `ResourceBusy` if another process has the port.
    pub fn open(&self) -> io::Result<Channel> {
        let path = self.find()?;
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        Channel::new(rustix::fs::open(&path, flags, Mode::empty())?)
    }

    /// Device name and port name of every virtio-serial port of this machine.
    fn ports(&self) -> Vec<(String, String)> {
        let class = self.root.join("sys/class/virtio-ports");
        let Ok(entries) = fs::read_dir(class) else { return Vec::new() };
        entries
            .flatten()
            .filter_map(|entry| {
                let name = fs::read_to_string(entry.path().join("name")).ok()?;
                Some((entry.file_name().into_string().ok()?, name.trim().to_owned()))
            })
            .collect()
    }

    fn not_found(&self, ports: &[(String, String)]) -> String {
        let names: Vec<&str> = ports.iter().map(|(_, name)| name.as_str()).collect();
        let seen = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        format!(
            "no virtio-serial port named {:?} (ports here: {seen}); load virtio_console and \
             start the guest with '-device virtserialport,chardev=…,name={}'",
            self.wanted, self.wanted
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_is_found_without_udev() {
        let root = tempfile::tempdir().unwrap();
        let class = root.path().join("sys/class/virtio-ports/vport2p1");
        fs::create_dir_all(&class).unwrap();
        fs::write(class.join("name"), "org.transect.0\n").unwrap();
        let mut finder = PortFinder::new("org.transect.0");
        finder.root = root.path().into();
        assert_eq!(finder.find().unwrap(), root.path().join("dev/vport2p1"));
        finder.wanted = "other".into();
        let error = finder.find().unwrap_err().to_string();
        assert!(error.contains("org.transect.0"), "{error}");
        finder.wanted = "/dev/vport9p9".into();
        assert_eq!(finder.find().unwrap(), root.path().join("dev/vport9p9"));
    }
}
