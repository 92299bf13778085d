//! Rows near those that were asked for last: a walk goes back row by row.

/// Actors whose rows are remembered.
const ACTORS: usize = 64;

/// Of some actors, their rows and where the last answers were.
pub(super) struct Near<'r, K, R>([Option<(K, &'r R, usize)>; ACTORS]);

impl<K, R> Default for Near<'_, K, R> {
    fn default() -> Self {
        Near([const { None }; ACTORS])
    }
}

impl<'r, K: Copy + PartialEq, R> Near<'r, K, R> {
    /// The rows of the actor, and where its last answer was; `number` is any that differs for most actors.
    pub(super) fn rows(
        &mut self,
        actor: K,
        number: u32,
        rows: impl FnOnce() -> Option<&'r R>,
    ) -> Option<(&'r R, &mut usize)> {
        let place = &mut self.0[number as usize % ACTORS];
        if place.as_ref().is_none_or(|(of, ..)| *of != actor) {
            *place = Some((actor, rows()?, usize::MAX));
        }
        place.as_mut().map(|(_, rows, near)| (*rows, near))
    }
}
