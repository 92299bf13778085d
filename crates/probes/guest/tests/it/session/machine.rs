//! A machine whose pages can be checked byte by byte.

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};
use transect_guest::{
    proto::{CpuStats, MachineFacts, Start, Started, Stats},
    serve::{MetaFile, PageOut, Prepared, TraceRun, TraceSource},
    stamp::StampClock,
};

pub(crate) const PAGE: usize = 4096;

/// A machine that "records" numbered pages on two CPUs.
#[derive(Clone)]
pub(crate) struct FakeMachine {
    pub(crate) boot_id: Arc<Mutex<String>>,
    /// Sub-buffers made per CPU; the number is written into the page.
    made: Arc<AtomicU64>,
    /// Number of the first page made after Stop.
    pub(crate) first_at_end: Arc<AtomicU64>,
    pub(crate) running: Arc<AtomicU32>,
    /// How often it was prepared.
    starts: Arc<AtomicUsize>,
    /// Rounds of moving pages that are over.
    pub(crate) pumps: Arc<AtomicU32>,
    /// Waits in each round for as long as it may.
    pub(crate) is_quiet: bool,
    pub(crate) refuse: Option<String>,
    /// Why it cannot be traced; empty if it can.
    pub(crate) problem: String,
    pub(crate) clocks: Vec<String>,
}

impl FakeMachine {
    pub(crate) fn new() -> Self {
        FakeMachine {
            boot_id: Arc::new(Mutex::new("boot-1".into())),
            made: Arc::default(),
            first_at_end: Arc::new(AtomicU64::new(u64::MAX)),
            running: Arc::default(),
            starts: Arc::default(),
            pumps: Arc::default(),
            is_quiet: false,
            refuse: None,
            problem: String::new(),
            clocks: vec!["local".into(), "mono".into()],
        }
    }
}

pub(crate) struct FakeRun {
    machine: FakeMachine,
    cmdlines: MetaFile,
}

impl Drop for FakeRun {
    fn drop(&mut self) {
        self.machine.running.fetch_sub(1, SeqCst);
    }
}

impl TraceSource for FakeMachine {
    type Run = FakeRun;

    fn facts(&mut self) -> MachineFacts {
        MachineFacts {
            nodename: "fake".into(),
            boot_id: self.boot_id.lock().unwrap().clone().into(),
            clocks: self.clocks.iter().map(|clock| clock.as_str().into()).collect(),
            problem: self.problem.as_str().into(),
            stamp_clocks: vec![StampClock::Mono],
            cpu_count: 2,
            page_bytes: PAGE as u32,
            ..MachineFacts::default()
        }
    }

    fn prepare(&mut self, start: &Start, _: u8) -> Result<Prepared<FakeRun>, String> {
        if let Some(why) = &self.refuse {
            return Err(why.clone());
        }
        let starts = self.starts.fetch_add(1, SeqCst) + 1;
        self.running.fetch_add(1, SeqCst);
        let format = vec![b'f'; 200_000];
        Ok(Prepared {
            started: Started {
                clock: start.clock.clone().into(),
                page_bytes: PAGE as u32,
                buffer_bytes: start.buffer_bytes,
                missing: vec!["kvm:kvm_exit".into()],
                ..Started::default()
            },
            meta: vec![
                ("header_page".into(), b"page".to_vec()),
                ("events/sched/sched_switch/format".into(), format),
                ("printk_formats".into(), Vec::new()),
                // A thread more each time: settings change while a kernel goes on.
                ("tasks".into(), b"1 1 other 0 - 0 - a\n".repeat(starts)),
            ],
            run: FakeRun {
                machine: self.clone(),
                cmdlines: ("saved_cmdlines".into(), b"1 init\n".to_vec()),
            },
        })
    }
}

fn page(number: u64) -> Vec<u8> {
    let mut page = vec![0; PAGE];
    page[..8].copy_from_slice(&number.to_le_bytes());
    page
}

/// The number written into a page.
pub(crate) fn number(page: &[u8]) -> u64 {
    u64::from_le_bytes(page[..8].try_into().unwrap())
}

impl FakeRun {
    fn make(&mut self, out: &mut PageOut<'_>, count: u64) -> io::Result<()> {
        for _ in 0..count {
            let number = self.machine.made.fetch_add(1, SeqCst);
            out.page((number % 2) as u32, &page(number))?;
        }
        Ok(())
    }
}

impl TraceRun for FakeRun {
    fn begin(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn pump(&mut self, out: &mut PageOut<'_>, wait: Duration) -> io::Result<bool> {
        thread::sleep(if self.machine.is_quiet { wait } else { Duration::from_millis(5) });
        self.machine.pumps.fetch_add(1, SeqCst);
        self.make(out, 40)?;
        Ok(true)
    }

    fn stats(&mut self) -> Stats {
        let cpu = |cpu| CpuStats { cpu, overrun: 3, dropped: 1, events: 10, bytes: 0 };
        Stats { drained_seq: None, agent_cpu_ns: 7, cpus: vec![cpu(0), cpu(1)] }
    }

    fn finish(&mut self, out: &mut PageOut<'_>) -> io::Result<Vec<MetaFile>> {
        self.machine.first_at_end.store(self.machine.made.load(SeqCst), SeqCst);
        // More than comes in one read.
        self.make(out, 401)?;
        Ok(vec![self.cmdlines.clone()])
    }
}
