//! Starts children from a thread that lives as long as the process.
//!
//! A child asks the kernel to be killed when its parent ends (PR_SET_PDEATHSIG), and its parent is the thread that started it:
//! one that serves a connection ends long before the process.

use std::io;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;

/// A command, and where its child goes.
type Job = (Command, Sender<io::Result<Child>>);

/// Starts a child.
pub(crate) fn spawn(command: Command) -> io::Result<Child> {
    static JOBS: OnceLock<Option<Sender<Job>>> = OnceLock::new();
    let no_thread = || io::Error::other("no thread to start the program");
    let jobs = JOBS.get_or_init(start_thread).as_ref().ok_or_else(no_thread)?;
    let (to, child) = channel();
    jobs.send((command, to)).map_err(|_| no_thread())?;
    child.recv().map_err(|_| no_thread())?
}

fn start_thread() -> Option<Sender<Job>> {
    let (to, jobs) = channel::<Job>();
    let work = move || {
        for (mut command, to) in jobs {
            // The caller waits for it.
            let _ = to.send(command.spawn());
        }
    };
    thread::Builder::new().name("sql-spawner".to_owned()).spawn(work).ok().map(|_| to)
}
