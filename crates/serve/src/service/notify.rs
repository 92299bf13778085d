//! What systemd is told: sd_notify(3).

use std::io::ErrorKind::WouldBlock;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Tells it, if it wants to know; who cannot be told is no error. False: it does not read what it was told before, and
/// did not within that time. Whoever must not wait has none.
pub(crate) fn tell(state: &str, within: Duration) -> bool {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return true };
    let address = match path.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(&path),
    };
    let (Ok(socket), Ok(address)) = (UnixDatagram::unbound(), address) else { return true };
    let limit = match within {
        Duration::ZERO => socket.set_nonblocking(true),
        _ => socket.set_write_timeout(Some(within)),
    };
    let told = limit.and_then(|()| socket.send_to_addr(state.as_bytes(), &address));
    !told.is_err_and(|error| error.kind() == WouldBlock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// Nobody reads: neither the window thread nor the end waits for that. In a process of its own, whose
    /// environment it is.
    #[test]
    fn who_does_not_read_holds_up_nobody() {
        const NAME: &str = "service::notify::tests::who_does_not_read_holds_up_nobody";
        let Some(path) = std::env::var_os("NOTIFY_SOCKET") else {
            let dir = tempfile::tempdir().unwrap();
            let reader = UnixDatagram::bind(dir.path().join("notify")).unwrap();
            // The name that is told need not be the socket's own.
            symlink(dir.path().join("notify"), dir.path().join("link")).unwrap();
            let output = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", NAME, "--nocapture"])
                .env("NOTIFY_SOCKET", dir.path().join("link"))
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            // What came before it was full is there, and the first is still the first.
            let mut first = [0; 64];
            let length = reader.recv(&mut first).unwrap();
            assert_eq!(&first[..length], b"READY=1");
            return;
        };
        assert!(tell("READY=1", Duration::ZERO));
        let told = (0..100_000).take_while(|_| tell("WATCHDOG=1", Duration::ZERO)).count();
        assert!(told < 100_000, "{path:?} takes everything");
        assert!(!tell("STOPPING=1", Duration::from_millis(50)));
    }
}
