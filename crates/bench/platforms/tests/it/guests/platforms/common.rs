//! A bed for machines, and a conversation with the echo worker (src/bin/echo-worker.rs).
#![allow(unreachable_pub, reason = "a module of tests")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests"
)]

use std::io::{BufRead, Read, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use transect_bench_core::{
    Fault, Job,
    protocol::{FromWorker, ToWorker, WorkerFacts},
};
use transect_bench_platforms::{Bed, Machine, Pipes, Platform, Shape, registry};

pub struct Place {
    pub folder: tempfile::TempDir,
    pub bed: Bed,
}

impl Place {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bed = Bed {
            worker: echo_worker(),
            worker_arguments: vec!["a b".into(), "it's".into()],
            scratch: folder.path().join("scratch"),
            logs: folder.path().join("logs"),
            lttng: false,
        };
        Self { folder, bed }
    }

    /// Nothing but logs is left.
    pub fn assert_clean(&self) {
        let left: Vec<_> = std::fs::read_dir(&self.bed.scratch).into_iter().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

pub fn echo_worker() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_echo-worker"))
}

pub fn platform(name: &str) -> &'static dyn Platform {
    *registry().iter().find(|platform| platform.name() == name).expect(name)
}

pub fn shape(memory_mib: u32, cpus: u32) -> Shape {
    let (index, disk_mib) = (0, 64);
    Shape { index, memory_mib, cpus, pin: Vec::new(), disk_mib, params: Default::default() }
}

/// The machine; none, and the reason said, where it cannot be had.
pub fn open(name: &str, shape: &Shape, bed: &Bed) -> Option<Box<dyn Machine>> {
    if let Err(refusal) = platform(name).can_run(shape) {
        println!("skipped: {refusal}");
        return None;
    }
    let start = Instant::now();
    match platform(name).open(shape, bed) {
        Ok(machine) => {
            println!("{name}: open after {:.1} s", start.elapsed().as_secs_f64());
            Some(machine)
        }
        Err(Fault::Refused(refusal)) if refusal.kind == transect_bench_core::Kind::NotHere => {
            println!("skipped: {refusal}");
            None
        }
        Err(error) => panic!("{name}: {error}"),
    }
}

pub struct Talk {
    pub hello: WorkerFacts,
    pipes: Pipes,
}

impl Talk {
    pub fn with(machine: &mut dyn Machine) -> Self {
        Self::over(machine.worker().unwrap())
    }

    pub fn over(mut pipes: Pipes) -> Self {
        let FromWorker::Hello(hello) = hear(&mut pipes) else { panic!("no Hello") };
        assert_eq!(hello.notes["argument 0"], "a b");
        assert_eq!(hello.notes["argument 1"], "it's");
        Self { hello: *hello, pipes }
    }

    /// What the worker finds out; see the example.
    pub fn ask(&mut self, what: &str) -> String {
        let start = Instant::now();
        self.tell(what);
        let answer = self.hear();
        println!("{:.1} s: {what:.60}", start.elapsed().as_secs_f64());
        answer
    }

    fn hear(&mut self) -> String {
        match hear(&mut self.pipes) {
            FromWorker::Faulted(Fault::Failed(report)) => report,
            other => panic!("{other:?}"),
        }
    }

    pub fn tell(&mut self, what: &str) {
        let job = Job { workload: what.into(), ..Job::default() };
        say(&mut self.pipes, &ToWorker::Prepare(Box::new(job)));
    }

    /// Ends it and waits for the end of its words.
    pub fn end(mut self) {
        say(&mut self.pipes, &ToWorker::End);
        let mut rest = String::new();
        self.pipes.from.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "");
    }
}

fn say(pipes: &mut Pipes, message: &ToWorker) {
    writeln!(pipes.to, "{}", serde_json::to_string(message).unwrap()).unwrap();
    pipes.to.flush().unwrap();
}

fn hear(pipes: &mut Pipes) -> FromWorker {
    let mut line = String::new();
    pipes.from.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("'{line}': {error}"))
}

/// What every machine must be able to do: real programs, its own disk, one worker after the other.
pub fn works(machine: &mut dyn Machine, shape: &Shape) {
    let mut talk = Talk::with(machine);
    println!("{:?} {:?}", talk.hello, machine.facts());
    assert_eq!(talk.hello.cpus.len(), usize::try_from(shape.cpus).unwrap());
    let tar = std::fs::metadata("/usr/bin/tar").unwrap().len();
    assert_eq!(talk.ask("read:/usr/bin/tar"), tar.to_string());
    assert_eq!(talk.ask("write:8"), (8 << 20).to_string());
    let compiled = "printf 'int main(){return 7;}' >a.c && gcc a.c && ./a.out; echo $?; id -u";
    assert_eq!(talk.ask(&format!("run:{compiled}")), "7\n0\n");
    assert!(talk.ask("run:touch /usr/new 2>&1; rm -f /usr/new").len() < 100);
    let long = talk.ask("run:head -c 300000 /dev/zero | tr '\\0' x");
    assert_eq!(long.len(), 300_000);
    talk.end();
    let mut second = Talk::with(machine);
    assert_eq!(second.ask("write:1"), (1 << 20).to_string());
    // Dropped unheard: it is told to end, and the next one comes all the same.
    drop(second);
    Talk::with(machine).end();
    machine.check_alive().unwrap();
}

/// A server in the machine is reached from here, and one of this process from there.
pub fn talks_over_tcp(machine: &mut dyn Machine) {
    let mut talk = Talk::with(machine);
    let port: u16 = talk.ask("listen").parse().unwrap();
    let address = machine.reach(port).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let mut answer = String::new();
        let stream = std::net::TcpStream::connect(address);
        if stream.and_then(|mut stream| stream.read_to_string(&mut answer)).is_ok()
            && answer == "here"
        {
            break;
        }
        assert!(Instant::now() < deadline, "nobody answers at {address}");
        std::thread::sleep(Duration::from_millis(100));
    }
    let gateway = machine.gateway().expect("a gateway");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"from below").unwrap();
    });
    assert_eq!(talk.ask(&format!("ask:{gateway}:{port}")), "from below");
    server.join().unwrap();
    talk.end();
}

/// A datagram comes back through the port that leads into the machine.
pub fn talks_over_udp(machine: &mut dyn Machine) {
    let mut talk = Talk::with(machine);
    let port: u16 = talk.ask("listen").parse().unwrap();
    let address = machine.reach(port).unwrap();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut answer = [0; 64];
    loop {
        socket.send(b"and back").unwrap();
        if socket.recv(&mut answer).is_ok_and(|length| &answer[..length] == b"and back") {
            break;
        }
        assert!(Instant::now() < deadline, "no datagram comes back from {address}");
    }
    talk.end();
}

/// Processes of this host whose command line has the text, zombies apart.
pub fn processes_with(text: &str) -> Vec<String> {
    let all = procfs::process::all_processes()
        .unwrap()
        .filter_map(|process| Some(process.ok()?.cmdline().ok()?.join(" ")));
    all.filter(|line| line.contains(text)).collect()
}

pub fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "not within 30 s: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Groups of this process, and of the one with this number.
pub fn control_groups_of(pid: u32) -> Vec<PathBuf> {
    fn below(folder: PathBuf, name: &str, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name().to_string_lossy().starts_with(name) {
                    found.push(entry.path());
                }
                below(entry.path(), name, found);
            }
        }
    }
    let mut found = Vec::new();
    below("/sys/fs/cgroup".into(), &format!("transect-bench-{pid}-"), &mut found);
    found
}

pub fn mounts() -> String {
    std::fs::read_to_string("/proc/self/mountinfo").unwrap()
}
