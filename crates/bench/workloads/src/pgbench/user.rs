//! PostgreSQL refuses to run as root: everything of it runs as another user then.
//!
//! That user must reach the cluster in the job's folder, which may lie below folders that are root's alone. Instead of
//! opening those, the programs keep one capability, to go through folders (`CAP_DAC_READ_SEARCH`), where it is needed.

use crate::net::daemon::find;
use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::Command,
};
use transect_bench_core::Fault;

/// Whom to run as.
#[derive(Clone, Debug)]
pub(super) struct User {
    /// The system's name of that user: nobody else may use the database.
    pub(super) name: String,
    /// How to become it; `None` if this process is it already.
    change: Option<Change>,
}

/// What setpriv(1) is to do.
#[derive(Clone, Debug)]
struct Change {
    uid: u32,
    gid: u32,
    setpriv: PathBuf,
    needs_capability: bool,
}

impl User {
    /// The package's own user, or nobody.
    pub(super) fn choose(folder: &Path) -> Result<Self, Fault> {
        let users = fs::read_to_string("/etc/passwd")
            .map_err(|e| Fault::failed(format!("pgbench: /etc/passwd: {e}")))?;
        let own = rustix::process::geteuid();
        if !own.is_root() {
            let name = of_number(&users, own.as_raw()).ok_or_else(|| {
                Fault::failed(
                    "pgbench: this user has no name in /etc/passwd, which PostgreSQL requires",
                )
            })?;
            return Ok(Self { name, change: None });
        }
        let setpriv = find("setpriv").ok_or_else(|| {
            Fault::failed(
                "pgbench: setpriv is no longer installed, and PostgreSQL refuses to run as root",
            )
        })?;
        let (name, (uid, gid)) = ["postgres", "nobody"]
            .into_iter()
            .find_map(|name| Some((name, of_name(&users, name)?)))
            .ok_or_else(|| {
                Fault::failed("pgbench: neither the user `postgres` nor the user `nobody` exists")
            })?;
        let needs_capability = !is_reachable(folder);
        let change = Some(Change { uid, gid, setpriv, needs_capability });
        Ok(Self { name: name.to_owned(), change })
    }

    /// A command that runs a program as that user.
    pub(super) fn command(&self, program: &Path) -> Command {
        let Some(Change { uid, gid, setpriv, needs_capability }) = &self.change else {
            return Command::new(program);
        };
        let mut command = Command::new(setpriv);
        command.arg(format!("--reuid={uid}")).arg(format!("--regid={gid}")).arg("--clear-groups");
        if *needs_capability {
            command.args(["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]);
        }
        command.arg("--").arg(program);
        command
    }

    /// Gives the user a folder, which others cannot enter.
    pub(super) fn own(&self, folder: &Path) -> Result<(), Fault> {
        let give = || -> std::io::Result<()> {
            fs::create_dir_all(folder)?;
            fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
            match &self.change {
                None => Ok(()),
                Some(change) => chown(folder, Some(change.uid), Some(change.gid)),
            }
        };
        give().map_err(|e| Fault::failed(format!("pgbench: {}: {e}", folder.display())))
    }

    pub(super) fn note(&self) -> Option<String> {
        self.change.as_ref().filter(|change| change.needs_capability).map(|_| {
            "PostgreSQL ran with CAP_DAC_READ_SEARCH: the job's folder is below private folders"
                .into()
        })
    }
}

/// User and group number of a name in the format of passwd(5).
fn of_name(users: &str, name: &str) -> Option<(u32, u32)> {
    let mut fields = users.lines().find(|line| line.split(':').next() == Some(name))?.split(':');
    Some((fields.nth(2)?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// Name of a user number in the format of passwd(5).
fn of_number(users: &str, uid: u32) -> Option<String> {
    let uid = uid.to_string();
    let line = users.lines().find(|line| line.split(':').nth(2) == Some(&uid))?;
    line.split(':').next().map(str::to_owned)
}

/// May others go through a folder and all that are above it?
fn is_reachable(folder: &Path) -> bool {
    folder
        .ancestors()
        .all(|above| fs::metadata(above).is_ok_and(|found| found.permissions().mode() & 0o001 != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_their_whole_name() {
        let users = "root:x:0:0::/:/bin/sh\npostgres2:x:5:6::/:\npostgres:x:101:104::/:\n";
        assert_eq!(of_name(users, "postgres"), Some((101, 104)));
        assert_eq!(of_name(users, "nobody"), None);
        assert_eq!(of_number(users, 101).as_deref(), Some("postgres"));
        assert_eq!(of_number(users, 1), None);
    }
}
