//! A run that is cut and taken up again is the run that was not, to the row and its place.

#![allow(
    clippy::cast_possible_truncation,
    clippy::unwrap_used,
    reason = "a handful of actors; a failed expectation is the report"
)]

use crate::dsl::{
    Nanoseconds,
    random::{Streams, inputs, key, streams, topology},
};
use proptest::prelude::*;
use std::num::NonZeroUsize;
use transect_engine::{
    Boundary, Engine, EngineError, Input, LostCause, MachineGap, Options, StreamItem, Summary,
};
use transect_model::{ids::MachineId, table::Tables, time::Timestamp};

type Inputs = Vec<Input<std::vec::IntoIter<StreamItem>, Nanoseconds>>;

/// The same engine for every shard, but for its threads.
fn engine(known: bool, threads: usize, gap: Option<(i64, i64)>) -> Engine {
    let gaps = gap.map(|(from, length)| MachineGap {
        machine: MachineId(1),
        from: Timestamp::new(from),
        until: Some(Timestamp::new(from + length)),
        cause: LostCause::GuestDisconnected,
    });
    Engine::new(topology(known), Options { window_ns: 700 })
        .with_threads(NonZeroUsize::new(threads).unwrap())
        .with_gaps(gaps)
        .with_lost_counts([(key(0), 3)])
}

fn stamp(item: &StreamItem) -> Option<u64> {
    match item {
        StreamItem::Event { ts, .. } | StreamItem::Other { ts, .. } => Some(ts.get()),
        StreamItem::Lost(_) => None,
    }
}

/// The streams, opened somewhere before the first item at or beyond `cut` (`back` of 256 parts of
/// the way to the beginning).
fn opened_at(streams: &Streams, cut: i64, back: u8) -> Inputs {
    let open = |(at, items): (usize, &Vec<StreamItem>)| {
        let is_new = |item: &StreamItem| stamp(item).is_some_and(|ts| i128::from(ts) >= cut.into());
        let first = items.iter().position(is_new).unwrap_or(items.len());
        let skipped = first - first * usize::from(back) / 256;
        let rest = items[skipped..].to_vec();
        Input { key: key(at), stream: rest.into_iter(), clock: Nanoseconds }
    };
    streams.iter().enumerate().map(open).collect()
}

/// As another process would get it.
fn carried(boundary: &Boundary) -> Boundary {
    postcard::from_bytes(&postcard::to_allocvec(boundary).unwrap()).unwrap()
}

struct Shards<'a> {
    streams: &'a Streams,
    known: bool,
    gap: Option<(i64, i64)>,
    /// None: every shard reads the streams from their beginning.
    back: Option<u8>,
}

impl Shards<'_> {
    fn inputs(&self, cut: Option<i64>) -> Inputs {
        match (cut, self.back) {
            (Some(cut), Some(back)) => opened_at(self.streams, cut, back),
            _ => inputs(self.streams),
        }
    }

    /// One shard after the other, each going on from what the one before left.
    fn run(&self, cuts: &[i64]) -> (Tables, Summary) {
        let mut tables = Tables::default();
        let mut left: Option<Boundary> = None;
        let mut from = None;
        let next = |left: &Option<Boundary>, shard: usize| {
            let engine = engine(self.known, 1 + shard % 4, self.gap);
            match left {
                Some(boundary) => engine.resume(carried(boundary)),
                None => engine,
            }
        };
        for (shard, cut) in cuts.iter().enumerate() {
            let engine = next(&left, shard);
            let cut_at = Timestamp::new(*cut);
            left = Some(engine.run_until(self.inputs(from), cut_at, &mut tables).unwrap());
            from = Some(*cut);
        }
        let summary = next(&left, 0).run(self.inputs(from), &mut tables).unwrap();
        (tables, summary)
    }
}

/// Places to cut at: some at stamps of the streams, some just beside.
fn cuts(streams: &Streams, picks: &[(u16, i64)]) -> Vec<i64> {
    let mut stamps: Vec<u64> = streams.iter().flatten().filter_map(stamp).collect();
    stamps.sort_unstable();
    let at = |(pick, beside): &(u16, i64)| {
        let stamp = *stamps.get(usize::from(*pick) * stamps.len() / 65_536)?;
        i64::try_from(stamp).ok()?.checked_add(*beside)
    };
    let mut cuts: Vec<i64> = picks.iter().filter_map(at).collect();
    cuts.sort_unstable();
    cuts
}

fn picks() -> impl Strategy<Value = Vec<(u16, i64)>> {
    prop::collection::vec((any::<u16>(), -2..3i64), 0..5)
}

fn gap() -> impl Strategy<Value = Option<(i64, i64)>> {
    prop::option::of((0..6000i64, 1..3000i64))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(160) })]

    /// Cuts anywhere, lost regions and open exits included; streams opened anywhere before.
    #[test]
    fn shards_are_the_single_pass(
        streams in streams(true, false), known: bool, picks in picks(), gap in gap(),
        back in prop::option::of(any::<u8>()),
    ) {
        let shards = Shards { streams: &streams, known, gap, back };
        let single = shards.run(&[]);
        prop_assert_eq!(shards.run(&cuts(&streams, &picks)), single);
    }

    /// Stamps from broken input, which look-ahead has to judge, on both sides of cuts.
    #[test]
    fn broken_stamps_are_judged_the_same(
        streams in streams(true, true), known: bool, picks in picks(),
    ) {
        let shards = Shards { streams: &streams, known, gap: None, back: None };
        let single = shards.run(&[]);
        prop_assert_eq!(shards.run(&cuts(&streams, &picks)), single);
    }
}

#[test]
fn other_streams_are_refused() {
    let streams = vec![Vec::new(); 5];
    let cut = Timestamp::new(5);
    let mut tables = Tables::default();
    let left = engine(true, 1, None).run_until(inputs(&streams), cut, &mut tables).unwrap();
    assert_eq!(left.events(), 0);
    let mut fewer = inputs(&streams);
    fewer.pop();
    let result = engine(true, 1, None).resume(left).run(fewer, &mut tables);
    assert_eq!(result, Err(EngineError::OtherStreams));
}
