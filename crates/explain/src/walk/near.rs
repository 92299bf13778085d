//! Rows near those that were asked for last: a walk goes back row by row.

use crate::rows::{Before, Lasts, Line};

/// Actors whose rows are remembered.
const ACTORS: usize = 8;

/// Of some actors, where the last answers were.
pub(super) struct Near<'r, K, T>([Option<(K, &'r Line<T>, usize)>; ACTORS]);

impl<K, T> Default for Near<'_, K, T> {
    fn default() -> Self {
        Near([const { None }; ACTORS])
    }
}

impl<'r, K: Copy + PartialEq, T: Lasts> Near<'r, K, T> {
    /// What is known of the actor right before `t`; `number` is any that differs for most actors.
    pub(super) fn before(
        &mut self,
        actor: K,
        number: u32,
        t: i64,
        line: impl FnOnce() -> Option<&'r Line<T>>,
    ) -> Before<T> {
        let place = &mut self.0[number as usize % ACTORS];
        if let Some((_, line, near)) = place.as_mut().filter(|(of, ..)| *of == actor) {
            return line.before_near(t, near);
        }
        let Some(line) = line() else { return Before::Gap(i64::MIN) };
        let mut near = usize::MAX;
        let before = line.before_near(t, &mut near);
        *place = Some((actor, line, near));
        before
    }
}
