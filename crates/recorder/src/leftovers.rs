//! What killed recorders leave: tracing instances that go on tracing, and state files. Every verb of `transect` removes them first.

use super::control::{self, Killed};
use transect_tracefs::{OWN_PREFIX, Tracefs, clean_leftovers};

/// What was found and removed.
#[derive(Debug, Default)]
pub struct Removed {
    /// Names of tracing instances.
    pub instances: Vec<String>,
    /// Recorders whose state files were there.
    pub recorders: Vec<Killed>,
}

impl Removed {
    /// Removes the leftovers that this user can remove. A file system that is not mounted is left alone.
    pub fn now() -> Self {
        let tracefs = Tracefs::mounted();
        Removed {
            instances: tracefs
                .map_or_else(Vec::new, |tracefs| clean_leftovers(&tracefs, OWN_PREFIX)),
            recorders: control::remove_stale(),
        }
    }

    /// One line for each.
    pub fn lines(&self) -> Vec<String> {
        let instances = self.instances.iter().map(|name| {
            format!("removed the tracing instance {name}, which a killed process of transect had left tracing")
        });
        let recorders = self.recorders.iter().map(|killed| match &killed.recording {
            Some(dir) => format!(
                "the recorder with pid {} was killed; its recording can be read: transect report {}",
                killed.pid,
                dir.display()
            ),
            None => format!("removed the state files of a recorder that was killed (pid {})", killed.pid),
        });
        instances.chain(recorders).collect()
    }
}
