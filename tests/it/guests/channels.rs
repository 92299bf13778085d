//! Guests' channels under stress, on real kernels: an agent that is killed, a guest that stands
//! still, and a port and a vsock at once. What is lost is marked; what is only late arrives.
//!
//! Never skipped: what it needs comes from Debian packages.

#![allow(clippy::print_stdout, reason = "what was measured belongs in the log of a test run")]

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::Path;
use transect_e2e::{agent, on_shared_host, report, rows, transect};
use transect_testbed::{Guest, KvmHost};

fn manifest(dir: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(dir.join("manifest.json"))?;
    serde_json::from_str(&text).context("manifest.json is not JSON")
}

/// Id of a machine and the causes of its gaps, in order.
fn gaps_of(manifest: &Value, name: &str) -> Result<(i64, Vec<String>)> {
    let machines = rows(manifest, "machines")?;
    let machine = machines.iter().find(|machine| machine["name"] == name);
    let id = machine.and_then(|machine| machine["id"].as_i64()).context("no such machine")?;
    let causes = rows(manifest, "gaps")?.iter().filter(|gap| gap["machine_id"] == id);
    Ok((id, causes.map(|gap| gap["cause"].as_str().unwrap_or("?").to_owned()).collect()))
}

fn files_of(manifest: &Value, id: i64) -> Result<Vec<String>> {
    let sources = rows(manifest, "sources")?.iter().filter(|source| source["machine_id"] == id);
    Ok(sources.map(|source| source["file"].as_str().unwrap_or("?").to_owned()).collect())
}

fn port_of(guest: &Guest) -> Result<String> {
    Ok(guest.port().context("the guest has no port")?.display().to_string())
}

#[test]
fn killed_agents_cost_a_marked_interval_and_frozen_guests_nothing() {
    on_shared_host(|host| {
        host.put(transect().unwrap(), "transect").unwrap();
        let agent = agent().unwrap();
        let work = "periodic:period_ms=10:work_us=300";
        let freezes = host.guest("freezes").workload(work).port("org.transect.0");
        let freezes = freezes.agent(&agent, &["--virtio-serial"]).boot().unwrap();
        expect_errors_with_mends(host, &freezes).unwrap();
        let restarts = host.guest("restarts").workload(work).agent_killed_at_order(2719);
        let restarts = restarts.agent(&agent, &["--vsock"]).boot().unwrap();

        let record = host
            .run(&format!(
                "./transect record --full -o r.transect --guest virtio-serial:{} --guest vsock:{}",
                port_of(&freezes).unwrap(),
                restarts.cid().unwrap(),
            ))
            .spawn()
            .unwrap();
        // Each has told of itself for a while when something is done to it, and does so again after.
        let begun = "until grep -qs 1 /sys/kernel/tracing/instances/transect*/tracing_on; do sleep 0.2; done; sleep 2";
        host.run(begun).within(120).unwrap().expect_success();
        let too_early = restarts.marks().unwrap().contains("agent ended");
        assert!(!too_early, "the agent has ended before it was killed");
        restarts.order(2719).unwrap();
        freezes.freeze().unwrap();
        host.run("sleep 7").within(120).unwrap().expect_success();
        freezes.thaw().unwrap();
        restarts.wait_for("agent started").times(2).within(120).unwrap();
        freezes.expect_to_go_on("lateness").unwrap();
        let ends = "sleep 3; ./transect stop r.transect";
        host.run(ends).within(120).unwrap().expect_success();
        let out = record.finish_within(240).unwrap();
        println!("{}{}", out.stdout, out.stderr);
        assert!(out.expect_success().stderr.contains("no data for"), "{}", out.stderr);
        let here = tempfile::tempdir().unwrap();
        let dir = here.path().join("r.transect");
        host.get("r.transect", &dir).unwrap();

        // Named by discovery: no --guest said a name. One boot, one source, whatever happened to the
        // channel.
        let manifest = manifest(&dir).unwrap();
        let cases: [(&str, &[&str]); 2] =
        // A guest that stood still made no events meanwhile, and kept those from before.
        [("freezes", &[]), ("restarts", &["guest_disconnected"])];
        for (name, causes) in cases {
            let (id, gaps) = gaps_of(&manifest, name).unwrap();
            assert_eq!(gaps, causes, "{name}");
            assert_eq!(files_of(&manifest, id).unwrap(), [format!("guest-{name}.dat")]);
        }
        // What arrived before and after is aligned and lies where it must.
        let report = report(&dir).unwrap();
        let checks = rows(&report, "clock_check").unwrap();
        assert_eq!(checks.len(), 2, "{checks:?}");
        for check in checks {
            println!("{check}");
            assert_eq!(check["outside"], 0, "{check}");
            assert!(check["tested"].as_i64().unwrap() > 50, "{check}");
        }
        freezes.kill().unwrap();
        restarts.kill().unwrap();
    });
}

/// What is not there is named, with what to do about it.
fn expect_errors_with_mends(host: &KvmHost, guest: &Guest) -> Result<()> {
    let cid = guest.cid().context("the guest has no vsock")?;
    let cases = [
        // Nobody listens there: this one's agent answers on its port only.
        (format!("vsock:{cid}"), "transect-agent --vsock"),
        ("vsock:77".to_owned(), "guest-cid="),
        ("virtio-serial:/tmp/nowhere".to_owned(), "virtserialport"),
        ("tcp:1".to_owned(), "vsock:3"),
    ];
    for (spec, mend) in cases {
        let command = format!("./transect record -o no.transect --guest {spec} --duration 1s");
        let out = host.run(&command).within(240)?;
        println!("{} {}", out.code, out.stderr.trim());
        ensure!(out.code != 0 && out.stderr.contains(mend), "{spec}: {}", out.stderr);
        host.run("rm -rf no.transect").within(10)?.expect_success();
    }
    Ok(())
}
