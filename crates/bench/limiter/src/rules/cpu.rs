//! CPUs.

use crate::{
    limiter::{LimiterKind, Suspect},
    scene::Scene,
    view::{View, part, percent, thread_name},
};
use transect_bench_core::samples::{CpuTimes, ThreadUse};

/// See [`super::RULES`].
pub(super) fn single_thread(scene: &Scene<'_>) -> Vec<Suspect> {
    View::machine(scene).and_then(|view| single_thread_of(&view)).into_iter().collect()
}

pub(super) fn single_thread_of(view: &View<'_>) -> Option<Suspect> {
    let thread = view.busiest()?;
    let had = view.share(thread.cpu_ns);
    let fills_all = view.cpu_count() > 1.0 && view.watched_cpus() >= 0.85 * view.cpu_count();
    // One that never sleeps is bound by its CPU, also if it had to share it.
    let never_sleeps = had >= 0.5 && had + view.share(thread.wait_ns) >= 0.93;
    if (had >= 0.8 || never_sleeps) && !fills_all {
        let system = percent(part(thread.system_ns, thread.cpu_ns));
        let evidence = format!(
            "thread {} ran {} of the time ({system} of that in the kernel); {} of {} CPUs used",
            thread_name(thread),
            percent(had),
            format_args!("{:.2}", view.watched_cpus()),
            view.cpu_count(),
        );
        return Some(view.suspect(LimiterKind::SingleThread, had, evidence));
    }
    let together = view.watched_cpus();
    if together < 0.7 || !(0.8..=1.3).contains(&view.demand()) || view.cpu_count() < 2.0 {
        return None;
    }
    let evidence = format!(
        "sequential processes: together {} of one CPU, none above {}",
        percent(together),
        percent(had)
    );
    Some(view.suspect(LimiterKind::SingleThread, together.min(0.84), evidence))
}

/// See [`super::RULES`].
pub(super) fn all_cpus(scene: &Scene<'_>) -> Vec<Suspect> {
    View::machine(scene).and_then(|view| all_cpus_of(&view)).into_iter().collect()
}

pub(super) fn all_cpus_of(view: &View<'_>) -> Option<Suspect> {
    let cpus = view.cpu_count();
    if view.watched().is_none() {
        let held = view.busy();
        let evidence = format!(
            "all {cpus} CPUs busy {}; the running processes were not sampled",
            percent(held)
        );
        // Half as much: it may be anybody's.
        return (held >= 0.95)
            .then(|| view.suspect(LimiterKind::AllCpus, held.min(0.84), evidence));
    }
    let held = view.watched_cpus() / cpus;
    let is_one_thread =
        cpus <= 1.0 && view.busiest().is_some_and(|thread| view.share(thread.cpu_ns) >= 0.8);
    // They are full, and mostly of it: it would take more, but has to share.
    let would_fill = held >= 0.6 && view.demand() >= 0.95 * cpus && view.busy() >= 0.95;
    if !(held >= 0.85 || (would_fill && cpus > 1.0)) || is_one_thread {
        return None;
    }
    let evidence = format!(
        "the workload used {} of the {cpus} CPUs it may use; {:.1} of its threads were runnable on average",
        percent(held),
        view.demand()
    );
    Some(view.suspect(LimiterKind::AllCpus, held, evidence))
}

/// See [`super::RULES`].
pub(super) fn quota(scene: &Scene<'_>) -> Vec<Suspect> {
    View::both(scene).iter().filter_map(quota_of).collect()
}

pub(super) fn quota_of(view: &View<'_>) -> Option<Suspect> {
    let group = view.samples.groups.iter().max_by_key(|group| group.throttled_ns)?;
    let held = part(group.throttled_periods, group.periods);
    if held < 0.1 || view.share(group.throttled_ns) < 0.05 {
        return None;
    }
    let quota = group.quota_cpus.map_or_else(String::new, |quota| format!(" of {quota:.2} CPUs"));
    let evidence = format!(
        "quota{quota} in {}: throttled in {} of {} periods ({}), {:.1} s in all",
        group.path,
        group.throttled_periods,
        group.periods,
        percent(held),
        group.throttled_ns as f64 / 1e9,
    );
    Some(view.suspect(LimiterKind::CpuQuota, held, evidence))
}

/// See [`super::RULES`].
pub(super) fn steal(scene: &Scene<'_>) -> Vec<Suspect> {
    let inside = View::machine(scene).and_then(|view| steal_of(&view));
    let below = View::host(scene).and_then(|view| {
        let waiting = run_queue_of(&view)?;
        // A container's own threads are seen there: they are no vCPUs.
        if scene.facts.shares_kernel() {
            return Some(waiting);
        }
        let evidence = format!("vCPUs wait: {}", waiting.evidence);
        Some(Suspect { kind: LimiterKind::Steal, evidence, ..waiting })
    });
    inside.into_iter().chain(below).collect()
}

pub(super) fn steal_of(view: &View<'_>) -> Option<Suspect> {
    let wanted = |times: &CpuTimes| times.busy() + times.steal;
    let (cpu, times) = view.cpus().max_by_key(|(_, times)| times.steal)?;
    // Of the whole time, not of what that CPU wanted: from one that is hardly wanted not much is stolen, however large the
    // part. What runs on one CPU after the other is held by all that is stolen, what fills several by the part of each.
    let all_stolen: u64 = view.cpus().map(|(_, times)| times.steal).sum();
    let all_wanted: u64 = view.cpus().map(|(_, times)| wanted(&times)).sum();
    let of_all = part(all_stolen, all_wanted.max(view.samples.wall_ns));
    let of_one = view.share(times.steal);
    let held = of_one.max(of_all);
    if held < 0.1 {
        return None;
    }
    let together = if of_all > of_one {
        format!("; all vCPUs together: {} of their demand", percent(of_all))
    } else {
        String::new()
    };
    let evidence = format!(
        "vCPU {cpu}: {} of its demand was stolen ({} of the measured time{together})",
        percent(part(times.steal, wanted(&times))),
        percent(of_one),
    );
    Some(view.suspect(LimiterKind::Steal, held, evidence))
}

/// See [`super::RULES`]. On the host it is [`steal`].
pub(super) fn run_queue(scene: &Scene<'_>) -> Vec<Suspect> {
    View::machine(scene).and_then(|view| run_queue_of(&view)).into_iter().collect()
}

pub(super) fn run_queue_of(view: &View<'_>) -> Option<Suspect> {
    if view.watched_cpus() >= 0.85 * view.cpu_count() {
        return None;
    }
    let thread = view.threads().iter().max_by_key(|thread| thread.wait_ns)?;
    // With more own threads than CPUs they wait for each other: as much as strangers had is strangers' doing. However many
    // there are: nobody waits longer for strangers than these had CPUs.
    let strangers = (view.busy() * view.cpu_count() - view.watched_cpus()).max(0.0);
    let held = view.share(thread.wait_ns).min(strangers);
    let too_many = view.demand() > view.cpu_count() && strangers < 0.5 * view.watched_cpus();
    if too_many {
        return None;
    }
    if held < 0.1 || part(thread.wait_ns, thread.wait_ns + thread.cpu_ns) < 0.15 {
        return None;
    }
    let evidence = format!(
        "thread {} was runnable without a CPU {} of the time; other processes used {strangers:.2} of its {} CPUs; {}",
        thread_name(thread),
        percent(view.share(thread.wait_ns)),
        view.cpu_count(),
        culprit(view, thread)
    );
    Some(view.suspect(LimiterKind::RunQueue, held, evidence))
}

/// Who had most of the CPUs that the thread was seen on, its own siblings included.
fn culprit(view: &View<'_>, thread: &ThreadUse) -> String {
    let shares_cpu = |other: &&ThreadUse| {
        other.tid != thread.tid
            && (thread.cpus.is_empty() || other.cpus.iter().any(|cpu| thread.cpus.contains(cpu)))
    };
    let strangers = view.samples.others.iter();
    let all = strangers.chain(view.threads()).filter(shares_cpu);
    let Some(other) = all.max_by_key(|other| other.cpu_ns) else {
        return "the antagonist was not sampled".into();
    };
    let whose = if view.threads().iter().any(|own| own.tid == other.tid) {
        "main antagonist: the workload's own thread"
    } else {
        "main antagonist: thread"
    };
    let had = percent(view.share(other.cpu_ns));
    let cpus: Vec<_> = other.cpus.iter().map(u32::to_string).collect();
    let cpus = cpus.join(", ");
    format!("{whose} {}: {had} (on {cpus})", thread_name(other))
}
