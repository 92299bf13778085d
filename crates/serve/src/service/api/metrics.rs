//! `/metrics`.

use super::Answered;
use crate::service::metrics::{Around, Format, render};
use crate::service::route::Call;
use crate::service::shared::Service;
use procfs::process::Process;
use std::sync::atomic::Ordering::Relaxed;
use transect_http::Response;

pub(crate) fn answer(service: &Service, call: &Call<'_>) -> Answered {
    let format = Format::accepted(call.request.header("accept"));
    let text = render(&service.counters(), &around(service), format);
    Ok(Response::new(format.kind(), text).into())
}

fn around(service: &Service) -> Around {
    let snapshots = service.snapshots.numbers();
    let triggers = service.watches();
    let triggers = triggers
        .iter()
        .map(|watch| (watch.trigger.name.clone(), watch.fired, watch.holding as u64));
    let answers = [0, 1, 2, 3]
        .map(|class: usize| service.answers.get(class).map_or(0, |count| count.load(Relaxed)));
    Around {
        window_ns: service.hub.window_ns,
        memory_bytes: memory_bytes().unwrap_or(0),
        history: service.index.as_ref().map(|index| index.numbers()).unwrap_or_default(),
        snapshots_asked: snapshots.asked,
        snapshots_triggered: snapshots.triggered,
        snapshots_failed: snapshots.failed,
        snapshots_kept: snapshots.kept,
        snapshots_bytes: snapshots.bytes,
        triggers: triggers.collect(),
        answers,
        refused_questions: service.refused_questions.load(Relaxed),
        turned_away: service.counts.turned_away.load(Relaxed),
        bad: service.counts.bad.load(Relaxed),
        connections: service.counts.open.load(Relaxed) as u64,
        waiting: service.hub.waiting() as u64,
    }
}

/// Resident memory of this process, bytes.
fn memory_bytes() -> Option<u64> {
    let status = Process::myself().and_then(|process| process.status()).ok()?;
    status.vmrss?.checked_mul(1024)
}
