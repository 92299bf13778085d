//! What this program does in processes of its own: the loads that are traced, the tracers that are
//! compared, and the reading that is timed. `bench role NAME …`; the harness starts them.
//!
//! A tracer says `READY` when it traces, ends when its standard input ends (so none outlives the
//! harness), and then says what it has to say in one line of JSON. The others print that line only.

mod compact;
mod costs;
mod decode;
mod exits;
mod live;
mod mixed;
mod pair;
mod splice;
mod spliced;
mod sql;
mod states;
mod tiles;
mod vms;
mod watched;
mod work;

pub use compact::Pairs;
pub use live::Programs;
pub use pair::{Both, OnDisk};
pub use splice::Traced;
pub use sql::Answer;
pub use states::Pace;
pub use work::{Loop, Timed};

use clap::Subcommand;
use serde::Serialize;
use std::io::{Read, Write};

/// A process of the harness.
#[derive(Debug, Subcommand)]
pub enum Role {
    /// A loop of one operation, timed in batches.
    Work(work::Work),
    /// A mix of switches, system calls, files, processes, disk.
    Mixed(mixed::Mixed),
    /// Raw ftrace: whole pages from the kernel's buffers to files.
    Splice(splice::Splice),
    /// The compact collector with the plainest sink.
    Compact(compact::Compact),
    /// The counting programs of the live views.
    Live(live::Live),
    /// Both collectors at once, and their size on disk.
    Pair(pair::Pair),
    /// A load under raw ftrace.
    Spliced(spliced::Spliced),
    /// A whole comparison of costs.
    Costs(costs::CostsOf),
    /// Reads files, aligns, merges and divides time into states; the rows are counted.
    States(states::States),
    /// A guest that exits, timed.
    Exits(exits::Exits),
    /// A whole comparison of watchers.
    Watched(watched::Watched),
    /// Processes that look like a host's VMs.
    Vms(vms::Vms),
    /// One of them.
    Vm(vms::OneVm),
    /// Makes the timeline's tiles.
    Tiles(tiles::Tiles),
    /// Answers SQL, line by line.
    Sql(sql::Sql),
    /// Walks a trace.dat on one core and decodes its events.
    Decode(decode::Decode),
}

impl Role {
    /// Plays it.
    ///
    /// # Errors
    /// The error, for the harness to report.
    pub fn play(&self) -> anyhow::Result<()> {
        match self {
            Role::Work(work) => work.play(),
            Role::Mixed(mixed) => mixed.play(),
            Role::Splice(splice) => splice.play(),
            Role::Compact(compact) => compact.play(),
            Role::Live(live) => live.play(),
            Role::Pair(pair) => pair.play(),
            Role::Spliced(spliced) => spliced.play(),
            Role::Costs(costs) => costs.play(),
            Role::States(states) => states.play(),
            Role::Exits(exits) => exits.play(),
            Role::Watched(watched) => watched.play(),
            Role::Vms(vms) => vms.play(),
            Role::Vm(vm) => vm.play(),
            Role::Tiles(tiles) => tiles.play(),
            Role::Sql(sql) => sql.play(),
            Role::Decode(decode) => decode.play(),
        }
    }
}

/// Reports to the harness that tracing is on.
#[expect(clippy::print_stdout, reason = "the harness waits for it")]
fn ready() -> anyhow::Result<()> {
    println!("READY");
    Ok(std::io::stdout().flush()?)
}

/// The last line.
#[expect(clippy::print_stdout, reason = "the harness reads it")]
fn told(what: &impl Serialize) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string(what)?);
    Ok(())
}

/// Until the harness closes our standard input.
fn wait_for_the_end() -> anyhow::Result<()> {
    std::io::copy(&mut std::io::stdin().lock().by_ref(), &mut std::io::sink())?;
    Ok(())
}

/// CPU time of this process so far.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    // Exact up to 2^53 ns.
    #[expect(clippy::cast_precision_loss, reason = "a duration of minutes")]
    let seconds = time.tv_sec as f64 + time.tv_nsec as f64 / 1e9;
    seconds
}
