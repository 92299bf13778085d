//! Files cut and damaged at every byte: what is whole is read, what is not is told, nothing panics.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use crate::common::files;
use proptest::prelude::*;
use transect_model::ids::CpuId;
use transect_xentrace::{
    EventTaker, Record, What, Writer, XenEvent, XenTrace, XenVersion,
    synthetic::{self, Spec},
};

/// What a stream gives.
struct Given(Vec<(u64, XenEvent)>);

impl EventTaker for Given {
    fn take(&mut self, tsc: u64, event: XenEvent) {
        self.0.push((tsc, event));
    }
}

/// Everything that can be asked of a file; gives the records by CPU, and whether they are partial.
fn read(file: &[u8]) -> Option<(Vec<Vec<u64>>, bool)> {
    let trace = XenTrace::parse(file, XenVersion::Unknown).ok()?;
    let mut partial = trace.is_partial();
    let mut cpus = Vec::new();
    for cpu in trace.cpus() {
        let mut stream = trace.stream(cpu);
        let mut records = Vec::new();
        for record in stream.by_ref() {
            let _ = record.fields().count();
            records.push((record.tsc, record.typed()));
        }
        let (mut again, mut given) = (trace.stream(cpu), Given(Vec::new()));
        while again.give(7, &mut given) > 0 {}
        assert_eq!(given.0, records);
        assert_eq!((again.totals(), again.problems()), (stream.totals(), stream.problems()));
        for problem in trace.problems().iter().chain(stream.problems()) {
            assert!(problem.at_bytes <= file.len() as u64, "{problem}");
        }
        partial |= stream.is_partial();
        cpus.push(records.into_iter().map(|(tsc, _)| tsc).collect());
    }
    Some((cpus, partial))
}

fn small() -> Vec<u8> {
    let spec = Spec { records: 400, cpus: 2, domains: 4, window_bytes: 600, ..Spec::default() };
    synthetic::write(Vec::new(), &spec).unwrap().0
}

/// Where records and windows begin, the end too.
fn boundaries(file: &[u8]) -> (Vec<usize>, Vec<usize>) {
    let trace = XenTrace::parse(file, XenVersion::Unknown).unwrap();
    let mut records = Vec::new();
    let mut windows = vec![file.len()];
    for cpu in trace.cpus() {
        records.extend(trace.stream(cpu).map(|record| usize::try_from(record.at_bytes).unwrap()));
        windows.extend(trace.index().windows(cpu).iter().map(|window| window.at - 12));
    }
    (records, windows)
}

#[test]
fn cut_at_every_byte() {
    let file = small();
    let (records, windows) = boundaries(&file);
    for cut in 0..file.len() {
        let Some((cpus, partial)) = read(&file[..cut]) else {
            assert!(cut < 12, "cut at {cut}");
            continue;
        };
        // Between windows nothing tells that there was more.
        assert_eq!(partial, !windows.contains(&cut), "cut at {cut}");
        let whole = records.iter().filter(|&&at| at < cut).count();
        let inside = cut > 0 && !records.contains(&cut) && !windows.contains(&cut);
        let read: usize = cpus.iter().map(Vec::len).sum();
        // The record the cut is in is missing, unless the cut is in a CPU_CHANGE record.
        assert!(read == whole || inside && read + 1 == whole, "cut at {cut}: {read} of {whole}");
    }
}

#[test]
fn every_byte_damaged() {
    let file = small();
    for at in 0..file.len() {
        for bit in [0x01, 0x80] {
            let mut damaged = file.clone();
            damaged[at] ^= bit;
            read(&damaged);
        }
    }
}

#[test]
fn damage_to_one_window_leaves_the_others() {
    let file = small();
    let all: usize = read(&file).unwrap().0.iter().map(Vec::len).sum();
    let (_, windows) = boundaries(&file);
    for &window in windows.iter().filter(|&&at| at > 0 && at < file.len()) {
        let mut damaged = file.clone();
        damaged[window] ^= 0x40;
        let (cpus, partial) = read(&damaged).unwrap();
        let left: usize = cpus.iter().map(Vec::len).sum();
        assert!(partial && all - left < 40, "{left} of {all} left without the window at {window}");
    }
}

#[test]
fn ten_thousand_domains() {
    let mut writer = Writer::new(Vec::new(), 1 << 20);
    for dom in 0..10_000_u16 {
        let tsc = 1_000 + u64::from(dom);
        writer.event(CpuId(0), tsc, &XenEvent::DomainCreated { dom }).unwrap();
    }
    let file = writer.finish().unwrap();
    let trace = XenTrace::parse(&file, XenVersion::Unknown).unwrap();
    let doms: Vec<u16> = trace
        .stream(CpuId(0))
        .map(|record| match record.typed() {
            XenEvent::DomainCreated { dom } => dom,
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(doms.into_iter().eq(0..10_000));
}

#[test]
fn many_problems_are_counted_not_kept() {
    let mut writer = Writer::new(Vec::new(), 4096);
    for n in 0..5_000_u64 {
        writer.event(CpuId(0), 1_000_000 - n, &XenEvent::PvMathState).unwrap();
    }
    let file = writer.finish().unwrap();
    let trace = XenTrace::parse(&file, XenVersion::Unknown).unwrap();
    let mut stream = trace.stream(CpuId(0));
    assert_eq!(stream.by_ref().count(), 5_000);
    assert_eq!(stream.problems().len(), 1_000);
    assert_eq!(stream.problems()[999].what, What::More { count: 4_000 });
}

#[test]
fn a_stream_taken_up_anywhere_gives_the_rest() {
    for (name, file) in files("succeed") {
        let trace = XenTrace::parse(&file, XenVersion::Unknown).unwrap();
        for cpu in trace.cpus() {
            let key = |record: Record<'_>| (record.at_bytes, record.tsc, record.event);
            let all: Vec<_> = trace.stream(cpu).map(key).collect();
            for parts in 1..5 {
                let parts = trace.parts(cpu, parts);
                let joined = parts.into_iter().flat_map(|part| trace.stream_of(cpu, part));
                assert!(joined.map(key).eq(all.iter().copied()), "{name} CPU {cpu}");
            }
            let mut stream = trace.stream(cpu);
            for n in 0..=all.len() {
                if n % 37 == 0 {
                    let rest = trace.resume(cpu, stream.position());
                    assert!(rest.map(key).eq(all[n..].iter().copied()), "{name} CPU {cpu} {n}");
                }
                stream.next();
            }
        }
    }
}

#[test]
fn a_growing_file_is_read_on() {
    let file = small();
    let whole = XenTrace::parse(&file, XenVersion::Unknown).unwrap();
    let mut index = transect_xentrace::Index::default();
    for end in (0..file.len()).step_by(97) {
        index.extend(&file[..end]);
        assert!(index.problems().is_empty(), "at {end}: {:?}", index.problems());
    }
    index.finish(&file);
    for cpu in whole.cpus() {
        assert_eq!(index.windows(cpu), whole.index().windows(cpu));
    }
}

proptest! {
    #[test]
    fn any_bytes_behind_a_window_head(cpu in 0..3_u32, bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let mut file = Vec::new();
        for word in [transect_xentrace::word::CPU_CHANGE_HEAD, cpu, 200] {
            file.extend_from_slice(&word.to_le_bytes());
        }
        file.extend_from_slice(&bytes);
        prop_assert!(read(&file).is_some());
    }
}
