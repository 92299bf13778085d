//! Makes the recordings of `testdata/succeed/xentrace/live` anew: a Xen host each, one after the other, and beside
//! each recording what xenalyze says of it.
//!
//! `cargo run -p transect-testbed --example xen_recordings -- FOLDER [NAME]`
#![allow(clippy::print_stdout, reason = "a program talks")]

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use transect_testbed::XenHost;
use transect_testbed::xen::{self, Scheduler, TscMode, XenOptions};

/// Boots a host, records, and writes the recording and its summary.
type Scene = fn(&Path) -> Result<()>;

fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let (folder, wanted) = match arguments.as_slice() {
        [folder] => (PathBuf::from(folder), ""),
        [folder, name] => (PathBuf::from(folder), name.as_str()),
        _ => bail!("usage: xen_recordings FOLDER [cap|net|life|top]"),
    };
    let scenes: [(&str, Scene); 4] = [("cap", cap), ("net", net), ("life", life), ("top", top)];
    for (name, scene) in scenes {
        if wanted.is_empty() || wanted == name {
            scene(&folder.join(format!("{name}.bin")))?;
        }
    }
    Ok(())
}

/// credit2: a capped PVH domU that never sleeps, and a PV domU that wakes every 50 ms.
fn cap(file: &Path) -> Result<()> {
    // One pCPU for the PVH domU's sake: see the traps in testbed/README.md.
    let host = boot(Scheduler::Credit2, 1)?;
    let hog = host.domu("hog").pvh().cap(30).tsc_mode(TscMode::Native).workload("hog").boot()?;
    let duty = host.domu("duty").pv().workload("periodic:period_ms=50:work_us=5000");
    let duty = duty.boot()?;
    duty.wait_for("lateness").within(120)?;
    record(&host, "xentrace -D -e sched -T 2", file)?;
    hog.destroy()
}

/// credit: a server, a busy neighbour with half its weight, and requests from dom0.
fn net(file: &Path) -> Result<()> {
    let host = boot(Scheduler::Credit, 2)?;
    let server = host.domu("server").pv().weight(512).network().workload("serve").boot()?;
    let _hog = host.domu("hog").pv().workload("hog").boot()?;
    server.wait_for("serve ready").within(120)?;
    let address = server.address().context("the server has no address")?;
    let ask = format!("{} ask to={address} think_us=15000 seconds=30", host.workload()?.display());
    let asking = host.run(&ask).spawn()?;
    server.wait_for("served").within(120)?;
    record(&host, "xentrace -D -e all -T 1", file)?;
    asking.kill()
}

/// credit2: a domU appears and vanishes, another is paused and gets a weight and a pCPU of its own, while the trace runs.
fn life(file: &Path) -> Result<()> {
    let host = boot(Scheduler::Credit2, 2)?;
    let duty = host.domu("duty").pv().workload("periodic:period_ms=50:work_us=5000").boot()?;
    // Without the scheduler's own records: classes SCHED and DOM0OP, subclasses MIN and VERBOSE.
    let trace = host.run("exec xentrace -D -e 0x00069000 scene.bin").spawn()?;
    let brief = host.domu("brief").pv().memory_mib(128).start()?;
    duty.pause()?;
    duty.unpause()?;
    host.weigh("duty", 512)?;
    host.run("xl vcpu-pin duty 0 1").within(60)?.ok()?;
    brief.destroy()?;
    host.run("kill -INT $(pidof xentrace)").within(60)?.ok()?;
    trace.finish_within(300)?.ok()?;
    finish(&host, file)
}

/// credit2: a capped domU, one without a cap and one that wakes now and then, while xentop watches. Its looks are in the
/// trace: each begins with a `sysctl` of dom0's.
fn top(file: &Path) -> Result<()> {
    let host = boot(Scheduler::Credit2, 1)?;
    // With the native TSC, reading it makes no record.
    let domu = |name: &str| host.domu(name).pv().tsc_mode(TscMode::Native);
    let _hog = domu("hog").cap(30).workload("hog").boot()?;
    let _spin = domu("spin").workload("hog").boot()?;
    let duty = domu("duty").workload("periodic:period_ms=50:work_us=5000").boot()?;
    duty.wait_for("lateness").within(120)?;
    // Classes SCHED and PV, subclasses MIN and PV_ENTRY: runstates and hypercalls.
    let watch = "xentrace -D -e 0x00221000 -T 5 scene.bin >record.txt 2>&1 & sleep 0.5
                 xentop -b -f -d 1 -i 4 >scene.txt || exit 1; wait";
    host.run(watch).within(300)?.ok()?;
    host.get("scene.txt", file.with_extension("xentop.txt"))?;
    finish(&host, file)
}

fn boot(scheduler: Scheduler, cpus: u32) -> Result<XenHost> {
    XenHost::boot_with(&XenOptions { scheduler, cpus, ..XenOptions::default() })
}

fn record(host: &XenHost, command: &str, file: &Path) -> Result<()> {
    host.run(&format!("{command} scene.bin")).within(300)?.ok()?;
    finish(host, file)
}

fn finish(host: &XenHost, file: &Path) -> Result<()> {
    host.get("scene.bin", file)?;
    let hz = host.tsc_hz()?.to_string();
    let out = Command::new(xen::tool("xenalyze")?)
        .args(["--svm-mode", "--summary", "--cpu-hz", &hz])
        .arg(file)
        .output()?;
    ensure!(out.status.success(), "xenalyze failed: {}", String::from_utf8_lossy(&out.stderr));
    std::fs::write(file.with_extension("summary.txt"), out.stdout).context("cannot write")?;
    let domains: Vec<_> =
        host.domains()?.into_iter().map(|it| format!("{} {}", it.id, it.name)).collect();
    let (file, bytes) = (file.display(), std::fs::metadata(file)?.len());
    println!("{file}: {bytes} bytes; TSC {hz} Hz; domains at the end: {}", domains.join(", "));
    Ok(())
}
