//! The worker alone, for tests and for trying out workloads by hand.
//!
//! `transect-bench-worker [--folder DIR]`, then JSON lines on standard input (`protocol.rs`).

use std::{path::PathBuf, process::ExitCode};
use transect_bench_worker::{self as worker, Mode, Own};
use transect_model::escape::indented;

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mode = Mode::take(&mut arguments);
    let folder = match arguments.as_slice() {
        [] => PathBuf::from(Own::FOLDER),
        [option, folder] if option == "--folder" => PathBuf::from(folder),
        _ => return fail("usage: transect-bench-worker [--folder DIR]"),
    };
    match std::env::current_exe() {
        Ok(program) => worker::run(mode, &Own { program, arguments, folder }),
        Err(error) => fail(&format!("cannot find this program: {error}")),
    }
}

fn fail(why: &str) -> ExitCode {
    // Nobody may be listening any more.
    let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{}\n", indented(why)));
    ExitCode::from(2)
}
