#![doc = include_str!("README.md")]

mod csv;

use super::{
    net::daemon::Daemon,
    net::daemon::find,
    net::daemon::free_port,
    net::given::Given,
    workload::{Place, Prepared, Workload},
};
use csv::Flow;
use procfs::net::{TcpState, UdpState, tcp, tcp6, udp, udp6};
use rustix::process::Signal;
use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};
use transect_bench_core::{
    About, Better, CacheState, Family, Fault, Job, Kind, Metric, Refusal, Unit,
    protocol::{Param, Role},
};

/// The workloads `iperf/tcp` and `iperf/udp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Iperf {
    /// Throughput.
    Tcp,
    /// Small packets.
    Udp,
}

impl Workload for Iperf {
    fn about(&self) -> About {
        let (name, text, metric) = match self {
            Self::Tcp => (
                "iperf/tcp",
                "TCP throughput with 1 to 32 threads (iperf 2)",
                ("throughput", Unit::BytesPerSecond, Better::More),
            ),
            Self::Udp => (
                "iperf/udp",
                "rate of small UDP packets received, from 1 to 32 threads (iperf 2)",
                ("packet_rate", Unit::PerSecond, Better::More),
            ),
        };
        About {
            name,
            text,
            source: "Gregg, Zones, KVM and Xen (2013), network throughput and packet rate tables",
            family: Family::Network,
            metric,
            caches: &[CacheState::Any],
            params: self.params(),
            packages: &["iperf"],
            is_distributed: true,
            expected_s: 6.0,
        }
    }

    fn can_run(&self, job: &Job) -> Result<(), Refusal> {
        let what = format!("workload {}", self.about().name);
        let refused = |kind, why: &str| Refusal::new(kind, what.clone(), why);
        if job.role == Role::Bystander {
            return Err(refused(Kind::Senseless, "a bystander runs no workload"));
        }
        if job.role == Role::Generator && job.peers.is_empty() {
            return Err(refused(Kind::Plan, "a generator without servers"));
        }
        let Some(program) = find("iperf") else {
            return Err(refused(Kind::Missing, "iperf is not installed").mend("apt install iperf"));
        };
        // `iperf -v` ends with 1 in some versions: what it says counts.
        let said = Command::new(program)
            .arg("-v")
            .output()
            .map_err(|e| refused(Kind::Missing, &format!("iperf cannot be started: {e}")))?;
        let said = [said.stdout, said.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        if said.contains("iperf version 2.") {
            return Ok(());
        }
        Err(refused(
            Kind::Missing,
            &format!("iperf 2 is required, but the installed iperf prints: {}", said.trim()),
        ))
    }

    fn prepare<'a>(&self, place: &Place<'a>) -> Result<Box<dyn Prepared + 'a>, Fault> {
        self.can_run(place.job)?;
        let plan = self.plan(place.job)?;
        let program = find("iperf").ok_or_else(|| Fault::failed("iperf is no longer installed"))?;
        let has_server = matches!(place.job.role, Role::Server | Role::Whole);
        let server =
            if has_server { Some(Server::start(&program, plan, place.folder)?) } else { None };
        let peers = match &server {
            Some(server) if place.job.role == Role::Whole => {
                vec![format!("127.0.0.1:{}", server.port)]
            }
            _ => place.job.peers.clone(),
        };
        let folder = place.folder.to_owned();
        let (role, cancelled) = (place.job.role, place.cancelled);
        Ok(Box::new(Ends {
            plan,
            program,
            folder,
            server,
            peers,
            role,
            cancelled,
            notes: Vec::new(),
        }))
    }
}

/// What is to be sent.
#[derive(Clone, Copy, Debug)]
struct Plan {
    protocol: Iperf,
    is_reverse: bool,
    threads: u32,
    seconds: u32,
    length: u32,
    packets: u32,
}

impl Iperf {
    fn params(self) -> Vec<(&'static str, Param, &'static str)> {
        let mut params = vec![
            ("threads", Param::Int(1), "threads sending to each server"),
            ("seconds", Param::Int(5), "duration, s"),
        ];
        let forward = Param::Text("forward".into());
        match self {
            Self::Tcp => params.extend([
                ("direction", forward, "forward: into the machine; reverse: out of it"),
                ("length", Param::Int(131_072), "bytes per write"),
            ]),
            Self::Udp => params.extend([
                ("direction", forward, "forward: into the machine; iperf 2 cannot do reverse"),
                ("length", Param::Int(64), "payload bytes per packet"),
                ("packets", Param::Int(10_000_000), "attempted packets per second and thread"),
            ]),
        }
        params
    }

    fn plan(self, job: &Job) -> Result<Plan, Fault> {
        let given = Given(job);
        let is_udp = self == Self::Udp;
        let plan = Plan {
            protocol: self,
            is_reverse: given.word("direction", &["forward", "reverse"])? == "reverse",
            threads: given.whole("threads", 1..=256)?,
            seconds: given.whole("seconds", 1..=86_400)?,
            length: given.whole("length", if is_udp { 36..=65_507 } else { 1..=1 << 24 })?,
            packets: if is_udp { given.whole("packets", 1..=100_000_000)? } else { 0 },
        };
        if is_udp && plan.is_reverse {
            let why = "iperf 2's server does not keep the rate when it sends small packets (-R), and exits after -r";
            let refusal = Refusal::new(Kind::NotHere, "workload iperf/udp", why);
            return Err(refusal.mend("direction = \"forward\"").into());
        }
        Ok(plan)
    }
}

/// `iperf -s`.
struct Server {
    port: u16,
    daemon: Daemon,
}

impl Server {
    fn start(program: &Path, plan: Plan, folder: &Path) -> Result<Self, Fault> {
        let port = free_port()?;
        let mut command = Command::new(program);
        command.args(["-s", "-y", "C", "-p", &port.to_string()]);
        if plan.protocol == Iperf::Udp {
            command.args(["-u", "-l", &plan.length.to_string()]);
        }
        let mut daemon = Daemon::start("iperf-server", &mut command, folder)?;
        // Asking by a connection would be a flow in its report.
        daemon.until("listening", Duration::from_secs(10), |_| is_bound(plan.protocol, port))?;
        Ok(Self { port, daemon })
    }

    /// Its rows, when all flows have ended; a lost last packet makes it wait for a while.
    fn flows(&mut self, plan: Plan) -> Result<Vec<Flow>, Fault> {
        let wanted = plan.threads as usize;
        let is_complete =
            |daemon: &Daemon| csv::flows(&daemon.output()).is_ok_and(|f| f.len() >= wanted);
        let waited = self.daemon.until("done with all flows", Duration::from_secs(15), is_complete);
        let flows = csv::flows(&self.daemon.output()).map_err(Fault::failed)?;
        if flows.len() != wanted {
            let why = waited.err().map(|fault| fault.to_string()).unwrap_or_default();
            let got = flows.len();
            return Err(Fault::failed(format!(
                "iperf's server reports {got} of {wanted} flows: {why}"
            )));
        }
        self.daemon.stop(Signal::TERM, Duration::from_millis(500));
        Ok(flows)
    }
}

/// Is somebody listening on a port? A bound UDP socket has the state of a closed TCP one.
fn is_bound(protocol: Iperf, port: u16) -> bool {
    match protocol {
        Iperf::Tcp => {
            [tcp(), tcp6()].into_iter().flatten().flatten().any(|socket| {
                socket.local_address.port() == port && socket.state == TcpState::Listen
            })
        }
        Iperf::Udp => {
            [udp(), udp6()].into_iter().flatten().flatten().any(|socket| {
                socket.local_address.port() == port && socket.state == UdpState::Close
            })
        }
    }
}

/// The ends that this machine has: a server, clients, or both.
struct Ends<'a> {
    plan: Plan,
    program: PathBuf,
    folder: PathBuf,
    server: Option<Server>,
    peers: Vec<String>,
    role: Role,
    cancelled: &'a AtomicBool,
    notes: Vec<String>,
}

impl Prepared for Ends<'_> {
    fn ports(&self) -> Vec<u16> {
        self.server.iter().map(|server| server.port).collect()
    }

    fn programs(&self) -> Vec<PathBuf> {
        vec![self.program.clone()]
    }

    fn run(&mut self) -> Result<Vec<Metric>, Fault> {
        let mut metrics = Vec::new();
        match self.role {
            Role::Server => self.wait()?,
            _ => metrics.extend(self.send()?),
        }
        if let Some(server) = self.server.as_mut().filter(|_| !self.plan.is_reverse) {
            let flows = server.flows(self.plan)?;
            let received = self.received(&flows)?;
            metrics.splice(0..0, received);
        }
        Ok(metrics)
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

impl Ends<'_> {
    fn wait(&mut self) -> Result<(), Fault> {
        while !self.cancelled.load(Ordering::Relaxed) {
            if let Some(server) = &mut self.server {
                server.daemon.check()?;
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Runs one client per server, all at once.
    fn send(&mut self) -> Result<Vec<Metric>, Fault> {
        let start = |(number, peer): (usize, &String)| {
            let mut command = self.client(peer)?;
            Daemon::start(&format!("iperf-client-{number}"), &mut command, &self.folder)
        };
        let clients =
            self.peers.iter().enumerate().map(start).collect::<Result<Vec<_>, Fault>>()?;
        let mut flows = Vec::new();
        for mut client in clients {
            flows.extend(self.finish(&mut client)?);
        }
        let rate = flows.iter().map(|flow| flow.bytes_per_second).sum::<f64>();
        Ok(match (self.plan.protocol, self.plan.is_reverse) {
            (Iperf::Tcp, true) => vec![Metric::bytes_per_second("throughput", rate)],
            (Iperf::Tcp, false) => vec![Metric::bytes_per_second("sent_throughput", rate)],
            (Iperf::Udp, _) => {
                let packets = rate / f64::from(self.plan.length);
                vec![Metric::per_second("sent_packet_rate", packets)]
            }
        })
    }

    fn client(&self, peer: &str) -> Result<Command, Fault> {
        let (host, port) = peer
            .rsplit_once(':')
            .ok_or_else(|| Fault::failed(format!("iperf: server {peer} is not HOST:PORT")))?;
        let host = host.trim_matches(['[', ']']);
        let plan = &self.plan;
        let mut command = Command::new(&self.program);
        command.args(["-c", host, "-p", port, "-y", "C"]);
        command.args(["-t", &plan.seconds.to_string(), "-P", &plan.threads.to_string()]);
        command.args(["-l", &plan.length.to_string()]);
        if host.contains(':') {
            command.arg("-V");
        }
        if plan.is_reverse {
            command.arg("-R");
        }
        if plan.protocol == Iperf::Udp {
            command.args(["-u", "-b", &format!("{}pps", plan.packets)]);
        }
        Ok(command)
    }

    fn finish(&self, client: &mut Daemon) -> Result<Vec<Flow>, Fault> {
        let patience = Duration::from_secs(u64::from(self.plan.seconds) + 30);
        let Some(status) = client.wait(patience)? else {
            return Err(Fault::failed(format!("iperf's client did not exit; {}", client.said())));
        };
        let flows = csv::flows(&client.output()).map_err(Fault::failed)?;
        let wanted = self.plan.threads as usize;
        if !status.success() || flows.len() != wanted || flows.iter().all(|flow| flow.bytes == 0) {
            let (got, said) = (flows.len(), client.said());
            return Err(Fault::failed(format!(
                "iperf's client ended with {status} and {got} of {wanted} flows; {said}"
            )));
        }
        Ok(flows)
    }

    /// What arrived here.
    fn received(&mut self, flows: &[Flow]) -> Result<Vec<Metric>, Fault> {
        let rate = flows.iter().map(|flow| flow.bytes_per_second).sum::<f64>();
        if self.plan.protocol == Iperf::Tcp {
            return Ok(vec![Metric::bytes_per_second("throughput", rate)]);
        }
        let counts: Option<Vec<(u64, u64)>> = flows.iter().map(|flow| flow.datagrams).collect();
        let counts = counts.ok_or_else(|| {
            Fault::failed("iperf's server does not report the number of packets received")
        })?;
        let lost: u64 = counts.iter().map(|(lost, _)| lost).sum();
        let total: u64 = counts.iter().map(|(_, total)| total).sum();
        if lost == 0 {
            self.notes.push("no packet was lost: the sender may have been the limiter".into());
        }
        let share = lost as f64 / total as f64;
        Ok(vec![
            Metric::per_second("packet_rate", rate / f64::from(self.plan.length)),
            Metric::new("lost_share", Unit::Share, Better::Less, share),
            Metric::new("lost_share_of", Unit::Count, Better::More, total as f64),
        ])
    }
}

#[cfg(test)]
mod tests;
