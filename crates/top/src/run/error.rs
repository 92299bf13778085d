//! Why there is no screen.

use std::io;
use transect_live::LiveError;

/// Why there is no screen.
#[derive(Debug, thiserror::Error)]
pub enum ScreenError {
    /// Nobody is there to look at it.
    #[error(
        "standard output is not a terminal: use --once --json for one window, or --log FILE for all windows"
    )]
    NoTerminal,
    /// The terminal cannot do it.
    #[error(
        "cannot draw the screen on a \"dumb\" terminal (TERM): use --once --json, or --log FILE"
    )]
    Dumb,
    /// The terminal failed.
    #[error("cannot use the terminal")]
    Terminal(#[source] io::Error),
    /// The source of windows failed before the first one.
    #[error(transparent)]
    Live(#[from] LiveError),
}
