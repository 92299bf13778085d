//! The user that queries run as.

use rustix::io::Errno;
use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};

/// First of the numbers that no distribution and no container manager gives to a user (systemd, UIDS-GIDS.md).
const FIRST_UNUSED: u32 = 0x7000_0000;
/// `nobody`.
const NOBODY: u32 = 65534;

/// Gives up all privileges. As root the process becomes a user of its own, whose number follows from its process number:
/// no other process can signal or trace it. Returns true if it is such a user.
pub(super) fn become_own_user() -> Result<bool, String> {
    let changed = change_user();
    let none = CapabilitySet::empty();
    let no_capabilities = CapabilitySets { effective: none, permitted: none, inheritable: none };
    let dropped = set_capabilities(None, no_capabilities);
    let kept = set_no_new_privs(true);
    dropped.map_err(|error| format!("cannot drop capabilities: {error}"))?;
    kept.map_err(|error| format!("cannot set no_new_privs: {error}"))?;
    changed
}

fn change_user() -> Result<bool, String> {
    if !geteuid().is_root() {
        return Ok(false);
    }
    let wanted = FIRST_UNUSED + std::process::id();
    let failed = |error: Errno| {
        let user = geteuid().as_raw();
        format!(
            "queries run as user {user}: the change of user needs CAP_SETUID and CAP_SETGID: {error}"
        )
    };
    match become_user(wanted) {
        Ok(()) => Ok(true),
        // A user namespace may have no such number.
        Err(Errno::INVAL) => {
            become_user(NOBODY).map_err(failed)?;
            Err(format!(
                "queries run as user {NOBODY}: user {wanted} does not exist in this user namespace"
            ))
        }
        Err(error) => Err(failed(error)),
    }
}

fn become_user(number: u32) -> Result<(), Errno> {
    let (user, group) = (Uid::from_raw(number), Gid::from_raw(number));
    set_thread_groups(&[])?;
    set_thread_res_gid(group, group, group)?;
    set_thread_res_uid(user, user, user)
}
