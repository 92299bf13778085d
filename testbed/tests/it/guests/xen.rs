//! One Xen host: PVH and PV domUs, what Xen's own trace says about them, the kernels' traces beside it, network and
//! disk, and nothing left. Shares of CPU time are exact because the host's time is counted in instructions and it is never
//! idle.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests: a failed expectation is the report"
)]

use std::path::Path;
use std::process::Command;

use transect_testbed::XenHost;
use transect_testbed::xen::{self, DomU, TscMode, XenOptions};

#[test]
fn domains_run_are_traced_and_leave_nothing() {
    if let Some(why) = xen::missing() {
        println!("skipped: {why}");
        return;
    }
    // A kernel in a hardware container may panic under emulation (testbed/README.md, traps): rarely on one pCPU, and then
    // the scene is played again.
    let host = XenHost::boot_with(&XenOptions { cpus: 1, ..XenOptions::default() }).unwrap();
    let logs = host.logs().to_owned();
    assert!((0..3).any(|_| scene(&host)), "the PVH domU panicked three times");
    assert_eq!(host.domains().unwrap().len(), 1);
    assert_eq!(host.run("losetup -a; ls *.disk").within(240).unwrap().stdout, "");
    drop(host);
    assert!(!logs.exists());
    let left = Command::new("pgrep").args(["-f", logs.to_str().unwrap()]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "");
}

/// False if the PVH domU panicked before it was recorded.
fn scene(host: &XenHost) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let duty = host.domu("duty").pv().tsc_mode(TscMode::Native).disk_mib(16).network();
    let work = "periodic:period_ms=20:work_us=2000+serve+disk+trace:port=7778:seconds=5";
    let duty = duty.workload(work).boot().unwrap();
    network_and_disk_work(host, &duty);
    let hog = host.domu("hog").pvh().cap(30).tsc_mode(TscMode::Native).workload("hog");
    let hog = hog.boot().unwrap();
    let filler = host.never_idle().unwrap();
    let names: Vec<_> = host.domains().unwrap().into_iter().map(|it| (it.name, it.id)).collect();
    let expected =
        [("Domain-0", 0), ("duty", duty.id()), ("hog", hog.id()), ("filler", filler.id())];
    assert!(
        names == expected.map(|(name, id)| (name.to_owned(), id)) || hog.panicked(),
        "{names:?}"
    );
    three_traces_at_once(host, &duty, folder.path());
    if hog.panicked() {
        return false;
    }
    xenalyze_finds_both(host, &hog, &duty, &folder.path().join("all.bin"));
    hog.destroy().unwrap();
    true
}

fn network_and_disk_work(host: &XenHost, duty: &DomU) {
    duty.wait_for("disk n=100 done=100").within(240).unwrap();
    duty.wait_for("serve ready").within(240).unwrap();
    let (program, address) = (host.workload().unwrap(), duty.address().unwrap());
    let ask = format!("{} ask to={address} seconds=1", program.display());
    let out = host.run(&ask).within(240).unwrap();
    let asked = number(&out.expect_success().stdout, "asked n=");
    assert!(asked > 100, "{out:?}");
    duty.wait_for("served").within(240).unwrap();
}

/// Xen's trace, that of dom0's kernel, and that of a domU's kernel, which it writes to its disk; all stamped with one TSC.
fn three_traces_at_once(host: &XenHost, duty: &DomU, into: &Path) {
    duty.wait_for("trace waits").within(240).unwrap();
    let address = duty.address().unwrap();
    let start = format!(
        "cd /sys/kernel/tracing && echo x86-tsc >trace_clock && echo 1 >events/sched/enable &&
         bash -c 'echo go >/dev/udp/{address}/7778'"
    );
    host.run(&start).within(240).unwrap().expect_success();
    duty.wait_for("trace started").within(240).unwrap();
    host.run("xentrace -D -e all -T 3 all.bin").within(360).unwrap().expect_success();
    let read = "cd /sys/kernel/tracing && echo 0 >events/enable && cat trace";
    let dom0 = host.run(read).within(360).unwrap().stdout;
    duty.wait_for("trace done").within(360).unwrap();
    host.get("all.bin", into.join("all.bin")).unwrap();
    host.get(duty.disk().unwrap().to_str().unwrap(), into.join("disk")).unwrap();
    let domu = std::fs::read(into.join("disk")).unwrap();
    let domu = String::from_utf8_lossy(&domu);
    assert!(dom0.contains("sched_switch: ") && dom0.contains("comm=xentrace"), "{dom0:.1000}");
    assert!(domu.contains("sched_switch: ") && domu.contains("comm=periodic"), "{domu:.1000}");
    let ((dom0_from, dom0_to), (domu_from, domu_to)) = (window_tsc(&dom0), window_tsc(&domu));
    let (from, to) = (dom0_from.max(domu_from), dom0_to.min(domu_to));
    let second = host.tsc_hz().unwrap();
    assert!(to > from + second, "dom0 {dom0_from}..{dom0_to}, domU {domu_from}..{domu_to}");
}

/// First and last stamp of tracefs' text.
fn window_tsc(trace: &str) -> (u64, u64) {
    let stamp = |line: &str| line.split_once(": sched_")?.0.rsplit(' ').next()?.parse().ok();
    let stamps: Vec<u64> = trace.lines().filter_map(stamp).collect();
    (*stamps.iter().min().unwrap(), *stamps.iter().max().unwrap())
}

fn xenalyze_finds_both(host: &XenHost, hog: &DomU, duty: &DomU, file: &Path) {
    let xenalyze = xen::tool("xenalyze").unwrap();
    let hz = host.tsc_hz().unwrap();
    // Without --svm-mode it takes VM exits for Intel's and gives up.
    let out = Command::new(xenalyze)
        .args(["--svm-mode", "--summary", "--cpu-hz", &hz.to_string()])
        .arg(file)
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let summary = String::from_utf8_lossy(&out.stdout).into_owned();
    let [hog, duty] = [hog, duty].map(|domu| Runstates::of(domu.id(), &summary));
    let share = hog.share();
    assert!((29.0..=31.0).contains(&share), "hog ran {share:.2} % under a cap of 30 %:\n{summary}");
    // 3 s of a task that wakes every 20 ms and works for 2: at least that often, mostly blocked.
    assert!(duty.ran > 130 && (8.0..50.0).contains(&duty.share()), "{duty:?}\n{summary}");
}

/// What xenalyze's summary says of a domain's vCPU 0.
#[derive(Debug, Default)]
struct Runstates {
    /// How often it was put on a pCPU.
    ran: u64,
    running_cycles: u64,
    all_cycles: u64,
}

impl Runstates {
    /// `  running:     398  0.46s 3020215 {1373372|4205188|6450366}`: count, seconds, mean cycles.
    fn of(id: u32, summary: &str) -> Self {
        let heading = format!("|-- Domain {id} --|");
        let (_, domain) = summary.split_once(&heading).expect(&heading);
        let (_, vcpu) = domain.split_once("-- v0 --").unwrap();
        let mut all = Self::default();
        for line in vcpu.lines().skip(2).take_while(|line| !line.starts_with(" cpu affinity")) {
            let (state, rest) = line.trim().split_once(':').unwrap();
            let words: Vec<_> = rest.split_whitespace().collect();
            let [count, mean_cycles] =
                [words[0], words[2]].map(|word| word.parse::<u64>().unwrap());
            match state {
                // Parts of runnable.
                "wake" | "preempt" => continue,
                "running" => (all.ran, all.running_cycles) = (count, count * mean_cycles),
                _ => {}
            }
            all.all_cycles += count * mean_cycles;
        }
        all
    }

    /// Percent of the time that the trace knows.
    #[allow(clippy::cast_precision_loss, reason = "percents")]
    fn share(&self) -> f64 {
        100.0 * self.running_cycles as f64 / self.all_cycles as f64
    }
}

fn number(text: &str, after: &str) -> u64 {
    let (_, rest) = text.split_once(after).expect(after);
    rest.split_whitespace().next().unwrap().parse().unwrap()
}
