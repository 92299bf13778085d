//! The list of the roles, for the command line.

use super::{
    compact, costs, decode, exits, live, mixed, pair, splice, spliced, sql, states, tiles, vms,
    watched, work,
};
use clap::Subcommand;

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
