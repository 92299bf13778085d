//! Another host, over ssh. See README.md.

use super::kit::{Expected, checked, cpu_list, failed, need_program, text, whole};
use crate::platform::{Bed, Facts, Machine, Pipes, Platform, Shape, log_of};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::{ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};
use transect_bench_core::{Fault, Kind, Refusal};
use transect_testbed::rundir::{Process, RunDir};

/// Another host.
pub(super) struct Remote;

/// (The `kill` of Debian's `sh` does not know `--`.) `$1` is the parent of the folder. Its first line names the folder; when the connection ends, so does all that runs.
const KEEPER: &str = "set -e; folder=$(mktemp -d \"$1/transect-bench-XXXXXX\"); mkdir $folder/live $folder/scratch; \
     echo $folder; cat >/dev/null || :; \
     for f in $folder/live/*; do [ -e \"$f\" ] && kill -KILL \"-${f##*/}\" || :; done; rm -rf $folder";

impl Platform for Remote {
    fn name(&self) -> &'static str {
        "remote"
    }

    fn about(&self) -> &'static str {
        "another host over ssh, unchanged: its memory must match the plan's shape"
    }

    fn can_run(&self, shape: &Shape) -> Result<(), Refusal> {
        need_program(self.name(), "ssh", "openssh-client")?;
        let address = text(shape, "address", "")?;
        if address.is_empty() || address.starts_with('-') {
            let why = "it needs the parameter address: HOST or USER@HOST";
            return Err(Refusal::new(Kind::Plan, "platform remote", why));
        }
        Ok(())
    }

    fn open(&self, shape: &Shape, bed: &Bed) -> Result<Box<dyn Machine>, Fault> {
        self.can_run(shape)?;
        let host = OtherHost::open(shape, bed)?;
        let (cpus, memory_mib) = (shape.cpus, shape.memory_mib);
        checked(Box::new(host), &Expected { platform: self.name(), cpus, memory_mib })
    }
}

struct OtherHost {
    facts: Facts,
    ssh: Vec<OsString>,
    host: String,
    folder: String,
    /// What starts a worker over there.
    command: String,
    log: PathBuf,
    worker: Option<Process>,
    /// While this is open, the folder over there is.
    keeper_input: Option<ChildStdin>,
    keeper: Process,
    run: RunDir,
}

impl OtherHost {
    fn open(shape: &Shape, bed: &Bed) -> Result<Self, Fault> {
        let address = text(shape, "address", "")?.to_owned();
        let host = address.rsplit('@').next().unwrap_or_default().to_owned();
        let ssh = ssh_words(shape, &address)?;
        let run = RunDir::new(super::kit::LIFETIME).map_err(|error| failed(&error))?;
        fs::create_dir_all(&bed.logs).map_err(Fault::failed)?;
        let log = log_of(&bed.logs, "remote", shape.index);
        let parent = quoted(text(shape, "folder", "/var/tmp")?);
        let keep = format!("sh -c {} keeper {parent}", quoted(KEEPER));
        let words: Vec<_> = ssh.iter().cloned().chain([keep.into()]).collect();
        let (keeper, input, output) =
            run.spawn_piped(&words, &log).map_err(|error| failed(&error))?;
        let mut folder = String::new();
        // ssh gives up by itself (ConnectTimeout), so this ends.
        BufReader::new(output).read_line(&mut folder).map_err(Fault::failed)?;
        let folder = folder.trim().to_owned();
        if folder.is_empty() {
            let said = fs::read_to_string(&log).unwrap_or_default();
            let why = format!("{address} cannot be reached by ssh: {}", said.trim());
            let refusal = Refusal::new(Kind::NotHere, "platform remote", why);
            return Err(refusal
                .mend("set up ssh-copy-id and known_hosts: ssh must connect without a prompt")
                .into());
        }
        let command = command(shape, bed, &folder);
        let mut facts =
            Facts { accelerator: "none".into(), storage_is_below: true, ..Facts::default() };
        facts.notes.insert("address".into(), address);
        let keeper_input = Some(input);
        let worker = None;
        let other =
            Self { facts, ssh, host, folder, command, log, worker, keeper_input, keeper, run };
        other.carry(&bed.worker)?;
        Ok(other)
    }

    /// Copies the worker's binary there.
    fn carry(&self, worker: &std::path::Path) -> Result<(), Fault> {
        let file = File::open(worker)
            .map_err(|error| Fault::failed(format!("{}: {error}", worker.display())))?;
        let order = format!("cat >{0}/worker && chmod 755 {0}/worker", self.folder);
        let out = self.ssh_command(&order).stdin(file).output().map_err(Fault::failed)?;
        if out.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&out.stderr).trim().to_owned();
        Err(Fault::failed(format!("cannot copy the worker to {}: {said}", self.host)))
    }

    fn ssh_command(&self, order: &str) -> Command {
        let mut command = Command::new(&self.ssh[0]);
        command.args(&self.ssh[1..]).arg(order).stdin(Stdio::null());
        command
    }
}

/// ssh must ask nothing, end when the other side does, and share no connection whose end would be another's.
fn ssh_words(shape: &Shape, address: &str) -> Result<Vec<OsString>, Refusal> {
    let mut words: Vec<OsString> = vec!["ssh".into()];
    let options = [
        "BatchMode=yes",
        "ConnectTimeout=10",
        "ServerAliveInterval=5",
        "ServerAliveCountMax=6",
        "ControlMaster=no",
        "ControlPath=none",
    ];
    for option in options {
        words.extend(["-o".into(), option.into()]);
    }
    if shape.params.contains_key("ssh_config") {
        words.extend(["-F".into(), text(shape, "ssh_config", "")?.into()]);
    }
    if shape.params.contains_key("port") {
        words.extend(["-p".into(), whole(shape, "port", 22)?.to_string().into()]);
    }
    words.extend(["-T".into(), address.into()]);
    Ok(words)
}

/// The worker is a session of its own that the keeper knows; it may use as many CPUs as the shape has.
fn command(shape: &Shape, bed: &Bed, folder: &str) -> String {
    let cpus = if shape.pin.is_empty() {
        // The first of those that it may use there.
        let count = shape.cpus;
        format!(
            "$(python3 -c 'import os;print(*sorted(os.sched_getaffinity(0))[:{count}],sep=\",\")' \
             2>/dev/null || echo 0-{})",
            count.saturating_sub(1)
        )
    } else {
        cpu_list(&shape.pin)
    };
    let arguments: Vec<_> = bed.worker_arguments.iter().map(|word| quoted(word)).collect();
    let arguments = arguments.join(" ");
    let inner = format!(
        "echo >{folder}/live/$$; cd {folder}/scratch && export TMPDIR={folder}/scratch && \
         exec taskset -c {cpus} {folder}/worker {arguments}"
    );
    format!("setsid -w sh -c {}", quoted(&inner))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

impl Machine for OtherHost {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn worker(&mut self) -> Result<Pipes, Fault> {
        if let Some(last) = self.worker.take() {
            wait(&last, "a worker still runs there")?;
        }
        let words: Vec<_> =
            self.ssh.iter().cloned().chain([OsString::from(&self.command)]).collect();
        let (process, to, from) =
            self.run.spawn_piped(&words, &self.log).map_err(|error| failed(&error))?;
        self.worker = Some(process);
        Ok(Pipes { to: Box::new(to), from: Box::new(BufReader::new(from)) })
    }

    fn reach(&mut self, port: u16) -> Result<SocketAddr, Fault> {
        // What ssh's own configuration calls the host is asked of ssh.
        let mut ask = Command::new(&self.ssh[0]);
        ask.arg("-G").args(&self.ssh[1..]);
        let out = ask.output().map_err(Fault::failed)?;
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let name = text.lines().find_map(|line| line.strip_prefix("hostname "));
        let name = name.unwrap_or(&self.host);
        let mut found = (name, port).to_socket_addrs().map_err(Fault::failed)?;
        found.next().ok_or_else(|| Fault::failed(format!("{name} has no address")))
    }

    fn gateway(&self) -> Option<IpAddr> {
        // What the other host sees of this one: the first word of SSH_CONNECTION (ssh(1)).
        let out = self.ssh_command("echo $SSH_CONNECTION").output().ok()?;
        String::from_utf8_lossy(&out.stdout).split_whitespace().next()?.parse().ok()
    }

    fn host_tids(&self) -> Vec<u32> {
        Vec::new()
    }

    fn check_alive(&mut self) -> Result<(), Fault> {
        if self.keeper.ended().map_err(|error| failed(&error))?.is_none() {
            return Ok(());
        }
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        Err(Fault::failed(format!("the connection to {} has ended: {}", self.host, said.trim())))
    }

    fn close(mut self: Box<Self>) -> Result<(), Fault> {
        if let Some(last) = self.worker.take() {
            wait(&last, "a worker still runs there")?;
        }
        self.keeper_input = None;
        wait(&self.keeper, "its folder is still there")
    }
}

impl Drop for OtherHost {
    fn drop(&mut self) {
        self.worker = None;
        if self.keeper_input.take().is_some() {
            // The keeper over there removes everything, and this process waits for it as long as that is sensible.
            drop(wait(&self.keeper, ""));
        }
    }
}

fn wait(process: &Process, otherwise: &str) -> Result<(), Fault> {
    let deadline = Instant::now() + Duration::from_secs(15);
    while process.ended().map_err(|error| failed(&error))?.is_none() {
        if Instant::now() > deadline {
            return Err(Fault::failed(format!("remote: {otherwise}")));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
