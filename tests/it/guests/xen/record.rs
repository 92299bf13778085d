//! A Xen host recorded from its dom0: the hypervisor, dom0's kernel and a domU's in one recording,
//! with an xentrace that is killed and one that is ended on the way.
//!
//! The host and its domains come from Debian packages; skipped only where no Xen host can be booted
//! at all.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "what was measured belongs in the log of a test run; a failed expectation is the report"
)]

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::{collections::BTreeSet, path::Path, process::Command, time::Instant};
use transect_e2e::{agent, number, output_of, report, rows, transect};
use transect_testbed::{
    XenHost,
    xen::{self, DomU, TscMode},
};
use transect_xentrace::{XenEvent, XenTrace, XenVersion};

#[test]
fn a_xen_host_is_recorded_whatever_becomes_of_xentrace() {
    if let Some(why) = xen::missing() {
        println!("skipped: {why}");
        return;
    }
    let start = Instant::now();
    let step = |what: &str| println!("{:5.1} s: {what}", start.elapsed().as_secs_f64());
    let host = XenHost::boot().unwrap();
    step("booted");
    carry_in(&host).unwrap();
    step("transect is in dom0");
    let duty = host.domu("duty").pv().vcpus(2).tsc_mode(TscMode::Native).network();
    let duty = duty.workload("periodic:period_ms=20:work_us=1000");
    let duty = duty.agent(agent().unwrap(), &["--tcp", "0.0.0.0"]).boot().unwrap();
    step("the domU is up");
    let here = tempfile::tempdir().unwrap();
    doctor_finds_xen(&host).unwrap();
    step("doctor");
    all_layers(&host, &duty, here.path()).unwrap();
    step("all layers");
    kernels_files(&host, &duty, here.path()).unwrap();
    step("the kernels' own files");
    only_xen(&host, here.path()).unwrap();
    step("Xen only");
    a_killed_recorder(&host, here.path()).unwrap();
    step("a killed recorder");
}

/// dom0 sees this machine's files as they were when it booted, but not those in `/tmp` and its
/// like.
fn carry_in(host: &XenHost) -> Result<()> {
    let binary = transect()?;
    let link = format!("test -x {0} && ln -s {0} transect", binary.display());
    if host.run(&link).within(240)?.code != 0 {
        host.put(binary, "transect")?;
    }
    Ok(())
}

fn doctor_finds_xen(host: &XenHost) -> Result<()> {
    let out = host.run("./transect doctor --json").within(360)?;
    let checks: Value = serde_json::from_str(&out.stdout).context(out.stderr)?;
    let checks = checks.as_array().context("no list")?;
    for facility in ["xen", "xen trace", "xen domains"] {
        let check = checks.iter().find(|check| check["facility"] == facility);
        let check = check.with_context(|| format!("no check of {facility}"))?;
        ensure!(check["status"] == "ok", "{check}");
        println!("{facility}: {}", check["finding"]);
    }
    Ok(())
}

/// Hypervisor, dom0 and domU; xentrace is killed, and later told to end by someone else.
fn all_layers(host: &XenHost, duty: &DomU, here: &Path) -> Result<()> {
    let address = duty.address().context("the domU has no card")?;
    let record = format!("./transect record -o all.transect --guest name=duty,tcp:{address}");
    let job = host.run(&record).spawn()?;
    let pid = wait_for_xentrace(host)?;
    host.run(&format!("sleep 1; kill -KILL {pid}")).within(240)?.ok()?;
    let second = wait_for_another(host, pid)?;
    // A domain that comes while recording.
    let brief = host.domu("brief").pv().memory_mib(128).start()?;
    host.run(&ended_while_it_waits(second)).within(240)?.ok()?;
    wait_for_another(host, second)?;
    host.run("sleep 1; kill -INT $(pidof transect)").within(240)?.ok()?;
    let out = job.finish_within(360)?;
    println!("{}", out.stderr);
    let out = out.ok()?;
    nothing_runs(host)?;
    brief.destroy()?;
    let dir = here.join("all.transect");
    host.get("all.transect", &dir)?;
    let manifest = json(&dir.join("manifest.json"))?;

    let machines = rows(&manifest, "machines")?;
    let told =
        |m: &Value| (m["name"].clone(), m["kind"].clone(), m["domid"].clone(), m["parent"].clone());
    let found: Vec<_> = machines.iter().map(told).collect();
    let machine = |name: &str, kind: &str, domid: Value, parent: Value| {
        (Value::from(name), Value::from(kind), domid, parent)
    };
    let mut expected = vec![
        machine("xen", "hypervisor", Value::Null, Value::Null),
        machine("dom0", "guest", 0.into(), 0.into()),
        machine("duty", "guest", duty.id().into(), 0.into()),
    ];
    expected.push(machine("brief", "guest", (duty.id() + 1).into(), 0.into()));
    ensure!(found == expected, "{found:#?}");
    let sources: BTreeSet<_> =
        rows(&manifest, "sources")?.iter().filter_map(|s| s["file"].as_str()).collect();
    ensure!(
        sources == BTreeSet::from(["xen.bin", "host.compact", "guest-duty.compact"]),
        "{sources:?}"
    );

    // Killed: Xen's buffers kept everything. Ended in order: Xen was not traced until another one
    // ran.
    let notes = manifest["notes"].to_string();
    ensure!(
        notes.contains(
            "xentrace was killed by signal 9 and was restarted: Xen's buffers kept the records"
        ),
        "{notes}"
    );
    let gaps = rows(&manifest, "gaps")?;
    let told = "xentrace was ended by another process";
    ensure!(out.stderr.contains(told), "{}", out.stderr);
    let [gap] = &gaps[..] else { anyhow::bail!("{gaps:?}") };
    let (from, to) = (gap["from"].as_u64(), gap["to"].as_u64());
    let length_ns = to.context("an open gap")?.checked_sub(from.context("no begin")?);
    ensure!(gap["machine_id"] == 0 && gap["cause"] == "xentrace_ended", "{gap}");
    let length_ns = length_ns.context("a gap that ends before it begins")?;
    println!("gap of {} ms", length_ns / 1_000_000);

    // The domU's clock is Xen's and dom0's.
    let clocks = std::fs::read_to_string(dir.join("clocks.jsonl"))?;
    for same in [
        r#""machine":0,"parent":1,"vcpu":0,"offset":0"#,
        r#""machine":2,"parent":1,"vcpu":0,"offset":0"#,
    ] {
        ensure!(clocks.contains(same), "no {same} in the clock evidence");
    }
    let facts = json(&dir.join("xen.json"))?;
    ensure!(
        facts["scheduler"] == "credit2" && facts["version"]["minor"].as_u64() >= Some(14),
        "{facts}"
    );
    ensure!(facts["cpu_hz"]["hz"].as_u64() == Some(host.tsc_hz()?), "{facts}");
    ensure!(facts["domains"][duty.id().to_string()]["vcpus"] == 2, "{facts}");
    check_trace(&dir.join("xen.bin"), &[0, duty.id(), duty.id() + 1])?;
    events_are_inside(&dir, &[("dom0", 1000), ("duty", 1000)])?;
    let lost = report(&dir)?;
    let causes: Vec<_> =
        rows(&lost, "lost")?.iter().filter_map(|row| row["cause"].as_str()).collect();
    ensure!(causes == ["xentrace_ended"], "{causes:?}");
    Ok(())
}

/// Every event of these machines' kernels that can be tested lies where Xen had its vCPU running;
/// and there are so many.
fn events_are_inside(recording: &Path, machines: &[(&str, i64)]) -> Result<()> {
    let report = report(recording)?;
    for (name, at_least) in machines {
        let machine = rows(&report, "machines")?.iter().find(|row| row["name"] == *name);
        let machine = machine.with_context(|| format!("no machine {name}"))?;
        let check = rows(&report, "clock_check")?;
        let check = check.iter().find(|row| row["machine_id"] == machine["machine_id"]);
        let check = check.with_context(|| format!("no event of {name} was tested"))?;
        println!(
            "{name}: {} of {} events inside, clock within ±{} ns",
            check["inside"], check["tested"], machine["error_bound_ns"]
        );
        ensure!(number(check, "tested")? >= *at_least, "{name}: {check}");
        ensure!(check["inside"] == check["tested"], "{name}: {check}");
    }
    Ok(())
}

/// The kernels' own files, as the full collector writes them: in the recording, and imported beside
/// Xen's as if other tools had written them. Then nothing tells whose they are and how their clocks
/// are related but when the domains ran.
fn kernels_files(host: &XenHost, duty: &DomU, here: &Path) -> Result<()> {
    let emulated = host.domu("emulated").pv().tsc_mode(TscMode::AlwaysEmulate).network();
    let emulated = emulated.workload("periodic:period_ms=17:work_us=800");
    let emulated = emulated.agent(agent()?, &["--tcp", "0.0.0.0"]).boot()?;
    let address = |domu: &DomU| domu.address().map(str::to_owned).context("the domU has no card");
    let record = format!(
        "./transect record --full --clock x86-tsc -q -o full.transect --guest name=duty,tcp:{} \
         --guest name=emulated,tcp:{} --duration 4s",
        address(duty)?,
        address(&emulated)?
    );
    println!("{}", host.run(&record).within(600)?.ok()?.stderr);
    host.run("xl debug-keys s; xl dmesg >xen-tsc.txt").within(240)?.ok()?;
    nothing_runs(host)?;
    let dir = here.join("full.transect");
    host.get("full.transect", &dir)?;
    host.get("xen-tsc.txt", here.join("xen-tsc.txt"))?;
    events_are_inside(&dir, &[("dom0", 500), ("duty", 500), ("emulated", 500)])?;

    let imported = here.join("imported.transect");
    let file = |name: &str| dir.join(name).display().to_string();
    let id_of_emulated = format!("{}={}", emulated.id(), file("guest-emulated.dat"));
    let hz = host.tsc_hz()?.to_string();
    let printed = here.join("xen-tsc.txt").display().to_string();
    let out = imported.display().to_string();
    let (xen, dom0, guest) = (file("xen.bin"), file("host.dat"), file("guest-duty.dat"));
    let args = ["import", &xen, &dom0, &guest, &id_of_emulated, "-o", &out, "--cpu-hz", &hz];
    println!("{}", output_of(transect()?, &[&args[..], &["--xen-tsc", &printed]].concat())?);
    let emulated_name = format!("dom{}", emulated.id());
    let duty_name = format!("dom{}", duty.id());
    events_are_inside(&imported, &[("dom0", 500), (&duty_name, 500), (&emulated_name, 500)])?;
    let methods = report(&imported)?;
    let methods: Vec<_> =
        rows(&methods, "clock_edges")?.iter().filter_map(|edge| edge["method"].as_str()).collect();
    ensure!(methods == ["tsc_rate", "tsc_offset", "tsc_offset", "causality"], "{methods:?}");
    emulated.destroy()
}

/// Every record is counted as xenalyze counts it.
fn only_xen(host: &XenHost, here: &Path) -> Result<()> {
    let record = "./transect record --xen only --xen-events sched,pv -o xen.transect --duration 2s";
    println!("{}", host.run(record).within(360)?.ok()?.stderr);
    nothing_runs(host)?;
    let dir = here.join("xen.transect");
    host.get("xen.transect", &dir)?;
    let manifest = json(&dir.join("manifest.json"))?;
    let file = dir.join("xen.bin");
    let records = check_trace(&file, &[0, 1])?;
    ensure!(manifest["cost"]["events"] == records, "{} of {records}", manifest["cost"]["events"]);
    let theirs = xenalyzes_records(&file)?;
    ensure!(theirs == records, "{records} records, xenalyze finds {theirs}");
    println!("{records} records, the same as xenalyze's");
    let events: Vec<_> = rows(&manifest, "events")?.iter().filter_map(Value::as_str).collect();
    ensure!(events == ["xen:sched", "xen:pv"], "{events:?}");
    ensure!(rows(&manifest, "gaps")?.is_empty(), "{}", manifest["gaps"]);
    Ok(())
}

/// `kill -9` of the recorder: xentrace ends in order by itself, and what was recorded can be read.
fn a_killed_recorder(host: &XenHost, here: &Path) -> Result<()> {
    let job = host
        .run("echo $$ >recorder; exec ./transect record --xen only -o killed.transect")
        .spawn()?;
    wait_for_xentrace(host)?;
    host.run("sleep 1; kill -KILL $(cat recorder); sleep 1").within(240)?.ok()?;
    ensure!(job.finish_within(240)?.code == 137, "the recorder was not killed");
    nothing_runs(host)?;
    let dir = here.join("killed.transect");
    host.get("killed.transect", &dir)?;
    check_trace(&dir.join("xen.bin"), &[0])?;
    let out =
        host.run("./transect record --xen only -q -o next.transect --duration 1s").within(360)?;
    out.ok().map(drop)
}

/// A command that tells xentrace to end while it waits in `poll` (system call 7, and 219 where it goes on with one that
/// was stopped): told while it writes, it fails instead, and leaves Xen's tracing on. Stopped, it cannot go from the one
/// to the other meanwhile; and it has stopped when its state says so, for which it needs the one CPU itself.
fn ended_while_it_waits(pid: u32) -> String {
    format!(
        "for i in $(seq 500); do kill -STOP {pid}; state=; \
         until [ \"$state\" = T ]; do sleep 0.01; read id name state rest < /proc/{pid}/stat; done; \
         read call rest < /proc/{pid}/syscall; \
         case $call in 7|219) kill -TERM {pid}; kill -CONT {pid}; exit 0;; esac; \
         kill -CONT {pid}; sleep 0.01; done; echo \"never in poll: $call\"; exit 1"
    )
}

/// The pid of the recorder's xentrace.
fn wait_for_xentrace(host: &XenHost) -> Result<u32> {
    wait_for_another(host, 0)
}

/// The pid of its xentrace once it is another than this one. The one CPU is left to the recorder between looks: its
/// start takes an emulated dom0 most of a minute.
fn wait_for_another(host: &XenHost, than: u32) -> Result<u32> {
    let wait =
        format!("until p=$(pidof xentrace) && [ \"$p\" != {than} ]; do sleep 0.3; done; echo $p");
    let out = host.run(&wait).within(360)?.ok()?.stdout;
    out.split_whitespace()
        .find(|pid| **pid != than.to_string())
        .context("no pid")?
        .parse()
        .context("an odd pid")
}

fn nothing_runs(host: &XenHost) -> Result<()> {
    let left = host.run("pidof xentrace || true").within(240)?.ok()?.stdout;
    ensure!(left.trim().is_empty(), "xentrace {left} is left");
    Ok(())
}

fn json(path: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

/// The file is whole, in order and complete, and the domains are in it. Returns its records.
fn check_trace(path: &Path, domains: &[u32]) -> Result<u64> {
    let bytes = std::fs::read(path)?;
    let trace = XenTrace::parse(&bytes, XenVersion::Minor(17))?;
    ensure!(trace.problems().is_empty(), "{:?}", trace.problems());
    let mut seen = BTreeSet::new();
    let mut records = 0;
    for cpu in trace.cpus() {
        let mut stream = trace.stream(cpu);
        for record in stream.by_ref() {
            if let XenEvent::RunstateChange { vcpu, .. } = record.typed() {
                seen.insert(u32::from(vcpu.dom));
            }
        }
        let (totals, problems) = (stream.totals(), stream.problems());
        ensure!(
            problems.is_empty() && totals.lost == 0 && totals.unknown == 0,
            "{totals:?} {problems:?}"
        );
        records += totals.records;
    }
    ensure!(
        domains.iter().all(|domain| seen.contains(domain)),
        "{domains:?} are not all in {seen:?}"
    );
    Ok(records)
}

/// How many records xenalyze reads, without the heads of windows.
fn xenalyzes_records(file: &Path) -> Result<u64> {
    let out = Command::new(xen::tool("xenalyze")?)
        .args(["--svm-mode", "--dump-raw-reads", "--dump-no-processing"])
        .arg(file)
        .output()?;
    ensure!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8_lossy(&out.stdout);
    let places: BTreeSet<_> = text
        .lines()
        .filter_map(|line| {
            let mut columns = line.strip_prefix("R p")?.split_whitespace().skip(1);
            let (at, event) = (columns.next()?, columns.next()?);
            (event != "1f003").then_some(at)
        })
        .collect();
    Ok(u64::try_from(places.len())?)
}
