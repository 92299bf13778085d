//! A worker that only says what it finds: for tests of platforms. `Prepare` is answered by `Faulted` with a report, for
//! that is the only message with a free text; its job's workload names what is to be found out.
//!
//! `read:PATH`, `write:MIB` (into the current folder), `listen` (answers "here" to one connection after the other, and a
//! datagram with itself; the report is the port of both), `ask:HOST:PORT`, `run:COMMAND`, `hang`.
#![allow(clippy::print_stdout, reason = "the protocol is spoken on standard output")]

use std::io::{BufRead, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use transect_bench_core::{
    Fault,
    protocol::{FromWorker, PROTOCOL, ToWorker, WorkerFacts},
};

type Anyhow<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Anyhow<()> {
    say(&FromWorker::Hello(Box::new(hello()?)))?;
    for line in std::io::stdin().lock().lines() {
        match serde_json::from_str(&line?)? {
            ToWorker::Prepare(job) => {
                let report =
                    find_out(&job.workload).unwrap_or_else(|error| format!("error: {error}"));
                say(&FromWorker::Faulted(Fault::Failed(report)))?;
            }
            ToWorker::End => break,
            ToWorker::Go | ToWorker::Cancel => {}
        }
    }
    Ok(())
}

fn say(message: &FromWorker) -> Anyhow<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(message)?)?;
    Ok(out.flush()?)
}

fn hello() -> Anyhow<WorkerFacts> {
    let set = rustix::thread::sched_getaffinity(None)?;
    let cpus = (0..1024_u32).filter(|cpu| set.is_set(usize::try_from(*cpu).unwrap_or(0))).collect();
    let uname = rustix::system::uname();
    let kernel =
        format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy());
    let notes = std::env::args().skip(1).enumerate();
    let notes = notes.map(|(number, word)| (format!("argument {number}"), word)).collect();
    Ok(WorkerFacts {
        protocol: PROTOCOL,
        binary_sha256: String::new(),
        kernel,
        cpus,
        memory_bytes: transect_bench_core::this_machine::memory_bytes()?,
        notes,
    })
}

fn find_out(what: &str) -> Anyhow<String> {
    let (verb, rest) = what.split_once(':').unwrap_or((what, ""));
    match verb {
        "read" => Ok(std::fs::read(rest)?.len().to_string()),
        "write" => {
            let mib: usize = rest.parse()?;
            let mut file = std::fs::File::create("written")?;
            (0..mib).try_for_each(|_| file.write_all(&vec![7; 1 << 20]))?;
            file.sync_all()?;
            let length = file.metadata()?.len();
            std::fs::remove_file("written")?;
            Ok(length.to_string())
        }
        "listen" => {
            let listener = TcpListener::bind("0.0.0.0:0")?;
            let port = listener.local_addr()?.port();
            let socket = UdpSocket::bind(("0.0.0.0", port))?;
            std::thread::spawn(move || {
                let mut datagram = [0; 64];
                while let Ok((length, from)) = socket.recv_from(&mut datagram) {
                    drop(socket.send_to(&datagram[..length], from));
                }
            });
            std::thread::spawn(move || {
                for mut stream in listener.incoming().flatten() {
                    drop(stream.write_all(b"here"));
                }
            });
            Ok(port.to_string())
        }
        "ask" => {
            let mut answer = String::new();
            TcpStream::connect(rest)?.read_to_string(&mut answer)?;
            Ok(answer)
        }
        "run" => {
            let out = Command::new("sh").args(["-c", rest]).output()?;
            let text = [out.stdout, out.stderr].concat();
            Ok(String::from_utf8_lossy(&text).into_owned())
        }
        "hang" => loop {
            std::thread::sleep(std::time::Duration::from_secs(1));
        },
        _ => Err(format!("what is '{what}'?").into()),
    }
}
