//! `testbed-demo`: the demo — or its scene around any recorder.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program talks")]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};
use transect_testbed::demo::{self, Plan};

const USAGE: &str = "usage: testbed-demo --bin-dir TARGET [--seconds N] [--out DIR]
         record the scene with this build's transect and agent, print the report
  --bin-dir TARGET      cargo's target folder, with release/transect and */agent/transect-agent
  --seconds N           how long batch is favoured (default 5)
  --out DIR             the recording (default demo.transect; an older recording there is replaced)
   or: testbed-demo --record COMMAND [OPTION VALUE]...
         play the same scene around another recorder
  --record COMMAND      run on the KVM host; {web} and {batch} stand for the guests' vsock CIDs,
                        {scene} for the command it is to run meanwhile
  --then COMMAND        run after it, its output is printed (may be given several times)
  --program FILE        carried onto the host beforehand (several times); commands start in its folder
  --agent FILE          static binary started in both guests
  --agent-arg ARG       an argument of it (several times)
  --bring PATH=PATH     brought home at the end: path on the host = path here (several times)";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match Arguments::read(arguments).and_then(play) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("testbed-demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Default)]
struct Arguments {
    bin_dir: Option<PathBuf>,
    seconds: u32,
    out: PathBuf,
    plan: Plan,
}

impl Arguments {
    fn read(words: Vec<String>) -> Result<Self> {
        let mut read = Self { seconds: 5, out: "demo.transect".into(), ..Self::default() };
        let (mut agent, mut agent_arguments) = (None, Vec::new());
        let mut words = words.into_iter();
        while let Some(option) = words.next() {
            let value = words.next().with_context(|| format!("{option} needs a value\n{USAGE}"))?;
            let plan = &mut read.plan;
            match option.as_str() {
                "--bin-dir" => read.bin_dir = Some(value.into()),
                "--seconds" => read.seconds = value.parse().context("--seconds wants a number")?,
                "--out" => read.out = value.into(),
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
        ensure!(read.bin_dir.is_some() == read.plan.record.is_empty(), "{USAGE}");
        read.plan.seconds = read.seconds;
        read.plan.agent = agent.map(|binary| (binary, agent_arguments));
        Ok(read)
    }
}

fn play(mut arguments: Arguments) -> Result<()> {
    if let Some(bin_dir) = &arguments.bin_dir {
        make_room(&arguments.out)?;
        arguments.plan = transect_plan(bin_dir, arguments.seconds, &arguments.out)?;
    }
    let seen = demo::run(&arguments.plan, &mut |line| eprintln!("{line}"))?;
    print!("{}", seen.output);
    if let Some(bin_dir) = &arguments.bin_dir {
        report(&bin_dir.join("release/transect"), &arguments.out)?;
    }
    let ((late_alone, late), (alone, contended)) = (seen.late_p99_us(), seen.done_p99_us());
    println!("\nweb by its own account, p99 in µs, alone → beside batch:");
    println!("  woke late by {late_alone} → {late}, was done after {alone} → {contended}");
    ensure!(seen.is_starved(), "web was not starved: the scene did not come about");
    if let Some(bin_dir) = &arguments.bin_dir {
        let (transect, out) =
            (bin_dir.join("release/transect"), std::path::absolute(&arguments.out)?);
        let (transect, out) = (transect.display(), out.display());
        println!("\nThe recording is {out}. What to type next:");
        println!("  {transect} view {out}   # the timeline, in your browser");
        println!("  {transect} sql {out} 'SELECT * FROM antagonists'");
        println!("  {transect} report {out} --help");
        println!(
            "  {transect} export {out} --to perfetto -o demo.perfetto-trace   # then open it in ui.perfetto.dev"
        );
    }
    Ok(())
}

/// The scene recorded by this build's own programs.
fn transect_plan(bin_dir: &Path, seconds: u32, out: &Path) -> Result<Plan> {
    let record =
        "./transect record -o demo.transect --guest name=web,vsock:{web} --guest name=batch,vsock:{batch} \
         -- {scene}"
        .to_owned();
    Ok(Plan {
        agent: Some((demo::agent(bin_dir)?, vec!["--vsock".to_owned()])),
        programs: vec![demo::built(bin_dir, "release/transect")?],
        record,
        seconds,
        then: Vec::new(),
        bring: vec![("demo.transect".to_owned(), out.to_owned())],
    })
}

/// Removes an older recording, and nothing that is not one.
fn make_room(out: &Path) -> Result<()> {
    if !out.exists() {
        return Ok(());
    }
    let is_recording = out.join("manifest.json").exists();
    ensure!(is_recording, "{} exists and is no recording: give another --out", out.display());
    std::fs::remove_dir_all(out).with_context(|| format!("cannot replace {}", out.display()))
}

fn report(transect: &Path, recording: &Path) -> Result<()> {
    let status =
        Command::new(transect).arg("report").arg(recording).status().context("no transect")?;
    ensure!(status.success(), "`transect report` failed ({status})");
    Ok(())
}
