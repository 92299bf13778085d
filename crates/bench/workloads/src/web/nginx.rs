//! nginx with a configuration of its own: nothing of the machine's own is read, used or changed.

use crate::net::daemon::{Daemon, find, free_port};
use rustix::process::Signal;
use std::{
    fs,
    net::{Ipv4Addr, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};
use transect_bench_core::Fault;

/// An nginx that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct Nginx {
    /// The port that it listens on, on all addresses: the generator is outside.
    pub(crate) port: u16,
    /// The program.
    pub(crate) program: PathBuf,
    daemon: Daemon,
}

impl Nginx {
    /// Serves a root from a folder for its own files, with that many processes.
    pub(crate) fn start(folder: &Path, root: &Path, workers: u32) -> Result<Self, Fault> {
        let program =
            find("nginx").ok_or_else(|| Fault::failed("web: nginx is no longer installed"))?;
        let mut last = None;
        // Between choosing a port and nginx taking it somebody else may.
        for _ in 0..3 {
            match Self::start_on(&program, folder, root, workers, free_port()?) {
                Ok(nginx) => return Ok(nginx),
                Err(fault) => last = Some(fault),
            }
        }
        Err(last.unwrap_or_else(|| Fault::failed("web: nginx does not start")))
    }

    fn start_on(
        program: &Path,
        folder: &Path,
        root: &Path,
        workers: u32,
        port: u16,
    ) -> Result<Self, Fault> {
        let config = folder.join("nginx.conf");
        fs::write(&config, configuration(folder, root, workers, port))
            .map_err(|e| Fault::failed(format!("{}: {e}", config.display())))?;
        let mut command = Command::new(program);
        command.arg("-p").arg(folder).arg("-c").arg(&config).arg("-e").arg("stderr");
        let mut daemon = Daemon::start("nginx", &mut command, folder)?;
        daemon.until("listening", Duration::from_secs(20), |_| {
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
        })?;
        // The one that answered may be somebody else on that port, and ours about to fail.
        daemon.check()?;
        Ok(Self { port, program: program.to_owned(), daemon })
    }

    /// Fails with what it said if it has ended.
    pub(crate) fn check(&mut self) -> Result<(), Fault> {
        self.daemon.check()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        self.daemon.stop(Signal::TERM, Duration::from_secs(2));
    }
}

fn configuration(folder: &Path, root: &Path, workers: u32, port: u16) -> String {
    // Started as root it would give its rights away, and then not reach a root in somebody's private folder.
    let user = if rustix::process::geteuid().is_root() { "user root;\n" } else { "" };
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("  {kind}_temp_path \"{}/{kind}\";\n", folder.display()))
        .concat();
    let (folder, root) = (folder.display(), root.display());
    // Keep-alive without end: how often connections are made anew is the generator's business.
    format!(
        "{user}daemon off;
worker_processes {workers};
pid \"{folder}/nginx.pid\";
error_log stderr warn;
events {{ worker_connections 8192; }}
http {{
{temporary}  access_log off;
  default_type application/octet-stream;
  sendfile on;
  tcp_nopush on;
  keepalive_timeout 1h;
  keepalive_requests 1000000000;
  server {{ listen {port} backlog=4096; root \"{root}\"; }}
}}
"
    )
}
