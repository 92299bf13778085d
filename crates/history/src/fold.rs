//! Windows merged to steps.

use crate::rendered::began_unix_ns;
use transect_live::Snapshot;

/// Merges windows that come in order of time to steps, which begin at multiples of their length
/// since 1970. Windows of different runs are not merged: numbers of machines mean others there.
pub struct Fold {
    step_ns: u64,
    open: Option<Open>,
    given_began_unix_ns: u64,
}

/// A step that has begun.
struct Open {
    number: u64,
    run: u64,
    began_unix_ns: u64,
    sum: Snapshot,
}

impl Fold {
    /// Steps of so many ns.
    pub fn new(step_ns: u64) -> Self {
        Fold { step_ns: step_ns.max(1), open: None, given_began_unix_ns: 0 }
    }

    /// Takes the next window. Gives the step before it, if that is over.
    pub fn push(&mut self, window: &Snapshot, run: u64) -> Option<(Snapshot, u64)> {
        self.push_begun(window, run, began_unix_ns(window))
    }

    /// As [`Self::push`], for a step of another series: if windows were missed in it, it began earlier than its end and
    /// its measured time show.
    pub(crate) fn push_begun(
        &mut self,
        window: &Snapshot,
        run: u64,
        began_unix_ns: u64,
    ) -> Option<(Snapshot, u64)> {
        let number = middle_unix_ns(window) / self.step_ns;
        match &mut self.open {
            Some(open) if (open.number, open.run) == (number, run) => {
                open.sum.extend(window);
                None
            }
            _ => {
                let over = self.finish();
                self.open = Some(Open { number, run, began_unix_ns, sum: window.clone() });
                over
            }
        }
    }

    /// The last step.
    pub fn finish(&mut self) -> Option<(Snapshot, u64)> {
        let open = self.open.take()?;
        self.given_began_unix_ns = open.began_unix_ns;
        Some((open.sum, open.run))
    }

    /// The begin of the first window of the step that was given last.
    pub(crate) fn given_began_unix_ns(&self) -> u64 {
        self.given_began_unix_ns
    }
}

/// The middle of a window, which is in its step although the wall clock is read some µs apart from its edges.
pub(crate) fn middle_unix_ns(window: &Snapshot) -> u64 {
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
