//! The collector: programs, logs, and their life.

use std::{io, os::fd::AsFd, sync::Arc, sync::atomic::Ordering::SeqCst};

use libbpf_rs::{Link, MapCore as _, Object, ProgramInput, ProgramMut};
use transect_model::{ids::CpuId, stack::Stacks};

use crate::{
    BpfError, KvmExitMethod, Plan, Stats, choice,
    consumer::Consumer,
    load::{self, FLUSH, Loaded, MAX_MOVED, MOVES},
    maps::map_named,
    memory::{Memory, Take, Which},
    monotonic::monotonic_ns,
    program::{Family, Program},
    running::{quiesce, recursion_misses},
    sink::{Discard, LogSink},
    stacks,
};

/// The compact collector, loaded into the kernel. Dropping it takes everything out again.
pub struct Compact {
    /// Attached programs, in order; `sched_switch` first, so that the logs know who runs.
    links: Vec<Link>,
    object: Object,
    memory: Arc<Memory>,
    programs: Vec<&'static Program>,
    extra: Vec<&'static str>,
    absent: Vec<String>,
    kvm_exit: KvmExitMethod,
    /// Of a flight recorder, as far back as its logs reach.
    pauses: Vec<Pause>,
    has_stacks: bool,
}

/// What is left when a recording has ended.
#[derive(Debug)]
pub struct Finished<S> {
    /// The sink, with everything in it that could be taken.
    pub sink: S,
    /// What was written and lost.
    pub stats: Stats,
    /// The sink's failure, if it failed: records after it were not taken.
    pub failure: Option<BpfError>,
    /// Threads that changed their cgroup: see [`Compact::moved`].
    pub moved: Option<Vec<u32>>,
    /// The stacks that events name: see [`Compact::stacks`].
    pub stacks: Stacks,
    /// How often a stack was not kept: see [`Compact::stacks_lost`].
    pub stacks_lost: u64,
}

/// A trigger that has been pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// Stamp, ns of CLOCK_MONOTONIC.
    pub ns: u64,
    /// On which CPU.
    pub cpu: CpuId,
    /// By which thread's event.
    pub tid: u32,
}

/// Nothing was written meanwhile, as a snapshot was taken: a hole in those that come later. ns of
/// `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Nothing in the logs is from between this
    pub from_ns: u64,
    /// and this.
    pub to_ns: u64,
}

impl Compact {
    /// Loads what the plan wants and this kernel has. Nothing is recorded yet.
    ///
    /// # Errors
    /// The collector cannot run here, the plan is not possible, or the kernel refuses everything.
    pub fn load(plan: &Plan) -> Result<Self, BpfError> {
        let Loaded { object, memory, programs, extra, absent, names } = load::load(plan)?;
        let kvm_exit = choice::kvm_exit_method(&names);
        let (links, pauses) = (Vec::new(), Vec::new());
        let has_stacks = plan.families.contains(&Family::Stacks);
        Ok(Self { links, object, memory, programs, extra, absent, kvm_exit, pauses, has_stacks })
    }

    /// Events wanted that this kernel lacks or refused, with the reason.
    pub fn absent(&self) -> &[String] {
        &self.absent
    }

    /// Programs in use, in the order in which they are attached.
    pub fn programs(&self) -> &[&'static Program] {
        &self.programs
    }

    /// How VM exits are recorded here.
    pub fn kvm_exit_method(&self) -> KvmExitMethod {
        self.kvm_exit
    }

    /// Number of CPUs that have logs: all possible ones, so that hotplugged ones are recorded too.
    pub fn cpus(&self) -> usize {
        self.memory.cpus()
    }

    /// Starts recording. A program that cannot be attached becomes absent; none at all is an error.
    ///
    /// # Errors
    /// The kernel refuses every program.
    pub fn attach(&mut self) -> Result<(), BpfError> {
        let names =
            self.programs.iter().map(|program| program.name).chain(self.extra.iter().copied());
        let mut last = None;
        for name in names.collect::<Vec<_>>() {
            match self.attach_one(name) {
                Ok(link) => self.links.push(link),
                Err(error) => {
                    self.absent.push(format!("{name} ({error})"));
                    self.programs.retain(|program| program.name != name);
                    last = Some(error);
                }
            }
        }
        match last {
            Some(error) if self.links.is_empty() => Err(error),
            _ => Ok(()),
        }
    }

    fn program(&self, name: &str) -> Result<ProgramMut<'_>, BpfError> {
        let found = self.object.progs_mut().find(|program| program.name() == name);
        found.ok_or_else(|| BpfError::Plan(format!("the BPF object has no program {name}")))
    }

    fn attach_one(&self, name: &str) -> Result<Link, BpfError> {
        self.program(name)?.attach().map_err(BpfError::bpf(format!("cannot attach {name}")))
    }

    /// Stops recording; what is in the logs stays there. Returns when no program runs any more.
    pub fn detach(&mut self) {
        // All at once: detaching takes some ms a program, in which the others would go on alone.
        let before = self.memory.control().paused.swap(1, SeqCst);
        while self.links.pop().is_some() {}
        quiesce();
        // Nobody writes any more but who writes out what is pending.
        self.memory.control().paused.store(before, SeqCst);
    }

    /// Starts the thread that takes records. Start it before [`Self::attach`]: nothing is lost then.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn consume<S: LogSink + 'static>(&self, sink: S) -> Result<Consumer<S>, BpfError> {
        Consumer::start(Arc::clone(&self.memory), sink)
    }

    /// Takes what is new in all logs, in the caller's thread: for who has one that waits for other
    /// things too, instead of [`Self::consume`]. Everything recorded before the call is taken.
    /// Returns the largest share of a main log that had been filled, percent.
    ///
    /// # Errors
    /// The sink's; what it did not take is given again next time.
    pub fn drain(&self, sink: &mut dyn LogSink) -> Result<u64, BpfError> {
        let fill_percent = self.memory.drain_all(Take::All, sink).map_err(BpfError::Sink)?;
        sink.round_done().map_err(BpfError::Sink)?;
        Ok(fill_percent)
    }

    /// Ends a recording without a consumer in order: programs off, everything taken, pending
    /// intervals written out.
    ///
    /// # Errors
    /// The sink's, or the kernel's; recording has ended all the same.
    pub fn finish(&mut self, sink: &mut dyn LogSink) -> Result<Stats, BpfError> {
        self.detach();
        self.drain(sink)?;
        self.take_rest(sink).map_err(BpfError::Sink)?;
        Ok(self.stats())
    }

    /// Ends a recording in order: programs off, everything taken, pending intervals written out.
    ///
    /// # Errors
    /// Only what leaves no sink to give back; a sink's failure is in [`Finished::failure`].
    pub fn stop<S: LogSink + 'static>(
        self,
        consumer: Consumer<S>,
    ) -> Result<Finished<S>, BpfError> {
        self.stop_with_rest(consumer, &mut Discard)
    }

    /// The same; if the sink of the consumer fails, or has failed, what it did not take goes to `rest`, so that it can be
    /// counted.
    ///
    /// # Errors
    /// As [`Compact::stop`].
    pub fn stop_with_rest<S: LogSink + 'static>(
        mut self,
        consumer: Consumer<S>,
        rest: &mut dyn LogSink,
    ) -> Result<Finished<S>, BpfError> {
        self.detach();
        let (mut sink, taken) = consumer.finish()?;
        let result = taken.and_then(|()| self.take_rest(&mut sink));
        let failure = result.err().map(BpfError::Sink);
        if failure.is_some() {
            // What fails here was reported above.
            let _ = self.take_rest(rest);
        }
        let (stats, moved) = (self.stats(), self.moved());
        let (stacks, stacks_lost) = (self.stacks(), self.stacks_lost());
        Ok(Finished { sink, stats, failure, moved, stacks, stacks_lost })
    }

    fn take_rest(&self, sink: &mut dyn LogSink) -> io::Result<()> {
        self.flush_pending().map_err(io::Error::other)?;
        self.memory.drain_all(Take::All, sink)?;
        sink.round_done()
    }

    /// Writes out BEGINs whose END has not come. Only while nobody writes.
    fn flush_pending(&self) -> Result<(), BpfError> {
        let program = self.program(FLUSH)?;
        for cpu in 0..self.memory.cpus() {
            let mut context = u32::try_from(cpu).unwrap_or(u32::MAX).to_ne_bytes();
            let input = ProgramInput { context_in: Some(&mut context), ..Default::default() };
            program.test_run(input).map_err(BpfError::bpf("cannot write the pending intervals"))?;
        }
        Ok(())
    }

    /// Gives the sink all that the logs of a flight recorder hold, oldest first for each log, while the
    /// writers pause; then they go on, and a pulled trigger is set again. Returns bytes given.
    ///
    /// # Errors
    /// The sink's; recording goes on all the same.
    pub fn snapshot(&mut self, sink: &mut dyn LogSink) -> Result<u64, BpfError> {
        let control = self.memory.control();
        let begun_ns = self.trigger().map_or_else(monotonic_ns, |pulled| pulled.ns);
        control.paused.store(1, SeqCst);
        quiesce();
        // Who was writing when it began came later.
        let from_ns = self.memory.newest_ns().max(begun_ns);
        let result = self.flush_pending().and_then(|()| self.copy_all(sink));
        control.trigger_ns.store(0, SeqCst);
        control.paused.store(0, SeqCst);
        let pause = Pause { from_ns, to_ns: monotonic_ns() };
        let reach_ns = self.memory.nothing_held_before_ns().unwrap_or(0);
        self.pauses.retain(|pause| pause.to_ns > reach_ns);
        self.pauses.push(pause);
        result
    }

    /// When earlier snapshots kept the writers waiting, oldest first, as far as the logs reach back.
    pub fn pauses(&self) -> &[Pause] {
        &self.pauses
    }

    /// Since when a flight recorder holds all events of all CPUs, ns of `CLOCK_MONOTONIC`; none: since it was
    /// attached. Writers go on meanwhile.
    pub fn held_since_ns(&self) -> Option<u64> {
        self.memory.all_held_since_ns()
    }

    fn copy_all(&self, sink: &mut dyn LogSink) -> Result<u64, BpfError> {
        let mut bytes = 0;
        for cpu in 0..self.memory.cpus() {
            for which in Which::ALL {
                bytes += self.memory.copy(cpu, which, sink).map_err(BpfError::Sink)?;
            }
        }
        sink.round_done().map_err(BpfError::Sink)?;
        Ok(bytes)
    }

    /// Has the trigger been pulled? The logs then stand still until [`Self::snapshot`].
    pub fn trigger(&self) -> Option<Pulled> {
        let control = self.memory.control();
        let ns = control.trigger_ns.load(SeqCst);
        let number = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        (ns != 0 && control.paused.load(SeqCst) != 0).then(|| Pulled {
            ns,
            cpu: CpuId(number(control.trigger_cpu.load(SeqCst))),
            tid: number(control.trigger_tid.load(SeqCst)),
        })
    }

    /// What has been written and lost so far.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::of(&self.memory);
        for program in &self.programs {
            let fd = self.program(program.name);
            match fd.map(|program| recursion_misses(program.as_fd())) {
                Ok(Some(times)) if times > 0 => stats.missed.push((program.name.to_owned(), times)),
                _ => {}
            }
        }
        stats
    }

    /// The stacks that events name so far, if the plan has them. What cannot be read is missing.
    pub fn stacks(&self) -> Stacks {
        if !self.has_stacks {
            return Stacks::new();
        }
        stacks::read(&self.object).unwrap_or_default()
    }

    /// How often a stack was not kept so far, because another one has its number.
    pub fn stacks_lost(&self) -> u64 {
        self.memory.control().stacks_lost.load(SeqCst)
    }

    /// With a filter by cgroup: the threads, and processes by their first thread, that were moved to another
    /// cgroup so far. None if that is not known: there were too many, or the kernel does not report them.
    pub fn moved(&self) -> Option<Vec<u32>> {
        if self.absent.iter().any(|absent| absent.starts_with(MOVES)) {
            return None;
        }
        let map = map_named(&self.object, "moved").ok()?;
        let tids: Vec<u32> =
            map.keys().filter_map(|key| Some(u32::from_ne_bytes(key.try_into().ok()?))).collect();
        (tids.len() < MAX_MOVED).then_some(tids)
    }
}
