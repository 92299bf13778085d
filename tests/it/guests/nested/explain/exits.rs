//! A vCPU's exits and polls that were made on purpose.

use super::{MEASURED, answer::expect_share, on_nested_host, threads::numbers_of};
use crate::guests::nested::Bed;
use anyhow::{Context, Result, ensure};
use std::{fs, slice};
use transect_e2e::{report, rows};
use transect_testbed::counting::Counts;

/// What the VMM is busy for with each write to a port, before which the guest computes so many rounds.
const HANDLE_US: u32 = 20_000;
const ROUNDS: u32 = 4_000_000;
/// How long KVM polls for a halted vCPU.
const POLL_NS: i64 = 2_000_000;

#[test]
fn exits_and_polls_are_told_as_the_guest_and_kvm_count_them() {
    on_nested_host(|bed| {
        polls(bed, 0)?;
        polls(bed, POLL_NS)?;
        port_writes(bed)
    });
}

/// A guest that computes and writes to a port, whose VMM says for how long it is busy with that.
fn port_writes(bed: &Bed) -> Result<()> {
    let asked = Counts { port_writes: 1_000_000, ..Counts::default() };
    let command = asked.command(bed.host)?;
    let command = format!(
        "exec taskset -c {MEASURED} {command} spin={ROUNDS} handle_us={HANDLE_US} >counting.log"
    );
    let vmm = bed.host.run(&command).spawn()?;
    bed.sh("until grep -q handled_us counting.log; do sleep 0.3; done")?;
    let pid = bed.sh("pgrep -x counting")?;
    let stat = format!("/proc/{}/schedstat", pid.trim());
    let before = bed.sh("cat counting.log")?.len();
    let recorded = bed.record_with("ports", &[], slice::from_ref(&stat), 8, || Ok(()))?;
    let truth = handled(&bed.sh("cat counting.log")?[before..])?;
    drop(vmm);
    let manifest = fs::read_to_string(recorded.dir.join("manifest.json"))?;
    ensure!(!manifest.contains("(refused: "), "this kernel has refused a program: {manifest}");
    let report = report(&recorded.dir)?;
    let vms = rows(&report, "machines")?;
    let vm = vms.iter().find(|machine| machine["kind"] == "guest").context("no VM")?;
    let vm = vm["name"].as_str().context("a name")?;
    let answer = recorded.explain(&["--vm", vm])?;
    let found = answer.found("exit_storm", vm)?;
    let said = found["share"].as_f64().context("no share")?;
    expect_share(
        "a guest that writes to a port, 20 ms of its VMM's time each",
        truth,
        &answer,
        said,
    )?;
    let sentence = found["sentence"].to_string();
    ensure!(sentence.contains("most often 0x10"), "{sentence}");
    Ok(())
}

/// The part of its time in which the VMM was busy with port writes, by its own clock.
fn handled(log: &str) -> Result<f64> {
    let (mut passed, mut busy) = (0.0, 0.0);
    for line in log.lines().filter(|line| line.contains(" handled_us=")) {
        let numbers = numbers_of(line);
        passed += numbers("us")?;
        busy += numbers("handled_us")?;
    }
    ensure!(passed > 0.0, "it has said nothing: {log}");
    Ok(busy / passed)
}

/// A vCPU that sleeps for longer than KVM polls for it.
fn polls(bed: &Bed, poll_ns: i64) -> Result<()> {
    // The first short halt makes the window as long as it can be, and it stays so.
    bed.sh(&format!(
        "cd /sys/module/kvm/parameters && echo {poll_ns} >halt_poll_ns && \
         echo {POLL_NS} >halt_poll_ns_grow_start && echo 1 >halt_poll_ns_shrink"
    ))?;
    let name = if poll_ns == 0 { "unpolled" } else { "polled" };
    let guest = bed.guest(name, "sleep:n=1000000:us=10000")?;
    bed.pin_vcpu(&guest, 0)?;
    let counted = format!("/sys/kernel/debug/kvm/{}-*/halt_poll_fail_ns", guest.pid()?);
    let counted = bed.sh(&format!("ls {counted}"))?.trim().to_owned();
    let stat = bed.schedstat(&guest, 0)?;
    let files = [stat.clone(), counted.clone()];
    let recorded = bed.record_with(name, &[], &files, 8, || Ok(()))?;
    guest.kill()?;
    let answer = recorded.explain(&["--vm", name])?;
    let found = answer.finding("halt_poll", name)?;
    if poll_ns == 0 {
        ensure!(found.is_none(), "it does not poll: {found:?}");
        return Ok(());
    }
    let in_vain = recorded.samples.nanoseconds(&counted, 0, &recorded.range)?;
    let [ran, _] = recorded.ran_and_waited(&stat)?;
    let truth = in_vain / ran;
    let found = found.with_context(|| format!("no finding, but {truth} of its time"))?;
    let said = found["share"].as_f64().context("no share")?;
    expect_share("polls of 2 ms for a vCPU that sleeps 10 ms", truth, &answer, said)
}
