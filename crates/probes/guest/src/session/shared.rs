//! The state that a session's thread shares with its owner.

use std::sync::{
    Condvar, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

/// Shared between the session's thread and its owner.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) stop: AtomicBool,
    /// Is the owner in a hurry?
    pub(super) hurried: AtomicBool,
    /// Has a link recorded?
    pub(super) recorded: AtomicBool,
    /// When the host began to record without this guest, raw on its trace clock; 0: it waited.
    pub(super) host_began: AtomicU64,
    pub(super) connected: AtomicBool,
    pub(super) bytes: AtomicU64,
    pub(super) events: AtomicU64,
    pub(super) lost: AtomicU64,
    pub(super) phase: Mutex<Phase>,
    pub(super) changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    Starting,
    Recording,
    Over,
}

impl Shared {
    pub(super) fn should_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(super) fn enter(&self, phase: Phase) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
        self.changed.notify_all();
    }
}
