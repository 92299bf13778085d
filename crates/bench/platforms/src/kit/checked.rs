//! The check every machine has to pass: is it what was asked for, by what a worker inside finds?

use crate::platform::{Facts, Machine, Pipes};
use std::io::{BufRead, Cursor, Read};
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc;
use std::time::Duration;
use transect_bench_core::{
    Fault, Kind, Refusal,
    protocol::{FromWorker, PROTOCOL, WorkerFacts},
};

/// What a worker's `Hello` must say.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    /// The platform's name.
    pub platform: &'static str,
    /// CPUs.
    pub cpus: u32,
    /// Memory, MiB; an eighth more or less is equal (a kernel takes some of it before it counts).
    pub memory_mib: u32,
}

/// Loading the worker's binary takes long where files come from far.
const HELLO_WITHIN: Duration = Duration::from_secs(180);

/// Starts a worker in a machine and checks what it says; that worker is then the first one that is asked for.
///
/// # Errors
/// [`Kind::Different`] with both figures, or what went wrong.
pub(crate) fn checked(
    mut machine: Box<dyn Machine>,
    expected: &Expected,
) -> Result<Box<dyn Machine>, Fault> {
    let pipes = machine.worker()?;
    let (line, pipes) = match first_line(pipes) {
        Ok(both) => both,
        Err(error) => {
            machine.check_alive()?;
            return Err(error);
        }
    };
    let message: FromWorker = serde_json::from_slice(&line).map_err(|error| {
        let text = String::from_utf8_lossy(&line).into_owned();
        Fault::failed(format!(
            "{}: the worker's first line is '{text}': {error}",
            expected.platform
        ))
    })?;
    let FromWorker::Hello(hello) = message else {
        let name = expected.platform;
        return Err(Fault::failed(format!("{name}: the worker's first message is not Hello")));
    };
    compare(&hello, expected)?;
    let from = Box::new(Cursor::new(line).chain(pipes.from));
    Ok(Box::new(Checked { machine, first: Some(Pipes { to: pipes.to, from }) }))
}

fn first_line(pipes: Pipes) -> Result<(Vec<u8>, Pipes), Fault> {
    let Pipes { to, mut from } = pipes;
    let (sender, receiver) = mpsc::sync_channel(1);
    // A worker that says nothing keeps this thread until its machine ends, which is when this fails.
    std::thread::spawn(move || {
        let mut line = Vec::new();
        let read = from.read_until(b'\n', &mut line);
        // Nobody waits for it any more if it was too late.
        drop(sender.send((read, line, from)));
    });
    let (read, line, from) = receiver.recv_timeout(HELLO_WITHIN).map_err(|_| {
        Fault::failed(format!("the worker sent no message within {HELLO_WITHIN:?}"))
    })?;
    read.map_err(|error| Fault::failed(format!("cannot read from the worker: {error}")))?;
    if line.is_empty() {
        return Err(Fault::failed("the worker ended before its first message"));
    }
    Ok((line, Pipes { to, from }))
}

fn compare(hello: &WorkerFacts, expected: &Expected) -> Result<(), Refusal> {
    let refuse = |why: String| {
        Err(Refusal::new(Kind::Different, format!("platform {}", expected.platform), why))
    };
    if hello.protocol != PROTOCOL {
        return refuse(format!("its worker speaks version {}, not {PROTOCOL}", hello.protocol));
    }
    let cpus = hello.cpus.len();
    if cpus != usize::try_from(expected.cpus).unwrap_or(usize::MAX) {
        return refuse(format!("it has {cpus} CPUs, not {}", expected.cpus));
    }
    let (found, wanted) = (hello.memory_bytes, u64::from(expected.memory_mib) << 20);
    if found.abs_diff(wanted) > wanted / 8 {
        let found_mib = found >> 20;
        return refuse(format!("it has {found_mib} MiB of memory, not {}", expected.memory_mib));
    }
    Ok(())
}

struct Checked {
    machine: Box<dyn Machine>,
    first: Option<Pipes>,
}

impl Machine for Checked {
    fn facts(&self) -> &Facts {
        self.machine.facts()
    }

    fn worker(&mut self) -> Result<Pipes, Fault> {
        match self.first.take() {
            Some(pipes) => Ok(pipes),
            None => self.machine.worker(),
        }
    }

    fn worker_below(&mut self) -> Result<Pipes, Fault> {
        self.machine.worker_below()
    }

    fn reach(&mut self, port: u16) -> Result<SocketAddr, Fault> {
        self.machine.reach(port)
    }

    fn gateway(&self) -> Option<IpAddr> {
        self.machine.gateway()
    }

    fn host_tids(&self) -> Vec<u32> {
        self.machine.host_tids()
    }

    fn check_alive(&mut self) -> Result<(), Fault> {
        self.machine.check_alive()
    }

    fn close(mut self: Box<Self>) -> Result<(), Fault> {
        // A worker that nobody asked for ends by the end of its input.
        self.first = None;
        self.machine.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_eighth_is_equal_and_more_is_not() {
        let expected = Expected { platform: "x", cpus: 2, memory_mib: 800 };
        let hello = |cpus: Vec<u32>, mib: u64| WorkerFacts {
            protocol: PROTOCOL,
            cpus,
            memory_bytes: mib << 20,
            ..WorkerFacts::default()
        };
        for mib in [700, 800, 900] {
            assert!(compare(&hello(vec![0, 5], mib), &expected).is_ok());
        }
        for (cpus, mib) in [(vec![0, 1], 699), (vec![0, 1], 901), (vec![0], 800), (vec![], 800)] {
            let refusal = compare(&hello(cpus, mib), &expected).unwrap_err();
            assert_eq!(refusal.kind, Kind::Different);
        }
        let older = WorkerFacts { protocol: 0, ..hello(vec![0, 1], 800) };
        assert_eq!(compare(&older, &expected).unwrap_err().kind, Kind::Different);
    }
}
