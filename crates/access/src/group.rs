//! Groups that may read a recording.

use rustix::process::{getegid, geteuid, getgroups};
use std::{fs, process::Command};

/// A group of this system that this process can give files to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    gid: u32,
}

impl Group {
    /// Finds a group by its name, or by its number.
    ///
    /// # Errors
    /// One line: there is no such group, or this user is not a member of it and is not root.
    pub fn from_name(name: &str) -> Result<Self, String> {
        let gid = match name.parse() {
            // The largest number means "no change" in chown(2).
            Ok(u32::MAX) => None,
            Ok(gid) => Some(gid),
            Err(_) => find(name),
        };
        let gid = gid.ok_or_else(|| {
            format!("there is no group {name:?} on this system (getent group lists them)")
        })?;
        let is_member = || {
            getegid().as_raw() == gid
                || getgroups().is_ok_and(|groups| groups.iter().any(|group| group.as_raw() == gid))
        };
        if !geteuid().is_root() && !is_member() {
            return Err(format!(
                "this user is not a member of group {name:?} and cannot give files to it"
            ));
        }
        Ok(Group { gid })
    }

    pub(crate) fn gid(self) -> u32 {
        self.gid
    }
}

fn find(name: &str) -> Option<u32> {
    let local = fs::read_to_string("/etc/group").ok();
    local.and_then(|text| gid_in(&text, name)).or_else(|| {
        // Groups of a directory service, which only the C library's modules can read.
        let found = Command::new("getent").args(["group", "--", name]).output().ok()?;
        gid_in(&String::from_utf8_lossy(&found.stdout), name)
    })
}

/// The number of a group in lines of the form `name:password:gid:members`.
fn gid_in(text: &str, name: &str) -> Option<u32> {
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_is_found_by_its_whole_name() {
        let text = "root:x:0:\nkvmx:x:7:\nkvm:x:104:alice,bob\nbroken\n";
        assert_eq!(gid_in(text, "kvm"), Some(104));
        assert_eq!(gid_in(text, "broken"), None);
        assert_eq!(gid_in(text, "alice"), None);
    }

    #[test]
    fn unknown_group_is_an_error() {
        let error = Group::from_name("no-such-group").unwrap_err();
        assert!(error.contains("there is no group \"no-such-group\""), "{error}");
        assert!(Group::from_name("4294967295").is_err());
        assert!(Group::from_name("").is_err());
    }

    #[test]
    fn own_group_can_be_given_files() {
        let own = getegid().as_raw();
        assert_eq!(Group::from_name(&own.to_string()), Ok(Group { gid: own }));
    }
}
