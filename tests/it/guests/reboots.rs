//! A benchmark whose platforms need their host booted otherwise, on a host that boots as people's do: GRUB asks its
//! environment once, systemd starts the unit that goes on, and when all is done neither is left behind.
//!
//! `crates/cli/tests/it/host/bench_reboots.rs` has the same without a machine.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "what was measured belongs in the log of a test run; a failed expectation is the report"
)]

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::{collections::BTreeSet, fs, path::Path, time::Duration};
use transect_e2e::{lines, transect};
use transect_testbed::booting::{Booted, Booting};

const PLAN: &str = r#"
name = "boots"
about = "two entries of a boot loader"
seed = 5

[machine]
memory_mib = 256
disk_mib = 64
boot = "plain"

[platforms.container]
boot = "unmitigated"

[procedure]
looks = [2]
limit_s = 120

[[matrix]]
platforms = ["native", "container"]
workloads = ["micro/syscall"]

[workloads."micro/syscall"]
seconds = 0.01
batches = 5
"#;

/// Two blocks of two platforms, the reference twice.
const RUNS: usize = 2 * 2 * 2;

/// As somebody would begin it, but that here the first boot does.
const BEGINS: &str = "
[Unit]
Description=begins with a plan
ConditionPathExists=!/var/lib/boots/results/journal.jsonl
[Service]
WorkingDirectory=/var/lib/boots
ExecStart=/usr/bin/transect bench run plan.toml -o results --may-reboot
";

/// Shows everything on the console, and switches the machine off when all is done.
const TELLS: &str = "
[Unit]
Description=tells what came of it
[Service]
ExecStart=/bin/sh /var/lib/boots/tells
";

/// `/mnt` is what both machines see ([`Booting::share`]).
const TELLS_SCRIPT: &str = r#"
journalctl --boot --follow --no-hostname >/dev/ttyS0 &
results=/var/lib/boots/results
goes_on=$(systemd-escape --path --template=transect-bench@.service $results)
until grep -q '"entry":"finished"' $results/journal.jsonl; do
	sleep 2
	systemctl is-failed --quiet begins.service && break
	systemctl is-failed --quiet "$goes_on" && break
done
# What it does after that line: see to it that the next boot does not go on.
while pgrep -x transect; do sleep 1; done
ls /etc/systemd/system/multi-user.target.wants >/mnt/enabled
grub-editenv /boot/grub/grubenv list >/mnt/grubenv
cp -r $results /mnt/results
systemctl poweroff
"#;

#[test]
fn a_machine_with_grub_and_systemd_reboots_itself_until_all_is_done() {
    let entries = [("plain", "host.entry=plain"), ("unmitigated", "mitigations=off")];
    let machine = Booting::new(&entries, Duration::from_secs(1500)).unwrap();
    fill(&machine).unwrap();
    let machine = machine.boot().unwrap();
    machine.wait_until_off(Duration::from_secs(1400)).unwrap();
    if let Err(error) = check(&machine) {
        panic!("{:#}", machine.failure(&format!("{error:#}")));
    }
}

fn fill(machine: &Booting) -> Result<()> {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dist/transect-bench@.service");
    machine.file("/etc/systemd/system/transect-bench@.service", &fs::read_to_string(unit)?)?;
    machine.link("/usr/bin/transect", &transect()?)?;
    machine.file("/var/lib/boots/plan.toml", PLAN)?;
    machine.file("/var/lib/boots/tells", TELLS_SCRIPT)?;
    machine.unit("begins.service", BEGINS)?;
    machine.unit("tells.service", TELLS)
}

fn check(machine: &Booted) -> Result<()> {
    let share = machine.share();
    let read = |name: &str| fs::read_to_string(share.join(name)).context(name.to_owned());
    let journal = lines(&read("results/journal.jsonl")?)?;
    let of = |kind: &str| journal.iter().filter(|line| line["entry"] == kind).collect::<Vec<_>>();
    ensure!(of("finished").len() == 1, "it is not finished");

    let key =
        |line: &Value| ["block", "platform", "label"].map(|name| line[name].to_string()).join(" ");
    let ended = of("ended");
    let keys: BTreeSet<_> = ended.iter().map(|line| key(line)).collect();
    ensure!(ended.len() == RUNS && keys.len() == RUNS, "{} runs ended: {keys:?}", ended.len());
    ensure!(ended.iter().all(|line| line["outcome"]["measured"].is_object()), "runs failed");

    // Each platform ran on the kernel that its entry boots, and on no other.
    for opened in of("opened") {
        let wants =
            if opened["platform"] == "native" { "host.entry=plain" } else { "mitigations=off" };
        let words =
            opened["worker"]["notes"]["command_line"].as_str().context("no command line")?;
        ensure!(words.contains(wants), "{} ran on: {words}", opened["platform"]);
    }
    // Two entries a block; where a block begins with the one that the last ended with, nothing is rebooted.
    let boots = of("booted");
    ensure!((3..=4).contains(&boots.len()), "{} boots", boots.len());
    let ids: BTreeSet<_> = boots.iter().map(|line| line["boot_id"].to_string()).collect();
    ensure!(ids.len() == boots.len(), "{ids:?}");

    // Nothing of it is left: not the unit that goes on, not the entry of the next boot.
    let (enabled, environment) = (read("enabled")?, read("grubenv")?);
    ensure!(!enabled.contains("transect-bench"), "enabled: {enabled}");
    let is_set =
        |line: &str| line.strip_prefix("next_entry=").is_some_and(|entry| !entry.is_empty());
    ensure!(!environment.lines().any(is_set), "GRUB's environment: {environment}");
    println!("{} boots by GRUB, {} runs", boots.len(), ended.len());
    Ok(())
}
