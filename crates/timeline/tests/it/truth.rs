//! What tiles say is what the rows say: shares and intervals at every level against brute force.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::float_cmp,
    clippy::cast_possible_truncation,
    reason = "tests report by failing, and are of small numbers"
)]

use crate::common::{Place, Random, cpu_slices, exits, machines, vcpu_states};
use std::collections::BTreeMap;
use transect_model::table::Row;
use transect_timeline::{EXACT_INTERVALS, Kind, OTHERS, Share, Tile, TimelineError, View};

/// An interval as the rows have it: start, end, label of its key.
type Plain = (i64, i64, String);

fn level_span(level: u8) -> i64 {
    512_i64 << level
}

/// Each bucket's time by label, by looking at every interval.
fn brute_sums(rows: &[Plain], start: i64, level: u8) -> BTreeMap<u16, BTreeMap<String, i64>> {
    let mut sums: BTreeMap<u16, BTreeMap<String, i64>> = BTreeMap::new();
    let end = start + level_span(level);
    for (ts, until, label) in rows.iter().filter(|(ts, until, _)| *ts < end && *until > start) {
        let (mut at, until) = ((*ts).max(start), (*until).min(end));
        while at < until {
            let bucket = (at - start) >> level;
            let next = until.min(start + ((bucket + 1) << level));
            let of_bucket = sums.entry(u16::try_from(bucket).unwrap()).or_default();
            *of_bucket.entry(label.clone()).or_default() += next - at;
            at = next;
        }
    }
    sums
}

/// The rows of a track, from its own intervals at the finest level: proven first against `rows`.
fn check_track(view: &View, track: u32, rows: &[Plain]) {
    let all = view.intervals(track, i64::MIN / 4, i64::MAX / 4, usize::MAX / 4).unwrap();
    let label = |key: u32| view.keys()[key as usize].label.clone();
    let shown: Vec<Plain> = all.iter().map(|i| (i.ts, i.ts + i.dur, label(i.key))).collect();
    assert_eq!(shown, rows, "track {track} is not its rows");
    check_key_sums(view, track, rows);
    let top = view.top_level();
    let levels = (top.saturating_sub(12)..=top + 9).rev();
    let sums: usize = levels.map(|level| check_level(view, track, level, rows)).sum();
    assert!(sums > 20 || rows.len() < 10_000, "only {sums} tiles of sums were compared");
}

/// Time and number of each label in ranges that begin and end anywhere, chunks' ends included.
fn check_key_sums(view: &View, track: u32, rows: &[Plain]) {
    let mut random = Random::new(rows.len() as u64);
    let mut moments: Vec<i64> = vec![i64::MIN / 4, i64::MAX / 4];
    for _ in 0..40 {
        let row = &rows[usize::try_from(random.below(rows.len() as u64)).unwrap()];
        moments.extend([row.0, row.1, row.0 + (row.1 - row.0) / 2]);
    }
    for range in moments.chunks(2) {
        let (from, to) = (range[0].min(range[1]), range[0].max(range[1]) + 1);
        let mut expected: BTreeMap<String, (i64, u64)> = BTreeMap::new();
        for (ts, end, label) in rows {
            if *ts < to && (*end > from || *ts >= from) {
                let sum = expected.entry(label.clone()).or_default();
                *sum = (sum.0 + (*end).min(to) - (*ts).max(from), sum.1 + 1);
            }
        }
        let (mut found, mut sums) = (BTreeMap::new(), BTreeMap::new());
        view.add_key_sums(track, (from, to), &|| true, &mut sums).unwrap();
        for (key, sum) in sums {
            let of_label: &mut (i64, u64) =
                found.entry(view.keys()[key as usize].label.clone()).or_default();
            *of_label = (of_label.0 + sum.ns, of_label.1 + sum.count);
        }
        assert_eq!(found, expected, "track {track} from {from} to {to}");
    }
    let stopped = view.add_key_sums(track, (0, i64::MAX), &|| false, &mut BTreeMap::new());
    assert!(matches!(stopped, Err(TimelineError::Stopped)));
}

/// How many of the level's tiles are sums.
fn check_level(view: &View, track: u32, level: u8, rows: &[Plain]) -> usize {
    let mut compared = 0;
    let last = (view.to() - view.origin()) / level_span(level);
    for index in 0..=last {
        let start = view.origin() + index * level_span(level);
        let end = start + level_span(level);
        let within: Vec<&Plain> = rows.iter().filter(|r| r.0 < end && r.1 > start).collect();
        match view.tile(track, level, index).unwrap() {
            None => assert!(within.is_empty(), "level {level} tile {index} is missing"),
            Some(Tile::Exact(shown)) => {
                assert!(within.len() as u64 <= EXACT_INTERVALS);
                let shown: Vec<(i64, i64)> = shown.iter().map(|i| (i.ts, i.ts + i.dur)).collect();
                let known: Vec<(i64, i64)> = within.iter().map(|r| (r.0, r.1)).collect();
                assert_eq!(shown, known, "level {level} tile {index}");
            }
            Some(Tile::Shares(shares)) => {
                assert!(within.len() as u64 > EXACT_INTERVALS);
                let sums = brute_sums(rows, start, level);
                check_shares(view, &shares, &sums, 1 << level);
                compared += 1;
            }
            Some(Tile::Values(_)) => panic!("these are no numbers"),
        }
    }
    compared
}

fn check_shares(
    view: &View,
    shares: &[Share],
    sums: &BTreeMap<u16, BTreeMap<String, i64>>,
    bucket_ns: i64,
) {
    let mut by_bucket: BTreeMap<u16, Vec<(u32, u16)>> = BTreeMap::new();
    for share in shares {
        by_bucket.entry(share.bucket).or_default().push((share.key, share.share));
    }
    assert!(by_bucket.keys().eq(sums.keys()), "other buckets than the rows have");
    for (bucket, shares) in by_bucket {
        let sums = &sums[&bucket];
        let total: u32 = shares.iter().map(|(_, share)| u32::from(*share)).sum();
        assert!(total <= 65535 && shares.len() <= 16);
        let named: Vec<_> = shares.iter().filter(|(key, _)| *key != OTHERS).collect();
        let mut left = sums.clone();
        for (key, share) in &named {
            let label = &view.keys()[*key as usize].label;
            let ns = left.remove(label).unwrap_or_else(|| panic!("{label} is not in the rows"));
            check_share(ns, *share, bucket_ns);
        }
        let others = shares.iter().find(|(key, _)| *key == OTHERS);
        match others {
            None => assert!(left.is_empty(), "{left:?} is not shown"),
            Some((_, share)) => {
                assert_eq!(named.len(), 15, "others, although there was room");
                check_share(left.values().sum(), *share, bucket_ns);
                let shortest = named.iter().map(|(key, _)| sums[&view.keys()[*key as usize].label]);
                let shortest = shortest.min().unwrap();
                assert!(left.values().all(|ns| *ns <= shortest), "a longer key is in others");
            }
        }
    }
}

/// A share is rounded down, but never to nothing; room for that is taken from the largest.
fn check_share(ns: i64, share: u16, bucket_ns: i64) {
    let exact = i128::from(ns) * 65535 / i128::from(bucket_ns);
    let share = i128::from(share);
    assert!(share >= 1 && (exact - 16..=exact.max(1)).contains(&share), "{share} for {exact}");
}

fn track_of(view: &View, kind: Kind, lane: u32) -> u32 {
    let tracks = view.tracks().iter();
    let found = tracks.filter(|t| t.actor.kind == kind && t.lane == lane).map(|t| t.track);
    found.clone().next().unwrap_or_else(|| panic!("no {kind:?} track, lane {lane}"))
}

fn vcpu_label(row: &transect_model::table::VcpuStateRow) -> String {
    match (row.by_tid, row.reason) {
        (Some(tid), _) if tid.0 == 0 => "preempted, CPU leaves idle".to_owned(),
        (Some(tid), _) => format!("preempted by thread {}", tid.0),
        (None, Some(reason)) if row.state.as_str() == "exit" => format!("exit {}", reason.name()),
        (None, Some(reason)) => format!("{} ({})", row.state.as_str(), reason.name()),
        (None, None) => row.state.as_str().to_owned(),
    }
}

#[test]
fn states_of_a_vcpu_at_every_level() {
    for seed in 1..=3 {
        let states = vcpu_states(&mut Random::new(seed), 0, 1_000_000_007, 30_000);
        let rows: Vec<Plain> = states.iter().map(|s| (s.ts, s.ts + s.dur, vcpu_label(s))).collect();
        let place =
            Place::new(machines().into_iter().chain(states.into_iter().map(Row::VcpuState)));
        let view = place.ensure(2).unwrap();
        check_track(&view, track_of(&view, Kind::Vcpu, 0), &rows);
    }
}

#[test]
fn more_keys_than_a_bucket_gives() {
    let slices = cpu_slices(&mut Random::new(7), 60, 30_000);
    let busy = slices.iter().filter(|slice| slice.tid.is_some_and(|tid| tid.0 != 0));
    let label = |tid: i32| format!("thread {tid}");
    let rows: Vec<Plain> = busy.map(|s| (s.ts, s.ts + s.dur, label(s.tid.unwrap().0))).collect();
    let place = Place::new(machines().into_iter().chain(slices.into_iter().map(Row::CpuSlice)));
    let view = place.ensure(1).unwrap();
    check_track(&view, track_of(&view, Kind::Cpu, 0), &rows);
}

#[test]
fn what_overlaps_is_divided_over_lanes_and_nothing_is_lost() {
    let exits = exits(&mut Random::new(11), 20_000);
    let mut known: Vec<(i64, i64)> =
        exits.iter().map(|exit| (exit.ts, exit.ts + exit.dur.unwrap_or(0))).collect();
    let place = Place::new(machines().into_iter().chain(exits.into_iter().map(Row::Exit)));
    let view = place.ensure(2).unwrap();
    let mut shown = Vec::new();
    for track in view.tracks().iter().filter(|track| track.actor.kind == Kind::Exits) {
        let lane = view.intervals(track.track, 0, i64::MAX / 4, usize::MAX / 4).unwrap();
        let in_order = lane.windows(2).all(|pair| pair[0].ts + pair[0].dur <= pair[1].ts);
        assert!(in_order, "lane {} overlaps itself", track.lane);
        shown.extend(lane.iter().map(|interval| (interval.ts, interval.ts + interval.dur)));
        let rows: Vec<Plain> = lane
            .iter()
            .map(|i| (i.ts, i.ts + i.dur, view.keys()[i.key as usize].label.clone()))
            .filter(|row| row.0 < row.1)
            .collect();
        // Exits without an end have no time: sums have nothing of them.
        if lane.iter().all(|interval| interval.dur > 0) {
            check_track(&view, track.track, &rows);
        }
    }
    shown.sort_unstable();
    known.sort_unstable();
    assert_eq!(shown, known);
    assert_eq!(view.left_out().count(), 0);
}

#[test]
fn nothing_and_a_single_interval() {
    let view = Place::new(machines()).ensure(2).unwrap();
    assert!(view.tracks().iter().all(|track| track.intervals == 0));
    let states = vcpu_states(&mut Random::new(1), 0, 5, 1);
    let rows = machines().into_iter().chain(states.into_iter().map(Row::VcpuState));
    let view = Place::new(rows).ensure(2).unwrap();
    let track = track_of(&view, Kind::Vcpu, 0);
    let Some(Tile::Exact(shown)) = view.tile(track, 0, 0).unwrap() else { panic!("no tile") };
    assert_eq!((shown.len(), shown[0].ts), (1, 5));
    let [before, here, after] = view.around(track, 5).unwrap();
    assert_eq!((before, here, after), (None, Some(shown[0]), None));
}
