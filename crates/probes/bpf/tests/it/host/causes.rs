//! What only tells causes, on this machine's kernel: numbers of packets and work, locks and their owners,
//! quotas that end, memory that is reclaimed.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![allow(clippy::print_stdout, reason = "a skipped test says why")]

use crate::host::support::{Memory, is_skipped};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use transect_bpf::{Compact, Family, Mode, Plan, Trigger, TriggerEvent};
use transect_compact::{BlockWriter, FileHeader, Item, Totals, kind};
use transect_model::{event::CoreEvent, exit::Isa, ids::CpuId};

/// All events of a recording that `work` ran in, and the families' events that this kernel lacks.
fn recorded(
    families: &[Family],
    work: impl FnOnce(),
) -> (Vec<(CpuId, u64, CoreEvent)>, Vec<String>) {
    let mut compact = Compact::load(&Plan::of(families)).unwrap();
    let absent = compact.absent().to_vec();
    let header = FileHeader::new(1024, Isa::Svm, "causes");
    let consumer = compact.consume(Memory(BlockWriter::new(Vec::new(), &header).unwrap())).unwrap();
    compact.attach().unwrap();
    work();
    let finished = compact.stop(consumer).unwrap();
    assert_eq!((finished.stats.lost(), finished.failure.is_none()), (0, true));
    let file = finished.sink.0.finish(&Totals::default()).unwrap();
    let compact = transect_compact::Compact::parse(&file).unwrap();
    assert!(compact.problems().is_empty(), "{:?}", compact.problems());
    let mut events = Vec::new();
    for cpu in compact.cpus() {
        for item in compact.stream(cpu).unwrap() {
            let Item::Event { ts, event, .. } = item else { panic!("nothing is lost: {item:?}") };
            events.push((cpu, ts.get(), event));
        }
    }
    events.sort_by_key(|(_, ts, _)| *ts);
    (events, absent)
}

/// Packets of a connection over the loopback device: what is sent comes, under the same number.
#[test]
fn packets_have_the_same_number_where_they_are_sent_and_where_they_come() {
    const MESSAGES: usize = 50;
    if is_skipped() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0");
    let Ok(listener) = listener else { return println!("skipped: no loopback device") };
    let address = listener.local_addr().unwrap();
    let (events, _) = recorded(&[Family::Sched, Family::Net, Family::Causes], || {
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let (mut peer, _) = listener.accept().unwrap();
                let mut bytes = [0; 20];
                while peer.read_exact(&mut bytes).is_ok() {
                    peer.write_all(&bytes).unwrap();
                }
            });
            let mut client = TcpStream::connect(address).unwrap();
            client.set_nodelay(true).unwrap();
            for _ in 0..MESSAGES {
                let mut bytes = [7; 20];
                client.write_all(&bytes).unwrap();
                client.read_exact(&mut bytes).unwrap();
            }
        });
    });
    // What bears the length of our packets: 20 bytes and the headers.
    let (mut sent, mut came) = (BTreeMap::new(), Vec::new());
    let mut last_received = BTreeMap::new();
    for (cpu, ts, event) in &events {
        match event {
            CoreEvent::NetReceive { skb, device, bytes } => {
                let is_ours = device.as_bytes() == b"lo" && *bytes == 20 + 20 + 32;
                last_received.insert(*cpu, (*skb, is_ours));
            }
            CoreEvent::NetPacket { flow, seq, sent: true, .. } => {
                sent.entry((*flow, *seq)).or_insert(*ts);
            }
            CoreEvent::NetPacket { skb, flow, seq, sent: false } => {
                let received = last_received.get(cpu).copied();
                // A packet's own record has 56 bits of its address.
                let behind = received.map(|(skb, _): (u64, bool)| skb << 8);
                assert_eq!(behind, Some(*skb << 8), "behind its packet");
                came.extend(received.filter(|(_, is_ours)| *is_ours).map(|_| (*ts, *flow, *seq)));
            }
            _ => {}
        }
    }
    let joined = came
        .iter()
        .filter(|(ts, flow, seq)| sent.get(&(*flow, *seq)).is_some_and(|sent| sent <= ts));
    let joined = joined.count();
    println!("{joined} of {} packets of 20 bytes that came were sent here", came.len());
    assert!(came.len() >= 2 * MESSAGES, "{}", came.len());
    assert_eq!(joined, came.len());
    let numbers: BTreeSet<_> = came.iter().map(|(_, flow, seq)| (flow, seq)).collect();
    assert_eq!(numbers.len(), came.len(), "each has its own");
}

/// Requests, work and locks: ends have the number of their beginnings.
#[test]
fn requests_work_and_locks_go_by_their_numbers() {
    if is_skipped() {
        return;
    }
    let families = [Family::Sched, Family::Block, Family::Work, Family::Locks, Family::Causes];
    let dir = tempfile::tempdir().unwrap();
    let write = || {
        let file = dir.path().join("file");
        let dd = |n: u32| {
            let of = format!("of={}", file.display());
            let seek = format!("seek={}", n * 100);
            let mut dd = Command::new("dd");
            dd.args(["if=/dev/zero", &of, &seek, "bs=4096", "count=100", "conv=notrunc,fsync"]);
            dd.stderr(Stdio::null()).spawn()
        };
        let started: Vec<_> = (0..4).map(dd).collect();
        for child in started {
            match child {
                Ok(mut child) => assert!(child.wait().unwrap().success()),
                // A guest without programs: then by ourselves.
                Err(_) => fs::write(&file, vec![0; 1 << 20]).unwrap(),
            }
        }
        // Gives the kernel's workers something to do.
        let _ignored = fs::write("/proc/sys/vm/drop_caches", "1");
    };
    let (events, absent) = recorded(&families, write);
    println!("lacking: {absent:?}");
    let mut queued = BTreeMap::new();
    let (mut works, mut requests, mut locks) = (0, 0, 0);
    let (mut issued, mut waiting) = (BTreeMap::new(), BTreeSet::new());
    for (_, ts, event) in &events {
        match *event {
            CoreEvent::WorkQueue { work, function, .. } => {
                queued.insert(work, (*ts, function));
            }
            CoreEvent::WorkStart { work, function } => {
                if let Some((_, asked)) = queued.remove(&work) {
                    assert_eq!(asked, function);
                    works += 1;
                }
            }
            CoreEvent::BlockIssue(request) => {
                issued.insert(request.id.expect("a number"), request.sector);
            }
            CoreEvent::BlockComplete { request, .. } => {
                let number = request.id.expect("a number");
                if let Some(sector) = issued.remove(&number).filter(|_| request.sectors > 0) {
                    assert_eq!(sector, request.sector);
                    requests += 1;
                }
            }
            CoreEvent::LockBegin { lock, .. } => {
                waiting.insert(lock);
            }
            CoreEvent::LockEnd { lock, .. } => locks += u32::from(waiting.remove(&lock)),
            _ => {}
        }
    }
    println!("{works} work items, {requests} requests, {locks} waits for locks");
    assert!(works > 0);
}

/// Requests that devices have completed since boot.
fn completed() -> u64 {
    let stats = fs::read_to_string("/proc/diskstats").unwrap();
    let of = |line: &str, field: usize| -> u64 {
        line.split_whitespace().nth(field).and_then(|count| count.parse().ok()).unwrap_or(0)
    };
    // Reads and writes.
    stats.lines().map(|line| of(line, 3) + of(line, 7)).sum()
}

/// A trigger finds its event in the form that has a number, too.
#[test]
fn a_trigger_finds_requests_with_numbers() {
    if is_skipped() {
        return;
    }
    let on = TriggerEvent::Kind(kind::BLOCK_COMPLETE);
    let plan = Plan {
        mode: Mode::FlightRecorder,
        trigger: Some(Trigger { on, min_ns: 0 }),
        ..Plan::of(&[Family::Block, Family::Causes])
    };
    let mut compact = Compact::load(&plan).unwrap();
    compact.attach().unwrap();
    let before = completed();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&vec![1; 1 << 20]).unwrap();
    file.sync_all().unwrap();
    if completed() == before {
        return println!("skipped: no request reached a device that counts them");
    }
    assert!(compact.trigger().is_some());
}

/// A control group for processor time and memory, of either version; taken away when dropped.
struct Group {
    cpu: PathBuf,
    memory: PathBuf,
    is_v2: bool,
}

impl Group {
    fn new(name: &str) -> Option<Self> {
        let root = Path::new("/sys/fs/cgroup");
        let is_v2 = root.join("cgroup.controllers").exists();
        if is_v2 {
            fs::write(root.join("cgroup.subtree_control"), "+cpu +memory").ok()?;
        }
        let of = |controller: &str| {
            let place = if is_v2 { root.join(name) } else { root.join(controller).join(name) };
            fs::create_dir_all(&place).ok()?;
            place.join("cgroup.procs").exists().then_some(place)
        };
        let (cpu, memory) = (of("cpu")?, of("memory")?);
        Some(Group { cpu, memory, is_v2 })
    }

    fn join(&self) {
        let own = std::process::id().to_string();
        fs::write(self.cpu.join("cgroup.procs"), &own).unwrap();
        fs::write(self.memory.join("cgroup.procs"), own).unwrap();
    }

    fn throttled(&self) -> u64 {
        let stat = fs::read_to_string(self.cpu.join("cpu.stat")).unwrap();
        let line = stat.lines().find_map(|line| line.strip_prefix("nr_throttled "));
        line.unwrap().parse().unwrap()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for place in [&self.cpu, &self.memory] {
            let _gone = fs::remove_dir(place);
        }
    }
}

/// In a process of its own, which is in the group for good: a loop under a quota, and a file larger than
/// the group may hold.
#[test]
fn quotas_end_and_memory_is_reclaimed() {
    const ROLE: &str = "TRANSECT_TEST_IN_GROUP";
    const NAME: &str = "transect-test-causes";
    if is_skipped() {
        return;
    }
    if std::env::var_os(ROLE).is_some() {
        let group = Group::new(NAME).unwrap();
        group.join();
        std::mem::forget(group);
        let end = std::time::Instant::now() + std::time::Duration::from_millis(600);
        while std::time::Instant::now() < end {}
        let dir = tempfile::tempdir().unwrap();
        let mut file = fs::File::create(dir.path().join("file")).unwrap();
        for _ in 0..64 {
            file.write_all(&vec![1; 1 << 20]).unwrap();
        }
        return;
    }
    let Some(group) = Group::new(NAME) else {
        return println!("skipped: no control groups for processor time and memory");
    };
    let is_set = if group.is_v2 {
        fs::write(group.cpu.join("cpu.max"), "10000 50000").is_ok()
            && fs::write(group.memory.join("memory.max"), "16777216").is_ok()
    } else {
        fs::write(group.cpu.join("cpu.cfs_period_us"), "50000").is_ok()
            && fs::write(group.cpu.join("cpu.cfs_quota_us"), "10000").is_ok()
            && fs::write(group.memory.join("memory.limit_in_bytes"), "16777216").is_ok()
    };
    if !is_set {
        return println!("skipped: the control group takes no limits");
    }
    let test = "host::causes::quotas_end_and_memory_is_reclaimed";
    let mut is_whole = false;
    let (events, absent) = recorded(&[Family::Sched, Family::Quota, Family::Memory], || {
        let program = std::env::current_exe().unwrap();
        let mut child = Command::new(program);
        child.args(["--exact", test]).env(ROLE, "1").stdout(Stdio::null());
        // Where files are in memory, too, none of it can be freed: the process is killed instead.
        is_whole = child.status().unwrap().success();
    });
    println!("lacking: {absent:?}");
    let count =
        |is: fn(&CoreEvent) -> bool| events.iter().filter(|(_, _, event)| is(event)).count();
    let throttles = count(|event| matches!(event, CoreEvent::Throttle { .. }));
    let ends = count(|event| matches!(event, CoreEvent::Unthrottle { .. }));
    let reclaims = count(|event| matches!(event, CoreEvent::ReclaimBegin { memcg: true, .. }));
    let reclaimed = count(|event| matches!(event, CoreEvent::ReclaimEnd { memcg: true, .. }));
    println!("{throttles} throttles ({} by cpu.stat), {reclaims} reclaims", group.throttled());
    if !absent.iter().any(|event| event.contains("throttle")) {
        // The kernel counts periods, in which several CPUs may have been throttled.
        assert!(throttles as u64 >= group.throttled(), "{throttles}");
        assert_eq!(throttles, ends);
        assert!(throttles > 3, "{throttles}");
    }
    if !is_whole {
        println!("skipped: memory: files are in memory here");
    } else if !absent.iter().any(|event| event.contains("memcg")) {
        assert!(reclaims > 0);
        assert_eq!(reclaims, reclaimed);
    }
}
