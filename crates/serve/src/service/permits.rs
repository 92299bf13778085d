//! So many at once, and no more.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A number of turns.
#[derive(Clone)]
pub(crate) struct Permits(Arc<(Mutex<usize>, Condvar)>);

/// A turn, until it is dropped.
pub(crate) struct Permit(Permits);

impl Permits {
    pub(crate) fn new(count: usize) -> Self {
        Permits(Arc::new((Mutex::new(count), Condvar::new())))
    }

    /// A turn; none if there is none in time.
    pub(crate) fn take(&self, patience: Duration) -> Option<Permit> {
        let (free, given_back) = &*self.0;
        let free = free.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = given_back.wait_timeout_while(free, patience, |free| *free == 0);
        let (mut free, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *free = free.checked_sub(1)?;
        Some(Permit(self.clone()))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let (free, given_back) = &*self.0.0;
        *free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        given_back.notify_one();
    }
}
