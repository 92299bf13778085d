//! Nanoseconds per conversion, for each kind of route a merge can meet.
//!
//! `cargo run --release -p transect-clock --example convert_speed`
#![allow(clippy::print_stdout, reason = "its whole purpose")]

use std::{hint::black_box, time::Instant};
use transect_clock::{
    ClockError, ClockGraph, ClockOptions, Converter, Evidence, evidence::RateSource,
};
use transect_model::{
    ids::{CpuId, MachineId, VcpuId},
    time::Timestamp,
};

const STAMPS: u64 = 20_000_000;
const START: u64 = 100_000_000_000;
/// Readings, ten a second.
const SAMPLES: u32 = 100;

fn main() -> Result<(), ClockError> {
    let options = ClockOptions::default();
    let rate = Evidence::TscRate {
        machine: MachineId(0),
        mult: 1_654_435_054,
        shift: 32,
        offset_ns: 0,
        how: RateSource::PerfMmap,
        error_ppm: 0.0,
    };
    let reference = Evidence::Reference { machine: MachineId(0), clock: "x86-tsc".to_owned() };
    let base = [reference, rate];
    let with = |more: Vec<Evidence>| {
        let all: Vec<Evidence> = base.iter().cloned().chain(more).collect();
        ClockGraph::from_evidence(&all, options)
    };
    let offset = |ratio: Option<u64>, offset: i64, at_host: u64| Evidence::TscOffset {
        machine: MachineId(1),
        parent: MachineId(0),
        vcpu: VcpuId(0),
        offset,
        ratio,
        frac_bits: ratio.map(|_| 48),
        at_host,
    };
    let exchange = |i: u64| Evidence::Exchange {
        machine: MachineId(1),
        parent: MachineId(0),
        host_send: START + i * 500_000_000,
        guest: START + i * 500_000_000 + 40_000 + i * 7_919 % 60_000,
        host_recv: START + i * 500_000_000 + 160_000,
    };
    let host = with(vec![])?.converter(MachineId(0), CpuId(0))?;
    let guest = |more| with(more)?.converter(MachineId(1), CpuId(0));
    measure("host, ticks to ns", host)?;
    measure("guest, constant offset", guest(vec![offset(None, -5_000, 1)])?)?;
    measure("guest, scaled TSC", guest(vec![offset(Some(200_000_000_000_000), -5_000, 1)])?)?;
    let rebooted = vec![offset(None, -5_000, 1), offset(None, -9_000, START + STAMPS * 50)];
    measure("guest, two boots", guest(rebooted)?)?;
    measure("guest, 1,000 exchanges", guest((0..1_000).map(exchange).collect())?)?;
    measure("host, mono", mono(options)?.converter(MachineId(0), CpuId(0))?)?;
    measure("guest, mono by its TSC", mono(options)?.converter(MachineId(1), CpuId(0))?)
}

/// Host and guest in mono, with readings beside their TSCs for the time that is measured over.
fn mono(options: ClockOptions) -> Result<ClockGraph, ClockError> {
    let reading = |machine, ns: u64, tsc: u64| Evidence::TscReading {
        machine: MachineId(machine),
        clock: "mono".to_owned(),
        tsc_before: tsc,
        ns,
        tsc_after: tsc + 60,
    };
    let mut evidence = vec![
        Evidence::Reference { machine: MachineId(0), clock: "mono".to_owned() },
        Evidence::SourceClock { machine: MachineId(1), clock: "mono".to_owned() },
        Evidence::TscOffset {
            machine: MachineId(1),
            parent: MachineId(0),
            vcpu: VcpuId(0),
            offset: -5_000,
            ratio: None,
            frac_bits: None,
            at_host: START,
        },
    ];
    for i in 0..u64::from(SAMPLES) {
        let ns = START + i * 100_000_000;
        evidence.push(reading(0, ns, 5_000 + ns * 26 / 10));
        evidence.push(reading(1, ns + 777, ns * 26 / 10));
    }
    ClockGraph::from_evidence(&evidence, options)
}

fn measure(what: &str, mut converter: Converter) -> Result<(), ClockError> {
    let start = Instant::now();
    let mut sum = 0i64;
    for i in 0..STAMPS {
        sum ^= converter.follow(black_box(Timestamp::new(START + i * 100)))?.get();
    }
    black_box(sum);
    let per_stamp = start.elapsed().as_secs_f64() * 1e9 / 2e7;
    println!("{what:<26}{per_stamp:6.2} ns");
    Ok(())
}
