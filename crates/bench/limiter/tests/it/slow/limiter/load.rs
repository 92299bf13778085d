//! Synthetic loads, each with one limiter: run in a child process of the test (this binary again).

use rustix::{
    fs::{Mode, OFlags},
    time::{ClockId, clock_gettime},
};
use std::{
    hint::black_box,
    io::{Read, Write},
    net::{TcpListener, TcpStream, UdpSocket},
    os::unix::fs::FileExt,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// The variable that makes this binary a load.
pub(crate) const VARIABLE: &str = "TRANSECT_BENCH_LOAD";

/// Runs `LOAD ARGUMENT…` for ever, after a line on stdin. Says when it can, and when it does.
pub(crate) fn run(spec: &str) {
    let words: Vec<_> = spec.split(' ').collect();
    if let Ok(cpu) = std::env::var("TRANSECT_BENCH_CPU") {
        let mut set = rustix::thread::CpuSet::new();
        set.set(cpu.parse().unwrap());
        rustix::thread::sched_setaffinity(None, &set).unwrap();
    }
    // Threads inherit it. Whoever may not has to live with other programs' load, and his tests say so.
    let _ = rustix::process::setpriority_process(None, -20);
    // Where sessions are scheduled as groups (autogroup), a priority counts only within one.
    let _ = rustix::process::setsid();
    let _ = std::fs::write("/proc/self/autogroup", "-20");
    println!("READY");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    println!("RUNS");
    match words.as_slice() {
        ["spin", threads] => spin("spin", threads.parse().unwrap()),
        ["culprit"] => spin("culprit", 1),
        ["count"] => count(),
        ["sleep"] => sleep(),
        ["chain"] => chain(),
        ["fsync", folder] => fsync(Path::new(folder)),
        ["direct", file] => direct(Path::new(file)),
        ["cached", file] => cached(Path::new(file)),
        ["tcp"] => tcp(),
        ["udp"] => udp(),
        ["listen"] => listen(),
        ["lock"] => lock(),
        ["echo", port_file] => echo(Path::new(port_file)),
        ["ask", port] => ask(port.parse().unwrap()),
        other => panic!("no such load: {other:?}"),
    }
}

fn work(duration: Duration) {
    let end = Instant::now() + duration;
    while Instant::now() < end {
        for value in 0..200_u64 {
            black_box(value.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        }
    }
}

fn threads(name: &str, count: usize, body: impl Fn() + Clone + Send + 'static) {
    let start = |_| {
        let body = body.clone();
        std::thread::Builder::new().name(name.into()).spawn(body).unwrap()
    };
    let handles: Vec<_> = (0..count).map(start).collect();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
}

fn spin(name: &str, count: usize) {
    threads(name, count, || work(Duration::from_secs(3600)));
}

/// Spins and says how far it got, every 20 ms, and what time it is and what CPU time it has had by then, ns.
fn count() {
    let done = Arc::new(AtomicU64::new(0));
    let counter = done.clone();
    std::thread::spawn(move || {
        loop {
            work(Duration::from_micros(0));
            for value in 0..1000_u64 {
                black_box(value.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            }
            counter.fetch_add(1, Ordering::Relaxed);
        }
    });
    loop {
        std::thread::sleep(Duration::from_millis(20));
        let (now, cpu) = (monotonic_ns(), clock_ns(ClockId::ProcessCPUTime));
        println!("COUNT {} {now} {cpu}", done.load(Ordering::Relaxed));
    }
}

/// `CLOCK_MONOTONIC`, the same in all processes, ns.
pub(crate) fn monotonic_ns() -> u64 {
    clock_ns(ClockId::Monotonic)
}

fn clock_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    u64::try_from(now.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap()
}

fn sleep() {
    loop {
        std::thread::sleep(Duration::from_millis(3));
        work(Duration::from_micros(50));
    }
}

/// One short process after the other; not for ever, should nobody be left to end it. All on one CPU, though they may use
/// any: to wake another one takes time that is nobody's, and the more the faster the CPUs are.
fn chain() {
    let script = "n=0; while [ $n -lt 4000 ]; do n=$((n+1)); sh -c 'i=0; while [ $i -lt 4000 ]; do i=$((i+1)); done'; done";
    let start = || {
        let any = rustix::thread::sched_getaffinity(None).unwrap();
        let last = (0..rustix::thread::CpuSet::MAX_CPU).rfind(|&cpu| any.is_set(cpu)).unwrap();
        let mut one = rustix::thread::CpuSet::new();
        one.set(last);
        rustix::thread::sched_setaffinity(None, &one).unwrap();
        std::process::Command::new("sh").args(["-c", script]).status().unwrap();
    };
    std::thread::spawn(start).join().unwrap();
}

fn fsync(folder: &Path) {
    let file = std::fs::File::create(folder.join("synced")).unwrap();
    for round in 0.. {
        file.write_all_at(&[7; 4096], round % 64 * 4096).unwrap();
        file.sync_all().unwrap();
    }
}

fn direct(file: &Path) {
    let flags = OFlags::RDONLY | OFlags::DIRECT;
    let file: std::fs::File = rustix::fs::open(file, flags, Mode::empty()).unwrap().into();
    const BLOCK: usize = 1 << 20;
    let mut memory = vec![0_u8; BLOCK + 4096];
    let start = memory.as_ptr().align_offset(4096);
    let buffer = &mut memory[start..start + BLOCK];
    loop {
        let mut offset = 0;
        while file.read_at(buffer, offset).unwrap() == BLOCK {
            offset += BLOCK as u64;
        }
    }
}

/// Reads a file again and again through the page cache, in a scattered order so that read-ahead is of no use.
fn cached(file: &Path) {
    let file = std::fs::File::open(file).unwrap();
    let pages = file.metadata().unwrap().len() / 4096;
    let mut buffer = [0; 4096];
    for round in 0_u64.. {
        // Knuth's multiplicative hash: every page, in no order.
        let page = (round.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % pages;
        file.read_exact_at(&mut buffer, page * 4096).unwrap();
    }
}

fn tcp() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let reader = move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut buffer = vec![0; 1 << 17];
        while stream.read(&mut buffer).unwrap() > 0 {}
    };
    std::thread::Builder::new().name("reader".into()).spawn(reader).unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let buffer = vec![1; 1 << 17];
    loop {
        stream.write_all(&buffer).unwrap();
    }
}

fn udp() {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = receiver.local_addr().unwrap();
    let receive = move || {
        let mut buffer = [0; 64];
        while receiver.recv(&mut buffer).is_ok() {}
    };
    std::thread::Builder::new().name("receiver".into()).spawn(receive).unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.connect(address).unwrap();
    loop {
        // A full queue is what is wanted here.
        let _ = sender.send(&[1; 32]);
    }
}

/// A server with a queue of one that accepts twenty connections a second, and sixteen clients that want more.
fn listen() {
    use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};
    let server = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    let any = std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 0);
    bind(&server, &any).unwrap();
    listen(&server, 1).unwrap();
    let address = std::net::SocketAddr::try_from(getsockname(&server).unwrap()).unwrap();
    let listener = TcpListener::from(server);
    std::thread::spawn(move || {
        loop {
            let accepted = listener.accept();
            std::thread::sleep(Duration::from_millis(50));
            drop(accepted);
        }
    });
    threads("client", 16, move || {
        loop {
            let _ = TcpStream::connect_timeout(&address, Duration::from_millis(900));
        }
    });
}

/// Everybody holds the lock for most of what they do, and does a little without it so that another one gets it.
fn lock() {
    let lock = Arc::new(Mutex::new(0_u64));
    threads("locker", 4, move || {
        loop {
            let mut value = lock.lock().unwrap();
            *value += 1;
            work(Duration::from_millis(2));
            drop(value);
            // Long enough for the one that was woken to take it.
            std::thread::sleep(Duration::from_micros(200));
        }
    });
}

fn echo(port_file: &Path) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let part = port_file.with_extension("part");
    std::fs::write(&part, listener.local_addr().unwrap().port().to_string()).unwrap();
    std::fs::rename(&part, port_file).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_nodelay(true).unwrap();
    let mut byte = [0];
    while stream.read(&mut byte).unwrap_or(0) > 0 {
        stream.write_all(&byte).unwrap();
    }
    std::thread::sleep(Duration::from_secs(3600));
}

/// A generator that computes for long before each request.
fn ask(port: u16) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut byte = [1];
    loop {
        work(Duration::from_millis(2));
        stream.write_all(&byte).unwrap();
        stream.read_exact(&mut byte).unwrap();
    }
}
