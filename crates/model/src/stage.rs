//! Stages: the stretches between the events of something's way, as far as they are known.

/// One stretch of a way: between two events of which all between are not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The event it begins with, as a place in the list of events.
    pub from: usize,
    /// The event it ends with.
    pub to: usize,
    /// When it begins, ns of trace time.
    pub ts: i64,
    /// Its length, ns.
    pub ns: i64,
}

/// A row with a way of several events.
pub trait Staged {
    /// The names of the events, in order.
    const CUTS: &'static [&'static str];

    /// Their times.
    fn cuts(&self) -> impl Iterator<Item = Option<i64>>;

    /// The stages, which tile the way.
    fn stages(&self) -> impl Iterator<Item = Stage> {
        let mut known = self.cuts().enumerate().filter_map(|(at, ts)| Some((at, ts?)));
        let mut last = known.next();
        std::iter::from_fn(move || {
            let (from, ts) = last?;
            last = known.next();
            let (to, until) = last?;
            Some(Stage { from, to, ts, ns: until - ts })
        })
    }

    /// The name of a stretch between two events: `issue..kick`.
    fn stage_name(from: usize, to: usize) -> String {
        format!("{}..{}", Self::CUTS[from], Self::CUTS[to])
    }
}
