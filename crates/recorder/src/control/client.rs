//! The other end: finding the recorder that is meant, and asking it.

use super::{
    place,
    state::{RecorderState, Request},
};
use anyhow::{Context, bail};
use std::{
    fs,
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
};

/// Which recorder is meant.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// The one that writes into this directory.
    pub dir: Option<PathBuf>,
    /// The one with this process id.
    pub pid: Option<i32>,
}

/// A recorder that runs, and where to reach it.
#[derive(Debug)]
pub struct Found {
    /// What it says about itself.
    pub state: RecorderState,
    socket: PathBuf,
}

/// State files in `dir` that can be read.
pub(super) fn states_in(dir: &Path) -> Vec<(PathBuf, RecorderState)> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .filter_map(|path| {
            let text = fs::read_to_string(&path).ok()?;
            Some((path, serde_json::from_str(&text).ok()?))
        })
        .collect()
}

/// The recorders of this user that run.
pub fn running() -> Vec<Found> {
    let places = place::candidates().into_iter().filter(|place| place::check(place).is_ok());
    places
        .flat_map(|place| states_in(&place))
        .filter(|(_, state)| state.is_alive())
        .map(|(path, state)| Found { state, socket: path.with_extension("sock") })
        .collect()
}

/// The one recorder that `choice` means among those for which `suits` holds.
///
/// # Errors
/// There is none, or more than one.
pub fn find(choice: &Choice, suits: impl Fn(&RecorderState) -> bool) -> anyhow::Result<Found> {
    let mut running = running();
    running.retain(|found| choice.means(&found.state));
    if running.is_empty() {
        bail!("no recording is running{}", choice.describe());
    }
    if running.len() > 1 {
        running.retain(|found| suits(&found.state));
    }
    match running.pop() {
        Some(found) if running.is_empty() => Ok(found),
        last => {
            let all = running.iter().chain(&last);
            let list: Vec<_> = all
                .map(|f| format!("{} (pid {})", f.state.output.display(), f.state.pid))
                .collect();
            bail!("several recordings are running: {}; select one by DIR or --pid", list.join(", "))
        }
    }
}

impl Choice {
    fn means(&self, state: &RecorderState) -> bool {
        let dir = |dir: &PathBuf| absolute(dir) == state.output;
        self.pid.is_none_or(|pid| pid == state.pid) && self.dir.as_ref().is_none_or(dir)
    }

    fn describe(&self) -> String {
        match (&self.dir, self.pid) {
            (Some(dir), _) => format!(" into {} (of this user)", dir.display()),
            (_, Some(pid)) => format!(" with pid {pid} (of this user)"),
            _ => " (of this user; recordings of other users need their user or root: sudo)"
                .to_owned(),
        }
    }
}

/// The path from the root, without asking the file system: the directory may not exist yet.
pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).components().collect()
}

/// Asks, and waits for the reply as long as the recorder lives.
///
/// # Errors
/// The recorder does not respond, or refuses.
pub fn ask(found: &Found, request: Request) -> anyhow::Result<PathBuf> {
    let pid = found.state.pid;
    let mut stream = UnixStream::connect(&found.socket)
        .with_context(|| format!("cannot connect to the recorder, pid {pid}"))?;
    stream.write_all(format!("{}\n", request.line()).as_bytes())?;
    let mut reply = String::new();
    // The recorder hangs up after its line; if it dies, the kernel does.
    stream.read_to_string(&mut reply).context("waiting for the recorder's reply")?;
    match reply.trim_end().split_once(' ') {
        Some(("ok", path)) => Ok(PathBuf::from(path)),
        Some(("error", why)) => bail!("recorder, pid {pid}: {why}"),
        _ => bail!(
            "the recorder, pid {pid}, ended without a reply; the part that it wrote is readable: {}",
            found.state.output.display()
        ),
    }
}
