//! `/api/flows`: who let whom go on, preempted and asked whom, as arrows between tracks.

use super::arrows::{Actors, Ends, Flow, Places};
use super::causes::causes;
use super::handover::{Handover, handovers};
use super::{Answered, Time, body, failed, lookup, table_rows, view};
use crate::row::{Row, id, int, text, tid};
use crate::state::State;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, UInt32Array};
use arrow::error::ArrowError;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use transect_http::Response;
use transect_timeline::{Condition, Kind, Lookup, TimelineError, Wanted, stream};

/// Arrows at most.
const MAX_FLOWS: usize = 20_000;

#[derive(serde::Deserialize)]
struct Wish {
    from: Time,
    to: Time,
    /// None or empty: all.
    tracks: Option<Vec<u32>>,
    limit: Option<usize>,
}

pub(crate) fn answer(state: &State, bytes: &[u8]) -> Answered {
    let wish: Wish = body(bytes)?;
    let (view, lookup) = (view(state)?, lookup(state)?);
    let places = Places::new(&view, &lookup)?;
    let limit = wish.limit.unwrap_or(1000).min(MAX_FLOWS);
    let tracks: Vec<u32> = wish.tracks.unwrap_or_default();
    let ends = if tracks.is_empty() { Ends::Any } else { Ends::Both(&tracks) };
    let flows = between(&places, &lookup, (wish.from.0, wish.to.0), ends, limit)?;
    let bytes = batch(&flows).map_err(TimelineError::from).and_then(|batch| stream(&batch));
    bytes.map(Response::arrow).map_err(|error| failed(&error))
}

/// Arrows that begin in `[from, to)`, in order of time: `limit` at most, of which a kind with many leaves
/// as many as they have to those with few. Of causes of one track's intervals also those whose effect is
/// in that range.
pub(crate) fn between(
    places: &Places<'_>,
    lookup: &Lookup,
    (from, to): (i64, i64),
    ends: Ends<'_>,
    limit: usize,
) -> Result<Vec<Flow>, Response> {
    let actors = Actors::new(places, ends.tracks());
    // A device's requests are of any thread: which lane each is in, only the tracks know.
    let has_device = ends.tracks().iter().any(|track| {
        places.view.track(*track).is_some_and(|track| track.actor.kind == Kind::Block)
    });
    let ask = |table: &str, columns: &[&'static str], only: Vec<Condition>| {
        let wanted = Wanted {
            columns: columns.to_vec(),
            ts: Some(from..to),
            only: Condition::All(only),
            limit,
        };
        table_rows(lookup, table, &wanted)
    };
    let of_causes = causes(places, lookup, (from, to), (ends, &actors), limit)?;
    let preempted = ask(
        "vcpu_states",
        &["ts", "machine_id", "vcpu", "by_tid"],
        vec![
            Condition::Is("state", "preempted".to_owned()),
            Condition::Between("by_tid", 1..i64::MAX),
            ends.of(actors.by(), actors.vcpu()),
        ],
    )?;
    let of_domains = ends.of(actors.by_vm(), actors.vcpu());
    let by_vcpus = handovers(places.view, lookup, (from, to), of_domains, limit)?;
    let has_device = if has_device { Condition::always() } else { Condition::never() };
    let requests = ask(
        "block_io",
        &["ts", "machine_id", "tid", "device"],
        vec![Condition::Not("tid", 0), ends.of(actors.thread("tid"), has_device)],
    )?;
    let mut flows: Vec<Flow> = match of_causes {
        Some(flows) => flows,
        None => {
            let wakeups = ask(
                "wakeups",
                &["ts", "dur", "machine_id", "tid", "waker_tid", "waker_cpu"],
                vec![
                    // The idle thread wakes nobody: an interrupt did, which the recording does not tell.
                    Condition::Any(vec![
                        Condition::Not("waker_tid", 0),
                        Condition::Null("waker_tid"),
                    ]),
                    ends.of(actors.waker(), actors.thread("tid")),
                ],
            )?;
            wakeups.iter().filter_map(|row| wakeup(places, row)).collect()
        }
    };
    flows.extend(preempted.iter().filter_map(|row| preemption(places, row)));
    flows.extend(by_vcpus.iter().filter_map(|wait| handover(places, wait)));
    flows.extend(requests.iter().filter_map(|row| request(places, row)));
    flows.retain(|flow| ends.has(flow));
    flows.sort_by_key(|flow| (flow.from.1, flow.to, flow.from.0));
    Ok(fair(flows, limit))
}

/// The first `limit` arrows. Kinds share what they need more than others in equal parts: one that has
/// few keeps all of them.
fn fair(flows: Vec<Flow>, limit: usize) -> Vec<Flow> {
    if flows.len() <= limit {
        return flows;
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for flow in &flows {
        *counts.entry(flow.kind).or_default() += 1;
    }
    let mut kinds: Vec<(&str, usize)> = counts.into_iter().collect();
    kinds.sort_by_key(|(_, count)| *count);
    let (mut left, all) = (limit, kinds.len());
    let mut shares: HashMap<&str, usize> = HashMap::new();
    for (at, (kind, count)) in kinds.into_iter().enumerate() {
        let share = count.min(left / (all - at));
        shares.insert(kind, share);
        left -= share;
    }
    let mut kept = flows;
    kept.retain(|flow| {
        let share = shares.get_mut(flow.kind).filter(|share| **share > 0);
        share.map(|share| *share -= 1).is_some()
    });
    kept
}

/// Of tables without causes: from who woke, a thread or an interrupt, when it did, to who was woken, when
/// it got a CPU.
fn wakeup(places: &Places<'_>, row: &Row) -> Option<Flow> {
    let (ts, machine) = (int(row, "ts")?, id(row, "machine_id")?);
    let from = match tid(row, "waker_tid") {
        Some(waker) => places.thread(machine, waker)?,
        None => places.interrupt(machine, id(row, "waker_cpu")?, ts)?,
    };
    let to = places.thread(machine, tid(row, "tid")?)?;
    let until = ts.checked_add(int(row, "dur").unwrap_or(0))?;
    Flow::plain("wakeup", (from, ts), (to, until))
}

fn preemption(places: &Places<'_>, row: &Row) -> Option<Flow> {
    let (ts, machine) = (int(row, "ts")?, id(row, "machine_id")?);
    let from = places.thread(places.host(machine), tid(row, "by_tid")?)?;
    let to = places.vcpu(machine, id(row, "vcpu")?)?;
    Flow::plain("preempt", (from, ts), (to, ts))
}

fn handover(places: &Places<'_>, wait: &Handover) -> Option<Flow> {
    let from = places.vcpu(wait.by_machine, wait.by_vcpu?)?;
    let to = places.vcpu(wait.machine, wait.vcpu)?;
    Flow::plain("preempt", (from, wait.ts), (to, wait.ts))
}

fn request(places: &Places<'_>, row: &Row) -> Option<Flow> {
    let (ts, machine) = (int(row, "ts")?, id(row, "machine_id")?);
    let from = places.thread(machine, tid(row, "tid")?)?;
    let to = places.request(machine, text(row, "device"), ts)?;
    Flow::plain("block", (from, ts), (to, ts))
}

fn batch(flows: &[Flow]) -> Result<RecordBatch, ArrowError> {
    let tracks = |get: fn(&Flow) -> u32| -> ArrayRef {
        Arc::new(UInt32Array::from_iter_values(flows.iter().map(get)))
    };
    let times = |get: fn(&Flow) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(flows.iter().map(get)))
    };
    let words = |get: &dyn Fn(&Flow) -> Option<&str>| -> ArrayRef {
        Arc::new(flows.iter().map(get).collect::<StringArray>())
    };
    RecordBatch::try_from_iter_with_nullable([
        ("from_track", tracks(|flow| flow.from.0), false),
        ("from_ts", times(|flow| flow.from.1), false),
        ("to_track", tracks(|flow| flow.to.0), false),
        ("to_ts", times(|flow| flow.to.1), false),
        ("kind", words(&|flow| Some(flow.kind)), false),
        ("evidence", words(&|flow| flow.evidence), true),
        ("what", words(&|flow| flow.what.as_deref()), true),
    ])
}
