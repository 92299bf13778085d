//! Two real clocks of this machine that do not run alike, asked over a real channel.
//!
//! `CLOCK_MONOTONIC` (steered by NTP) plays the host, `CLOCK_MONOTONIC_RAW` (not steered) the guest.
//! A thread answers over a socket, with all the delays that scheduling adds. The truth is not
//! known to the tick, but gates a fraction as wide can be had by reading one clock between two
//! readings of the other; the estimate's bound must reach every such gate.
#![allow(clippy::unwrap_used, reason = "a failed expectation is the report")]

use rustix::time::{ClockId, clock_gettime};
use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    thread,
    time::Duration,
};
use transect_clock::{ClockGraph, ClockOptions, Evidence};
use transect_model::{
    ids::{CpuId, MachineId},
    time::Timestamp,
};

fn now(clock: ClockId) -> u64 {
    let t = clock_gettime(clock);
    u64::try_from(t.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(t.tv_nsec).unwrap()
}

fn host_now() -> u64 {
    now(ClockId::Monotonic)
}

fn guest_now() -> u64 {
    now(ClockId::MonotonicRaw)
}

/// Answers every byte with the guest's clock until the other end closes.
fn guest(mut channel: UnixStream) {
    let mut question = [0u8];
    while channel.read_exact(&mut question).is_ok() {
        channel.write_all(&guest_now().to_le_bytes()).unwrap();
    }
}

fn ask(channel: &mut UnixStream) -> Evidence {
    let mut answer = [0u8; 8];
    let host_send = host_now();
    channel.write_all(&[0]).unwrap();
    channel.read_exact(&mut answer).unwrap();
    let host_recv = host_now();
    let guest = u64::from_le_bytes(answer);
    Evidence::Exchange { machine: MachineId(1), parent: MachineId(0), host_send, guest, host_recv }
}

#[test]
fn an_estimate_over_a_real_channel_reaches_every_tighter_gate() {
    let (mut channel, theirs) = UnixStream::pair().unwrap();
    let answering = thread::spawn(|| guest(theirs));
    let host = Evidence::Reference { machine: MachineId(0), clock: "mono".to_owned() };
    let raw = Evidence::SourceClock { machine: MachineId(1), clock: "mono_raw".to_owned() };
    let mut evidence = vec![host, raw];
    let mut gates = Vec::new();
    for _ in 0..40 {
        evidence.push(ask(&mut channel));
        gates.push((host_now(), guest_now(), host_now()));
        thread::sleep(Duration::from_millis(20));
    }
    drop(channel);
    answering.join().unwrap();

    let graph = ClockGraph::from_evidence(&evidence, ClockOptions::default()).unwrap();
    assert_eq!(graph.notes(), &[] as &[String]);
    let converter = graph.converter(MachineId(1), CpuId(0)).unwrap();
    assert_eq!(converter.pieces(), 1);
    for (before, guest, after) in gates {
        let (ts, bound) = converter.trace_from_source(Timestamp::new(guest)).unwrap();
        let (ts, bound) = (i128::from(ts.get()), i128::from(bound.0));
        let (before, after) = (i128::from(before), i128::from(after) + 1);
        assert!(ts + bound >= before && ts - bound <= after, "{before} {ts}±{bound} {after}");
    }
    let rows = graph.edges();
    assert!(rows[0].error_bound_ns < 5_000_000, "useless: {:?}", rows[0]);
}
