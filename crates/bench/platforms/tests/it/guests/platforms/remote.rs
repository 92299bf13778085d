//! Another host over ssh: here this one, by an sshd of our own on a port of 127.0.0.1 with keys of its own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

use super::common::{Place, Talk, eventually, open, platform, processes_with, shape, works};
use procfs::{Current, Meminfo};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use transect_bench_core::{Fault, Kind, protocol::Param};
use transect_bench_platforms::Shape;

struct Sshd {
    folder: tempfile::TempDir,
    port: u16,
    process: Child,
}

impl Sshd {
    fn start() -> Option<Self> {
        if !Path::new("/usr/sbin/sshd").exists() || !rustix::process::geteuid().is_root() {
            println!("skipped: no sshd, or not root");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        for key in ["host", "user"] {
            let options = ["-q", "-t", "ed25519", "-N", "", "-f", &at(key)];
            assert!(Command::new("ssh-keygen").args(options).status().unwrap().success());
        }
        std::fs::copy(at("user.pub"), at("authorized")).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let host_key = std::fs::read_to_string(at("host.pub")).unwrap();
        std::fs::write(at("known"), format!("[127.0.0.1]:{port} {host_key}")).unwrap();
        let server = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\n\
             PermitRootLogin yes\nPasswordAuthentication no\nUsePAM no\nPidFile none\n",
            at("host"),
            at("authorized")
        );
        std::fs::write(at("sshd_config"), server).unwrap();
        let client = format!(
            "Host other\n HostName 127.0.0.1\n Port {port}\n User root\n IdentityFile {}\n IdentitiesOnly yes\n\
             UserKnownHostsFile {}\n",
            at("user"),
            at("known")
        );
        std::fs::write(at("ssh_config"), client).unwrap();
        std::fs::create_dir_all("/run/sshd").unwrap();
        let process = Command::new("/usr/sbin/sshd")
            .args(["-D", "-e", "-f", &at("sshd_config")])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        eventually("sshd listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Some(Self { folder, port, process })
    }

    fn shape(&self) -> Shape {
        let memory_mib = Meminfo::current().unwrap().mem_total >> 20;
        let mut shape = shape(u32::try_from(memory_mib).unwrap(), 1);
        let config = self.folder.path().join("ssh_config").display().to_string();
        let parent = self.folder.path().display().to_string();
        for (name, value) in [("address", "other"), ("ssh_config", &config), ("folder", &parent)] {
            shape.params.insert(name.into(), Param::Text(value.into()));
        }
        shape
    }

    fn folders_over_there(&self) -> usize {
        let entries = std::fs::read_dir(self.folder.path()).unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("transect-bench-")).count()
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[test]
fn another_host_works_and_is_left_as_it_was() {
    let Some(sshd) = Sshd::start() else { return };
    let (place, shape) = (Place::new(), sshd.shape());
    let Some(mut machine) = open("remote", &shape, &place.bed) else { return };
    assert_eq!(sshd.folders_over_there(), 1);
    works(machine.as_mut(), &shape);
    let mut talk = Talk::with(machine.as_mut());
    let port: u16 = talk.ask("listen").parse().unwrap();
    assert_eq!(machine.reach(port).unwrap().to_string(), format!("127.0.0.1:{port}"));
    assert_eq!(machine.gateway().unwrap().to_string(), "127.0.0.1");
    talk.end();
    machine.close().unwrap();
    assert_eq!(sshd.folders_over_there(), 0);

    let mut machine = open("remote", &shape, &place.bed).unwrap();
    let mut talk = Talk::with(machine.as_mut());
    let marker = format!("sleep 8{}", std::process::id());
    talk.tell(&format!("run:{marker}"));
    eventually("it runs", || !processes_with(&marker).is_empty());
    drop(machine);
    eventually("what it ran has ended", || processes_with(&marker).is_empty());
    eventually("its folder is gone", || sshd.folders_over_there() == 0);

    let mut smaller = shape.clone();
    smaller.memory_mib /= 2;
    let Err(Fault::Refused(refusal)) = platform("remote").open(&smaller, &place.bed) else {
        panic!("a host with twice the memory is no equal");
    };
    assert_eq!(refusal.kind, Kind::Different, "{refusal}");
    eventually("its folder is gone", || sshd.folders_over_there() == 0);

    let mut closed = shape;
    closed.params.insert("port".into(), Param::Int(1));
    let Err(Fault::Refused(refusal)) = platform("remote").open(&closed, &place.bed) else {
        panic!("nobody listens there");
    };
    assert_eq!(refusal.kind, Kind::NotHere, "{refusal}");
    assert!(sshd.port > 1);
}
