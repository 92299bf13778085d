//! Programs that run beside a workload and end with it.

use rustix::process::{Pid, Signal, kill_process_group};
use std::{
    fs::File,
    net::{Ipv4Addr, TcpListener, UdpSocket},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};
use transect_bench_core::Fault;

/// A program in a process group of its own, its output in files. Dropping it kills the whole group.
#[derive(Debug)]
pub(crate) struct Daemon {
    name: String,
    child: Child,
    out: PathBuf,
    err: PathBuf,
    ended: Option<ExitStatus>,
}

impl Daemon {
    /// Starts it; what it says goes to `NAME.out` and `NAME.err` in the folder.
    pub(crate) fn start(name: &str, command: &mut Command, folder: &Path) -> Result<Self, Fault> {
        let (out, err) = (folder.join(format!("{name}.out")), folder.join(format!("{name}.err")));
        let create = |path: &Path| {
            File::create(path).map_err(|e| Fault::failed(format!("{}: {e}", path.display())))
        };
        let child = command
            .stdin(Stdio::null())
            .stdout(create(&out)?)
            .stderr(create(&err)?)
            .process_group(0)
            .spawn()
            .map_err(|e| Fault::failed(format!("{name}: cannot start {command:?}: {e}")))?;
        Ok(Self { name: name.to_owned(), child, out, err, ended: None })
    }

    /// Fails with what it said if it has ended.
    pub(crate) fn check(&mut self) -> Result<(), Fault> {
        match self.status()? {
            None => Ok(()),
            Some(status) => {
                Err(Fault::failed(format!("{} ended: {status}; {}", self.name, self.said())))
            }
        }
    }

    /// Waits until something is so, as long as the program runs.
    pub(crate) fn until(
        &mut self,
        what: &str,
        patience: Duration,
        mut is_so: impl FnMut(&Self) -> bool,
    ) -> Result<(), Fault> {
        let end = Instant::now() + patience;
        while !is_so(self) {
            self.check()?;
            if Instant::now() >= end {
                let (name, said) = (&self.name, self.said());
                return Err(Fault::failed(format!(
                    "{name}: not {what} after {patience:?}; {said}"
                )));
            }
            sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Waits for its own end.
    pub(crate) fn wait(&mut self, patience: Duration) -> Result<Option<ExitStatus>, Fault> {
        let end = Instant::now() + patience;
        loop {
            if let Some(status) = self.status()? {
                return Ok(Some(status));
            }
            if Instant::now() >= end {
                return Ok(None);
            }
            sleep(Duration::from_millis(5));
        }
    }

    /// Asks it to end, then makes it.
    pub(crate) fn stop(&mut self, signal: Signal, patience: Duration) {
        self.signal(signal);
        if !matches!(self.wait(patience), Ok(Some(_))) {
            self.kill();
        }
    }

    /// What it wrote to its standard output so far.
    #[must_use]
    pub(crate) fn output(&self) -> String {
        read(&self.out)
    }

    /// The end of what it said, for errors.
    #[must_use]
    pub(crate) fn said(&self) -> String {
        let all = format!("{}{}", read(&self.out), read(&self.err));
        let lines: Vec<&str> = all.lines().filter(|line| !line.trim().is_empty()).collect();
        let from = lines.len().saturating_sub(6);
        if lines.is_empty() {
            "it printed nothing".into()
        } else {
            format!("it printed: {}", lines[from..].join(" | "))
        }
    }

    fn status(&mut self) -> Result<Option<ExitStatus>, Fault> {
        if self.ended.is_none() {
            self.ended = self
                .child
                .try_wait()
                .map_err(|e| Fault::failed(format!("{}: cannot wait: {e}", self.name)))?;
        }
        Ok(self.ended)
    }

    /// Sends a signal to its whole group.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // An error means that the group has ended: just what is wanted.
            let _ = kill_process_group(pid, signal);
        }
    }

    fn kill(&mut self) {
        self.signal(Signal::KILL);
        if self.ended.is_none() {
            self.ended = self.child.wait().ok();
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}

fn read(path: &Path) -> String {
    std::fs::read(path)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}

/// A port that nobody had a moment ago, for TCP and UDP. Somebody may take it before it is used: then the program that
/// wanted it fails, and says so.
pub(crate) fn free_port() -> Result<u16, Fault> {
    let failed = |e| Fault::failed(format!("no free port: {e}"));
    for _ in 0..64 {
        let tcp = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(failed)?;
        let port = tcp.local_addr().map_err(failed)?.port();
        if UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(Fault::failed("no port is free for both TCP and UDP after 64 tries"))
}

/// A program in the search path, or in the folders of administrators' programs that a path may lack.
#[must_use]
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/bin", "/bin"].map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|file| {
            rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok() && file.is_file()
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::process::Process;

    #[test]
    fn a_daemon_ends_with_all_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "sleep 1000 & echo $!; wait"]);
        let mut daemon = Daemon::start("sh", &mut command, folder.path()).unwrap();
        daemon.until("speaking", Duration::from_secs(5), |d| d.output().contains('\n')).unwrap();
        let child = Process::new(daemon.output().trim().parse().unwrap()).unwrap();
        drop(daemon);
        let end = Instant::now() + Duration::from_secs(5);
        let is_there = || child.stat().is_ok_and(|stat| stat.state != 'Z');
        while is_there() {
            assert!(Instant::now() < end, "the child outlived its group");
            sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn one_that_ends_early_is_reported_with_what_it_said() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "echo no such luck >&2; exit 3"]);
        let mut daemon = Daemon::start("sh", &mut command, folder.path()).unwrap();
        let fault = daemon.until("ready", Duration::from_secs(5), |_| false).unwrap_err();
        assert!(fault.to_string().contains("no such luck"), "{fault}");
    }
}
