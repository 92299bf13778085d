//! Windows merged to steps.

use crate::service::hub::began_unix_ns;
use transect_live::Snapshot;

/// Merges windows that come in order of time to steps, which begin at multiples of their length
/// since 1970. Windows of different runs are not merged: numbers of machines mean others there.
pub(crate) struct Fold {
    step_ns: u64,
    open: Option<(u64, u64, Snapshot)>,
}

impl Fold {
    pub(crate) fn new(step_ns: u64) -> Self {
        Fold { step_ns: step_ns.max(1), open: None }
    }

    /// Takes the next window. Gives the step before it, if that is over.
    pub(crate) fn push(&mut self, window: &Snapshot, run: u64) -> Option<(Snapshot, u64)> {
        let number = middle_unix_ns(window) / self.step_ns;
        match &mut self.open {
            Some((of, of_run, sum)) if (*of, *of_run) == (number, run) => {
                sum.extend(window);
                None
            }
            open => {
                let over = open.replace((number, run, window.clone()));
                over.map(|(_, run, step)| (step, run))
            }
        }
    }

    /// The last step.
    pub(crate) fn finish(&mut self) -> Option<(Snapshot, u64)> {
        self.open.take().map(|(_, run, step)| (step, run))
    }
}

/// The middle of a window, which is in its step although the wall clock is read some µs apart from its edges.
pub(super) fn middle_unix_ns(window: &Snapshot) -> u64 {
    let began = began_unix_ns(window);
    began + (window.ended_unix_ns - began) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(ended_unix_ns: u64, dur: i64) -> Snapshot {
        Snapshot { dur, ended_unix_ns, ..Snapshot::default() }
    }

    #[test]
    fn steps_are_aligned_and_of_one_run() {
        let mut fold = Fold::new(10);
        let mut steps = Vec::new();
        // Edges 1 beside the steps' edges, a gap, and another run.
        let windows = [(6, 1), (11, 1), (16, 1), (21, 1), (46, 1), (51, 1), (52, 2)];
        for (ended, run) in windows {
            steps.extend(fold.push(&window(ended, 5), run));
        }
        steps.extend(fold.finish());
        let steps: Vec<_> = steps.iter().map(|(s, run)| (s.ended_unix_ns, s.dur, *run)).collect();
        assert_eq!(steps, [(11, 10, 1), (21, 10, 1), (51, 10, 1), (52, 5, 2)]);
    }
}
