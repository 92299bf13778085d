//! State files of recorders that were killed.

use super::{client::states_in, place, state::RecorderState};
use std::{
    fs,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
};

/// A recorder that was killed, and what it recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Killed {
    /// Its process.
    pub pid: i32,
    /// The recording that it left, if there is one.
    pub recording: Option<PathBuf>,
}

/// Removes the state files of this user's recorders that are gone; returns those recorders.
pub fn remove_stale() -> Vec<Killed> {
    let places = place::candidates().into_iter().filter(|place| place::check(place).is_ok());
    places.flat_map(|place| remove_stale_in(&place)).collect()
}

fn remove_stale_in(dir: &Path) -> Vec<Killed> {
    let mut killed = Vec::new();
    for (path, state) in states_in(dir) {
        let socket = path.with_extension("sock");
        if state.is_alive() || is_listening(&socket) {
            continue;
        }
        let _ = fs::remove_file(&socket);
        // Another transect may have been faster: it reports the recorder.
        if fs::remove_file(&path).is_ok() {
            killed.push(killed_recorder(&state));
        }
    }
    killed
}

/// Does a process listen? A recorder in another pid namespace looks dead from here.
fn is_listening(socket: &Path) -> bool {
    UnixStream::connect(socket).is_ok()
}

fn killed_recorder(state: &RecorderState) -> Killed {
    let is_recording = transect_store::Manifest::read(&state.output)
        .is_ok_and(|manifest| !manifest.finished && manifest.recorder_pid == Some(state.pid));
    Killed { pid: state.pid, recording: is_recording.then(|| state.output.clone()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn only_states_of_recorders_that_are_gone_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let state = |pid: i32, start_ticks: u64| {
            let output = PathBuf::from("/nowhere");
            let state = RecorderState { pid, start_ticks, output, flight_recorder: false };
            let path = dir.path().join(format!("{pid}.json"));
            fs::write(&path, serde_json::to_string(&state).unwrap()).unwrap();
            path
        };
        let own = transect_tracefs::ProcessKey::current().unwrap();
        let alive = state(own.pid, own.start_ticks);
        // Pids beyond the largest that the kernel gives; one of them listens.
        let (gone, elsewhere) = (state(4_194_305, 1), state(4_194_306, 1));
        let _listener = UnixListener::bind(elsewhere.with_extension("sock")).unwrap();
        let killed = remove_stale_in(dir.path());
        assert_eq!(killed, [Killed { pid: 4_194_305, recording: None }]);
        assert!(alive.exists() && elsewhere.exists() && !gone.exists());
        assert_eq!(remove_stale_in(dir.path()), []);
    }
}
