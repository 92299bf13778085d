//! The collector with a made-up `xentrace`: a script that sends prepared windows, and ends, dies or refuses to order.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failed expectation is the report")]

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};
use transect_xen::{
    Collector, Ending, EventMask, How, TracePlan, TraceSink, XenError, end_leftovers,
    other_xentrace,
};

/// What every made-up `xentrace` begins with: `$run` counts the processes, `$out` is where it writes to, and `send`
/// writes the file `NAME.$run` there if it exists.
const PROLOGUE: &str = r#"#!/bin/sh
cd "$(dirname "$0")"
run=$(($(cat runs 2>/dev/null || echo 0) + 1)); echo $run >runs
echo $$ >pid.$run; echo "$@" >args.$run
for out; do :; done
exec 3>"$out"
send() { if [ -f $1.$run ]; then cat $1.$run >&3; fi; }
listen() { while :; do sleep 0.02; done; }
echo "change evtmask to 0x3ff000" >&2
"#;

/// One that does as xentrace does: what it has at once, the rest when told to end.
const GOOD: &str = "trap 'send late; echo ended >ended; exit 0' TERM\nsend early\nlisten";

/// Writes a program by another process: while this one has it open for writing, another test may fork, and whoever
/// has it open then keeps it from being run.
fn program(path: &Path, text: &str) {
    let mut command = Command::new("sh");
    command.args(["-c", "cat >\"$0\" && chmod 755 \"$0\""]).arg(path).stdin(Stdio::piped());
    let mut writer = command.spawn().unwrap();
    writer.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(writer.wait().unwrap().success());
}

struct Fake(tempfile::TempDir);

impl Fake {
    fn new(script: &str) -> Self {
        let fake = Fake(tempfile::tempdir().unwrap());
        program(&fake.xentrace(), &format!("{PROLOGUE}{script}\n"));
        fake
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn xentrace(&self) -> PathBuf {
        self.path("xentrace")
    }

    fn has(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path(name), bytes).unwrap();
    }

    fn plan(&self) -> TracePlan {
        let mask = EventMask::default();
        TracePlan { xentrace: self.xentrace(), mask, buffer_bytes_per_cpu: 1 << 20 }
    }

    fn number(&self, name: &str) -> i32 {
        wait_for(name, || {
            fs::read_to_string(self.path(name)).is_ok_and(|text| text.ends_with('\n'))
        });
        fs::read_to_string(self.path(name)).unwrap().trim().parse().unwrap()
    }

    fn kill(&self, process: &str, signal: &str) {
        let pid = self.number(process).to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }
}

fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(30), "waited too long for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn window(cpu: u32, records: &[u8]) -> Vec<u8> {
    let size = u32::try_from(records.len()).unwrap();
    [&[0x03, 0xf0, 0x01, 0x20], &cpu.to_le_bytes()[..], &size.to_le_bytes(), records].concat()
}

#[derive(Default)]
struct Taken {
    bytes: Vec<u8>,
    endings: Vec<Ending>,
}

#[derive(Clone, Default)]
struct Keep {
    taken: Arc<Mutex<Taken>>,
    /// Room for so many bytes.
    room: Option<usize>,
}

impl Keep {
    fn bytes(&self) -> Vec<u8> {
        self.taken.lock().unwrap().bytes.clone()
    }

    fn endings(&self) -> Vec<Ending> {
        self.taken.lock().unwrap().endings.clone()
    }
}

impl TraceSink for Keep {
    fn windows(&mut self, windows: &[u8]) -> io::Result<()> {
        let mut taken = self.taken.lock().unwrap();
        if self.room.is_some_and(|room| taken.bytes.len() + windows.len() > room) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        taken.bytes.extend_from_slice(windows);
        Ok(())
    }

    fn ended(&mut self, ending: &Ending) {
        self.taken.lock().unwrap().endings.push(ending.clone());
    }
}

fn start(fake: &Fake, keep: &Keep) -> Result<Collector, XenError> {
    Collector::start(fake.plan(), Box::new(keep.clone()))
}

#[test]
fn everything_until_the_end_is_taken() {
    let fake = Fake::new(GOOD);
    let (early, late) = ([window(0, &[1; 400]), window(1, &[2; 40])].concat(), window(1, &[3; 80]));
    fake.has("early.1", &early);
    fake.has("late.1", &late);
    let keep = Keep::default();
    let collector = start(&fake, &keep).unwrap();
    assert!(!collector.has_failed());
    let finished = collector.stop();
    let whole = [early, late].concat();
    assert!(finished.failure.is_none(), "{finished:?}");
    assert_eq!((finished.starts, finished.bytes), (1, whole.len() as u64));
    assert!(finished.cpu.user_ns + finished.cpu.sys_ns > 0, "{finished:?}");
    assert_eq!(finished.notes, [""; 0]);
    assert_eq!(keep.bytes(), whole);
    assert_eq!(keep.endings(), []);
    let args = fs::read_to_string(fake.path("args.1")).unwrap();
    assert_eq!(args, "-e 0x003ff000 -S 256 -s 100 -D /proc/self/fd/1\n");
}

#[test]
fn one_that_is_killed_is_followed_by_another() {
    let fake = Fake::new(GOOD);
    let (first, last) = (window(0, &[1; 40]), window(1, &[2; 40]));
    let half = window(0, &[3; 40]);
    fake.has("early.1", &[&first[..], &last, &half[..20]].concat());
    // The last whole window comes again, longer; what was torn comes whole.
    fake.has("early.2", &[&half[..], &window(1, &[[2; 40], [4; 40]].concat())].concat());
    let keep = Keep::default();
    let collector = start(&fake, &keep).unwrap();
    wait_for("the first windows", || keep.bytes().len() == first.len() + last.len());
    fake.kill("pid.1", "-KILL");
    wait_for("the second's", || keep.bytes().len() > first.len() + last.len() + half.len());
    let finished = collector.stop();
    assert!(finished.failure.is_none(), "{finished:?}");
    assert_eq!(finished.starts, 2);
    assert_eq!(keep.bytes(), [first, last, half, window(1, &[4; 40])].concat());
    let [ending] = &keep.endings()[..] else { panic!("{:?}", keep.endings()) };
    assert_eq!((ending.how, ending.torn_bytes, ending.final_one), (How::Killed(9), 20, false));
    assert!(ending.how.tracing_goes_on());
    assert_eq!(ending.to_string(), "xentrace was killed by signal 9");
    // What is in Xen's buffers meanwhile is this recording's.
    assert!(!fs::read_to_string(fake.path("args.2")).unwrap().contains("-D"));
}

#[test]
fn one_that_was_told_to_end_has_switched_tracing_off() {
    let fake = Fake::new(GOOD);
    fake.has("early.1", &window(0, &[1; 40]));
    fake.has("late.1", &window(0, &[2; 40]));
    fake.has("early.2", &window(0, &[3; 40]));
    let keep = Keep::default();
    let collector = start(&fake, &keep).unwrap();
    fake.kill("pid.1", "-TERM");
    wait_for("its successor's window", || keep.bytes().len() == 3 * 52);
    assert!(collector.stop().failure.is_none());
    assert_eq!(keep.bytes(), [1, 2, 3].map(|n| window(0, &[n; 40])).concat());
    let [ending] = &keep.endings()[..] else { panic!("{:?}", keep.endings()) };
    assert_eq!(ending.how, How::Exited(0));
    assert!(!ending.how.tracing_goes_on());
}

#[test]
fn one_that_cannot_start_says_why() {
    let fake =
        Fake::new("echo 'ERROR: failed to bind to VIRQ port (17 = File exists)' >&2; exit 1");
    let error = start(&fake, &Keep::default()).unwrap_err().to_string();
    assert_eq!(
        error,
        "xentrace did not start: xentrace failed with exit code 1 (ERROR: failed to bind to VIRQ \
         port (17 = File exists)); another xentrace holds Xen's trace buffers, and only one process can: end that one"
    );
    let none = TracePlan { xentrace: fake.path("none"), ..fake.plan() };
    let error = Collector::start(none, Box::new(Keep::default())).unwrap_err().to_string();
    assert!(error.contains("cannot start: No such file"), "{error}");
}

#[test]
fn less_memory_is_asked_for_where_xen_has_none() {
    let refuse = "if [ $4 -gt 32 ]; then\n\
                  echo \"Couldn't enable trace buffers: Invalid argument\" >&2; exit 1\nfi\n";
    let fake = Fake::new(&format!("{refuse}{GOOD}"));
    fake.has("early.2", &window(0, &[1; 40]));
    let keep = Keep::default();
    let finished = start(&fake, &keep).unwrap().stop();
    assert_eq!(
        finished.notes,
        ["Xen has no memory for trace buffers of 1024 KiB per pCPU: using 128 KiB instead"]
    );
    assert_eq!((finished.starts, keep.bytes().len()), (2, 52));
    assert_eq!(keep.endings(), [], "it had not begun");
}

#[test]
fn one_that_will_not_live_is_given_up() {
    let fake = Fake::new("send early\nif [ $run = 1 ]; then sleep 0.3; fi\nexit 7");
    fake.has("early.1", &window(0, &[1; 40]));
    let keep = Keep::default();
    let collector = start(&fake, &keep).unwrap();
    wait_for("the end", || collector.has_failed());
    let finished = collector.stop();
    let error = finished.failure.unwrap().to_string();
    assert!(error.contains("ended 5 times in a row without a record"), "{error}");
    assert!(error.contains("failed with exit code 7"), "{error}");
    let endings = keep.endings();
    assert_eq!((endings.len(), finished.starts), (6, 6));
    assert!(endings[5].final_one && !endings[4].final_one);
    assert_eq!(keep.bytes().len(), 52);
}

#[test]
fn a_stream_that_is_none_is_left() {
    let fake = Fake::new(&format!(
        "if [ $run = 1 ]; then send early; sleep 0.3; echo nonsense >&3; listen; fi\n{GOOD}"
    ));
    fake.has("early.1", &window(0, &[1; 40]));
    fake.has("early.2", &window(0, &[2; 40]));
    let keep = Keep::default();
    let collector = start(&fake, &keep).unwrap();
    wait_for("a second one", || keep.bytes().len() == 104);
    assert!(collector.stop().failure.is_none());
    assert_eq!(keep.endings()[0].how, How::OutOfStep);
}

#[test]
fn one_that_fails_to_end_is_followed_by_one_that_does() {
    let clumsy = "if [ $run = 1 ]; then trap 'echo Write failed! >&2; exit 1' TERM; fi";
    let fake = Fake::new(&format!("trap 'send late; exit 0' TERM\n{clumsy}\nsend early\nlisten"));
    fake.has("early.1", &window(0, &[1; 40]));
    fake.has("early.2", &window(0, &[2; 40]));
    fake.has("late.2", &window(0, &[3; 40]));
    let keep = Keep::default();
    let finished = start(&fake, &keep).unwrap().stop();
    assert!(finished.failure.is_none() && finished.notes.is_empty(), "{finished:?}");
    assert_eq!(finished.starts, 2);
    assert_eq!(keep.bytes(), [1, 2, 3].map(|n| window(0, &[n; 40])).concat());
}

#[test]
fn a_full_disk_ends_it_in_order() {
    let fake = Fake::new(GOOD);
    fake.has("early.1", &[window(0, &[1; 40]), window(0, &[2; 40])].concat());
    let keep = Keep { room: Some(60), ..Keep::default() };
    let collector = start(&fake, &keep);
    let failure = match collector {
        Ok(collector) => {
            wait_for("the failure", || collector.has_failed());
            collector.stop().failure.unwrap()
        }
        Err(error) => error,
    };
    assert!(failure.is_storage_full(), "{failure}");
    assert!(fake.path("ended").exists(), "Xen's tracing was switched off");
}

/// Runs as a recorder of its own where a test has started it so; does nothing else.
#[test]
fn recorder_to_be_killed() {
    let Some(folder) = std::env::var_os("FAKE_XENTRACE") else { return };
    let plan = TracePlan {
        xentrace: Path::new(&folder).join("xentrace"),
        mask: EventMask::default(),
        buffer_bytes_per_cpu: 4096,
    };
    let _collector = Collector::start(plan, Box::new(Keep::default())).unwrap();
    fs::write(Path::new(&folder).join("records"), "").unwrap();
    thread::sleep(Duration::from_secs(60));
}

fn recorder(fake: &Fake) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "collector::recorder_to_be_killed"])
        .env("FAKE_XENTRACE", fake.0.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn it_ends_in_order_when_its_recorder_is_killed() {
    let fake = Fake::new(GOOD);
    fake.has("early.1", &window(0, &[1; 40]));
    // Nobody will read it any more; it must not fail for that.
    fake.has("late.1", &window(0, &[2; 4000]));
    let mut recorder = recorder(&fake);
    wait_for("the recorder", || fake.path("records").exists());
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    wait_for("an orderly end", || fake.path("ended").exists());
}

#[test]
fn what_a_dead_recorder_left_is_found_and_ended() {
    let fake = Fake::new(GOOD);
    let begin = |mark: &str| {
        let mut command = Command::new(fake.xentrace());
        command.arg("/dev/null").env("TRANSECT_XENTRACE_OF", mark).stderr(Stdio::null());
        command.spawn().unwrap()
    };
    // No process has pid 4194304: it is one more than the highest.
    let mut left = begin("4194304:7");
    wait_for("it to run", || fake.path("pid.1").exists());
    thread::sleep(Duration::from_millis(50));
    let pid = i32::try_from(left.id()).unwrap();
    let ended = end_leftovers();
    assert!(ended.iter().any(|it| (it.pid, it.recorder) == (pid, 4_194_304)), "{ended:?}");
    left.wait().unwrap();

    let start = procfs::process::Process::myself().unwrap().stat().unwrap().starttime;
    let mut ours = begin(&format!("{}:{start}", std::process::id()));
    let pid = i32::try_from(ours.id()).unwrap();
    wait_for("it to run", || fake.path("pid.2").exists());
    assert!(end_leftovers().iter().all(|it| it.pid != pid), "its recorder lives");
    assert!(other_xentrace().is_some());
    ours.kill().unwrap();
    ours.wait().unwrap();
}
