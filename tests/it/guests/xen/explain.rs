//! `transect explain` of a Xen host: a domU that its cap holds, and a dom0 of small weight that others keep from the CPU.
//!
//! One pCPU whose time is counted in instructions and which is never idle: shares are exact. The lines that begin with `|` are
//! rows of the table in docs/reference/explain.md.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "what was measured belongs in the log of a test run; a failed expectation is the report"
)]

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::{path::Path, time::Duration};
use transect_e2e::{number, output_of, rows, transect};
use transect_testbed::{
    XenHost,
    xen::{self, TscMode, XenOptions},
};

/// Percent of the pCPU.
const CAP: u32 = 30;
/// Shares may differ from the truth by this much.
const WITHIN: f64 = 0.05;

/// Records while dom0 runs its load, and prints the counters of dom0's kernel at the begin and end.
const RECORD: &str = r#"no() { echo "$*" >&2; exit 1; }
    ./transect record -q --xen only --xen-events sched -o NAME --duration 300s >said.txt 2>&1 &
    recorder=$!
    for n in $(seq 1200); do test -s NAME/xen.bin && break; sleep 0.05; done
    grep '^cpu ' /proc/stat
    sleep 4
    grep '^cpu ' /proc/stat
    kill -TERM $recorder || no "the recorder has ended: $(cat said.txt)"
    wait $recorder || no "the recorder failed: $(cat said.txt)""#;

#[test]
fn a_cap_and_a_small_weight_are_named() {
    if let Some(why) = xen::missing() {
        println!("skipped: {why}");
        return;
    }
    let here = tempfile::tempdir().unwrap();
    scenarios(here.path()).unwrap();
}

fn scenarios(here: &Path) -> Result<()> {
    let host = XenHost::boot_with(&XenOptions {
        cpus: 1,
        lifetime: Duration::from_secs(1800),
        ..XenOptions::default()
    })?;
    let binary = transect()?;
    let link = format!("test -x {0} && ln -s {0} transect", binary.display());
    if host.run(&link).within(60)?.code != 0 {
        host.put(binary, "transect")?;
    }
    let hog = host.domu("hog").pv().tsc_mode(TscMode::Native).weight(2048).cap(CAP);
    let _hog = hog.workload("hog").boot()?;
    let _filler = host.never_idle()?;

    record(&host, "cap.transect", here)?;
    let answer = explain(&here.join("cap.transect"), "hog")?;
    let ran = share(&answer, |piece| piece["state"] == "running")?;
    let held = share(&answer, |piece| piece["why"] == "throttled")?;
    expect("a domU with a cap of 30 %, ran", f64::from(CAP) / 100.0, ran)?;
    expect("the same, cap had ended", 1.0 - f64::from(CAP) / 100.0, held)?;
    let found = finding(&answer, "throttled", "hog vcpu0").context("no quota or cap is named")?;
    println!("{found}");
    ensure!(finding(&answer, "starved", "hog vcpu0").is_none(), "{}", answer["findings"]);

    host.weigh("Domain-0", 16)?;
    let program = host.workload()?;
    let _busy = host.run(&format!("exec {} hog", program.display())).spawn()?;
    let counted = record(&host, "weight.transect", here)?;
    let answer = explain(&here.join("weight.transect"), "dom0")?;
    let waited = share(&answer, |piece| piece["depth"] == 0 && piece["state"] == "vcpu_wait")?;
    expect("a dom0 of small weight beside domUs", steal(&counted)?, waited)?;
    let found = finding(&answer, "starved", "dom0 vcpu0").context("nobody is named")?;
    println!("{found}");
    ensure!(found["sentence"].to_string().contains(" behind "), "{found}");
    Ok(())
}

fn record(host: &XenHost, name: &str, here: &Path) -> Result<String> {
    let out = host.run(&RECORD.replace("NAME", name)).within(900)?.ok()?;
    host.get(name, here.join(name))?;
    Ok(out.stdout)
}

/// The share of time in which dom0 wanted the CPU and Xen gave it to others, as its kernel accounts it.
fn steal(stat: &str) -> Result<f64> {
    let read = |line: &str| -> Result<Vec<f64>> {
        line.split_whitespace()
            .skip(1)
            .map(|number| number.parse().context(number.to_owned()))
            .collect()
    };
    let looks = stat.lines().map(read).collect::<Result<Vec<_>>>()?;
    let [before, after] = looks.as_slice() else { anyhow::bail!("{stat}") };
    // user, nice, system, idle, iowait, irq, softirq, steal
    let passed: Vec<f64> = before.iter().zip(after).take(8).map(|(a, b)| b - a).collect();
    Ok(passed.get(7).context("no steal")? / passed.iter().sum::<f64>())
}

fn explain(recording: &Path, vm: &str) -> Result<Value> {
    let recording = recording.to_str().context("path is not UTF-8")?;
    let text = output_of(transect()?, &["explain", recording, "--json", "--vm", vm])?;
    Ok(serde_json::from_str(&text)?)
}

/// The share of the window of the only root that pieces take.
fn share(answer: &Value, is_counted: impl Fn(&Value) -> bool) -> Result<f64> {
    let roots = rows(answer, "roots")?;
    let [root] = roots.as_slice() else { anyhow::bail!("{} roots", roots.len()) };
    let (mut sum, mut all) = (0, 0);
    for piece in rows(root, "path")? {
        all += number(piece, "dur")?;
        sum += if is_counted(piece) { number(piece, "dur")? } else { 0 };
    }
    #[allow(clippy::cast_precision_loss, reason = "a few seconds")]
    Ok(sum as f64 / all as f64)
}

fn finding<'a>(answer: &'a Value, detector: &str, subject: &str) -> Option<&'a Value> {
    let mut all = answer["findings"].as_array()?.iter();
    all.find(|found| found["detector"] == detector && found["subject"] == subject)
}

fn expect(what: &str, truth: f64, said: f64) -> Result<()> {
    println!("| {what} | {:.1} % | {:.1} % |", truth * 100.0, said * 100.0);
    ensure!((truth - said).abs() < WITHIN, "{what}: {said} is not {truth}");
    Ok(())
}
