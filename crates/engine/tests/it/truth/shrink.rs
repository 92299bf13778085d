//! Smaller cases that still fail: fewer steps, less damage, a smaller system.

use super::{Case, damage::Damage, system::Plan};

/// Simplifies a failing case until no simplification fails any more, at most `tries` times.
pub fn shrink(case: Case, tries: usize, fails: impl Fn(&Case) -> bool) -> Case {
    let mut smallest = case;
    let mut left = tries;
    let mut attempt = |candidate: Case, smallest: &mut Case| {
        let is_smaller = left > 0 && fails(&candidate);
        left = left.saturating_sub(1);
        if is_smaller {
            *smallest = candidate;
        }
        is_smaller
    };
    loop {
        let mut changed = false;
        for at in (0..smallest.damages.len()).rev() {
            let mut candidate = smallest.clone();
            candidate.damages.remove(at);
            changed |= !candidate.damages.is_empty() && attempt(candidate, &mut smallest);
        }
        changed |= remove_steps(&mut smallest, &mut attempt);
        for plan in smaller_plans(&smallest.plan) {
            let candidate = Case { plan, ..smallest.clone() };
            changed |= attempt(candidate, &mut smallest);
        }
        for at in 0..smallest.damages.len() {
            for damage in smaller_damages(&smallest.damages[at]) {
                let mut candidate = smallest.clone();
                candidate.damages[at] = damage;
                changed |= attempt(candidate, &mut smallest);
            }
        }
        changed |= simplify_steps(&mut smallest, &mut attempt);
        if !changed {
            return smallest;
        }
    }
}

type Attempt<'a> = dyn FnMut(Case, &mut Case) -> bool + 'a;

/// Removes runs of steps: halves first, single steps last.
fn remove_steps(smallest: &mut Case, attempt: &mut Attempt<'_>) -> bool {
    let mut changed = false;
    let mut size = smallest.steps.len().div_ceil(2);
    while size > 0 {
        let mut end = smallest.steps.len();
        while end > 0 {
            let from = end.saturating_sub(size);
            let mut candidate = smallest.clone();
            candidate.steps.drain(from..end);
            changed |= attempt(candidate, smallest);
            end = from;
        }
        size /= 2;
    }
    changed
}

fn simplify_steps(smallest: &mut Case, attempt: &mut Attempt<'_>) -> bool {
    let mut changed = false;
    for at in 0..smallest.steps.len() {
        let step = smallest.steps[at];
        let mut simpler = vec![step; 4];
        simpler[0].after_ns = 9;
        simpler[1].action = 0;
        simpler[2].detail = 0;
        simpler[3].cpu = 0;
        for simpler in simpler.into_iter().filter(|simpler| *simpler != step) {
            let mut candidate = smallest.clone();
            candidate.steps[at] = simpler;
            changed |= attempt(candidate, smallest);
        }
    }
    changed
}

fn smaller_plans(plan: &Plan) -> Vec<Plan> {
    let plans = [
        Plan { vms: plan.vms.saturating_sub(1), ..*plan },
        Plan { vcpus: plan.vcpus.saturating_sub(1).max(1), ..*plan },
        Plan { threads: plan.threads.saturating_sub(1).max(1), ..*plan },
        Plan { host_cpus: plan.host_cpus.saturating_sub(1).max(1), ..*plan },
        Plan { guests: false, ..*plan },
        Plan { full: false, ..*plan },
        Plan { migrations: false, ..*plan },
        Plan { births: false, ..*plan },
    ];
    plans.into_iter().filter(|smaller| smaller != plan).collect()
}

/// Smaller numbers for a fraction.
fn smaller_numbers(number: u8) -> impl Iterator<Item = u8> {
    let candidates = [0, number / 2, number.saturating_sub(16), number.saturating_sub(1)];
    candidates.into_iter().filter(move |smaller| *smaller < number)
}

fn smaller_damages(damage: &Damage) -> Vec<Damage> {
    let mut smaller = Vec::new();
    let mut vary = |value: u8, set: &dyn Fn(&mut Damage, u8)| {
        for number in smaller_numbers(value) {
            let mut candidate = damage.clone();
            set(&mut candidate, number);
            smaller.push(candidate);
        }
    };
    match damage {
        Damage::Overwrite { fractions, .. } => {
            for (at, fraction) in fractions.iter().enumerate() {
                vary(*fraction, &|damage, number| {
                    if let Damage::Overwrite { fractions, .. } = damage {
                        fractions[at] = number;
                    }
                });
            }
        }
        Damage::Hole { stream, from, length, .. } => {
            for (at, value) in [*stream, *from, *length].into_iter().enumerate() {
                vary(value, &|damage, number| {
                    if let Damage::Hole { stream, from, length, .. } = damage {
                        *[stream, from, length][at] = number;
                    }
                });
            }
        }
        Damage::Killed { fractions } => {
            for (at, value) in fractions.iter().enumerate() {
                vary(*value, &|damage, number| {
                    if let Damage::Killed { fractions } = damage {
                        fractions[at] = number;
                    }
                });
            }
        }
        Damage::Tail { stream, at: place } => {
            for (at, value) in [*stream, *place].into_iter().enumerate() {
                vary(value, &|damage, number| {
                    if let Damage::Tail { stream, at: place } = damage {
                        *[stream, place][at] = number;
                    }
                });
            }
        }
        Damage::Threads { machine, tids, pids, cgroup } => {
            for at in 0..tids.len() {
                let mut tids = tids.clone();
                tids.remove(at);
                let (pids, cgroup) = (pids.clone(), *cgroup);
                smaller.push(Damage::Threads { machine: *machine, tids, pids, cgroup });
            }
            if !pids.is_empty() {
                let (tids, pids, cgroup) = (tids.clone(), Vec::new(), *cgroup);
                smaller.push(Damage::Threads { machine: *machine, tids, pids, cgroup });
            }
            if *cgroup {
                let (tids, pids) = (tids.clone(), pids.clone());
                smaller.push(Damage::Threads { machine: *machine, tids, pids, cgroup: false });
            }
        }
        Damage::MinExit { ns } => {
            vary(*ns, &|damage, number| *damage = Damage::MinExit { ns: number })
        }
        Damage::Cut { .. } | Damage::Window { .. } | Damage::Events { .. } => {}
    }
    smaller
}
