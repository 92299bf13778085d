#![doc = include_str!("README.md")]

mod answer;
mod connection;
mod files;
mod generator;
mod nginx;
mod report;
mod schedule;
mod search;

use super::{
    net::daemon::find,
    net::given::Given,
    workload::{Place, Prepared, Workload},
};
use generator::Task;
use nginx::Nginx;
use report::{Criterion, Step};
use schedule::Offer;
use search::Search;
use std::{
    net::{SocketAddr, ToSocketAddrs},
    path::PathBuf,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};
use transect_bench_core::{
    About, Better, CacheState, Family, Fault, Job, Kind, Metric, Refusal, Unit,
    protocol::{Param, Role},
};

/// The workload `web`.
#[derive(Debug)]
pub(crate) struct Web;

impl Workload for Web {
    fn about(&self) -> About {
        About {
            name: "web",
            text: "nginx under an open-loop load with SPECweb99's class mix and a deadline of 300 ms",
            source: "Repeated Research (Clark et al., USENIX 2004), Table 2, Figures 3 and 7",
            family: Family::Network,
            metric: ("conforming_throughput", Unit::PerSecond, Better::More),
            caches: &[CacheState::Any, CacheState::Hot, CacheState::Cold],
            params: params(),
            packages: &["nginx-light"],
            is_distributed: true,
            expected_s: 45.0,
        }
    }

    fn can_run(&self, job: &Job) -> Result<(), Refusal> {
        let refused = |kind, why: &str| Err(Refusal::new(kind, "workload web", why));
        match job.role {
            Role::Server if find("nginx").is_none() => {
                refused(Kind::Missing, "nginx is not installed")
                    .map_err(|refusal| refusal.mend("apt install nginx-light"))
            }
            Role::Server => Ok(()),
            Role::Generator if job.peers.is_empty() => {
                refused(Kind::Plan, "a generator without servers")
            }
            Role::Generator => Ok(()),
            Role::Whole | Role::Bystander => {
                refused(Kind::Senseless, "it has only server parts and a generator part")
            }
        }
    }

    fn expected_s(&self, job: &Job) -> f64 {
        let of_search = self.about().expected_s;
        Plan::of(job).map_or(of_search, |plan| match plan.is_search {
            true => of_search,
            false => plan.warm_s + plan.seconds + 1.0,
        })
    }

    fn prepare<'a>(&self, place: &Place<'a>) -> Result<Box<dyn Prepared + 'a>, Fault> {
        self.can_run(place.job)?;
        if place.job.role == Role::Server {
            return Ok(Box::new(Server::new(place)?));
        }
        Ok(Box::new(Generator::new(place)?))
    }
}

fn params() -> Vec<(&'static str, Param, &'static str)> {
    let text = |word: &str| Param::Text(word.into());
    vec![
        (
            "mode",
            text("search"),
            "search: find the highest conforming rate; rate: measure at one rate",
        ),
        ("rate", Param::Float(200.0), "requests per second and server; a search starts here"),
        (
            "rate_max",
            Param::Float(100_000.0),
            "upper end of a search, requests per second and server",
        ),
        ("resolution", Param::Float(0.05), "width at which a search stops, as a share of the rate"),
        (
            "seconds",
            Param::Float(3.0),
            "duration of a step (mode search) or of the whole load (mode rate), after warm_s",
        ),
        ("warm_s", Param::Float(0.5), "duration of the preceding load that does not count"),
        ("deadline_ms", Param::Float(300.0), "an answer later than this does not conform"),
        ("share", Param::Float(0.99), "share of each server's requests that must conform"),
        (
            "timeout_ms",
            Param::Float(2000.0),
            "a request without an answer after this time has failed",
        ),
        (
            "late_ms",
            Param::Float(10.0),
            "99th percentile of the generator's own lateness above which the run is refused",
        ),
        ("connections", Param::Int(64), "keep-alive connections to each server"),
        ("generator_threads", Param::Int(1), "threads of the generator"),
        ("directories", Param::Int(8), "directories of the file set, 5 MB each"),
        ("workers", Param::Int(1), "processes of each nginx"),
    ]
}

/// nginx in the machine.
struct Server<'a> {
    nginx: Nginx,
    files: Vec<PathBuf>,
    cancelled: &'a AtomicBool,
}

impl<'a> Server<'a> {
    fn new(place: &Place<'a>) -> Result<Self, Fault> {
        let given = Given(place.job);
        let directories = given.whole("directories", 1..=10_000)?;
        let root = files::root(place.keep, directories)?;
        let nginx = Nginx::start(place.folder, &root, given.whole("workers", 1..=256)?)?;
        let files = files::all(directories).map(|file| root.join(&file.path()[1..])).collect();
        Ok(Self { nginx, files, cancelled: place.cancelled })
    }
}

impl Prepared for Server<'_> {
    fn files(&self) -> Vec<PathBuf> {
        self.files.clone()
    }

    fn ports(&self) -> Vec<u16> {
        vec![self.nginx.port]
    }

    fn programs(&self) -> Vec<PathBuf> {
        vec![self.nginx.program.clone()]
    }

    fn run(&mut self) -> Result<Vec<Metric>, Fault> {
        while !self.cancelled.load(Ordering::Relaxed) {
            self.nginx.check()?;
            thread::sleep(Duration::from_millis(5));
        }
        self.nginx.check()?;
        Ok(Vec::new())
    }
}

/// The load.
struct Generator<'a> {
    plan: Plan,
    servers: Vec<SocketAddr>,
    seed: u64,
    cancelled: &'a AtomicBool,
    notes: Vec<String>,
}

/// The parameters.
#[derive(Clone, Copy, Debug)]
struct Plan {
    is_search: bool,
    rate: f64,
    rate_max: f64,
    resolution: f64,
    seconds: f64,
    warm_s: f64,
    deadline_s: f64,
    timeout_s: f64,
    criterion: Criterion,
    connections: usize,
    threads: usize,
    directories: u32,
}

impl Plan {
    fn of(job: &Job) -> Result<Self, Fault> {
        let given = Given(job);
        let milliseconds = |name| given.number(name, 0.001..=3.6e6).map(|ms| ms / 1e3);
        let plan = Self {
            is_search: given.word("mode", &["search", "rate"])? == "search",
            rate: given.number("rate", 0.001..=1e8)?,
            rate_max: given.number("rate_max", 0.001..=1e8)?,
            resolution: given.number("resolution", 0.001..=1.0)?,
            seconds: given.number("seconds", 0.1..=86_400.0)?,
            warm_s: given.number("warm_s", 0.0..=3600.0)?,
            deadline_s: milliseconds("deadline_ms")?,
            timeout_s: milliseconds("timeout_ms")?,
            criterion: Criterion {
                share: given.number("share", 0.0..=1.0)?,
                late_ns: nanoseconds(milliseconds("late_ms")?),
            },
            connections: given.whole("connections", 1..=65_536)? as usize,
            threads: given.whole("generator_threads", 1..=256)? as usize,
            directories: given.whole("directories", 1..=10_000)?,
        };
        let wrong = |why: &str| Err(Refusal::new(Kind::Plan, "workload web", why).into());
        if plan.timeout_s < plan.deadline_s {
            return wrong(
                "timeout_ms is less than deadline_ms: an answer in time would have failed",
            );
        }
        if plan.connections < plan.threads {
            return wrong("fewer connections than generator_threads: some threads would have none");
        }
        Ok(plan)
    }
}

impl<'a> Generator<'a> {
    fn new(place: &Place<'a>) -> Result<Self, Fault> {
        let plan = Plan::of(place.job)?;
        let servers =
            place.job.peers.iter().map(|peer| resolve(peer)).collect::<Result<Vec<_>, _>>()?;
        allow_sockets(servers.len() * plan.connections)?;
        let seed = place.job.seed;
        Ok(Self { plan, servers, seed, cancelled: place.cancelled, notes: Vec::new() })
    }

    /// One step at a rate per server. The generator's own limits are refused here.
    fn step(&self, rate: f64, number: u64) -> Result<Step, Fault> {
        let total = rate * self.servers.len() as f64;
        let tasks: Vec<Task> =
            (0..self.plan.threads).map(|thread| self.task(total, number, thread)).collect();
        let measured = thread::scope(|scope| {
            let threads: Vec<_> = tasks
                .iter()
                .map(|task| scope.spawn(|| generator::run(task, self.cancelled)))
                .collect();
            let ended = threads.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|_| Err(Fault::failed("web: a generator thread died")))
            });
            ended.collect::<Result<Vec<_>, Fault>>()
        })?;
        if measured.iter().any(|thread| thread.is_cancelled) {
            return Err(Fault::failed("web: cancelled before the end"));
        }
        let step = Step::of(total, self.plan.seconds, measured);
        step.check_generator(self.plan.criterion)?;
        Ok(step)
    }

    /// A thread's part: Poisson processes added up are one again, so each has its own, with its own connections.
    fn task(&self, total: f64, step: u64, thread: usize) -> Task {
        let plan = &self.plan;
        let (threads, all) = (plan.threads, plan.connections);
        Task {
            servers: self.servers.clone(),
            offer: Offer {
                rate: total / threads as f64,
                servers: self.servers.len(),
                directories: plan.directories,
                warm_ns: nanoseconds(plan.warm_s),
                counted_ns: nanoseconds(plan.seconds),
                seed: self.seed ^ (step << 32 | thread as u64),
            },
            connections: all / threads + usize::from(thread < all % threads),
            timeout_ns: nanoseconds(plan.timeout_s),
            deadline_ns: nanoseconds(plan.deadline_s),
        }
    }

    /// The best step, and whether it was the highest that may be tried.
    fn search(&mut self) -> Result<(Step, bool), Fault> {
        let plan = self.plan;
        let mut search = Search::new(plan.rate, plan.rate_max, plan.resolution);
        let (mut best, mut number) = (None, 0);
        while let Some(rate) = search.next() {
            let step = self.step(rate, number)?;
            number += 1;
            let holds = step.holds(plan.criterion);
            search.tell(rate, holds);
            if holds {
                best = Some(step);
            }
        }
        let best = best.ok_or_else(|| Fault::failed(self.nothing_held(&search)))?;
        self.notes.push(match search.failed() {
            Some(failed) => format!(
                "{number} steps; per server {:.0} requests a second conformed, {failed:.0} did not",
                search.held().unwrap_or(0.0)
            ),
            None => format!("{number} steps; even rate_max conformed: the capacity is higher"),
        });
        Ok((best, search.failed().is_none()))
    }

    fn nothing_held(&self, search: &Search) -> String {
        let rate = search.failed().unwrap_or(self.plan.rate);
        format!("web: the criterion failed even at {rate:.2} requests a second and server")
    }
}

impl Prepared for Generator<'_> {
    fn run(&mut self) -> Result<Vec<Metric>, Fault> {
        let (step, is_most) = match self.plan.is_search {
            true => self.search()?,
            false => {
                let step = self.step(self.plan.rate, 0)?;
                let holds = step.holds(self.plan.criterion);
                (step, holds)
            }
        };
        self.notes.extend(step.notes());
        let mut metrics = step.metrics()?;
        if self.plan.is_search {
            metrics.push(Metric::per_second("held_rate", step.rate));
        }
        let is_most = f64::from(u8::from(is_most));
        metrics.push(Metric::new("offer_held", Unit::Count, Better::Less, is_most));
        let share = step.received_bytes as f64 / (self.plan.seconds + self.plan.warm_s);
        metrics.push(Metric::bytes_per_second("received", share));
        Ok(metrics)
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

fn resolve(peer: &str) -> Result<SocketAddr, Fault> {
    let failed = |why: String| Fault::failed(format!("web: server {peer}: {why}"));
    let mut addresses = peer.to_socket_addrs().map_err(|e| failed(e.to_string()))?;
    addresses.next().ok_or_else(|| failed("no address".into()))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "parameters are checked to be positive and at most a day"
)]
fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

/// Raises this process's own limit of open files as far as it may.
fn allow_sockets(sockets: usize) -> Result<(), Fault> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let wanted = sockets as u64 + 256;
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    if limit.maximum.is_some_and(|maximum| maximum < wanted) {
        let why = format!(
            "{sockets} connections need {wanted} open files, the limit is {:?}",
            limit.maximum
        );
        let refusal = Refusal::new(Kind::NotHere, "workload web", why);
        return Err(refusal.mend("raise ulimit -n, or lower connections").into());
    }
    limit.current = Some(wanted);
    setrlimit(Resource::Nofile, limit)
        .map_err(|e| Fault::failed(format!("web: cannot raise the limit of open files: {e}")))
}

#[cfg(test)]
mod tests;
