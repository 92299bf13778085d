//! What becomes of a query whose tables turn out to be damaged.
//!
//! `transect sql` names a command that makes the tables again and runs the query once more. It is executed in the place
//! of this process if nothing was printed yet and the query can be read again; so terminal, pipes and signals stay as
//! they are. Otherwise the error is printed, and the tables are distrusted: the next use makes them again.

use crate::{Cli, output, terminal};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use transect_integrity::{Damage, Folder};
use transect_query::QueryError;

/// Runs the query on tables that are made again if this error is damage of theirs; else returns the error.
pub(crate) fn if_damaged(cli: &Cli, error: anyhow::Error) -> anyhow::Error {
    let Some(damage) = damage_in(&error) else { return error };
    distrust(cli);
    let is_readable = cli.wanted.sql.is_some();
    let Some((program, arguments)) = cli.again.split_first().filter(|_| is_readable) else {
        return error;
    };
    if output::has_begun() {
        return error;
    }
    terminal::error("transect", &format!("{damage}: the recording's tables are made again"));
    let failed = Command::new(program).args(arguments).exec();
    anyhow::Error::new(failed).context(program.to_string_lossy().into_owned())
}

/// Has the tables made again by their next user, if they can be.
pub(crate) fn distrust(cli: &Cli) {
    if let Some(tables) = cli.tables.as_deref().filter(|_| !cli.again.is_empty()) {
        Folder::distrust(tables);
    }
}

fn damage_in(error: &anyhow::Error) -> Option<&Damage> {
    error.chain().find_map(|cause| match cause.downcast_ref::<QueryError>() {
        Some(QueryError::Damaged(damage)) => Some(damage),
        _ => None,
    })
}
