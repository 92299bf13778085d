//! The counting programs' life, and windows out of what they keep.

use std::{io::Read, os::fd::AsFd, path::Path, sync::atomic::Ordering::Relaxed, time::Duration};

use libbpf_rs::{Iter, Link, MapCore, MapFlags, Object, ProgramMut};

use super::{
    BUCKETS, LivePlan, ThreadWindow,
    layout::{self, Actor, ExitKey, IoKey, state},
    load::{self, Loaded},
    memory::Memory,
    programs::{LiveProgram, NotCounted, SWITCH, TASKS},
    window::{Edges, Rival, Taken, take, waits},
};
use crate::{
    BpfError,
    filter::shows_initial_ids,
    maps::map_named,
    monotonic::monotonic_ns,
    running::{quiesce, recursion_misses},
};

/// Rows looked up at a time.
const BATCH: u32 = 512;
/// Later than this behind an edge, the programs may be about to reuse what is being read.
const LATEST_SHARE: u64 = 10;

/// How many, how long, and how they are distributed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durations {
    /// How many.
    pub count: u64,
    /// Their sum, ns.
    pub total_ns: u64,
    /// The longest, ns; none where that is not kept.
    pub max_ns: Option<u64>,
    /// By length: see [`super::bucket_bounds_ns`].
    pub buckets: Box<[u32; BUCKETS]>,
}

/// VM exits of one vCPU for one reason that ended in a window, that is whose next entry lies in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExitCounts {
    /// The vCPU's thread.
    pub tid: u32,
    /// Its process, the VMM.
    pub tgid: u32,
    /// Raw reason of the machine's ISA.
    pub reason: u32,
    /// From exit to entry, sleep and waiting included.
    pub durations: Durations,
    /// Time of that on a CPU, ns.
    pub handling_ns: u64,
}

/// What kind of I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Io {
    /// Block requests that read, of a process.
    Read,
    /// Block requests that write, of a process.
    Write,
    /// Packets given to a device.
    Xmit,
    /// Packets taken from a device.
    Receive,
}

/// I/O of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoCounts {
    /// The process that asked (block), or the device's number (net).
    pub who: u32,
    /// What.
    pub kind: Io,
    /// Bytes.
    pub bytes: u64,
    /// Requests, from issue to completion. Of packets only the count is known.
    pub durations: Durations,
}

/// Everything of one window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveWindow {
    /// Begin on CLOCK_MONOTONIC, ns.
    pub from_ns: u64,
    /// End, ns.
    pub to_ns: u64,
    /// Windows since the last one taken of which nothing is known: the reader came too late.
    pub missed_windows: u64,
    /// Threads that existed, idle ones (tid 0) too: of each CPU one.
    pub threads: Vec<ThreadWindow>,
    /// Exits.
    pub exits: Vec<ExitCounts>,
    /// Block requests and packets.
    pub io: Vec<IoCounts>,
    /// Threads of which the window is not known (the reader was too late for them).
    pub late_threads: u64,
    /// Events of threads that found no slot, since the start.
    pub untracked_events: u64,
    /// Durations that found no room, since the start.
    pub no_room: u64,
    /// Events that programs were not run for, since the start (they ran on that CPU already).
    pub missed_events: u64,
    /// Times, since the start, that a sleeping thread was switched in whose waking was not seen: the kernel did not trace
    /// it, or it came from another CPU in the moment in which the thread was leaving its queue. Its wait is part of its sleep.
    pub unseen_wakings: u64,
}

/// The counting programs, loaded into the kernel. Dropping it takes everything out again.
pub struct Live {
    links: Vec<Link>,
    object: Object,
    memory: Memory,
    programs: Vec<&'static LiveProgram>,
    not_counted: Vec<NotCounted>,
    cpus: u32,
    window_ns: u64,
    /// Number of the next window to be taken; none before the start.
    next: Option<u64>,
    /// How many there were in the last window.
    threads_before: usize,
}

impl Live {
    /// Loads what the plan wants and this kernel has. Nothing is counted yet.
    ///
    /// # Errors
    /// BPF cannot run here, or the kernel refuses the program on switches.
    pub fn load(plan: &LivePlan) -> Result<Self, BpfError> {
        let Loaded { object, memory, programs, not_counted, cpus } = load::load(plan)?;
        let window_ns = plan.window_ns;
        Ok(Self {
            links: Vec::new(),
            object,
            memory,
            programs,
            not_counted,
            cpus,
            window_ns,
            next: None,
            threads_before: 0,
        })
    }

    /// Events that are not counted here, each with the reason. Final after [`Self::start`].
    pub fn not_counted(&self) -> &[NotCounted] {
        &self.not_counted
    }

    /// Is this event (`system:event`) counted?
    pub fn counts(&self, event: &str) -> bool {
        self.programs.iter().any(|program| program.event == event)
            && !self.not_counted.iter().any(|not| not.event == event)
    }

    /// Length of the windows, ns.
    pub fn window_ns(&self) -> u64 {
        self.window_ns
    }

    /// Begins to count, and finds out who is there. The first window is the next whole one.
    ///
    /// # Errors
    /// The kernel refuses the program on switches, or does not tell its threads.
    pub fn start(&mut self) -> Result<(), BpfError> {
        for program in self.programs.clone() {
            match self.attach(program.name) {
                Ok(link) => self.links.push(link),
                Err(error) if program.name == SWITCH => return Err(error),
                Err(error) => {
                    self.programs.retain(|other| other.name != program.name);
                    let (event, why) = (program.event, error.to_string());
                    self.not_counted.push(NotCounted { event, why });
                }
            }
        }
        self.see_who_is_there()?;
        self.next = Some(monotonic_ns() / self.window_ns + 1);
        Ok(())
    }

    fn program(&self, name: &str) -> Result<ProgramMut<'_>, BpfError> {
        let found = self.object.progs_mut().find(|program| program.name() == name);
        found.ok_or_else(|| BpfError::Plan(format!("the BPF object has no program {name}")))
    }

    fn attach(&self, name: &str) -> Result<Link, BpfError> {
        self.program(name)?.attach().map_err(BpfError::bpf(format!("cannot attach {name}")))
    }

    fn see_who_is_there(&self) -> Result<(), BpfError> {
        let link = self.attach(TASKS)?;
        let doing = "cannot list the threads of the kernel";
        let mut threads = Iter::new(&link).map_err(BpfError::bpf(doing))?;
        let mut nothing = Vec::new();
        threads.read_to_end(&mut nothing).map(drop).map_err(BpfError::system(doing))
    }

    /// When the next window ends, ns of CLOCK_MONOTONIC; none before the start.
    pub fn next_edge_ns(&self) -> Option<u64> {
        self.next.map(|next| (next + 1) * self.window_ns)
    }

    /// Gives the next window: waits for its end if need be, and some milliseconds more.
    ///
    /// # Errors
    /// It was not started, or the kernel does not give the maps.
    pub fn take(&mut self) -> Result<LiveWindow, BpfError> {
        let Some(next) = self.next else {
            return Err(BpfError::Plan("counting has not started".into()));
        };
        let mut edges = Edges { number: next, length_ns: self.window_ns };
        loop {
            sleep_until(edges.end_ns());
            // Whoever took a stamp before the edge has done with it.
            quiesce();
            // The next window's end is when this one's sums begin to be reused.
            let now = monotonic_ns();
            if now < edges.end_ns() + self.window_ns - self.window_ns / LATEST_SHARE {
                break;
            }
            edges.number = now / self.window_ns;
        }
        self.next = Some(edges.number + 1);
        let mut window = self.read(edges)?;
        self.threads_before = window.threads.len();
        window.missed_windows = edges.number - next;
        Ok(window)
    }

    fn read(&self, edges: Edges) -> Result<LiveWindow, BpfError> {
        let mut window = LiveWindow {
            from_ns: edges.start_ns(),
            to_ns: edges.end_ns(),
            missed_windows: 0,
            threads: Vec::with_capacity(self.threads_before),
            exits: Vec::new(),
            io: Vec::new(),
            late_threads: 0,
            untracked_events: self.memory.shared().untracked.load(Relaxed),
            no_room: self.memory.shared().no_room.load(Relaxed),
            missed_events: self.missed_events(),
            unseen_wakings: self.memory.shared().unwoken.load(Relaxed),
        };
        let mut gone = Vec::new();
        for slot in 0..self.memory.used() {
            let read = || self.memory.actor(slot, Some(edges.short()));
            let Some(actor) = read() else { continue };
            if actor.state as usize == state::GONE && actor.since < edges.end_ns() {
                gone.push(slot);
            }
            let mut taken = take(slot, &actor, edges, |cpu| self.memory.cpu(cpu));
            // It may have left its CPU between the two looks: then it has moved on.
            if self.memory.has_moved(slot, actor.seq)
                && let Some(again) = read()
            {
                taken = take(slot, &again, edges, |cpu| self.memory.cpu(cpu));
            }
            match taken {
                Taken::Window(mut thread, rivals) => {
                    if slot < self.cpus {
                        thread.cpu = slot;
                    }
                    thread.rivals = self.rivals(rivals);
                    if thread.executions > 0 {
                        thread.waits = self.memory.waits(slot).and_then(|all| waits(&all, edges));
                    }
                    // Where switches are not all traced, a thread's last one may be missing.
                    if thread.is_lost() && !is_alive(thread.tid) {
                        gone.push(slot);
                    }
                    window.threads.push(thread);
                }
                Taken::NotThere => {}
                Taken::TooLate => window.late_threads += 1,
            }
        }
        window.exits = self.exits(edges)?;
        window.io = self.io(edges)?;
        gone.into_iter().for_each(|slot| self.memory.forget(slot));
        Ok(window)
    }

    /// Who they are; the heaviest first.
    fn rivals(&self, rivals: Vec<(u32, u64, u64)>) -> Vec<Rival> {
        let who = |(slot, times, ns): (u32, u64, u64)| {
            let actor = self.memory.actor(slot, None).unwrap_or_default();
            Rival { tid: actor.tid, tgid: actor.tgid, times, ns }
        };
        let mut rivals: Vec<_> = rivals.into_iter().map(who).collect();
        rivals.sort_by_key(|rival| std::cmp::Reverse(rival.ns));
        rivals
    }

    fn exits(&self, edges: Edges) -> Result<Vec<ExitCounts>, BpfError> {
        let mut exits = Vec::new();
        for (key, value) in self.rows::<ExitKey>("live_exits", edges, |key| key.window)? {
            let Some(Actor { tid, tgid, .. }) = self
                .memory
                .actor(key.slot, None)
                .filter(|actor| actor.generation == key.generation)
            else {
                continue;
            };
            let durations = durations(&value, Some(value.max_ns));
            let (reason, handling_ns) = (key.reason, value.amount);
            exits.push(ExitCounts { tid, tgid, reason, durations, handling_ns });
        }
        exits.sort_by_key(|row| (row.tgid, row.tid, row.reason));
        Ok(exits)
    }

    fn io(&self, edges: Edges) -> Result<Vec<IoCounts>, BpfError> {
        let mut all = Vec::new();
        for (key, value) in self.rows::<IoKey>("live_ios", edges, |key| key.window)? {
            let kind = match key.kind {
                0 => Io::Read,
                1 => Io::Write,
                2 => Io::Xmit,
                _ => Io::Receive,
            };
            let durations = durations(&value, None);
            all.push(IoCounts { who: key.who, kind, bytes: value.amount, durations });
        }
        all.sort_by_key(|row| (row.who, row.kind));
        Ok(all)
    }

    /// The rows of a window; it and those before are taken out.
    fn rows<K: layout::Words>(
        &self,
        name: &str,
        edges: Edges,
        window_of: impl Fn(&K) -> u32,
    ) -> Result<Vec<(K, layout::Durations)>, BpfError> {
        let doing = || BpfError::bpf(format!("map {name}"));
        let map = map_named(&self.object, name)?;
        let (mut rows, mut old) = (Vec::new(), Vec::new());
        let found = map.lookup_batch(BATCH, MapFlags::ANY, MapFlags::ANY).map_err(doing())?;
        for (key_bytes, value) in found {
            let Some(key) = layout::from_bytes::<K>(&key_bytes) else { continue };
            let age = edges.short().wrapping_sub(window_of(&key));
            if age > u32::MAX / 2 {
                continue;
            }
            old.push(key_bytes);
            if age == 0
                && let Some(value) = layout::from_bytes(&value)
            {
                rows.push((key, value));
            }
        }
        for keys in old.chunks(BATCH as usize) {
            let count = u32::try_from(keys.len()).unwrap_or(0);
            map.delete_batch(&keys.concat(), count, MapFlags::ANY, MapFlags::ANY)
                .map_err(doing())?;
        }
        Ok(rows)
    }

    fn missed_events(&self) -> u64 {
        let misses = |program: &&LiveProgram| {
            self.program(program.name).ok().and_then(|found| recursion_misses(found.as_fd()))
        };
        self.programs.iter().filter_map(misses).sum()
    }
}

fn durations(value: &layout::Durations, max_ns: Option<u64>) -> Durations {
    Durations {
        count: value.count,
        total_ns: value.total_ns,
        max_ns,
        buckets: Box::new(value.buckets),
    }
}

/// Does the thread still exist? A procfs of another pid namespace does not show it: then it counts as alive.
fn is_alive(tid: u32) -> bool {
    let procfs = Path::new("/proc");
    procfs.join(tid.to_string()).exists() || !shows_initial_ids(procfs)
}

fn sleep_until(at_ns: u64) {
    loop {
        let now = monotonic_ns();
        if now >= at_ns {
            return;
        }
        std::thread::sleep(Duration::from_nanos(at_ns - now));
    }
}
