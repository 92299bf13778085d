//! One window of one thread, from what the programs left.

use super::layout::{Actor, BORN, BUCKETS, Cpu, HAS_VCPU, NOBODY, STAYS, Sums, Waits, state};

/// Which window: its number times its length is where it begins on CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edges {
    pub(crate) number: u64,
    pub(crate) length_ns: u64,
}

impl Edges {
    pub(crate) fn start_ns(self) -> u64 {
        self.number * self.length_ns
    }

    pub(crate) fn end_ns(self) -> u64 {
        (self.number + 1) * self.length_ns
    }

    /// As the programs number it: the lower half.
    pub(crate) fn short(self) -> u32 {
        u32::try_from(self.number & u64::from(u32::MAX)).unwrap_or(0)
    }
}

/// Where a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadPlace {
    /// Not known yet.
    Unknown,
    /// On a CPU.
    Running,
    /// Switched out while it wanted to run.
    Preempted,
    /// Woken, not yet on a CPU.
    Waking,
    /// Asleep.
    Asleep,
    /// Asleep in a halt of its guest.
    Halted,
    /// It has exited.
    Gone,
}

/// Who had the CPU that a thread waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rival {
    /// The thread; 0: the CPU was idle, that is still leaving its idle state.
    pub tid: u32,
    /// Its process.
    pub tgid: u32,
    /// How often it was in the way.
    pub times: u64,
    /// For how long, ns.
    pub ns: u64,
}

/// One thread in one window. Times are ns; they add up to the window:
/// running + preempted + waking + asleep + halted + offline + unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadWindow {
    /// Thread number; 0: the idle thread of CPU [`Self::cpu`].
    pub tid: u32,
    /// Its process.
    pub tgid: u32,
    /// The process that forked it, if it began while it was watched.
    pub parent_tgid: Option<u32>,
    /// Tells it from an earlier thread of the same number.
    pub life: u64,
    /// Its name, up to the first NUL.
    pub comm: [u8; 16],
    /// The CPU it runs on, ran on last, or is queued on.
    pub cpu: u32,
    /// Where it was at the window's end.
    pub place: ThreadPlace,
    /// The number of the vCPU it runs, if KVM's events told.
    pub vcpu: Option<u32>,
    /// On a CPU.
    pub running_ns: u64,
    /// Wanted to run, was switched out.
    pub preempted_ns: u64,
    /// Woken, not yet on a CPU.
    pub waking_ns: u64,
    /// Asleep, for other causes than a halt.
    pub asleep_ns: u64,
    /// Asleep in a halt of its guest.
    pub halted_ns: u64,
    /// Not yet born, or gone.
    pub offline_ns: u64,
    /// Before anything was known.
    pub unknown_ns: u64,
    /// In guest mode: part of running.
    pub guest_ns: u64,
    /// Times switched in.
    pub executions: u64,
    /// Times moved to another CPU.
    pub migrations: u64,
    /// Slices: from switched in to switched out against its will, in the window of their end.
    pub slices: u64,
    /// Their sum.
    pub slices_ns: u64,
    /// The shortest.
    pub slice_min_ns: Option<u64>,
    /// The longest.
    pub slice_max_ns: Option<u64>,
    /// VM exits.
    pub exits: u64,
    /// Device accesses of the guest that left it, kicks included.
    pub io: u64,
    /// Device interrupts this thread raised for a guest.
    pub irqs: u64,
    /// Interrupts injected into the guest.
    pub injections: u64,
    /// Halts that ended.
    pub halts: u64,
    /// Of these, while still polling.
    pub halts_polled: u64,
    /// Time spent polling.
    pub poll_ns: u64,
    /// The longest wait for a CPU that ended here.
    pub wait_max_ns: u64,
    /// Waits that ended here, by length: see [`super::bucket_bounds_ns`]. None without any.
    pub waits: Option<Box<[u32; BUCKETS]>>,
    /// Who was in its way, the heaviest.
    pub rivals: Vec<Rival>,
    /// Waited behind others than these.
    pub others_ns: u64,
    /// Waited behind nobody knows whom.
    pub unattributed_ns: u64,
}

impl ThreadWindow {
    /// It was on a CPU when it was heard of last, and is not there.
    pub(crate) fn is_lost(&self) -> bool {
        self.tid != 0 && self.place == ThreadPlace::Unknown && self.executions == 0
    }
}

/// Whether a window could be had of an actor.
#[expect(clippy::large_enum_variant, reason = "made and taken apart at once, for every thread")]
pub(crate) enum Taken {
    /// Here it is, with its rivals still as (slot, times, ns).
    Window(ThreadWindow, Vec<(u32, u64, u64)>),
    /// It did not exist then.
    NotThere,
    /// It has moved on too far.
    TooLate,
}

/// What goes on at a window's end, without an event since.
struct Open {
    state: usize,
    /// Since when: of who was woken, since the waking.
    since: u64,
}

/// Who sleeps, or of whom nobody knows what it does, is waking once it was woken.
fn open_at(actor: &Actor, end_ns: u64) -> Open {
    let state = (actor.state & 7) as usize;
    let sleeps = [state::NONE, state::ASLEEP, state::HALTED].contains(&state);
    match sleeps && actor.woken > 0 && actor.woken < end_ns {
        true => Open { state: state::WAKING, since: actor.since.max(actor.woken) },
        false => Open { state, since: actor.since },
    }
}

/// The sums of a window that is over, and what goes on at its end, whose time up to there is in the
/// sums.
fn sums_of(actor: &Actor, edges: Edges) -> Option<(Sums, Option<Open>)> {
    let (short, ahead) = (edges.short(), actor.window.wrapping_sub(edges.short()));
    let kept = &actor.sums[(short & 1) as usize];
    // Windows are numbered on: more than half the numbers ahead is behind.
    if ahead == 0 || ahead > u32::MAX / 2 {
        let mut sums = if ahead == 0 { *kept } else { Sums { window: short, ..Sums::default() } };
        let open = open_at(actor, edges.end_ns());
        let (from, begun) = (actor.since.max(edges.start_ns()), open.since.max(edges.start_ns()));
        sums.ns[(actor.state & 7) as usize] += begun.min(edges.end_ns()).saturating_sub(from);
        sums.ns[open.state] += edges.end_ns().saturating_sub(begun);
        if actor.guest_since > 0 && open.state == state::RUNNING {
            sums.guest_ns += edges.end_ns().saturating_sub(actor.guest_since.max(edges.start_ns()));
        }
        return Some((sums, Some(open)));
    }
    (kept.window == short).then_some((*kept, None))
}

/// The thread runs, as far as its own events tell: does its CPU agree? Some kernels do not trace every
/// switch.
fn is_elsewhere(slot: u32, cpu: Option<Cpu>) -> bool {
    // A CPU without a switch so far says nothing.
    let newest = cpu.map(|cpu| {
        let at = cpu.at as usize % STAYS;
        (cpu.slot[at], cpu.since[at])
    });
    newest.is_some_and(|(newest, since)| since > 0 && newest != slot)
}

/// One window of the actor in a slot.
pub(crate) fn take(
    slot: u32,
    actor: &Actor,
    edges: Edges,
    stays: impl Fn(u32) -> Option<Cpu>,
) -> Taken {
    if actor.known_from >= edges.end_ns() {
        return Taken::NotThere;
    }
    let mut actor = *actor;
    let moves_on = |window: u32| window.wrapping_sub(edges.short()).wrapping_sub(1) < u32::MAX / 2;
    let runs = actor.state as usize == state::RUNNING;
    if runs && !moves_on(actor.window) && is_elsewhere(slot, stays(actor.cpu)) {
        actor.state = 0;
        actor.guest_since = 0;
    }
    let actor = &actor;
    let Some((sums, open)) = sums_of(actor, edges) else { return Taken::TooLate };
    let dead = sums.ns[state::GONE];
    if dead >= edges.length_ns {
        return Taken::NotThere;
    }
    let before = actor.known_from.saturating_sub(edges.start_ns());
    let is_born = actor.flags & BORN != 0;
    let mut rivals: Vec<(u32, u64, u64)> = Vec::new();
    for rival in sums.rivals.iter().filter(|rival| rival.times > 0) {
        rivals.push((rival.slot, rival.times.into(), rival.ns));
    }
    let waited_ns = sums.ns[state::PREEMPTED] + sums.ns[state::WAKING];
    if let Some(open) = &open
        && [state::PREEMPTED, state::WAKING].contains(&open.state)
    {
        blame_open_wait(open.since.max(actor.queue_since), edges, &mut rivals, stays(actor.cpu));
    }
    let known_ns: u64 = rivals.iter().map(|(_, _, ns)| ns).sum::<u64>() + sums.others_ns;
    let window = ThreadWindow {
        tid: actor.tid,
        tgid: actor.tgid,
        parent_tgid: (actor.parent_tgid > 0).then_some(actor.parent_tgid),
        life: actor.known_from,
        comm: actor.comm,
        cpu: actor.cpu,
        place: place(open.unwrap_or_else(|| open_at(actor, u64::MAX)).state),
        vcpu: (actor.flags & HAS_VCPU != 0).then_some(actor.vcpu),
        running_ns: sums.ns[state::RUNNING],
        preempted_ns: sums.ns[state::PREEMPTED],
        waking_ns: sums.ns[state::WAKING],
        asleep_ns: sums.ns[state::ASLEEP],
        halted_ns: sums.ns[state::HALTED],
        offline_ns: dead + if is_born { before } else { 0 },
        unknown_ns: sums.ns[state::NONE] + if is_born { 0 } else { before },
        guest_ns: sums.guest_ns,
        executions: sums.executions.into(),
        migrations: sums.migrations.into(),
        slices: sums.slices.into(),
        slices_ns: sums.slices_ns,
        slice_min_ns: (sums.slices > 0).then_some(sums.slice_min_ns),
        slice_max_ns: (sums.slices > 0).then_some(sums.slice_max_ns),
        exits: sums.exits.into(),
        io: sums.io.into(),
        irqs: sums.irqs.into(),
        injections: sums.injections.into(),
        halts: sums.halts.into(),
        halts_polled: sums.polled.into(),
        poll_ns: sums.poll_ns,
        wait_max_ns: sums.wait_max_ns,
        waits: None,
        rivals: Vec::new(),
        others_ns: sums.others_ns,
        unattributed_ns: waited_ns.saturating_sub(known_ns),
    };
    Taken::Window(window, rivals)
}

fn place(number: usize) -> ThreadPlace {
    match number {
        state::RUNNING => ThreadPlace::Running,
        state::PREEMPTED => ThreadPlace::Preempted,
        state::WAKING => ThreadPlace::Waking,
        state::ASLEEP => ThreadPlace::Asleep,
        state::HALTED => ThreadPlace::Halted,
        state::GONE => ThreadPlace::Gone,
        _ => ThreadPlace::Unknown,
    }
}

/// The wait that goes on at the window's end is nobody's yet: whoever had the CPU since `from`, when it
/// came to that CPU's queue, gets it.
fn blame_open_wait(from: u64, edges: Edges, rivals: &mut Vec<(u32, u64, u64)>, cpu: Option<Cpu>) {
    let Some(cpu) = cpu else { return };
    let from = from.max(edges.start_ns());
    // Later ones have come since the window's end.
    let mut until = u64::MAX;
    // The oldest may be about to be written anew.
    for back in 0..STAYS - 1 {
        let at = cpu.at.wrapping_sub(u32::try_from(back).unwrap_or(0)) as usize % STAYS;
        let (slot, since) = (cpu.slot[at], cpu.since[at]);
        let (begin, end) = (since.max(from), until.min(edges.end_ns()));
        if since == 0 || until <= from {
            return;
        }
        if end > begin && slot != NOBODY {
            match rivals.iter_mut().find(|(known, ..)| *known == slot) {
                Some((_, times, ns)) => (*times, *ns) = (*times + 1, *ns + (end - begin)),
                None => rivals.push((slot, 1, end - begin)),
            }
        }
        until = since;
    }
}

/// The waits of a window, if there were any.
pub(crate) fn waits(waits: &Waits, edges: Edges) -> Option<Box<[u32; BUCKETS]>> {
    let at = (edges.short() & 1) as usize;
    let buckets = waits.buckets[at];
    (waits.window[at] == edges.short() && buckets.iter().any(|count| *count > 0))
        .then(|| Box::new(buckets))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: u64 = 1000;
    const EDGES: Edges = Edges { number: 7, length_ns: LENGTH };

    fn actor(state: usize, since: u64, window: u32) -> Actor {
        let mut actor =
            Actor { tid: 5, tgid: 5, known_from: 10, since, window, ..Actor::default() };
        actor.state = u32::try_from(state).unwrap();
        actor.sums[0].window = u32::MAX;
        actor.sums[1].window = u32::MAX;
        actor
    }

    fn window(actor: &Actor) -> ThreadWindow {
        match take(9, actor, EDGES, |_| None) {
            Taken::Window(window, _) => {
                let w = &window;
                let parts = [
                    w.running_ns,
                    w.preempted_ns,
                    w.waking_ns,
                    w.asleep_ns,
                    w.halted_ns,
                    w.offline_ns,
                    w.unknown_ns,
                ];
                assert_eq!(parts.iter().sum::<u64>(), LENGTH, "{w:?}");
                window
            }
            Taken::NotThere => panic!("not there"),
            Taken::TooLate => panic!("too late"),
        }
    }

    #[test]
    fn who_slept_all_along_has_slept_the_whole_window() {
        let w = window(&actor(state::ASLEEP, 300, 0));
        assert_eq!((w.asleep_ns, w.executions), (1000, 0));
    }

    #[test]
    fn an_interval_under_way_is_cut_at_the_edge() {
        let mut running = actor(state::RUNNING, 7400, 7);
        running.sums[1] = Sums { window: 7, executions: 3, ..Sums::default() };
        running.sums[1].ns[state::ASLEEP] = 400;
        running.guest_since = 7900;
        let w = window(&running);
        assert_eq!((w.running_ns, w.asleep_ns, w.executions, w.guest_ns), (600, 400, 3, 100));
    }

    #[test]
    fn guest_mode_since_an_earlier_window_fills_this_one() {
        let mut running = actor(state::RUNNING, 3400, 3);
        running.guest_since = 3500;
        let w = window(&running);
        assert_eq!((w.running_ns, w.guest_ns), (1000, 1000));
    }

    #[test]
    fn who_has_moved_on_left_the_window_behind() {
        let mut moved = actor(state::RUNNING, 8100, 8);
        moved.sums[1] = Sums { window: 7, executions: 2, ..Sums::default() };
        moved.sums[1].ns[state::RUNNING] = 250;
        moved.sums[1].ns[state::PREEMPTED] = 750;
        let w = window(&moved);
        assert_eq!((w.running_ns, w.preempted_ns, w.executions), (250, 750, 2));
        // Two windows on, the place is somebody else's.
        moved.window = 9;
        moved.sums[1].window = 9;
        assert!(matches!(take(9, &moved, EDGES, |_| None), Taken::TooLate));
    }

    #[test]
    fn before_its_birth_a_thread_was_offline_and_before_it_was_seen_unknown() {
        let mut young = actor(state::WAKING, 7200, 7);
        young.sums[1].window = 7;
        young.known_from = 7200;
        let w = window(&young);
        assert_eq!((w.unknown_ns, w.offline_ns, w.waking_ns), (200, 0, 800));
        young.flags = BORN;
        assert_eq!(window(&young).offline_ns, 200);
        young.known_from = 8000;
        assert!(matches!(take(9, &young, EDGES, |_| None), Taken::NotThere));
    }

    #[test]
    fn the_dead_are_there_in_their_last_window_only() {
        let mut dead = actor(state::GONE, 7300, 7);
        dead.sums[1].window = 7;
        dead.sums[1].ns[state::RUNNING] = 300;
        assert_eq!(window(&dead).offline_ns, 700);
        dead.since = 6300;
        dead.window = 6;
        assert!(matches!(take(9, &dead, EDGES, |_| None), Taken::NotThere));
    }

    #[test]
    fn an_open_wait_is_blamed_on_who_has_the_cpu() {
        let mut waiting = actor(state::PREEMPTED, 7100, 7);
        waiting.sums[1].window = 7;
        waiting.sums[1].ns[state::RUNNING] = 100;
        waiting.queue_since = 7100;
        // Slot 40 from 7100, 41 from 7600, 42 after the edge.
        let mut cpu = Cpu { at: 2, ..Cpu::default() };
        cpu.since[..3].copy_from_slice(&[7100, 7600, 8200]);
        cpu.slot[..3].copy_from_slice(&[40, 41, 42]);
        let Taken::Window(w, rivals) = take(9, &waiting, EDGES, |_| Some(cpu)) else {
            panic!("no window")
        };
        assert_eq!(rivals, [(41, 1, 400), (40, 1, 500)]);
        assert_eq!((w.preempted_ns, w.unattributed_ns), (900, 0));
    }

    #[test]
    fn who_was_woken_is_waking_from_then_on() {
        let mut woken = actor(state::ASLEEP, 7100, 7);
        woken.sums[1].window = 7;
        woken.sums[1].ns[state::RUNNING] = 100;
        woken.woken = 7300;
        let w = window(&woken);
        assert_eq!((w.asleep_ns, w.waking_ns, w.place), (200, 700, ThreadPlace::Waking));
        // After the edge.
        woken.woken = 8000;
        let w = window(&woken);
        assert_eq!((w.asleep_ns, w.waking_ns, w.place), (900, 0, ThreadPlace::Asleep));
        // On its way out: it never slept.
        woken.woken = 7050;
        assert_eq!(window(&woken).waking_ns, 900);
        // Since an earlier window.
        woken.window = 5;
        (woken.since, woken.woken) = (5100, 5200);
        assert_eq!(window(&woken).waking_ns, 1000);
        // Who was switched out against its will waits since then.
        let mut preempted = actor(state::PREEMPTED, 7100, 7);
        preempted.sums[1].window = 7;
        preempted.sums[1].ns[state::RUNNING] = 100;
        preempted.woken = 7050;
        let w = window(&preempted);
        assert_eq!((w.preempted_ns, w.waking_ns), (900, 0));
    }

    #[test]
    fn whose_cpu_has_gone_to_another_unseen_is_nowhere() {
        let running = actor(state::RUNNING, 7400, 6);
        let on = |slot| {
            let mut cpu = Cpu::default();
            (cpu.slot[0], cpu.since[0]) = (slot, 7400);
            take(9, &running, EDGES, |_| Some(cpu))
        };
        let Taken::Window(there, _) = on(9) else { panic!("no window") };
        assert_eq!((there.running_ns, there.unknown_ns), (600, 0));
        let Taken::Window(elsewhere, _) = on(10) else { panic!("no window") };
        assert_eq!((elsewhere.running_ns, elsewhere.unknown_ns), (0, 600));
        assert_eq!(elsewhere.place, ThreadPlace::Unknown);
    }

    #[test]
    fn waits_of_another_window_are_not_this_ones() {
        let mut all = Waits { window: [6, 7], buckets: [[1; BUCKETS], [0; BUCKETS]] };
        assert_eq!(waits(&all, EDGES), None);
        all.buckets[1][3] = 2;
        assert_eq!(waits(&all, EDGES).unwrap()[3], 2);
        all.window[1] = 5;
        assert_eq!(waits(&all, EDGES), None);
    }
}
