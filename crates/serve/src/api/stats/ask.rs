//! A question of a range, and where its answers come from: the tiles of a view, and SQL over the tables.

use crate::row::Row;
use crate::sql::Asker;
use crate::state::State;
use std::collections::HashMap;
use std::sync::Arc;
use transect_http::Response;
use transect_timeline::{Actor, View};

/// Rows of sums at most.
const MAX_SUMS: usize = 100_000;

/// The tracks of each actor.
pub(super) struct Lanes<'v>(pub(super) HashMap<&'v Actor, Vec<u32>>);

impl<'v> Lanes<'v> {
    pub(super) fn new(view: &'v View) -> Self {
        let mut lanes: HashMap<&Actor, Vec<u32>> = HashMap::new();
        for track in view.tracks().iter().filter(|track| track.shape.is_some()) {
            lanes.entry(&track.actor).or_default().push(track.track);
        }
        Lanes(lanes)
    }
}

/// A question of a range.
pub(super) struct Ask<'a> {
    pub(super) state: &'a Arc<State>,
    pub(super) view: &'a View,
    pub(super) lanes: Lanes<'a>,
    pub(super) asker: &'a Asker<'a>,
    /// Is there an engine? Without one only what the tiles tell is told.
    pub(super) has_sql: bool,
    pub(super) range: (i64, i64),
}

impl Ask<'_> {
    pub(super) fn rows(&self, sql: &str) -> Result<Vec<Row>, Response> {
        if self.has_sql { self.asker.rows(sql, MAX_SUMS) } else { Ok(Vec::new()) }
    }

    /// Length of a row within the range, and the condition that it reaches into it, for rows whose
    /// length is `dur`.
    pub(super) fn clipped(&self, dur: &str) -> (String, String) {
        let (from, to) = self.range;
        (
            format!("least(ts + {dur}, {to}) - greatest(ts, {from})"),
            format!("ts < {to} AND (ts + {dur} > {from} OR (ts >= {from} AND {dur} = 0))"),
        )
    }
}
