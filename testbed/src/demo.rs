//! The demo's scene: two guests on one CPU, one of which starves the other — and proof of it from inside.
//!
//! `web` wakes every 20 ms and works for 2 ms; `batch` is a hog. With equal weights the kernel's scheduler favours
//! the one that just woke, and nothing happens; so for some seconds the hog gets the larger weight (nice −15 against 0:
//! 29154 to 1024, Linux `kernel/sched/core.c` `sched_prio_to_weight`), as a host has it whose owner favoured the wrong
//! VM. That happens while the recorder runs its command (`{scene}`), because starting to record needs `web` to answer.
//! The proof is what `web` says about its own lateness: first with `batch` frozen, then with it favoured.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::again::{BOOTED_AGAIN, report_to_runner};
use crate::guest::Guest;
use crate::host::KvmHost;
use crate::host_options::HostOptions;
use crate::lateness::Lateness;

const WEB: &str = "periodic:period_ms=20:work_us=2000:report_ms=1000";
const BATCH: &str = "hog:threads=1";

/// What the recorder runs: `sh scene.sh PID SECONDS` favours the hog, whose QEMU is PID, for so long.
const SCENE: &str = r#"weight() { for task in /proc/$1/task/*; do renice -n $2 -p ${task##*/} >/dev/null; done; }
weight $1 -15
echo "scene: batch is favoured"
sleep $2
weight $1 0
echo "scene: over"
"#;

/// Windows of a second in which `web` is watched alone before the recording: two of them may be spoilt by what else this
/// machine does.
const ALONE_WINDOWS: usize = 5;

/// What the demo is given.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Static binary started in both guests, with its arguments.
    pub agent: Option<(PathBuf, Vec<String>)>,
    /// Programs to carry onto the host, to its scratch folder, under their own names.
    pub programs: Vec<PathBuf>,
    /// The recorder: a shell command in the host's scratch folder. `{web}` and `{batch}` stand for the guests' CIDs,
    /// `{scene}` for the command it must run while it records.
    pub record: String,
    /// How long the hog is favoured.
    pub seconds: u32,
    /// Commands after it, such as a report; their output is part of [`Seen::output`].
    pub then: Vec<String>,
    /// What to bring home: path on the host, path here.
    pub bring: Vec<(String, PathBuf)>,
}

/// What came out.
#[derive(Clone, Debug)]
pub struct Seen {
    /// `web`'s windows while `batch` was frozen.
    pub alone: Vec<Lateness>,
    /// `web`'s windows while the recorder ran.
    pub contended: Vec<Lateness>,
    /// Output of the recorder and of the commands after it, in order.
    pub output: String,
}

impl Seen {
    /// Median of the windows' 99th percentiles of `web`'s lateness in µs: alone, contended.
    pub fn late_p99_us(&self) -> (u64, u64) {
        (
            median(&self.alone, |window| window.late_p99_us),
            median(&self.contended, |window| window.late_p99_us),
        )
    }

    /// The same for the time from due to done: alone, contended.
    pub fn done_p99_us(&self) -> (u64, u64) {
        (
            median(&self.alone, |window| window.done_p99_us),
            median(&self.contended, |window| window.done_p99_us),
        )
    }

    /// Whether `web` was starved: by its own account its work was done ten times as late or more.
    pub fn is_starved(&self) -> bool {
        let (alone, contended) = self.done_p99_us();
        contended >= alone * 10
    }
}

/// Plays the scene; once more on another host where an emulated one died or hung of its emulator. `say` gets a line per step, with the seconds since the start.
pub fn run(plan: &Plan, say: &mut dyn FnMut(&str)) -> Result<Seen> {
    let start = Instant::now();
    let mut say = |what: &str| say(&format!("{:5.1} s  {what}", start.elapsed().as_secs_f64()));
    let host = KvmHost::boot_with(&HostOptions::default())?;
    match run_on(&host, plan, &mut say) {
        Err(error) if host.has_died() => {
            say(&format!("again, because the emulated host died or hung: {error:#}"));
            report_to_runner(BOOTED_AGAIN, &error.root_cause());
            host.forget_failures();
            drop(host);
            run_on(&KvmHost::boot_with(&HostOptions::default())?, plan, &mut say)
        }
        seen => seen,
    }
}

fn run_on(host: &KvmHost, plan: &Plan, say: &mut dyn FnMut(&str)) -> Result<Seen> {
    say(if host.is_nested() {
        "nested KVM host is up"
    } else {
        "this machine has usable KVM: it is the host"
    });
    for program in &plan.programs {
        let name = program.file_name().context("a program without a name")?.to_string_lossy();
        host.put(program, &name)?;
    }
    let (web, batch) = start_guests(host, plan)?;
    say("guests web (every 20 ms, 2 ms of work) and batch (a hog) are up");

    share_one_cpu(host, &web, &batch)?;
    batch.freeze()?;
    let alone = windows(&web, ALONE_WINDOWS)?;
    say(&format!(
        "web alone: done within {} us (p99)",
        median(&alone, |window| window.done_p99_us)
    ));
    batch.thaw()?;

    let (contended, output) = record(host, plan, &web, &batch)?;
    say("recorded");
    ensure!(!contended.is_empty(), "the scene was over before web's first window of a second");
    say(&format!(
        "web beside batch: done within {} us (p99)",
        median(&contended, |window| window.done_p99_us)
    ));

    let mut output = output;
    for command in &plan.then {
        output.write_str(&host.run(command).within(120)?.ok()?.stdout)?;
    }
    for (from, to) in &plan.bring {
        host.get(from, to).with_context(|| format!("cannot bring {from} home"))?;
    }
    say("done");
    Ok(Seen { alone, contended, output })
}

fn start_guests(host: &KvmHost, plan: &Plan) -> Result<(Guest, Guest)> {
    let start = |name: &str, workload: &str| {
        let mut guest = host.guest(name).workload(workload);
        if let Some((binary, arguments)) = &plan.agent {
            let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
            guest = guest.agent(binary, &arguments);
        }
        guest.start()
    };
    // Both boot at the same time on all CPUs: pinned to one they would take twice as long.
    let web = start("web", WEB)?;
    let batch = start("batch", BATCH)?;
    web.wait_until_ready()?;
    batch.wait_until_ready()?;
    Ok((web, batch))
}

/// Pins both to the host's last CPU, so that CPU 0, where there are more, is left for the recorder.
fn share_one_cpu(host: &KvmHost, web: &Guest, batch: &Guest) -> Result<()> {
    let last = host.run("echo $(($(nproc) - 1))").within(60)?.ok()?.stdout;
    web.pin(last.trim())?;
    batch.pin(last.trim())
}

/// The next whole windows: the one being measured began before and is left out.
fn windows(web: &Guest, count: usize) -> Result<Vec<Lateness>> {
    let before = web.lateness()?.len() + 1;
    web.wait_for(": lateness ").times(before + count).within(60)?;
    Ok(web.lateness()?.into_iter().skip(before).take(count).collect())
}

/// Runs the recorder around the scene: `web`'s windows while the hog was favoured, and what was printed.
fn record(
    host: &KvmHost,
    plan: &Plan,
    web: &Guest,
    batch: &Guest,
) -> Result<(Vec<Lateness>, String)> {
    let script = tempfile::NamedTempFile::new().context("no temporary file")?;
    std::fs::write(script.path(), SCENE).context("cannot write the scene")?;
    host.put(script.path(), "scene.sh")?;
    let cid = |guest: &Guest| guest.cid().map(|cid| cid.to_string()).context("a guest without CID");
    let command = plan
        .record
        .replace("{web}", &cid(web)?)
        .replace("{batch}", &cid(batch)?)
        .replace("{scene}", &format!("sh scene.sh {} {}", batch.pid()?, plan.seconds));
    let job = host.run(&command).spawn()?;
    job.wait_for("scene: batch is favoured").within(90)?;
    // The window in which it began is neither the one nor the other.
    let before = web.lateness()?.len() + 1;
    job.wait_for("scene: over").within(60 + u64::from(plan.seconds))?;
    let contended = web.lateness()?.into_iter().skip(before).collect();
    let out = job.finish_within(90)?.ok()?;
    Ok((contended, out.stdout + &out.stderr))
}

/// Of an even number of windows the mean of the two in the middle.
fn median(windows: &[Lateness], of: fn(&Lateness) -> u64) -> u64 {
    let mut values: Vec<_> = windows.iter().map(of).collect();
    values.sort_unstable();
    let at = |place: usize| values.get(place).copied().unwrap_or(0);
    at(values.len() / 2).midpoint(at(values.len().saturating_sub(1) / 2))
}

/// Where a program of this workspace is after a build; a clear error if it is not there.
pub fn built(folder: &Path, name: &str) -> Result<PathBuf> {
    let path = folder.join(name);
    ensure!(path.exists(), "{} is not built (run `make build`)", path.display());
    Ok(path)
}

/// Where the guests' agent is after a build: it is built for an explicit target, which adds a folder of that name.
pub fn agent(folder: &Path) -> Result<PathBuf> {
    let folders = std::fs::read_dir(folder).with_context(|| format!("no {}", folder.display()))?;
    let mut agents = folders
        .filter_map(|entry| Some(entry.ok()?.path().join("agent/transect-agent")))
        .filter(|path| path.exists());
    agents.next().with_context(|| {
        format!("no */agent/transect-agent in {} (run `make build`)", folder.display())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let of = |values: &[u64]| {
            let one = |&value| Lateness {
                wakes: 50,
                missed: 0,
                late_p50_us: 0,
                late_p99_us: 0,
                late_max_us: 0,
                done_p50_us: 0,
                done_p99_us: value,
            };
            let windows: Vec<_> = values.iter().map(one).collect();
            median(&windows, |window| window.done_p99_us)
        };
        assert_eq!(of(&[900, 2, 1, 3, 800]), 3);
        assert_eq!(of(&[900, 2, 1, 4]), 3);
        assert_eq!(of(&[2, 900]), 451);
        assert_eq!((of(&[7]), of(&[])), (7, 0));
    }
}
