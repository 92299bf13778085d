//! Arrows of the table of causes: who let whom go on, and what kind of cause it was.
//!
//! A waking's arrow ends where the thread got a CPU, which `wakeups` tells; every other one ends at the
//! effect. Raised softirqs have no arrows: each would go from what runs on a CPU to the interrupts of the
//! same CPU, for nearly every tick of its timer, and hide the others.

use super::arrows::{Actors, Ends, Flow, Places, any};
use super::{failed, table_rows};
use crate::row::{Row, id, int, rows_of, text, tid};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Int32Type, Int64Type, UInt32Type};
use std::collections::{BTreeSet, HashMap};
use transect_http::Response;
use transect_model::cause::{CauseKind, Evidence};
use transect_model::cell::Cell;
use transect_model::from_cell::FromCell as _;
use transect_model::interrupt::IrqSource;
use transect_timeline::{Condition, Lookup, Wanted};

/// Rows looked at: the time that a question takes is bounded. In a range with more the later ones have
/// no arrows.
const MAX_LOOKED_AT: usize = 4_000_000;
/// Of causes that an interval is the effect of, those no longer before it are found.
const LONGEST_NS: i64 = 1_000_000_000;
/// Interrupt lines whose names are known, at most.
const MAX_LINES: usize = 100_000;
/// Doorbells from here on are ports.
const PORT: u64 = 1 << 63;

/// A waking: machine, thread and time.
type Waking = (u32, i32, i64);

/// Kinds that have arrows.
fn kinds() -> impl Iterator<Item = CauseKind> {
    CauseKind::ALL.into_iter().filter(|kind| *kind != CauseKind::Softirq)
}

fn kind_of(word: &str) -> Option<CauseKind> {
    kinds().find(|kind| kind.as_str() == word)
}

/// Does such a cause wake the thread that it lets go on?
pub(super) fn is_waking(kind: CauseKind) -> bool {
    match kind {
        CauseKind::Wakeup
        | CauseKind::Fork
        | CauseKind::Timer
        | CauseKind::Ipi
        | CauseKind::Completion
        | CauseKind::Packet => true,
        CauseKind::Softirq
        | CauseKind::Kick
        | CauseKind::Injection
        | CauseKind::Line
        | CauseKind::Work
        | CauseKind::Lock => false,
    }
}

/// The word of a table's column as one of the model's.
pub(super) fn evidence_of(word: &str) -> Option<&'static str> {
    let all = [Evidence::Id, Evidence::Context, Evidence::Order];
    all.into_iter().map(Evidence::as_str).find(|known| *known == word)
}

/// Arrows of causes that begin in the range; to one track, also of those whose effect is in it. `limit`
/// of each kind at most. None if there are no causes: tables made without them may have wakeups.
pub(super) fn causes(
    places: &Places<'_>,
    lookup: &Lookup,
    (from, to): (i64, i64),
    (ends, actors): (Ends<'_>, &Actors),
    limit: usize,
) -> Result<Option<Vec<Flow>>, Response> {
    let is_of = Condition::Any(
        kinds().map(|kind| Condition::Is("kind", kind.as_str().to_owned())).collect(),
    );
    let mut only = vec![
        is_of,
        // The idle thread lets nobody go on: an interrupt did, which the recording does not tell.
        Condition::Any(vec![Condition::Not("tid", 0), Condition::Null("tid")]),
        ends.of(actors.causes(), actors.effects()),
    ];
    let arrives = matches!(ends, Ends::Either(_));
    let begin = if arrives { from.saturating_sub(LONGEST_NS) } else { from };
    if arrives {
        only.push(Condition::EndsAfter(from.saturating_sub(1)));
    }
    let columns = [
        "ts",
        "dur",
        "kind",
        "machine_id",
        "cpu",
        "tid",
        "vector",
        "to_machine_id",
        "to_cpu",
        "to_tid",
        "to_vcpu",
        "id",
        "evidence",
    ];
    let wanted = Wanted {
        columns: columns.to_vec(),
        ts: Some(begin..to),
        only: Condition::All(only),
        ..Wanted::default()
    };
    let rows = first_of_each_kind(lookup, &wanted, limit)?;
    let wakings: Vec<Waking> = rows.iter().filter_map(waking).collect();
    if rows.is_empty() {
        return Ok(None);
    }
    let known = Known { ran: ran(lookup, &wakings)?, lines: lines(lookup)? };
    let flows = rows.iter().filter_map(|row| flow(places, &known, row));
    let is_in = |ts: i64| (from..to).contains(&ts);
    let flows = flows.filter(|flow| is_in(flow.from.1) || (arrives && is_in(flow.to.1)));
    Ok(Some(flows.collect()))
}

/// Of the rows of each kind the first `limit`.
fn first_of_each_kind(
    lookup: &Lookup,
    wanted: &Wanted,
    limit: usize,
) -> Result<Vec<Row>, Response> {
    let mut counts: HashMap<CauseKind, usize> = HashMap::new();
    let mut looked_at = 0;
    let mut rows = Vec::new();
    for batch in lookup.open("causes", wanted).map_err(|error| failed(&error))? {
        let batch = batch.map_err(|error| failed(&error))?;
        let kinds = batch.column_by_name("kind").and_then(kinds_of).unwrap_or_default();
        let mut is_taken = |kind: &Option<CauseKind>| {
            kind.is_some_and(|kind| {
                let count = counts.entry(kind).or_default();
                *count += 1;
                *count <= limit
            })
        };
        let taken: Vec<bool> = kinds.iter().map(&mut is_taken).collect();
        rows.extend(rows_of(&stretches(&batch, &taken))?);
        looked_at += batch.num_rows();
        if looked_at >= MAX_LOOKED_AT {
            break;
        }
    }
    Ok(rows)
}

/// The parts of a batch whose rows are taken.
fn stretches(batch: &RecordBatch, taken: &[bool]) -> Vec<RecordBatch> {
    let mut parts = Vec::new();
    let mut at = 0;
    for part in taken.chunk_by(|a, b| a == b) {
        if part.first() == Some(&true) {
            parts.push(batch.slice(at, part.len()));
        }
        at += part.len();
    }
    parts
}

/// The kind of each row.
fn kinds_of(column: &ArrayRef) -> Option<Vec<Option<CauseKind>>> {
    Some(match column.data_type() {
        DataType::Utf8 => {
            column.as_string::<i32>().iter().map(|word| word.and_then(kind_of)).collect()
        }
        DataType::Utf8View => {
            column.as_string_view().iter().map(|word| word.and_then(kind_of)).collect()
        }
        DataType::Dictionary(..) => {
            let dictionary = column.as_dictionary_opt::<Int32Type>()?;
            let values = kinds_of(dictionary.values())?;
            let kind = |key: Option<i32>| *values.get(usize::try_from(key?).ok()?)?;
            dictionary.keys().iter().map(kind).collect()
        }
        _ => return None,
    })
}

/// The waking that a cause is.
fn waking(row: &Row) -> Option<Waking> {
    kind_of(text(row, "kind")).filter(|kind| is_waking(*kind))?;
    let at = int(row, "ts")?.checked_add(int(row, "dur")?)?;
    Some((id(row, "to_machine_id")?, tid(row, "to_tid")?, at))
}

/// What a waking led to: how long the thread then waited for a CPU, and the interrupt that woke it.
struct Ran {
    wait_ns: i64,
    interrupt: Option<(IrqSource, i32)>,
}

/// What other tables tell about causes.
struct Known {
    ran: HashMap<Waking, Ran>,
    /// Names of interrupt lines by machine and number.
    lines: HashMap<(u32, i64), String>,
}

/// What `wakeups` tells of these wakings.
fn ran(lookup: &Lookup, wakings: &[Waking]) -> Result<HashMap<Waking, Ran>, Response> {
    let mut found = HashMap::new();
    let times = || wakings.iter().map(|(.., at)| *at);
    let (Some(first), Some(last)) = (times().min(), times().max()) else { return Ok(found) };
    let asked: std::collections::HashSet<&Waking> = wakings.iter().collect();
    let threads: BTreeSet<(u32, i32)> =
        wakings.iter().map(|(machine, tid, _)| (*machine, *tid)).collect();
    let threads = threads.into_iter().map(|(machine, tid)| (machine, i64::from(tid)));
    let wanted = Wanted {
        columns: vec!["ts", "dur", "machine_id", "tid", "source", "vector"],
        ts: Some(first..last.saturating_add(1)),
        only: any(threads, "machine_id", "tid"),
        ..Wanted::default()
    };
    for batch in lookup.open("wakeups", &wanted).map_err(|error| failed(&error))? {
        let batch = batch.map_err(|error| failed(&error))?;
        let is_asked: Vec<bool> = wakings_of(&batch).iter().map(|at| asked.contains(at)).collect();
        for row in rows_of(&stretches(&batch, &is_asked))? {
            let (Some(at), Some(machine), Some(woken)) =
                (int(&row, "ts"), id(&row, "machine_id"), tid(&row, "tid"))
            else {
                continue;
            };
            let wait_ns = int(&row, "dur").unwrap_or(0);
            found.insert((machine, woken, at), Ran { wait_ns, interrupt: interrupt(&row) });
        }
        if found.len() == asked.len() {
            break;
        }
    }
    Ok(found)
}

/// The wakings that the rows of `wakeups` are.
fn wakings_of(batch: &RecordBatch) -> Vec<Waking> {
    let column = |name: &str| batch.column_by_name(name);
    let times = column("ts").and_then(|column| column.as_primitive_opt::<Int64Type>());
    let machines = column("machine_id").and_then(|column| column.as_primitive_opt::<UInt32Type>());
    let tids = column("tid").and_then(|column| column.as_primitive_opt::<Int32Type>());
    let (Some(times), Some(machines), Some(tids)) = (times, machines, tids) else {
        return Vec::new();
    };
    let both = machines.values().iter().zip(tids.values().iter());
    both.zip(times.values().iter()).map(|((machine, tid), at)| (*machine, *tid, *at)).collect()
}

/// The interrupt of a row of `wakeups`, if its handler was recorded.
pub(super) fn interrupt(row: &Row) -> Option<(IrqSource, i32)> {
    let source = IrqSource::from_cell(&Cell::Str(text(row, "source").into()));
    source.zip(int(row, "vector").and_then(|vector| i32::try_from(vector).ok()))
}

/// Names of interrupt lines, by machine and number.
fn lines(lookup: &Lookup) -> Result<HashMap<(u32, i64), String>, Response> {
    let wanted = Wanted {
        columns: vec!["machine_id", "irq", "name"],
        limit: MAX_LINES,
        ..Wanted::default()
    };
    let rows = table_rows(lookup, "irq_lines", &wanted)?;
    let name = |row: &Row| {
        Some(((id(row, "machine_id")?, int(row, "irq")?), text(row, "name").to_owned()))
    };
    Ok(rows.iter().filter_map(name).filter(|(_, name)| !name.is_empty()).collect())
}

fn flow(places: &Places<'_>, known: &Known, row: &Row) -> Option<Flow> {
    let kind = kind_of(text(row, "kind"))?;
    let (ts, machine) = (int(row, "ts")?, id(row, "machine_id")?);
    let effect = ts.checked_add(int(row, "dur")?)?;
    let from = match (kind, tid(row, "tid")) {
        // Linux numbers the CPUs of a guest as its VM does the vCPUs.
        (CauseKind::Kick, _) => places.vcpu(machine, id(row, "cpu")?)?,
        (_, Some(tid)) => places.thread(machine, tid)?,
        (_, None) => places.interrupt(machine, id(row, "cpu")?, ts)?,
    };
    let to_machine = id(row, "to_machine_id")?;
    let ran = waking(row).and_then(|waking| known.ran.get(&waking));
    let to = match (id(row, "to_vcpu"), tid(row, "to_tid")) {
        (Some(vcpu), _) => places.vcpu(to_machine, vcpu)?,
        (None, Some(tid)) => places.thread(to_machine, tid)?,
        // Nobody went on.
        (None, None) if kind == CauseKind::Kick => return None,
        (None, None) => places.interrupt(to_machine, id(row, "to_cpu")?, effect)?,
    };
    let until = effect.checked_add(ran.map_or(0, |ran| ran.wait_ns))?;
    (from != to).then(|| Flow {
        from: (from, ts),
        to: (to, until),
        kind: kind.as_str(),
        evidence: evidence_of(text(row, "evidence")),
        what: what(known, row, kind, ran),
    })
}

/// What the cause is about, in words.
fn what(known: &Known, row: &Row, kind: CauseKind, ran: Option<&Ran>) -> Option<String> {
    let vector = || int(row, "vector").map(|vector| format!("vector {vector}"));
    let number = row.get("id").and_then(serde_json::Value::as_u64);
    let line = |machine: &str, irq: i64| {
        let name = id(row, machine).and_then(|machine| known.lines.get(&(machine, irq)));
        name.map_or_else(|| format!("irq {irq}"), |name| format!("irq {irq} ({name})"))
    };
    match kind {
        CauseKind::Kick => number.map(|number| match number.checked_sub(PORT) {
            Some(port) => format!("port {port:#x}"),
            None => format!("doorbell {number:#x}"),
        }),
        CauseKind::Line => {
            let line = int(row, "id").map(|irq| line("to_machine_id", irq));
            let both = [line, vector()].into_iter().flatten().collect::<Vec<_>>();
            Some(both.join(", ")).filter(|both| !both.is_empty())
        }
        CauseKind::Work => number.map(|work| format!("work item {work:#x}")),
        CauseKind::Lock => number.map(|lock| format!("lock {lock:#x}")),
        _ if id(row, "to_vcpu").is_some() => vector(),
        _ => ran.and_then(|ran| ran.interrupt).map(|(source, vector)| match source {
            IrqSource::Line => line("machine_id", i64::from(vector)),
            _ => source.name(vector),
        }),
    }
}
