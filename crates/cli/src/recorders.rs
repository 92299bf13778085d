//! Which recorder `transect snapshot` and `transect stop` mean.

use std::path::PathBuf;
use transect_recorder::control;

/// Which recorder is meant.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Choice {
    /// Output directory of the recorder [default: that of the only running recorder]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Process id of the recorder
    #[arg(long, value_name = "PID", conflicts_with = "dir")]
    pid: Option<i32>,
}

impl From<Choice> for control::Choice {
    fn from(Choice { dir, pid }: Choice) -> Self {
        control::Choice { dir, pid }
    }
}
