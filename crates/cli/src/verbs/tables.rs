//! `transect tables`: makes a recording's tables now rather than at the first query.
//!
//! Every query does this by itself; the verb is for those who read the Parquet files with other
//! programs, and want to know where they are.

use crate::terminal::say;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `transect tables`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  \
    duckdb -c \"select reason, count(*) from '$(transect tables demo.transect)/exits/**/*.parquet' group by 1\"")]
pub(crate) struct Args {
    /// Recording to read: a directory made by `record` or `import`, a trace.dat or an xentrace file
    recording: PathBuf,
    /// Print the tables and their row counts as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    source: super::load::SourceArgs,
}

/// Runs `transect tables`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let tables = super::load::ensure(&args.recording, &args.source, None)?;
    if args.json {
        let rows = serde_json::json!({
            "path": tables.path,
            "is_new": tables.is_new,
            "rows": tables.stamp.rows,
        });
        say!("{rows}");
    } else {
        say!("{}", tables.path.display());
    }
    Ok(ExitCode::SUCCESS)
}
