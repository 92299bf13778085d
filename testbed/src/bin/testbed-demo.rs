//! `testbed-demo`: plays the demo's scene around any recorder.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program talks")]

use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use transect_testbed::demo::{self, Plan};

const USAGE: &str = "usage: testbed-demo [OPTION VALUE]... --record COMMAND
  --record COMMAND      run on the KVM host; {web} and {batch} stand for the guests' vsock CIDs
  --then COMMAND        run after it, its output is printed (may be given several times)
  --program FILE        carried onto the host beforehand (several times); commands start in its folder
  --agent FILE          static binary started in both guests
  --agent-arg ARG       an argument of it (several times)
  --bring PATH=PATH     brought home at the end: path on the host = path here (several times)";

fn main() -> ExitCode {
    match play() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("testbed-demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn play() -> Result<()> {
    let plan = read_arguments()?;
    let seen = demo::run(&plan, &mut |line| eprintln!("{line}"))?;
    print!("{}", seen.output);
    let ((late_alone, late), (alone, contended)) = (seen.late_p99_us(), seen.done_p99_us());
    eprintln!("web by its own account, p99 in us: late {late_alone} -> {late}, done {alone} -> {contended}");
    ensure!(seen.is_starved(), "web was not starved: the scene did not come about");
    Ok(())
}

fn read_arguments() -> Result<Plan> {
    let mut plan = Plan::default();
    let mut agent = None;
    let mut agent_arguments = Vec::new();
    let mut words = std::env::args().skip(1);
    while let Some(option) = words.next() {
        if option == "--help" {
            bail!("{USAGE}");
        }
        let value = words.next().with_context(|| format!("{option} needs a value\n{USAGE}"))?;
        match option.as_str() {
            "--record" => plan.record = value,
            "--then" => plan.then.push(value),
            "--program" => plan.programs.push(value.into()),
            "--agent" => agent = Some(value.into()),
            "--agent-arg" => agent_arguments.push(value),
            "--bring" => {
                let (from, to) = value.split_once('=').context("--bring wants PATH=PATH")?;
                plan.bring.push((from.to_owned(), to.into()));
            }
            _ => bail!("unknown option {option}\n{USAGE}"),
        }
    }
    ensure!(!plan.record.is_empty(), "{USAGE}");
    plan.agent = agent.map(|binary| (binary, agent_arguments));
    Ok(plan)
}
