//! What an actor did in one window or several.

use crate::{moment::Moment, who::Who};
use std::{collections::HashMap, rc::Rc};
use transect_live::{ActorWindow, ContainerWindow, ThreadWindow};

/// Sums over windows; times are ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sums {
    pub(crate) executions: u64,
    pub(crate) gotten_ns: i64,
    pub(crate) waited_ns: i64,
    pub(crate) preempted_ns: i64,
    pub(crate) waking_ns: i64,
    pub(crate) blocked_ns: i64,
    pub(crate) halted_ns: i64,
    pub(crate) guest_ns: i64,
    pub(crate) offline_ns: i64,
    pub(crate) unknown_ns: i64,
    pub(crate) exits: u64,
    pub(crate) io_count: u64,
    pub(crate) migrations: u64,
}

impl Sums {
    pub(crate) fn of_actor(row: &ActorWindow) -> Self {
        let (window, detail) = (&row.window, &row.detail);
        Sums {
            executions: window.executions,
            gotten_ns: window.gotten_ns,
            waited_ns: window.waited_ns,
            preempted_ns: detail.preempted_ns,
            waking_ns: detail.waking_ns,
            blocked_ns: window.blocked_ns,
            halted_ns: window.halted_ns,
            guest_ns: window.guest_ns,
            offline_ns: window.offline_ns,
            unknown_ns: window.unknown_ns,
            exits: window.exits,
            io_count: window.io_count,
            migrations: detail.migrations,
        }
    }

    /// What containers have; the rest is 0.
    pub(crate) fn of_container(row: &ContainerWindow) -> Self {
        Sums {
            executions: row.executions,
            gotten_ns: row.gotten_ns,
            waited_ns: row.waited_ns,
            preempted_ns: row.preempted_ns,
            waking_ns: row.waking_ns,
            blocked_ns: row.blocked_ns,
            guest_ns: row.guest_ns,
            unknown_ns: row.unknown_ns,
            exits: row.exits,
            migrations: row.migrations,
            ..Sums::default()
        }
    }

    pub(crate) fn of_thread(row: &ThreadWindow) -> Self {
        Sums {
            executions: row.executions,
            gotten_ns: row.gotten_ns,
            waited_ns: row.waited_ns,
            preempted_ns: row.preempted_ns,
            waking_ns: row.waking_ns,
            blocked_ns: row.blocked_ns,
            halted_ns: row.halted_ns,
            guest_ns: row.guest_ns,
            offline_ns: row.offline_ns,
            unknown_ns: row.unknown_ns,
            exits: row.exits,
            io_count: row.io_count,
            migrations: row.migrations,
        }
    }

    fn add(&mut self, other: &Sums) {
        self.executions += other.executions;
        self.gotten_ns += other.gotten_ns;
        self.waited_ns += other.waited_ns;
        self.preempted_ns += other.preempted_ns;
        self.waking_ns += other.waking_ns;
        self.blocked_ns += other.blocked_ns;
        self.halted_ns += other.halted_ns;
        self.guest_ns += other.guest_ns;
        self.offline_ns += other.offline_ns;
        self.unknown_ns += other.unknown_ns;
        self.exits += other.exits;
        self.io_count += other.io_count;
        self.migrations += other.migrations;
    }
}

/// The windows that are looked at: up to the one on the screen, oldest first.
pub(crate) struct Span {
    pub(crate) moments: Vec<Rc<Moment>>,
}

impl Span {
    /// Length of the window on the screen, ns.
    pub(crate) fn now_ns(&self) -> i64 {
        self.moments.last().map_or(0, |moment| moment.snapshot.dur)
    }

    /// Length of all of them.
    pub(crate) fn all_ns(&self) -> i64 {
        self.moments.iter().map(|moment| moment.snapshot.dur).sum()
    }

    /// What each actor did that `rows` gives of a window.
    pub(crate) fn series(&self, rows: impl Fn(&Moment, &mut dyn FnMut(Who, Sums))) -> Series {
        let mut series = Series { of: HashMap::new(), windows: self.moments.len() };
        for (at, moment) in self.moments.iter().enumerate() {
            rows(moment, &mut |who, sums| series.add(at, who, sums));
        }
        series
    }
}

/// Actors over the windows of a span.
pub(crate) struct Series {
    of: HashMap<Who, Course>,
    windows: usize,
}

/// One actor over the windows of a span.
#[derive(Clone, Debug, Default)]
pub(crate) struct Course {
    /// In the last window; none if it was not there.
    pub(crate) now: Option<Sums>,
    pub(crate) all: Sums,
    /// What it waited, window by window.
    pub(crate) waited_ns: Vec<i64>,
}

impl Series {
    fn add(&mut self, at: usize, who: Who, sums: Sums) {
        let windows = self.windows;
        let course = self.of.entry(who).or_default();
        course.waited_ns.resize(windows, 0);
        course.waited_ns[at] += sums.waited_ns;
        course.all.add(&sums);
        if at + 1 == windows {
            course.now.get_or_insert_default().add(&sums);
        }
    }

    pub(crate) fn get(&self, who: &Who) -> Course {
        let nothing = || Course { waited_ns: vec![0; self.windows], ..Course::default() };
        self.of.get(who).cloned().unwrap_or_else(nothing)
    }
}
