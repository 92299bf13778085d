//! Samples as shares: what rules ask.

use super::{
    limiter::{Confidence, LimiterKind, Place, Suspect},
    scene::Scene,
};
use transect_bench_core::samples::{CpuTimes, Samples, ThreadUse, Watched};

/// Samples of one machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    pub(super) samples: &'a Samples,
    pub(super) place: Place,
}

impl<'a> View<'a> {
    /// `None` if there is nothing to see: no two samples, or no time between them.
    pub(super) fn new(samples: &'a Samples, place: Place) -> Option<Self> {
        (samples.taken >= 2 && samples.wall_ns > 0).then_some(Self { samples, place })
    }

    pub(super) fn machine(scene: &Scene<'a>) -> Option<Self> {
        Self::new(scene.machine, Place::Machine)
    }

    pub(super) fn host(scene: &Scene<'a>) -> Option<Self> {
        Self::new(scene.host?, Place::Host)
    }

    pub(super) fn generator(scene: &Scene<'a>) -> Option<Self> {
        Self::new(scene.generator?, Place::Generator)
    }

    /// Machine and host.
    pub(super) fn both(scene: &Scene<'a>) -> Vec<Self> {
        Self::machine(scene).into_iter().chain(Self::host(scene)).collect()
    }

    /// ns as a share of the measured time; above 1 where several ran at once.
    pub(super) fn share(&self, ns: u64) -> f64 {
        ns as f64 / self.samples.wall_ns as f64
    }

    /// A count, each second.
    pub(super) fn per_s(&self, count: u64) -> f64 {
        count as f64 * 1e9 / self.samples.wall_ns as f64
    }

    pub(super) fn watched(&self) -> Option<&'a Watched> {
        self.samples.watched.as_ref()
    }

    /// Is it one of the CPUs that the workload may use?
    fn is_allowed(&self, cpu: u32) -> bool {
        self.watched().is_none_or(|watched| {
            watched.allowed_cpus.is_empty() || watched.allowed_cpus.contains(&cpu)
        })
    }

    /// Times of each CPU that the workload may use.
    pub(super) fn cpus(&self) -> impl Iterator<Item = (u32, CpuTimes)> {
        let all = self.samples.cpus.iter().map(|cpu| (cpu.cpu, cpu.times));
        all.filter(|(cpu, _)| self.is_allowed(*cpu))
    }

    /// How many those are, at least 1.
    pub(super) fn cpu_count(&self) -> f64 {
        self.cpus().count().max(1) as f64
    }

    /// Busy part of those CPUs, 0 to 1.
    pub(super) fn busy(&self) -> f64 {
        let busy: u64 = self.cpus().map(|(_, times)| times.busy()).sum();
        self.share(busy) / self.cpu_count()
    }

    /// CPUs that the workload had on average.
    pub(super) fn watched_cpus(&self) -> f64 {
        self.watched().map_or(0.0, |watched| self.share(watched.cpu_ns))
    }

    /// Threads that ran or wanted to on average.
    pub(super) fn demand(&self) -> f64 {
        self.watched_cpus() + self.watched().map_or(0.0, |watched| self.share(watched.wait_ns))
    }

    pub(super) fn threads(&self) -> &'a [ThreadUse] {
        self.watched().map_or(&[], |watched| &watched.threads)
    }

    /// Share of the measured time that a thread slept at a place where so many of its samples found it.
    ///
    /// The scheduler tells to the nanosecond for how long it did not sleep; samples only tell where it did. They do not
    /// tell for how long: what wakes the sampler and what wakes the thread may be the same interrupt, and then a thread
    /// that runs a third of the time is found running in two thirds of them.
    pub(super) fn slept_at(&self, thread: &ThreadUse, samples: u64) -> f64 {
        let (all, asleep) = (thread.sleeps.all(), thread.sleeps.asleep());
        // A thread that came late does not hold the run for what it slept before.
        let present = part(all, all.max(self.samples.taken - 1));
        if asleep < 3 {
            return present * part(samples, all);
        }
        let slept = (present - self.share(thread.cpu_ns + thread.wait_ns)).max(0.0);
        slept * part(samples, asleep)
    }

    /// The thread with most CPU time.
    pub(super) fn busiest(&self) -> Option<&'a ThreadUse> {
        self.threads().iter().max_by_key(|thread| thread.cpu_ns)
    }

    /// Threads that do something: at least 2 % of a CPU, or 20 times on one each second. Idle pools are left out.
    pub(super) fn active(&self) -> impl Iterator<Item = &'a ThreadUse> {
        self.threads().iter().filter(|thread| {
            self.share(thread.cpu_ns + thread.wait_ns) >= 0.02 || self.per_s(thread.slices) >= 20.0
        })
    }

    /// A suspect, its confidence by `held`.
    pub(super) fn suspect(&self, kind: LimiterKind, held: f64, evidence: String) -> Suspect {
        let held = held.clamp(0.0, 1.0);
        let confidence = Confidence::of(held, self.samples.taken);
        Suspect { kind, place: self.place, held, confidence, evidence: self.located(evidence) }
    }

    fn located(&self, evidence: String) -> String {
        match self.place {
            Place::Machine => evidence,
            Place::Host => format!("on the host: {evidence}"),
            Place::Generator => format!("at the generator: {evidence}"),
        }
    }
}

/// A share of samples.
pub(super) fn part(some: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { some as f64 / all as f64 }
}

/// "97 %".
pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// "a, b".
pub(super) fn thread_name(thread: &ThreadUse) -> String {
    format!("`{}` ({})", thread.name, thread.tid)
}

/// "1.5 GB/s", decimal.
pub(super) fn rate(bytes_per_s: f64) -> String {
    match bytes_per_s {
        1e9.. => format!("{:.2} GB/s", bytes_per_s / 1e9),
        1e6.. => format!("{:.1} MB/s", bytes_per_s / 1e6),
        _ => format!("{:.0} kB/s", bytes_per_s / 1e3),
    }
}

/// What rules had to do without.
pub(super) fn blind(scene: &Scene<'_>) -> Vec<String> {
    let sides =
        [("machine", Some(scene.machine)), ("host", scene.host), ("generator", scene.generator)];
    let mut blind = Vec::new();
    for (name, samples) in sides.iter().filter_map(|(name, samples)| Some((name, (*samples)?))) {
        if samples.taken < 2 || samples.wall_ns == 0 {
            blind.push(format!("{name}: not sampled"));
        }
        blind.extend(samples.missing.iter().map(|(what, why)| format!("{name}: {what}: {why}")));
    }
    blind
}

/// The main figures, none of them near a limit.
pub(super) fn looked_at(scene: &Scene<'_>) -> String {
    let Some(view) = View::machine(scene) else {
        return "the machine was not sampled".into();
    };
    let pressure = view.samples.pressure.unwrap_or_default();
    let mut looked = vec![format!("CPUs busy {}", percent(view.busy()))];
    if let Some(thread) = view.busiest() {
        let share = percent(view.share(thread.cpu_ns));
        looked.push(format!("busiest thread {} {share}", thread_name(thread)));
    }
    for disk in &view.samples.disks {
        let busy = percent(view.share(disk.counts.busy_ns));
        looked.push(format!("disk {} busy {busy}", disk.name));
    }
    if view.samples.pressure.is_some() {
        let (io, memory) = (view.share(pressure.io.some), view.share(pressure.memory.some));
        looked.push(format!("stalled for I/O {}, memory {}", percent(io), percent(memory)));
    }
    let few = match view.samples.taken {
        taken @ ..5 => format!("; only {taken} samples of so short a run: weak evidence"),
        _ => String::new(),
    };
    format!("no resource near a limit: {}{few}", looked.join(", "))
}
