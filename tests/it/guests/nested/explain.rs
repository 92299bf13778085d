//! `transect explain` beside what the kernel counts: causes that were made on purpose, each with a truth that the recording has
//! no part in.
//!
//! Each scenario is a recording of its own. Only shares are compared: an emulated host has no times. The lines that begin with
//! `|` are rows of the table in docs/reference/explain.md.

mod answer;
mod exits;
mod network;
mod packets;
mod requests;
mod stacks;
mod threads;
mod truth;
mod volumes;

use super::{Bed, spec};
use answer::{Answer, WITHIN, expect_share};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::{ops::Range, path::PathBuf, slice};
use transect_e2e::{number, on_shared_host, table_rows};
use transect_testbed::{Guest, Job};
use truth::{SAMPLER, Samples};

/// The CPU on which the measured threads run, and the other one.
const MEASURED: u32 = 1;
const OTHER: u32 = 0;

/// A recording, and what was read beside it.
struct Recorded {
    dir: PathBuf,
    samples: Samples,
    /// Between two readings.
    range: Range<i64>,
}

impl Recorded {
    fn explain(&self, whom: &[&str]) -> Result<Answer> {
        Answer::of(&self.dir, Some(&self.range), whom)
    }

    fn ran_and_waited(&self, file: &str) -> Result<[f64; 2]> {
        self.samples.ran_and_waited(file, &self.range)
    }
}

/// Runs a test on a host whose CPUs and control groups are free.
#[expect(clippy::unwrap_used, reason = "a failed expectation is the report of a test")]
fn on_nested_host(test: impl FnOnce(&Bed) -> Result<()>) {
    on_shared_host(|host| {
        let bed = Bed::take(host).unwrap();
        if !bed.host.is_nested() {
            println!("skipped: only a nested host has CPUs and control groups to spare");
            return;
        }
        test(&bed).unwrap();
    });
}

impl Bed {
    fn sh(&self, command: &str) -> Result<String> {
        Ok(self.host.run(command).within(240)?.ok()?.stdout)
    }

    /// Records with the profile `explain`; `load` begins when the recording has. The files are read for so many seconds.
    fn record_with(
        &self,
        name: &str,
        guests: &[&Guest],
        files: &[String],
        seconds: u32,
        load: impl FnOnce() -> Result<()>,
    ) -> Result<Recorded> {
        self.record_by(name, "--profile explain", guests, files, seconds, load)
    }

    fn record_by(
        &self,
        name: &str,
        options: &str,
        guests: &[&Guest],
        files: &[String],
        seconds: u32,
        load: impl FnOnce() -> Result<()>,
    ) -> Result<Recorded> {
        let transect = &self.transect;
        let specs = guests.iter().map(|guest| spec(guest)).collect::<Result<Vec<_>>>()?.join(" ");
        let record = format!("{transect} record -q {options} -o {name}.transect {specs}");
        let record = self.host.run(&record).spawn()?;
        let of_guests = guests.iter().map(|guest| format!("guest-{}", guest.name()));
        // Loading programs takes an emulated kernel seconds.
        for file in of_guests.chain(["host".to_owned()]) {
            self.sh(&format!("until [ -s {name}.transect/{file}.compact ]; do sleep 0.3; done"))?;
        }
        load()?;
        let text = self.sh(&format!(
            "sleep 2; perl -e '{SAMPLER}' {} {} /proc/stat; {transect} stop {name}.transect >stopped",
            4 * seconds,
            files.join(" ")
        ))?;
        record.finish_within(240)?.expect_success();
        let samples = Samples::parse(&text)?;
        let dir = self.fetch(&format!("{name}.transect"))?;
        let all = Answer::of(&dir, None, &["--all"])?.window()?;
        let range = samples.within(&all)?;
        Ok(Recorded { dir, samples, range })
    }

    /// The host's thread of a vCPU.
    fn thread_of_vcpu(&self, guest: &Guest, vcpu: u32) -> Result<String> {
        let task = format!("/proc/{}/task", guest.pid()?);
        let found = self.sh(&format!("cd {task}; grep -lx 'CPU {vcpu}/KVM' */comm"))?;
        let tid = found.trim().strip_suffix("/comm").context("no thread of the vCPU")?;
        Ok(tid.to_owned())
    }

    /// The file in which the kernel counts how long a vCPU ran and waited.
    fn schedstat(&self, guest: &Guest, vcpu: u32) -> Result<String> {
        let tid = self.thread_of_vcpu(guest, vcpu)?;
        Ok(format!("/proc/{}/task/{tid}/schedstat", guest.pid()?))
    }

    /// Pins a vCPU to the measured CPU, and the other threads of its VMM to the other one.
    fn pin_vcpu(&self, guest: &Guest, vcpu: u32) -> Result<()> {
        guest.pin(&OTHER.to_string())?;
        let tid = self.thread_of_vcpu(guest, vcpu)?;
        self.sh(&format!("taskset -cp {MEASURED} {tid}")).map(drop)
    }

    /// A workload of the testbed as a process of the host, on a CPU.
    fn busy(&self, cpu: u32, how: &str, workload: &str) -> Result<Job> {
        let program = self.host.workload()?;
        let command = format!("exec taskset -c {cpu} {how} {} {workload}", program.display());
        self.host.run(&command).spawn()
    }
}

/// Is the piece a wait of the root itself for this reason?
fn waits_for(why: &str) -> impl Fn(&Value) -> bool {
    move |piece| piece["depth"] == 0 && piece["why"] == why
}

/// A vCPU beside another one, under a quota, beside a real-time thread, and with lost events: scenarios whose subject is the
/// vCPU itself, so the host alone is recorded.
#[test]
fn waits_of_vcpus_are_charged_as_the_kernel_counts_them() {
    on_nested_host(|bed| {
        bed.sh("cd /sys/fs/cgroup; echo +cpu >cgroup.subtree_control; mkdir light heavy; \
             echo 100 >light/cpu.weight; echo 300 >heavy/cpu.weight")?;
        let light = bed.host.guest("light").workload("hog").boot()?;
        let heavy = bed.host.guest("heavy").workload("hog").boot()?;
        for guest in [&light, &heavy] {
            guest.pin(&MEASURED.to_string())?;
            move_into(bed, guest, guest.name())?;
        }
        smaller_weight(bed, &light, &heavy)?;
        for guest in [&light, &heavy] {
            move_into(bed, guest, "")?;
        }
        idle_cpu_beside(bed, &light, &heavy)?;
        heavy.kill()?;
        bed.sh("echo '30000 100000' >/sys/fs/cgroup/light/cpu.max")?;
        move_into(bed, &light, "light")?;
        ended_quota(bed, &light)?;
        move_into(bed, &light, "")?;
        higher_class(bed, &light)?;
        lost_events(bed, &light)?;
        light.kill()
    });
}

fn move_into(bed: &Bed, guest: &Guest, group: &str) -> Result<()> {
    let pid = guest.pid()?;
    bed.sh(&format!("echo {pid} >/sys/fs/cgroup/{group}/cgroup.procs")).map(drop)
}

/// Another CPU must not be idle: it would be the reason.
fn smaller_weight(bed: &Bed, light: &Guest, heavy: &Guest) -> Result<()> {
    let filler = bed.busy(OTHER, "nice -n 19", "hog")?;
    let of_light = bed.schedstat(light, 0)?;
    let recorded = bed.record_with("weights", &[], slice::from_ref(&of_light), 8, || Ok(()))?;
    drop(filler);
    let [_, waited] = recorded.ran_and_waited(&of_light)?;
    let answer = recorded.explain(&["--vm", light.name()])?;
    let said = answer.share(waits_for("weight"))?;
    expect_share("two guests on one CPU, weights 100 and 300", waited, &answer, said)?;
    let heavy = format!("behind {} vcpu0 (larger weight)", heavy.name());
    answer.expect_first_sentence(&["for a CPU", &heavy])?;
    answer.found("starved", "light vcpu0").map(drop)
}

/// Neither may run on the idle CPU. The truth is an upper bound where that CPU is busy for a while: what it waits then is for no
/// idle CPU.
fn idle_cpu_beside(bed: &Bed, light: &Guest, heavy: &Guest) -> Result<()> {
    let of_light = bed.schedstat(light, 0)?;
    let recorded = bed.record_with("pinned", &[], slice::from_ref(&of_light), 8, || Ok(()))?;
    let [_, waited] = recorded.ran_and_waited(&of_light)?;
    let truth = waited * recorded.samples.idle(OTHER, &recorded.range)?;
    let answer = recorded.explain(&["--vm", light.name()])?;
    let said = answer.share(waits_for("affinity"))?;
    expect_share("two guests pinned to one CPU, the other idle", truth, &answer, said)?;
    let heavy = format!("behind {} vcpu0 (another CPU was idle meanwhile)", heavy.name());
    answer.expect_first_sentence(&["for a CPU", &heavy])?;
    let found = answer.found("affinity", "light vcpu0")?["sentence"].to_string();
    ensure!(found.contains("CPU 0 was idle, on which it may not run"), "{found}");
    Ok(())
}

fn ended_quota(bed: &Bed, light: &Guest) -> Result<()> {
    let stat = "/sys/fs/cgroup/light/cpu.stat".to_owned();
    let recorded = bed.record_with("quota", &[], slice::from_ref(&stat), 8, || Ok(()))?;
    let used = recorded.samples.microseconds(&stat, "usage_usec", &recorded.range)?;
    let answer = recorded.explain(&["--vm", light.name()])?;
    let said = answer.share(waits_for("throttled"))?;
    expect_share("`cpu.max` of 30 %", 1.0 - used, &answer, said)?;
    answer.expect_first_sentence(&["for a CPU", "because its quota or cap had ended"])?;
    let found = answer.found("throttled", "light vcpu0")?;
    ensure!(found["confidence"] == "certain", "{found}");
    ensure!(answer.finding("starved", "light vcpu0")?.is_none(), "it had a quota only");
    Ok(())
}

fn higher_class(bed: &Bed, light: &Guest) -> Result<()> {
    let spinner = bed.busy(MEASURED, "", "fifo duty=40")?;
    let pid = "until pgrep -x fifo; do sleep 0.2; done";
    let clock = format!("/proc/{}/schedstat", bed.sh(pid)?.trim());
    let recorded = bed.record_with("class", &[], slice::from_ref(&clock), 8, || Ok(()))?;
    drop(spinner);
    let [ran, _] = recorded.ran_and_waited(&clock)?;
    let answer = recorded.explain(&["--vm", light.name()])?;
    let said = answer.share(waits_for("class"))?;
    expect_share("a SCHED_FIFO thread that runs 40 % of the time", ran, &answer, said)?;
    let found = answer.found("starved", "light vcpu0")?["sentence"].to_string();
    ensure!(found.contains("behind fifo") && found.contains("higher class"), "{found}");
    Ok(())
}

/// Buffers that are too small for what happens while the recorder cannot empty them.
fn lost_events(bed: &Bed, light: &Guest) -> Result<()> {
    let of_light = bed.schedstat(light, 0)?;
    let mut load = Vec::new();
    let options = "--profile explain --buffer-size 64K";
    let recorded = bed.record_by("lost", options, &[], &[of_light], 8, || {
        bed.sh(&format!("taskset -acp {OTHER} $(pgrep -x transect)"))?;
        load.push(bed.busy(OTHER, "", "fifo period_ms=1000 duty=60")?);
        load.push(bed.busy(MEASURED, "", "getppid n=100000000")?);
        Ok(())
    })?;
    drop(load);
    let mut holes: Vec<Range<i64>> = Vec::new();
    for row in table_rows(&recorded.dir)?.iter().filter(|row| row["table"] == "lost") {
        let ts = number(row, "ts")?;
        holes.push(ts..ts + row["dur"].as_i64().unwrap_or(0));
    }
    let lost = covered(holes, &recorded.range);
    let answer = recorded.explain(&["--vm", light.name()])?;
    let said = answer.layer("unknown")?;
    expect_share("buffers of 64 KiB", lost, &answer, said)?;
    ensure!(said > WITHIN, "hardly anything was lost: {said}");
    answer.found("lost", "").map(drop)
}

/// The share of a range that holes cover together.
fn covered(mut holes: Vec<Range<i64>>, range: &Range<i64>) -> f64 {
    holes.sort_unstable_by_key(|hole| hole.start);
    let (mut sum, mut reached) = (0, range.start);
    for hole in holes {
        let (start, end) = (hole.start.max(reached), hole.end.min(range.end));
        sum += (end - start).max(0);
        reached = reached.max(end);
    }
    answer::ratio(sum, range.end - range.start)
}
