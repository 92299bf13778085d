//! A view on the way down, and where the cursors of its lists are.

use crate::{
    table::{Sort, Table},
    views::View,
    who::Who,
};

/// Where in one of a view's lists the cursor is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    /// Whom it follows, once it was moved.
    pub(crate) follows: Option<Who>,
    /// Where it was last.
    pub(crate) at: usize,
    pub(crate) sort: Option<Sort>,
}

/// A view on the way down, with what was chosen there.
#[derive(Clone, Debug)]
pub(crate) struct Level {
    pub(crate) view: View,
    /// The list that keys move in.
    pub(crate) focus: usize,
    pub(crate) filter: String,
    places: Vec<Place>,
}

impl Level {
    pub(crate) fn new(view: View) -> Self {
        Level { view, focus: 0, filter: String::new(), places: Vec::new() }
    }

    /// How list number `list` is sorted, if that was chosen.
    pub(crate) fn sort(&self, list: usize) -> Option<Sort> {
        self.places.get(list)?.sort
    }

    pub(crate) fn place(&mut self) -> &mut Place {
        if self.places.len() <= self.focus {
            self.places.resize(self.focus + 1, Place::default());
        }
        let focus = self.focus.min(self.places.len() - 1);
        &mut self.places[focus]
    }

    /// The row of list number `list` that the cursor is on.
    pub(crate) fn cursor(&self, list: usize, table: &Table) -> usize {
        let Some(place) = self.places.get(list) else { return 0 };
        let followed = place.follows.as_ref();
        let found = followed.and_then(|who| table.rows.iter().position(|row| row.who == *who));
        found.unwrap_or(place.at).min(table.rows.len().saturating_sub(1))
    }
}
