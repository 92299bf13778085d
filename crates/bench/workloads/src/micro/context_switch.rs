//! A token around a ring of processes.

use crate::{
    looped::{Operation, timed},
    support::{asked, forked::Forked},
    workload::Place,
};
use std::{
    hint::black_box,
    io::{self, PipeReader, PipeWriter, Read, Write},
    time::Duration,
};
use transect_bench_core::{Fault, Metric, protocol::Param};

pub(super) fn params() -> Vec<(&'static str, Param, &'static str)> {
    vec![
        ("processes", Param::Int(2), "processes in the ring: LMbench's 2p"),
        (
            "kib",
            Param::Int(0),
            "memory that each process reads when it gets the token, KiB: LMbench's 0k",
        ),
    ]
}

/// One of the ring.
struct Member {
    from: PipeReader,
    to: PipeWriter,
    memory: Vec<u64>,
}

impl Member {
    fn work(&self) {
        black_box(self.memory.iter().fold(0u64, |sum, word| sum.wrapping_add(*word)));
    }

    /// Passes the token on until nobody sends it.
    fn pass_for_ever(mut self) -> i32 {
        let mut token = [0];
        while self.from.read_exact(&mut token).is_ok() {
            self.work();
            if self.to.write_all(&token).is_err() {
                break;
            }
        }
        0
    }
}

struct Ring {
    // Before the others: without its pipes they end by themselves.
    own: Member,
    others: Vec<Forked>,
}

impl Ring {
    fn start(processes: u64, words: usize) -> io::Result<Self> {
        let pipes = (0..processes).map(|_| io::pipe());
        let (mut from, mut to): (Vec<_>, Vec<_>) =
            pipes.collect::<io::Result<Vec<_>>>()?.into_iter().unzip();
        // Process n reads from pipe n and writes to the next one.
        to.rotate_left(1);
        let mut others = Vec::new();
        while from.len() > 1 {
            let (Some(one_from), Some(one_to)) = (from.pop(), to.pop()) else { break };
            let (ends_from, ends_to) = (&mut from, &mut to);
            others.push(Forked::start(move || {
                // Copies of the others' ends would keep the ring from ending.
                ends_from.clear();
                ends_to.clear();
                Member { from: one_from, to: one_to, memory: vec![1; words] }.pass_for_ever()
            })?);
        }
        let (Some(from), Some(to)) = (from.pop(), to.pop()) else {
            return Err(io::Error::other("a ring without processes"));
        };
        Ok(Self { own: Member { from, to, memory: vec![1; words] }, others })
    }
}

impl Operation for Ring {
    fn batch(&mut self, times: u64) -> io::Result<Duration> {
        let mut token = [0];
        timed(times, || {
            self.own.to.write_all(&token)?;
            self.own.from.read_exact(&mut token)?;
            self.own.work();
            Ok(())
        })
    }

    fn weight(&self) -> u64 {
        self.others.len() as u64 + 1
    }

    /// What a hop costs without a switch: the same pipe, memory and calls, in one process.
    fn besides(&mut self, hop_ns: f64) -> io::Result<Vec<Metric>> {
        const BATCHES: usize = 20;
        const TIMES: u32 = 100;
        let (mut from, mut to) = io::pipe()?;
        let mut token = [0];
        let mut took = Vec::with_capacity(BATCHES);
        for _ in 0..BATCHES {
            took.push(timed(TIMES.into(), || {
                to.write_all(&token)?;
                from.read_exact(&mut token)?;
                self.own.work();
                Ok(())
            })?);
        }
        // The median, as the hop's.
        took.sort_unstable();
        let alone_ns = took[BATCHES / 2].as_secs_f64() * 1e9 / f64::from(TIMES);
        Ok(vec![
            Metric::nanoseconds("overhead", alone_ns),
            Metric::nanoseconds("switch_only", hop_ns - alone_ns),
        ])
    }
}

pub(super) fn make(place: &Place<'_>) -> Result<Box<dyn Operation>, Fault> {
    let processes = asked::number(place.job, "processes", 2..=256)?;
    let kib = asked::number(place.job, "kib", 0..=1 << 14)?;
    let words = usize::try_from(kib * 1024 / 8).map_err(Fault::failed)?;
    let ring = Ring::start(processes, words);
    Ok(Box::new(ring.map_err(|error| Fault::failed(format!("a ring of processes: {error}")))?))
}
