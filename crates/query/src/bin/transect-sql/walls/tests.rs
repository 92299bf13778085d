//! Attempts to leave the walls. A copy of the test program makes them, with the walls and without.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests report by failing")]
#![allow(unsafe_code, reason = "system calls without a wrapper")]

use std::fs::File;
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::thread;
use transect_query::Options;

const TRY: &str = "walls::tests::attempts";
const WALLS: &str = "TRANSECT_TEST_WALLS";

type Attempt = fn() -> io::Result<()>;

/// The attempts. Behind the walls each of them must fail with EPERM.
const ATTEMPTS: &[(&str, Attempt)] = &[
    ("open /etc/shadow", || File::open("/etc/shadow").map(drop)),
    ("open /etc/passwd", || File::open("/etc/passwd").map(drop)),
    ("open /proc/self/mem", || File::open("/proc/self/mem").map(drop)),
    ("create a file", || {
        let path = std::env::temp_dir().join(format!("transect-walls-{}", std::process::id()));
        File::create(&path)?;
        std::fs::remove_file(path)
    }),
    ("list a folder", || std::fs::read_dir("/").map(drop)),
    ("look at a file", || std::fs::metadata("/etc/passwd").map(drop)),
    ("listen", || TcpListener::bind("127.0.0.1:0").map(drop)),
    ("UDP socket", || UdpSocket::bind("127.0.0.1:0").map(drop)),
    ("UNIX socket", || UnixStream::pair().map(drop)),
    ("start a program", || Command::new("/bin/true").status().map(drop)),
    ("fork", || {
        // SAFETY: the child does nothing but exit.
        match unsafe { libc::fork() } {
            // SAFETY: ends the child at once.
            0 => unsafe { libc::_exit(0) },
            -1 => Err(io::Error::last_os_error()),
            child => {
                // SAFETY: waits for the child without asking for its status.
                unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
                Ok(())
            }
        }
    }),
    ("ptrace", || by_number(libc::SYS_ptrace, [libc::PTRACE_PEEKUSER.into(), 0, 0, 0])),
    ("signal another process", || by_number(libc::SYS_kill, [parent(), 0, 0, 0])),
    ("signal another thread", || by_number(libc::SYS_tgkill, [parent(), parent(), 0, 0])),
    ("read another process", || by_number(libc::SYS_process_vm_readv, [parent(), 0, 0, 0])),
    ("memfd_create", || by_number(libc::SYS_memfd_create, [0; 4])),
    ("io_uring_setup", || by_number(libc::SYS_io_uring_setup, [1, 0, 0, 0])),
    ("bpf", || by_number(libc::SYS_bpf, [-1, 0, 0, 0])),
    ("perf_event_open", || by_number(libc::SYS_perf_event_open, [0; 4])),
    ("unshare", || by_number(libc::SYS_unshare, [0; 4])),
    ("mount", || by_number(libc::SYS_mount, [0; 4])),
    ("keyctl", || by_number(libc::SYS_keyctl, [-1, 0, 0, 0])),
    ("executable memory", || map_memory(libc::PROT_EXEC, libc::MAP_PRIVATE)),
    ("shared memory", || map_memory(libc::PROT_WRITE, libc::MAP_SHARED)),
    ("a second stack", || map_memory(libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_GROWSDOWN)),
    ("more open files", || {
        let limits = libc::rlimit { rlim_cur: 5, rlim_max: 5 };
        // SAFETY: `limits` is a valid rlimit during the call.
        let set = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limits) };
        if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }),
];

fn parent() -> i64 {
    std::os::unix::process::parent_id().into()
}

fn map_memory(protection: i32, flags: i32) -> io::Result<()> {
    let flags = flags | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping that nothing uses.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0) };
    if address == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Calls the kernel with arguments of which no pointer is valid.
fn by_number(call: libc::c_long, arguments: [i64; 4]) -> io::Result<()> {
    let [a, b, c, d] = arguments;
    // SAFETY: null and numbers: the kernel rejects what it cannot use.
    let result = unsafe { libc::syscall(call, a, b, c, d) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Makes all attempts and prints one line each. Only [`run_attempts`] calls it.
#[test]
#[ignore = "helper: raises walls around the test program"]
fn attempts() {
    if std::env::var_os(WALLS).is_some() {
        let missing = super::raise_walls(&Options::default(), 0);
        println!("missing: {missing:?}");
    }
    for (name, attempt) in ATTEMPTS {
        let errno = attempt().map_or_else(|error| error.raw_os_error().unwrap_or(-1), |()| 0);
        println!("attempt: {name} = {errno}");
    }
    // A query still has memory, threads and time.
    super::limits::limit_cpu_time(std::time::Duration::from_secs(60), 1);
    let sum = thread::spawn(|| vec![1_u64; 1 << 20].iter().sum::<u64>()).join().unwrap();
    println!("works: {sum}");
}

fn run_attempts(with_walls: bool) -> Vec<String> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([TRY, "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
    if with_walls {
        command.env(WALLS, "1");
    }
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let found: Vec<_> = text
        .lines()
        .filter(|line| ["missing: ", "attempt: ", "works: "].iter().any(|it| line.contains(it)))
        .map(str::to_owned)
        .collect();
    assert!(found.last().is_some_and(|line| line.ends_with("works: 1048576")), "{text}");
    found
}

#[test]
fn nothing_outside_can_be_reached() {
    let lines = run_attempts(true);
    if let Some(missing) = lines.iter().find(|line| line.contains("syscalls")) {
        println!("skipped: {missing}");
        return;
    }
    assert!(lines.iter().any(|line| line.ends_with("missing: []")), "{lines:#?}");
    for (name, _) in ATTEMPTS {
        let wanted = format!("attempt: {name} = {}", libc::EPERM);
        assert!(lines.iter().any(|line| line.ends_with(&wanted)), "{wanted}\n{lines:#?}");
    }
}

/// Without the walls the same attempts succeed or fail for other reasons, so the test above can fail.
#[test]
fn without_walls_the_attempts_are_not_refused() {
    let lines = run_attempts(false);
    let refused = format!("= {}", libc::EPERM);
    let refused = lines.iter().filter(|line| line.ends_with(&refused)).count();
    // Without privileges the kernel itself refuses some of them.
    let most = if rustix::process::geteuid().is_root() { 0 } else { 6 };
    assert!(refused <= most, "{lines:#?}");
}
