//! A PostgreSQL cluster of our own: in the job's folder, reached by an abstract socket, used by one user alone.

use super::user::User;
use crate::net::daemon::Daemon;
use rustix::process::Signal;
use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};
use transect_bench_core::Fault;

/// PostgreSQL's programs of one version.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    folder: PathBuf,
    /// The version as in the folder's name: `15`.
    pub(super) version: String,
}

impl Programs {
    /// The newest version with server and pgbench.
    pub(super) fn find() -> Option<Self> {
        let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
        let number = |entry: &fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
        let newest = versions
            .filter_map(|entry| Some((number(&entry)?, entry.path().join("bin"))))
            .filter(|(_, bin)| {
                ["initdb", "postgres", "pgbench"].iter().all(|p| bin.join(p).exists())
            })
            .max()?;
        Some(Self { folder: newest.1, version: newest.0.to_string() })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// A server that runs until it is dropped.
pub(super) struct Cluster {
    pub(super) programs: Programs,
    pub(super) user: User,
    /// For `-h`: an abstract socket, so no folder has to be short, or open to anybody.
    socket: String,
    data: PathBuf,
    has_fsync: bool,
    daemon: Option<Daemon>,
}

/// The database that pgbench uses; initdb makes it.
const DATABASE: &str = "postgres";

impl Cluster {
    /// A fresh copy of the tables at a scale, and a server on it, with or without fsync. The tables are made once and kept.
    pub(super) fn start(
        programs: Programs,
        (scale, has_fsync): (u32, bool),
        folder: &Path,
        keep: &Path,
    ) -> Result<Self, Fault> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let socket = format!("@transect-{}-{number}", std::process::id());
        let user = User::choose(folder)?;
        let data = folder.join("cluster");
        let template = keep.join(format!("pgbench-1-{}-{scale}", programs.version));
        let mut cluster = Self { programs, user, socket, data, has_fsync, daemon: None };
        if template.join("PG_VERSION").exists() {
            cluster.copy(&template, &cluster.data)?;
            cluster.map_user()?;
        } else {
            cluster.make(scale, folder)?;
            let draft = keep.join(format!("pgbench-draft-{}-{number}", std::process::id()));
            cluster.copy(&cluster.data, &draft)?;
            // Another job may have been faster: one is as good as the other.
            if fs::rename(&draft, &template).is_err() {
                let _ = fs::remove_dir_all(&draft);
            }
        }
        cluster.serve(folder)?;
        Ok(cluster)
    }

    /// Copies a cluster that nobody serves, owners and all.
    fn copy(&self, from: &Path, to: &Path) -> Result<(), Fault> {
        let mut command = Command::new("cp");
        command.args(["-a", "--reflink=auto"]).arg(from).arg(to);
        finish(command, "cp")?;
        Ok(())
    }

    fn make(&mut self, scale: u32, folder: &Path) -> Result<(), Fault> {
        self.user.own(&self.data)?;
        let mut initdb = self.command("initdb", folder);
        // Peer: the socket is for this cluster's user alone. C: no locale of the machine's decides about speed.
        initdb.args(["--auth=peer", "--locale=C", "--encoding=UTF8", "--no-sync", "-D"]);
        initdb.arg(&self.data).args(["-U", "postgres"]);
        finish(initdb, "initdb")?;
        self.map_user()?;
        self.serve(folder)?;
        let mut init = self.client(folder);
        init.args(["-i", "-q", "-s", &scale.to_string(), DATABASE]);
        finish(init, "pgbench -i")?;
        self.stop()
    }

    /// The system's user is the database's superuser, and nobody else is anybody: an abstract socket can be reached by
    /// all users of the machine, and the server may be able to read more than they.
    fn map_user(&self) -> Result<(), Fault> {
        let failed = |e| Fault::failed(format!("pgbench: {}: {e}", self.data.display()));
        let write = |name: &str, text: &str| fs::write(self.data.join(name), text).map_err(failed);
        write("pg_hba.conf", "local all postgres peer map=owner\n")?;
        write("pg_ident.conf", &format!("owner \"{}\" postgres\n", self.user.name))
    }

    fn serve(&mut self, folder: &Path) -> Result<(), Fault> {
        let mut command = self.command("postgres", folder);
        command.arg("-D").arg(&self.data);
        let sockets = format!("unix_socket_directories={}", self.socket);
        let fsync = if self.has_fsync { "fsync=on" } else { "fsync=off" };
        for setting in ["listen_addresses=", &sockets, fsync, "max_connections=300"] {
            command.args(["-c", setting]);
        }
        let mut daemon = Daemon::start("postgres", &mut command, folder)?;
        let log = folder.join("postgres.err");
        daemon.until("ready", Duration::from_secs(60), |_| {
            fs::read_to_string(&log).is_ok_and(|log| log.contains("ready to accept connections"))
        })?;
        self.daemon = Some(daemon);
        Ok(())
    }

    /// An orderly end, so that the next start has nothing to recover.
    fn stop(&mut self) -> Result<(), Fault> {
        let Some(mut daemon) = self.daemon.take() else { return Ok(()) };
        daemon.signal(Signal::INT);
        match daemon.wait(Duration::from_secs(60))? {
            Some(status) if status.success() => Ok(()),
            _ => {
                Err(Fault::failed(format!("postgres did not shut down cleanly; {}", daemon.said())))
            }
        }
    }

    /// Fails if the server has ended.
    pub(super) fn check(&mut self) -> Result<(), Fault> {
        self.daemon.as_mut().map_or(Ok(()), Daemon::check)
    }

    /// pgbench on this cluster; the database's name must be the last argument.
    pub(super) fn client(&self, folder: &Path) -> Command {
        let mut command = self.command("pgbench", folder);
        command.args(["-h", &self.socket, "-U", "postgres"]);
        command
    }

    /// See [`Self::client`].
    pub(super) fn database(&self) -> &'static OsStr {
        OsStr::new(DATABASE)
    }

    fn command(&self, program: &str, folder: &Path) -> Command {
        let mut command = self.user.command(&self.programs.path(program));
        // Nothing of the caller's environment may lead anywhere else (PGHOST, PGOPTIONS, PGDATA).
        command.env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C").current_dir(folder);
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(daemon) = &mut self.daemon {
            // Immediate: nobody needs these tables any more.
            daemon.stop(Signal::QUIT, Duration::from_secs(5));
        }
    }
}

/// Runs a program to its end and gives its output; an error has what it said.
pub(super) fn finish(mut command: Command, name: &str) -> Result<String, Fault> {
    let output = command
        .output()
        .map_err(|e| Fault::failed(format!("pgbench: {name} cannot be started: {e}")))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(said);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let (status, errors) = (output.status, errors.trim());
    Err(Fault::failed(format!("pgbench: {name} ended with {status}: {errors} {}", said.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tier `make test`: root, for a second user.
    mod host {
        use super::*;

        #[test]
        fn nobody_else_gets_in() {
            let Some(programs) = Programs::find() else {
                eprintln!("skipped: PostgreSQL is not installed");
                return;
            };
            if !rustix::process::geteuid().is_root() {
                eprintln!("skipped: there is no second user without root");
                return;
            }
            let (folder, keep) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let cluster = Cluster::start(programs, (1, false), folder.path(), keep.path()).unwrap();
            let select = |mut command: Command| {
                command.args(["-n", "-S", "-t", "1"]).arg(cluster.database());
                finish(command, "pgbench")
            };
            select(cluster.client(folder.path())).unwrap();
            // The same question by root, whom the database does not know.
            let mut by_root = Command::new(cluster.programs.path("pgbench"));
            by_root.args(["-h", &cluster.socket, "-U", "postgres"]);
            let fault = select(by_root).unwrap_err().to_string();
            assert!(fault.contains("authentication failed"), "{fault}");
        }
    }
}
