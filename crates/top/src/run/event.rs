//! What happens to the screen, and the threads that report it.

use crate::app::Key;
use std::{sync::mpsc::SyncSender, thread};
use transect_live::Snapshot;

/// What happens to the screen.
pub(crate) enum Event {
    Key(Key),
    /// Control and C.
    Interrupt,
    /// Control and Z.
    Suspend,
    Resize(u16, u16),
    Window(Box<Snapshot>),
    /// The source ended.
    Ended(String),
    /// The terminal went away.
    Gone,
    /// A thread of ours panicked; it has said why.
    Panicked,
    Signal(i32),
}

/// Tells if its thread panics: nobody waits for it.
pub(crate) struct Tells(pub(crate) SyncSender<Event>);

impl Drop for Tells {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = self.0.send(Event::Panicked);
        }
    }
}
