//! Walls around a process that answers queries of strangers.
//!
//! **Data flow.** open the tables → [`raise_walls`] → the first thread, the first request. No code that depends on a request
//! runs before the walls stand.
//!
//! | wall | effect |
//! |---|---|
//! | `user` | started as root, the process becomes a user of its own without capabilities; no_new_privs |
//! | `syscalls` | seccomp: no files, no network, no new processes, no tracing ([`syscalls`]) |
//! | `limits` | RLIMIT_DATA, RLIMIT_AS, RLIMIT_CPU, RLIMIT_NOFILE, RLIMIT_NPROC, RLIMIT_CORE ([`limits`]); the process ends with its parent |
//!
//! **Design constraints.** A wall that this kernel does not have is reported by name, with the reason; the client decides
//! whether it goes on without it.

pub(crate) mod limits;
mod syscalls;
mod user;

use rustix::process::{Signal, set_parent_process_death_signal};
use transect_ask::protocol::MissingWall;
use transect_query::Options;

/// Raises all walls and returns those that are missing. The process must have one thread.
pub(crate) fn raise_walls(options: &Options, files: usize) -> Vec<MissingWall> {
    let missing = |wall: &str, why: String| MissingWall { wall: wall.to_owned(), why };
    let mut all = Vec::new();
    if let Err(why) = limits::set_limits(options, files) {
        all.push(missing("limits", why));
    }
    let user = user::become_own_user();
    // A change of the user takes it back. The daemon starts children from a thread that lives as long as it does.
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        all.push(missing("limits", format!("PR_SET_PDEATHSIG: {error}")));
    }
    match user {
        Ok(is_own) if is_own => {
            if let Err(why) = limits::limit_threads(options) {
                all.push(missing("limits", why));
            }
        }
        Ok(_) => {}
        Err(why) => all.push(missing("user", why)),
    }
    if let Err(why) = syscalls::restrict_calls() {
        all.push(missing("syscalls", why));
    }
    all
}

#[cfg(test)]
mod tests;
