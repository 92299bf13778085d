//! Records for a while and says what came: `logs SECONDS FAMILY[,FAMILY…]|aggregates [FILE]`.
//!
//! With FILE, the slices of each log are written one after the other as `FILE.cpuN` and
//! `FILE.cpuN.side`: bare logs without framing, for looking at records while developing.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program talks")]

use std::{collections::BTreeMap, fs::File, io, io::Write, process::ExitCode, time::Duration};

use transect_bpf::{Aggregate, Compact, FAMILIES, Family, LogSink, Plan};
use transect_model::ids::CpuId;

#[derive(Default)]
struct Files {
    prefix: Option<String>,
    open: BTreeMap<(u32, bool), File>,
    slices: u64,
}

impl LogSink for Files {
    fn slice(
        &mut self,
        cpu: CpuId,
        side: bool,
        _: u64,
        _: u64,
        _: u64,
        words: &[u8],
    ) -> io::Result<()> {
        self.slices += 1;
        let Some(prefix) = &self.prefix else { return Ok(()) };
        let file = match self.open.entry((cpu.0, side)) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                let suffix = if side { ".side" } else { "" };
                entry.insert(File::create(format!("{prefix}.cpu{cpu}{suffix}"))?)
            }
        };
        file.write_all(words)
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("logs: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [seconds, families, rest @ ..] = arguments.as_slice() else {
        return Err("usage: logs SECONDS FAMILY[,FAMILY…]|aggregates [FILE]".into());
    };
    let find = |name: &str| FAMILIES.into_iter().find(|family| family.as_str() == name);
    let mut plan = Plan::of(&[]);
    if families == "aggregates" {
        plan.aggregates = vec![Aggregate::Exits, Aggregate::RunQueueLatency];
    } else {
        let families: Option<Vec<Family>> = families.split(',').map(find).collect();
        plan.families = families.ok_or("no such family")?;
    }
    let mut compact = Compact::load(&plan)?;
    let sink = Files { prefix: rest.first().cloned(), ..Files::default() };
    let consumer = compact.consume(sink)?;
    compact.attach()?;
    // Programs are attached: whoever waits for this line may begin.
    println!("absent: {:?}; kvm_exit: {}", compact.absent(), compact.kvm_exit_method().as_str());
    std::thread::sleep(Duration::from_secs_f64(seconds.parse()?));
    let finished = compact.stop(consumer)?;
    println!(
        "{} slices, {} bytes, {} events lost",
        finished.sink.slices,
        finished.stats.bytes(),
        finished.stats.lost()
    );
    for log in &finished.stats.logs {
        println!("{log:?}");
    }
    for row in &finished.aggregates.exits {
        let (reason, count) = (row.reason, row.durations.count);
        println!("exits: tgid {} vcpu {} reason {reason:#x}: {count}", row.tgid, row.vcpu);
    }
    println!("processes that waited for a CPU: {}", finished.aggregates.run_queue.len());
    println!(
        "missed: {:?}; failure: {:?}",
        finished.stats.missed,
        finished.failure.map(|e| e.to_string())
    );
    Ok(())
}
