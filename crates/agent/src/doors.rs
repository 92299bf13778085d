//! Waiting for recorders, one thread a door; one recorder is served at a time.

use crate::terminal::note;
use crate::{args::Door, source::Kernel};
use std::{
    io,
    sync::{
        Mutex, MutexGuard, TryLockError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use transect_guest::{
    serve::{Caller, End},
    transport::{Channel, Listener, PortFinder},
};

/// How often a door looks whether the agent should end.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Before a port that vanished is looked for again.
const RETRY_EVERY: Duration = Duration::from_secs(1);
/// A recorder that comes while its predecessor's session is being cleaned up waits so long.
const CHANGE_OF_GUARD: Duration = Duration::from_secs(3);
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The kernel behind all doors, and the wish to end.
pub(crate) struct House {
    pub(crate) kernel: Mutex<Kernel>,
    pub(crate) shutdown: std::sync::Arc<AtomicBool>,
}

impl House {
    fn is_ending(&self) -> bool {
        self.shutdown.load(Ordering::Relaxed)
    }

    /// The kernel, as soon as nobody else is served; `None` if that takes too long.
    fn enter(&self) -> Option<MutexGuard<'_, Kernel>> {
        let deadline = Instant::now() + CHANGE_OF_GUARD;
        loop {
            match self.kernel.try_lock() {
                Ok(kernel) => return Some(kernel),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if Instant::now() > deadline => return None,
                Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    /// Serves one recorder, or tells it that another is being served.
    fn receive(&self, door: &str, channel: &Channel) {
        let Ok(caller) = Caller::wait(channel, VERSION, &self.shutdown) else { return };
        // Only now: a port that is open but silent must not keep other doors' recorders out.
        let Some(mut kernel) = self.enter() else { return caller.refuse_busy() };
        match caller.serve(&mut *kernel) {
            End::Broken(why) => note!("transect-agent: {door}: session ended: {why}"),
            End::Bye | End::Gone | End::Shutdown => {}
        }
    }
}

/// An open door.
pub(crate) enum Open {
    Listening(String, Listener),
    Port(String, PortFinder),
}

/// Opens a door.
///
/// # Errors
/// One sentence with the mend.
pub(crate) fn open(door: &Door) -> Result<Open, String> {
    match door {
        Door::Vsock(port) => {
            let name = format!("vsock port {port}");
            let listener = Listener::vsock(*port).map_err(|error| vsock_error(*port, &error))?;
            Ok(Open::Listening(name, listener))
        }
        Door::VirtioSerial(wanted) => {
            let finder = PortFinder::new(wanted.clone());
            finder.find().map_err(|error| error.to_string())?;
            Ok(Open::Port(format!("virtio-serial port {wanted}"), finder))
        }
        Door::Tcp(address) => {
            let listener = Listener::tcp(*address)
                .map_err(|error| format!("cannot listen on TCP {address}: {error}"))?;
            Ok(Open::Listening(format!("TCP {address}"), listener))
        }
        Door::Unix(path) => {
            let listener = Listener::unix(path)
                .map_err(|error| format!("cannot listen on {}: {error}", path.display()))?;
            Ok(Open::Listening(path.display().to_string(), listener))
        }
    }
}

/// The warning about a door that other machines can reach.
pub(crate) fn warning(door: &Door) -> Option<String> {
    let Door::Tcp(address) = door else { return None };
    (!address.ip().to_canonical().is_loopback()).then(|| {
        format!(
            "warning: TCP {address} has no authentication and no encryption: every machine that reaches this address \
             can record this kernel; use an address on a network that only the host is on"
        )
    })
}

fn vsock_error(port: u32, error: &io::Error) -> String {
    let mend = match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another transect-agent is running; end it or choose another port"
        }
        io::ErrorKind::PermissionDenied => "run the agent as root",
        _ => "load vmw_vsock_virtio_transport; the VMM must give the guest a vsock device",
    };
    format!("cannot listen on vsock port {port}: {error}; {mend}")
}

impl Open {
    pub(crate) fn name(&self) -> &str {
        match self {
            Open::Listening(name, _) | Open::Port(name, _) => name,
        }
    }

    /// Serves recorders at this door until the agent ends.
    pub(crate) fn stand_at(&self, house: &House) {
        match self {
            Open::Listening(name, listener) => listen(house, name, listener),
            Open::Port(name, finder) => answer_port(house, name, finder),
        }
    }
}

fn listen(house: &House, name: &str, listener: &Listener) {
    thread::scope(|scope| {
        while !house.is_ending() {
            match listener.accept(LOOK_EVERY) {
                // A thread each, so that a second recorder is told at once that it must wait.
                Ok(Some(channel)) => {
                    scope.spawn(move || house.receive(name, &channel));
                }
                Ok(None) => {}
                Err(error) => {
                    note!("transect-agent: {name}: cannot accept: {error}");
                    thread::sleep(RETRY_EVERY);
                }
            }
        }
    });
}

fn answer_port(house: &House, name: &str, finder: &PortFinder) {
    let mut complained = false;
    while !house.is_ending() {
        // Opened anew for each session: closing throws away what a dead recorder left unread
        // (drivers/char/virtio_console.c, port_fops_release).
        match finder.open() {
            Ok(channel) => {
                complained = false;
                house.receive(name, &channel);
                thread::sleep(LOOK_EVERY);
            }
            Err(error) => {
                if !complained {
                    note!("transect-agent: {name}: {error}; retrying");
                }
                complained = true;
                thread::sleep(RETRY_EVERY);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcp_beyond_this_machine_is_warned_about() {
        let of = |address: &str| warning(&Door::Tcp(address.parse().unwrap()));
        for open in ["0.0.0.0:2718", "10.0.0.2:2718", "[::]:2718", "[::ffff:10.0.0.2]:2718"] {
            let text = of(open).unwrap();
            assert!(text.contains(&format!("TCP {open} has no authentication")), "{text}");
        }
        for own in ["127.0.0.1:2718", "[::1]:2718", "[::ffff:127.0.0.1]:2718"] {
            assert_eq!(of(own), None);
        }
        assert_eq!(warning(&Door::Vsock(2718)), None);
    }
}
