//! The command line. By hand: a parser library would double the binary.

use std::{net::SocketAddr, path::PathBuf};
use transect_guest::{
    proto::{DEFAULT_PORT_NAME, DEFAULT_VSOCK_PORT},
    transport::parse_tcp,
};

/// Where to wait for a recorder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// An AF_VSOCK port.
    Vsock(u32),
    /// A virtio-serial port, by name or path.
    VirtioSerial(String),
    /// A TCP port on one of this machine's addresses.
    Tcp(SocketAddr),
    /// A Unix socket: the protocol without a guest, for tests.
    Unix(PathBuf),
}

/// What the user wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Wait at these doors; `required` is false if nobody named them.
    Serve {
        doors: Vec<Door>,
        required: bool,
    },
    Help,
    Version,
}

pub(crate) const HELP: &str = "\
transect-agent serves this guest's kernel events to 'transect record' on its host.

Usage: transect-agent [--vsock [PORT]] [--virtio-serial [NAME|PATH]] [--tcp ADDRESS[:PORT]]

  --vsock [PORT]                listen on this AF_VSOCK port (default 2718)
  --virtio-serial [NAME|PATH]   serve this virtio-serial port (default org.transect.0)
  --tcp ADDRESS[:PORT]          listen on TCP (default port 2718), for guests without the other two,
                                such as domUs of Xen. There is no authentication: every client that
                                reaches this address can record this kernel
  -h, --help                    print this text
  -V, --version                 print the version

Without options, the agent waits on the default vsock port and the default virtio-serial port, or on
the one that exists. It needs root. It mounts tracefs if necessary, records into a tracing instance
that it creates, and removes the instance when the recorder disconnects. It serves one recorder at a
time, any number one after another. Exit code: 0 after SIGTERM or SIGINT, 1 if it cannot serve, 2 for
a wrong command line.

Example, in the guest:      transect-agent --vsock &
         on the host:       transect record --guest vsock:3 --duration 10
";

/// Parses the arguments after the program's name.
///
/// # Errors
/// One sentence.
pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> Result<Wish, String> {
    let mut doors = Vec::new();
    let mut args = args.into_iter().peekable();
    while let Some(arg) = args.next() {
        let (flag, mut value) = match arg.split_once('=') {
            Some((flag, value)) => (flag.to_owned(), Some(value.to_owned())),
            None => (arg, None),
        };
        if value.is_none() {
            value = args.next_if(|next| !next.starts_with('-'));
        }
        match flag.as_str() {
            "-h" | "--help" => return Ok(Wish::Help),
            "-V" | "--version" => return Ok(Wish::Version),
            "--vsock" => doors.push(Door::Vsock(port(value)?)),
            "--virtio-serial" => doors
                .push(Door::VirtioSerial(value.unwrap_or_else(|| DEFAULT_PORT_NAME.to_owned()))),
            "--tcp" => {
                let address = value.ok_or("--tcp needs the address to listen on")?;
                doors.push(Door::Tcp(parse_tcp(&address).map_err(|why| format!("--tcp {why}"))?));
            }
            "--unix" => {
                let path = value.ok_or("--unix needs a path")?;
                doors.push(Door::Unix(path.into()));
            }
            other => return Err(format!("unknown argument {other:?}")),
        }
    }
    let required = !doors.is_empty();
    if doors.is_empty() {
        doors.push(Door::Vsock(DEFAULT_VSOCK_PORT));
        doors.push(Door::VirtioSerial(DEFAULT_PORT_NAME.to_owned()));
    }
    Ok(Wish::Serve { doors, required })
}

fn port(value: Option<String>) -> Result<u32, String> {
    let Some(value) = value else { return Ok(DEFAULT_VSOCK_PORT) };
    match value.parse() {
        Ok(port) if port != u32::MAX => Ok(port),
        _ => Err(format!("--vsock {value:?}: not a port number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(args: &[&str]) -> Result<Wish, String> {
        parse(args.iter().map(|arg| (*arg).to_owned()))
    }

    fn serve(doors: Vec<Door>) -> Result<Wish, String> {
        Ok(Wish::Serve { doors, required: true })
    }

    #[test]
    fn values_are_optional() {
        assert_eq!(wish(&["--vsock"]), serve(vec![Door::Vsock(2718)]));
        assert_eq!(wish(&["--vsock", "99"]), serve(vec![Door::Vsock(99)]));
        assert_eq!(
            wish(&["--vsock", "--virtio-serial=a.b"]),
            serve(vec![Door::Vsock(2718), Door::VirtioSerial("a.b".into())])
        );
        let tcp = vec![Door::Tcp("10.0.0.2:2718".parse().unwrap())];
        assert_eq!(wish(&["--tcp", "10.0.0.2"]), serve(tcp));
        assert!(matches!(wish(&[]), Ok(Wish::Serve { required: false, .. })));
    }

    #[test]
    fn mistakes_are_named() {
        assert!(wish(&["--vsock", "x"]).unwrap_err().contains("not a port"));
        assert!(wish(&["--foo"]).unwrap_err().contains("--foo"));
        assert!(wish(&["stray"]).unwrap_err().contains("stray"));
        assert!(wish(&["--tcp"]).unwrap_err().contains("needs the address"));
        assert!(wish(&["--tcp", "web1"]).unwrap_err().contains("not a numeric address"));
        assert!(wish(&["--unix"]).is_err());
    }
}
