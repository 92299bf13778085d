//! Threads in guests: locks whose owner has no CPU, and what is no host's doing.

use super::{
    MEASURED, Recorded,
    answer::{Answer, WITHIN, expect_share},
    on_nested_host,
};
use crate::guests::nested::Bed;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use transect_testbed::Guest;

/// The order that begins a workload, and those that read what the guest's kernel counts.
const BEGIN: u32 = 5000;
const READ: [u32; 2] = [5001, 5002];
/// What ends such a reading; the command itself must not contain it.
const SEEN: &str = "seen42";

/// The numbers of a line of marks by their names.
pub(super) fn numbers_of(line: &str) -> impl Fn(&str) -> Result<f64> + use<> {
    let line = line.to_owned();
    move |name: &str| {
        let mut words = line.split(' ').filter_map(|word| word.split_once('='));
        let found = words.find(|(key, _)| *key == name);
        found.with_context(|| format!("no {name} in {line}"))?.1.parse().context("a number")
    }
}

/// The process of a guest's first workload.
pub(super) fn first_workload(guest: &Guest) -> Result<String> {
    let marks = guest.marks()?;
    let started = marks.lines().find_map(|line| line.split_once("workload started pid="));
    let pid = started.and_then(|(_, rest)| rest.split(' ').next());
    Ok(pid.with_context(|| format!("no workload in\n{marks}"))?.to_owned())
}

/// A guest of one vCPU that has the measured CPU for itself.
fn guest_alone(bed: &Bed, name: &str, workload: &str, arguments: &str) -> Result<Guest> {
    let plan = bed.host.guest(name).workload(workload).kernel_arguments(arguments);
    let guest = plan.agent(transect_e2e::agent()?, &["--vsock"]).boot()?;
    bed.pin_vcpu(&guest, 0)?;
    Ok(guest)
}

/// The host's part is what exits and interrupts cost there, and neither a wait for a CPU nor another program.
fn expect_no_wait_for_the_host(recorded: &Recorded, answer: &Answer) -> Result<()> {
    let exits =
        |piece: &Value| matches!(piece["state"].as_str(), Some("exit" | "user" | "halt_poll"));
    let [host, exits] = [answer.layer("host")?, answer.share(exits)?];
    let waits = answer.share(|piece| piece["state"] == "vcpu_wait")?;
    println!(
        "host {:.1} %: exits {:.1} %, waits of the vCPU {:.1} %; {:?}",
        host * 100.0,
        exits * 100.0,
        waits * 100.0,
        recorded.range
    );
    ensure!(waits <= WITHIN, "the vCPU had its CPU for itself");
    Ok(())
}

/// Two guests whose lock's owner shares its CPU with a busy process of the host; three with a free CPU, slow by themselves.
#[test]
fn a_guest_s_threads_are_told_from_its_host() {
    on_nested_host(|bed| {
        preempted_holder(bed, "futex")?;
        preempted_holder(bed, "pipe")?;
        other_thread(bed)?;
        own_timer(bed)?;
        reclaim(bed)
    });
}

fn preempted_holder(bed: &Bed, kind: &str) -> Result<()> {
    let plan = bed.host.guest(kind).vcpus(2);
    let plan = plan.workload(&format!("lock:after_port={BEGIN}:kind={kind}"));
    let guest = plan.agent(transect_e2e::agent()?, &["--vsock"]).boot()?;
    bed.pin_vcpu(&guest, 1)?;
    let of_holder = bed.schedstat(&guest, 1)?;
    let (mut hog, mut before) = (None, 0);
    let files = [of_holder.clone()];
    let reports = || -> Result<Vec<String>> {
        let marks = guest.marks()?;
        Ok(marks.lines().filter(|line| line.contains("lock n=")).map(str::to_owned).collect())
    };
    let recorded = bed.record_with(kind, &[&guest], &files, 8, || {
        guest.order(BEGIN)?;
        guest.wait_for("lock n=").within(120)?;
        hog = Some(bed.busy(MEASURED, "", "hog")?);
        before = reports()?.len();
        Ok(())
    })?;
    let (mut held, mut all) = (0.0, 0.0);
    for line in reports()?.iter().skip(before + 1) {
        let numbers = numbers_of(line);
        held += numbers("held_us")?;
        all += numbers("us")?;
    }
    drop(hog);
    // While the lock is free, nobody waits for the vCPU's wait.
    let [_, waited] = recorded.ran_and_waited(&of_holder)?;
    let waited = waited * held / all;
    let answer = recorded.explain(&["--vm", kind, "--thread", "waiter"])?;
    let said = answer.share(|piece| {
        piece["depth"].as_i64() > Some(0) && piece["state"] == "vcpu_wait" && piece["vcpu"] == 1
    })?;
    expect_share(
        &format!("holder of a lock ({kind}) beside a busy process"),
        waited,
        &answer,
        said,
    )?;
    answer.expect_first_sentence(&["for holder (", "for a CPU", "behind hog ("])?;
    let found = answer.found("lock_holder", "waiter (")?["sentence"].to_string();
    ensure!(found.contains("holder (") && found.contains("hog ("), "{found}");
    guest.kill()
}

/// Two busy threads on one vCPU.
fn other_thread(bed: &Bed) -> Result<()> {
    let read = |port| {
        format!(
            "sh:after_port={port}:run=for_p_in_$(pidof_workload);do_grep_-H_._/proc/$p/task/*/schedstat;done;echo_seen$((6*7))"
        )
    };
    let reads = READ.map(read).join("+");
    let guest = guest_alone(bed, "two", &format!("hog:after_port={BEGIN}:threads=2+{reads}"), "")?;
    let of_vcpu = bed.schedstat(&guest, 0)?;
    let recorded = bed.record_with("two", &[&guest], &[of_vcpu], 8, || {
        guest.order(BEGIN)?;
        guest.wait_for("hog threads=2").within(120)?;
        guest.order(READ[0])?;
        guest.wait_for(SEEN).within(120).map(drop)
    })?;
    guest.order(READ[1])?;
    guest.wait_for(SEEN).times(2).within(120)?;
    let (marks, pid) = (guest.marks()?, first_workload(&guest)?);
    // The first thread has the number of its process.
    let file = format!("/proc/{pid}/task/{pid}/schedstat:");
    let counted: Vec<Vec<f64>> = marks
        .lines()
        .filter_map(|line| line.split_once(&file))
        .map(|(_, numbers)| numbers.split(' ').map(|n| n.parse().context("a number")).collect())
        .collect::<Result<_>>()?;
    let [before, after] = counted.as_slice() else { anyhow::bail!("{marks}") };
    let [ran, waited] = [0, 1].map(|at| after[at] - before[at]);
    let answer = recorded.explain(&["--vm", "two", "--thread", &pid])?;
    let said = answer.share(|piece| piece["depth"] == 0 && piece["state"] == "runnable")?;
    expect_share("innocent: two busy threads on one vCPU", waited / (ran + waited), &answer, said)?;
    answer.expect_first_sentence(&["for a CPU, ", "behind hog (", "in two (share)"])?;
    expect_no_wait_for_the_host(&recorded, &answer)?;
    guest.kill()
}

/// A thread sleeps for 10 ms, again and again.
fn own_timer(bed: &Bed) -> Result<()> {
    let workload = format!("sleep:after_port={BEGIN}:n=600:us=10000");
    let guest = guest_alone(bed, "naps", &workload, "")?;
    let of_vcpu = bed.schedstat(&guest, 0)?;
    let recorded = bed.record_with("naps", &[&guest], &[of_vcpu], 5, || guest.order(BEGIN))?;
    let slept = numbers_of(&guest.wait_for("sleep n=600").within(120)?);
    let truth = slept("n")? * slept("us")? / slept("took_us")?;
    let answer = recorded.explain(&["--vm", "naps", "--thread", &first_workload(&guest)?])?;
    let said = answer.share(|piece| piece["state"] == "timer")?;
    expect_share("innocent: `nanosleep` of 10 ms", truth, &answer, said)?;
    answer.expect_first_sentence(&["slept ", "until a timer"])?;
    expect_no_wait_for_the_host(&recorded, &answer)?;
    guest.kill()
}

/// A thread whose group has used up its memory: its kernel makes room while the thread waits.
fn reclaim(bed: &Bed) -> Result<()> {
    let guest = guest_alone(bed, "tight", &format!("reclaim:after_port={BEGIN}"), "psi=1")?;
    let of_vcpu = bed.schedstat(&guest, 0)?;
    let recorded = bed.record_with("tight", &[&guest], &[of_vcpu], 6, || {
        guest.order(BEGIN)?;
        guest.wait_for("reclaim pages=").times(2).within(120).map(drop)
    })?;
    let (marks, mut stalled, mut all) = (guest.marks()?, 0.0, 0.0);
    for line in marks.lines().filter(|line| line.contains("reclaim pages=")).skip(1) {
        let numbers = numbers_of(line);
        stalled += numbers("stalled_us")?;
        all += numbers("us")?;
    }
    let truth = stalled / all;
    let answer = recorded.explain(&["--vm", "tight", "--thread", "squeezed"])?;
    // Of its thread's own running alone; PSI counts the displaced time within reclaim as well, and so does the finding.
    let ran = answer.share(|piece| piece["depth"] == 0 && piece["state"] == "reclaim")?;
    let found = answer.found("reclaim", "squeezed (")?;
    let said = found["share"].as_f64().context("a share")?;
    ensure!(ran > 0.0 && ran <= said + 0.01, "{ran} of {said}");
    expect_share("innocent: `memory.max` of a group in a guest", truth, &answer, said)?;
    expect_no_wait_for_the_host(&recorded, &answer)?;
    ensure!(answer.layer("guest")? > 0.5, "{:?}", answer.layer("guest"));
    guest.kill()
}
