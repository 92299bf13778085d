//! The answer to a call, out of the rows.

use super::batch::batch_of;
use super::call::{Asked, Call, Who};
use super::gather::Accounted;
use arrow::array::RecordBatch;
use datafusion::common::exec_err;
use datafusion::error::Result;
use transect_explain::lines::{BlameLine, FindingLine, PathLine, SentenceLine};
use transect_explain::{Actor, Explained, Piece, Root, Rows, ThreadId, detect};
use transect_model::cell::Record;
use transect_model::ids::MachineId;
use transect_model::table::{TableDoc, Tables};
use transect_model::time::{Span, TimeUnit, Timestamp};

/// Rows of a batch, at most.
const BATCH_ROWS: usize = 8192;

/// Makes the answer. Ends early, with what there is, once `wanted` says no.
pub(crate) fn answer(
    call: Call,
    Accounted { rows, memory }: &mut Accounted,
    wanted: &dyn Fn() -> bool,
) -> Result<Vec<RecordBatch>> {
    let (tables, packed) = std::mem::take(rows).into_parts();
    let unit = unit(&tables);
    let rows = Rows::of(&tables, packed);
    let Some(window) = window(&rows, &call) else {
        return exec_err!(
            "no scheduler events (sched:sched_switch, or Xen's) in this range, from which states of threads and vCPUs are made"
        );
    };
    let range = detect::Range {
        from: window.start.get(),
        until: window.end.get(),
        second: (unit == TimeUnit::Ns).then_some(1_000_000_000),
    };
    let table = call.asked.table();
    let explain = |actors: Vec<Actor>| -> Vec<Root> {
        let wanted = actors.into_iter().take_while(|_| wanted());
        wanted.filter_map(|actor| Root::in_life(&rows, actor, window)).collect()
    };
    let one = call.who.map(|(machine, who)| actor(&rows, machine, who)).transpose()?;
    let roots = match (one, call.asked) {
        (Some(actor), _) => explain(vec![actor]),
        (None, Asked::Blame) => explain(rows.actors()),
        (None, _) => Vec::new(),
    };
    if let (Some((machine, who)), true) = (call.who, roots.is_empty()) {
        return exec_err!("machine {machine} has no {} in this range", name(who));
    }
    match call.asked {
        Asked::Path => {
            let count = roots.iter().map(|root| root.walked.pieces).sum::<u64>();
            let count = usize::try_from(count).unwrap_or(usize::MAX);
            memory.try_grow(count.saturating_mul(size_of::<Piece>()))?;
            let pieces: Vec<Piece> = roots.iter().flat_map(|root| root.path(&rows)).collect();
            let mut made = Vec::new();
            for pieces in pieces.chunks(BATCH_ROWS) {
                let lines = pieces.iter().map(|piece| PathLine::new(&rows, piece));
                let batch = batch_of(&table, &lines.collect::<Vec<_>>())?;
                memory.try_grow(batch.get_array_memory_size())?;
                made.push(batch);
            }
            Ok(made)
        }
        Asked::Explanation => {
            let of = |root| SentenceLine::of_root(&rows, root, unit);
            batches(&table, &roots.iter().flat_map(of).collect::<Vec<_>>())
        }
        Asked::Blame => batches(&table, &BlameLine::of_roots(&rows, &roots)),
        Asked::Findings => {
            let found = match roots.is_empty() {
                true => detect::findings(&rows, &tables, range),
                false => Explained::new(&rows, &tables, roots, range).findings.unwrap_or_default(),
            };
            let lines = found.iter().map(|finding| FindingLine::new(&rows, finding, unit));
            batches(&table, &lines.collect::<Vec<_>>())
        }
    }
}

fn batches<R: Record>(table: &TableDoc, lines: &[R]) -> Result<Vec<RecordBatch>> {
    lines.chunks(BATCH_ROWS).map(|lines| batch_of(table, lines)).collect()
}

fn unit(tables: &Tables) -> TimeUnit {
    let ticks = TimeUnit::Ticks.as_str();
    let in_ticks = tables.machines.iter().any(|row| row.time_unit.as_deref() == Some(ticks));
    if in_ticks { TimeUnit::Ticks } else { TimeUnit::Ns }
}

/// The part of the range of which something is known; none if nothing is.
fn window(rows: &Rows<'_>, call: &Call) -> Option<Span> {
    let (from, until) = rows.extent()?;
    let from = call.from.map_or(from, |start| from.max(start));
    let until = call.until.map_or(until, |end| until.min(end));
    (from < until).then(|| Span { start: Timestamp::new(from), end: Timestamp::new(until) })
}

/// A vCPU is its host's thread, where that is known.
fn actor(rows: &Rows<'_>, machine: MachineId, who: Who) -> Result<Actor> {
    if rows.machine(machine).is_none() {
        return exec_err!("there is no machine {machine}: SELECT * FROM machines lists them");
    }
    Ok(match who {
        Who::Thread(tid) => Actor::Thread(ThreadId { machine, tid }),
        Who::Vcpu(vcpu) => match rows.vcpu_thread(machine, vcpu) {
            Some(thread) => Actor::Thread(thread),
            None => Actor::Vcpu(machine, vcpu),
        },
    })
}

fn name(who: Who) -> String {
    match who {
        Who::Thread(tid) => format!("thread {tid}"),
        Who::Vcpu(vcpu) => format!("vCPU {vcpu}"),
    }
}
