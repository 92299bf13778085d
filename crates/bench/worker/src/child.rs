//! The process of one job's workload, as the worker has it.

use super::{
    events::Events,
    family,
    one::GO,
    one::Order,
    own::{Mode, Own},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open},
};
use std::{
    io::{BufReader, ErrorKind, Write},
    os::unix::process::CommandExt,
    process::{Child, ChildStdin, Command, Stdio},
};
use transect_bench_core::Fault;

/// How long a process with a closed output may take to end.
const MOMENT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// A job's process. Dropping it kills it and everything below it.
pub(crate) struct One {
    /// Which job's: what earlier ones still say is not meant.
    pub(crate) number: u64,
    child: Child,
    input: Option<ChildStdin>,
}

impl One {
    /// Starts it, with what its tracer arm wants in its environment, tells it what to do, and listens to it.
    pub(crate) fn start(
        own: &Own,
        number: u64,
        order: &Order,
        variables: &[(String, String)],
        events: &Events,
    ) -> Result<Self, Fault> {
        let mut child = Command::new(&own.program)
            .args(&own.arguments)
            .arg(Mode::ONE)
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A terminal's ^C is for the worker, which ends the job in order.
            .process_group(0)
            .spawn()
            .map_err(|e| Fault::failed(format!("cannot start {}: {e}", own.program.display())))?;
        if let Some(output) = child.stdout.take() {
            events.listen(number, BufReader::new(output));
        }
        let mut one = Self { number, input: child.stdin.take(), child };
        let order = serde_json::to_string(order).map_err(Fault::failed)?;
        one.tell(&format!("{order}\n"))?;
        Ok(one)
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The measured part begins.
    pub(crate) fn go(&mut self) -> Result<(), Fault> {
        self.tell(GO)
    }

    fn tell(&mut self, line: &str) -> Result<(), Fault> {
        let Some(input) = &mut self.input else { return Ok(()) };
        match input.write_all(line.as_bytes()) {
            Ok(()) => Ok(()),
            // Nobody reads it any more: its output has closed too, and who waits for that says how it ended.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(Fault::failed(format!("cannot signal the workload: {error}"))),
        }
    }

    /// The measured part is to end.
    pub(crate) fn cancel(&self) -> Result<(), Fault> {
        kill_process(Pid::from_child(&self.child), Signal::USR1)
            .map_err(|error| Fault::failed(format!("cannot cancel the workload: {error}")))
    }

    /// Everything is over: it may clean up and end.
    pub(crate) fn let_go(&mut self) {
        self.input = None;
    }

    /// Kills it and everything below it. Says how it ended, if it had ended already.
    pub(crate) fn kill(&mut self) -> Option<String> {
        self.input = None;
        if let Ok(Some(status)) = self.child.try_wait() {
            return Some(status.to_string());
        }
        family::kill_tree(Pid::from_child(&self.child));
        let _ = self.child.wait();
        None
    }

    /// Waits for the end of one that has closed its output, but not for long.
    pub(crate) fn how_it_ended(&mut self) -> String {
        // Its output closes a moment before it can be waited for.
        let ended = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty());
        if let Ok(ended) = ended {
            let _ = poll(&mut [PollFd::new(&ended, PollFlags::IN)], Some(&MOMENT));
        }
        self.kill().unwrap_or_else(|| "it closed its output and kept running".into())
    }
}

impl Drop for One {
    fn drop(&mut self) {
        self.kill();
    }
}
