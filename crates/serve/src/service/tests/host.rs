//! Another user's slow connections beside this one's requests, measured: for the tier that runs alone.

use super::slow::of_seconds;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// As nobody: connections that send half a request, and readers of 20 kB/s of the largest answer. Prints a line when all are
/// there.
const SLOW: &str = r#"
import os, socket, sys, time
# The interpreter may lie where nobody cannot read: the user is changed here.
"127.0.0.1".encode("idna")
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
port, silent, readers = map(int, sys.argv[1:])
def connect():
    return socket.create_connection(("127.0.0.1", port))
half = []
for _ in range(silent):
    try:
        half.append(connect())
        half[-1].sendall(b"GET /api/v1/now HTTP/1.1\r\nX: ")
    except OSError:
        pass
slow = [connect() for _ in range(readers)]
for each in slow:
    each.sendall(b"GET /api/v1/history?from=-150s&step=1s HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
print("there", flush=True)
while True:
    for each in slow:
        each.recv(20000)
    time.sleep(1)
"#;

/// A process that is ended with the test.
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start_slow(port: u16, silent: u32, readers: u32) -> Option<Other> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let mut client = Command::new("python3");
    client.args(["-c", SLOW]);
    client.args([port.to_string(), silent.to_string(), readers.to_string()]);
    let mut other = Other(client.stdout(Stdio::piped()).spawn().ok()?);
    let mut line = String::new();
    let out = other.0.stdout.as_mut()?;
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).ok()?;
    (line == "there\n").then_some(other)
}

/// 600 slow sockets and four slow readers of an answer of 50 MB: another user's request of the history is answered
/// within twice its usual time, and none is refused.
#[test]
fn slow_connections_of_one_user_leave_the_others_their_time() {
    let running = of_seconds(150);
    let whole = running.get("/api/v1/history?from=-150s&step=1s").body.len();
    assert!(whole > 50_000_000, "{whole}");
    let times = || {
        let mut times: Vec<Duration> = (0..15)
            .map(|_| {
                let begun = Instant::now();
                let answer = running.get("/api/v1/history?from=-10s&step=1s&tables=windows");
                assert_eq!(answer.status, 200);
                begun.elapsed()
            })
            .collect();
        times.sort();
        times
    };
    times();
    let usual = times();
    let Some(other) = start_slow(running.address.port(), 600, 4) else {
        println!("skipped: not root, or no python3 here");
        return;
    };
    let while_made = times();
    let service = &running.daemon.as_ref().unwrap().service;
    super::wait_for("answers that are made", || {
        service.readers.used() == 0 && service.spool.used() > 0
    });
    let (unsent, beside) = (service.spool.used(), times());
    drop(other);
    super::wait_for("the slow clients' end", || service.spool.used() == 0);
    let after = times();
    // A machine with other work is slow at one time and fast at another.
    let usual = if usual[7] > after[7] { usual } else { after };
    let turned_away = service.counts.turned_away.load(std::sync::atomic::Ordering::Relaxed);
    println!(
        "median {:?} alone, {:?} while the slow readers' answers are made, {:?} beside slow clients; longest {:?}, {:?}, {:?}; \
         {} bytes of answers of {whole} unsent, {turned_away} connections turned away",
        usual[7], while_made[7], beside[7], usual[14], while_made[14], beside[14], unsent
    );
    assert!(turned_away >= 600 - 128, "{turned_away}");
    assert!(beside[7] <= 2 * usual[7], "{:?} after {:?}", beside[7], usual[7]);
}
