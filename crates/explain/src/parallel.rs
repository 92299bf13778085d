//! Work on all CPUs.

use std::{
    num::NonZeroUsize,
    panic::resume_unwind,
    sync::atomic::{AtomicUsize, Ordering},
    thread::{self, Builder},
};

/// Threads at most: they share one memory.
const MOST: usize = 16;

/// Does something with each item, on all CPUs; the results are in the order of the items. A thread that cannot be started leaves
/// its work to the others.
pub(crate) fn map<I: Sync, R: Send>(items: &[I], work: impl Fn(&I) -> R + Sync) -> Vec<R> {
    let cpus = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(MOST);
    map_with(cpus, items, work)
}

fn map_with<I: Sync, R: Send>(
    threads: usize,
    items: &[I],
    work: impl Fn(&I) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return done };
            done.push((at, work(item)));
        }
    };
    let mut all = thread::scope(|scope| {
        let others = 1..threads.min(items.len());
        let started: Vec<_> =
            others.filter_map(|_| Builder::new().spawn_scoped(scope, take).ok()).collect();
        let mut all = take();
        for thread in started {
            all.extend(thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        all
    });
    all.sort_unstable_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::map_with;

    #[test]
    fn results_are_in_order() {
        let items: Vec<u32> = (0..1000).collect();
        let doubled: Vec<u32> = items.iter().map(|item| item * 2).collect();
        for threads in [0, 1, 2, 7] {
            assert_eq!(map_with(threads, &items, |item| item * 2), doubled, "{threads}");
        }
        assert!(map_with(4, &[], |item: &u32| *item).is_empty());
    }
}
