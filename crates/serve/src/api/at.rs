//! `/api/at`: everything about what is at a moment of a track.

use super::arrows::{Ends, Flow, Places};
use super::causes::{evidence_of, interrupt, is_waking};
use super::flows::between;
use super::{Answered, columns_of, exact, failed, lookup, table_rows, view};
use crate::row::{Row, id, int, rows_of, text, tid};
use crate::state::State;
use serde_json::{Value, json};
use transect_http::{Request, Response};
use transect_model::cause::CauseKind;
use transect_model::interrupt::{IrqSource, VectorSource};
use transect_timeline::{Actor, Class, Condition, Kind, Lookup, Shown, Track, View, Wanted};

/// Arrows listed.
const MAX_ARROWS: usize = 50;
/// Rows of a table listed.
const MAX_ROWS: usize = 8;
/// No wait for a CPU is believed to be longer: the wakeup is looked for so far back.
const LONGEST_WAIT_NS: i64 = 60_000_000_000;
/// What an interrupt is about is told within it: no handler is believed to be longer before the waking.
const LONGEST_HANDLER_NS: i64 = 1_000_000_000;

pub(crate) fn answer(state: &State, request: &Request) -> Answered {
    let wanted = |name: &str| {
        let bad = || Response::error(400, &format!("{name} is missing or not a whole number"));
        request.value(name).and_then(|value| value.parse::<i64>().ok()).ok_or_else(bad)
    };
    let ts = wanted("ts")?;
    let number = u32::try_from(wanted("track")?).unwrap_or(u32::MAX);
    let (view, lookup) = (view(state)?, lookup(state)?);
    let unknown = || Response::error(404, &format!("unknown track {number}"));
    let track = view.track(number).ok_or_else(unknown)?;
    let [before, here, after] = view.around(number, ts).map_err(|error| failed(&error))?;
    let here = here.ok_or_else(|| Response::error(404, "no interval at this time"))?;
    let places = Places::new(&view, &lookup)?;
    let about = About { view: &view, lookup: &lookup, places, track };
    about.facts(before, here, after).map(|facts| Response::json(&facts))
}

struct About<'a> {
    view: &'a View,
    lookup: &'a Lookup,
    places: Places<'a>,
    track: &'a Track,
}

impl About<'_> {
    fn facts(
        &self,
        before: Option<Shown>,
        here: Shown,
        after: Option<Shown>,
    ) -> Result<Value, Response> {
        let mut facts = self.place(self.track.track, &here);
        let range = (here.ts, here.ts.saturating_add(here.dur.max(1)));
        let number = self.track.track;
        let ends = Ends::Either(number);
        let arrows = between(&self.places, self.lookup, range, ends, MAX_ARROWS)?;
        facts["rows"] = self.rows(&here)?;
        facts["previous"] = json!(before.map(|before| self.place(number, &before)));
        facts["next"] = json!(after.map(|after| self.place(number, &after)));
        facts["exit"] = json!(self.exit(&here));
        facts["waker"] = json!(self.waker(&here)?);
        let preempts = |flow: &&Flow| flow.kind == "preempt" && flow.to == (number, here.ts);
        facts["preemptor"] = json!(self.preemptor(&here, arrows.iter().find(preempts)));
        facts["arrows"] = arrows.iter().take(MAX_ARROWS).map(Flow::json).collect();
        Ok(facts)
    }

    fn place(&self, track: u32, shown: &Shown) -> Value {
        let key = self.view.keys().get(shown.key as usize).filter(|_| shown.value.is_none());
        json!({
            "track": track,
            "ts": shown.ts.to_string(),
            "dur": shown.dur.to_string(),
            "key": shown.key,
            "value": shown.value,
            "label": key.map(|key| key.label.as_str()),
            "reason": key.and_then(|key| key.reason.as_deref()),
        })
    }

    /// The rows of the table that begin here. A number of a counter began there, too.
    fn rows(&self, here: &Shown) -> Result<Value, Response> {
        let actor = &self.track.actor;
        let (table, shown_as) = match actor.kind {
            Kind::Ticks => (format!("events/{}", actor.what), format!("ev_{}", actor.what)),
            // It is of the guests' slices, cut; those have tracks of their own.
            Kind::CpuGuest => return Ok(json!([])),
            _ => (self.track.table.clone(), self.track.table.clone()),
        };
        let mut wanted = Wanted {
            columns: columns_of(&table),
            only: of_actor(actor),
            limit: MAX_ROWS,
            ..Wanted::default()
        };
        let found = match actor.kind {
            // A row of a thread may be shown in several pieces.
            Kind::Thread if self.overlaps() => {
                wanted.ts = Some(i64::MIN..here.ts.saturating_add(1));
                wanted.only = Condition::All(vec![wanted.only, Condition::EndsAfter(here.ts)]);
                table_rows(self.lookup, &table, &wanted)?
            }
            Kind::Thread => {
                let row = self.lookup.row_at(&table, &wanted, here.ts);
                rows_of(row.map_err(|error| failed(&error))?.as_slice())?
            }
            _ => {
                wanted.ts = Some(here.ts..here.ts.saturating_add(1));
                table_rows(self.lookup, &table, &wanted)?
            }
        };
        let shown = found.into_iter().map(|row| {
            let values: Row = row.into_iter().map(|(name, value)| (name, exact(value))).collect();
            json!({ "table": shown_as, "values": values })
        });
        Ok(shown.collect())
    }

    /// Has the actor more than one lane?
    fn overlaps(&self) -> bool {
        let is_lane = |track: &Track| track.lane > 0 && track.actor == self.track.actor;
        self.view.tracks().iter().any(is_lane)
    }

    /// The exit that a vCPU is in, from the track of its exits.
    fn exit(&self, here: &Shown) -> Option<Value> {
        let actor = Actor { kind: Kind::Exits, ..self.track.actor.clone() };
        if self.track.actor.kind != Kind::Vcpu {
            return None;
        }
        let exits = self.view.tracks().iter().find(|t| t.actor == actor && t.lane == 0)?;
        let [_, exit, _] = self.view.around(exits.track, here.ts).ok()?;
        Some(self.place(exits.track, &exit?))
    }

    /// Who woke the thread, or the vCPU's thread, for what is here: a thread or an interrupt.
    fn waker(&self, here: &Shown) -> Result<Option<Value>, Response> {
        let actor = &self.track.actor;
        let (machine, tid_of) = match (actor.kind, actor.tid, actor.vcpu) {
            (Kind::Thread, Some(tid), _) => (actor.machine, Some(tid)),
            (Kind::Vcpu, _, Some(vcpu)) => self.vcpu_thread(actor.machine, vcpu)?,
            _ => return Ok(None),
        };
        let Some(woken) = tid_of else { return Ok(None) };
        let (at, begin) = (here.ts, here.ts.saturating_sub(LONGEST_WAIT_NS));
        let of_thread = |more: Vec<Condition>| {
            let only = [Condition::number("machine_id", machine), Condition::number("tid", woken)];
            Condition::All(only.into_iter().chain(more).collect())
        };
        let wanted = |ts, only| Wanted {
            columns: vec!["ts", "waker_tid", "waker_cpu", "context", "source", "vector"],
            ts: Some(ts),
            only,
            ..Wanted::default()
        };
        // Woken when this began, or long enough before to begin this.
        let ends_here = Condition::EndsAt(at);
        let now = wanted(at..at.saturating_add(1), of_thread(Vec::new()));
        let before = wanted(begin..at, of_thread(vec![ends_here]));
        let last = |wanted| self.lookup.last_row("wakeups", wanted).map_err(|error| failed(&error));
        let found = match last(&now)? {
            Some(row) => Some(row),
            None => last(&before)?,
        };
        let found = rows_of(found.as_slice())?;
        let Some(row) = found.first() else { return Ok(None) };
        let Some(ts) = int(row, "ts") else { return Ok(None) };
        let cause = self.cause((machine, woken, ts))?;
        let word = |column| cause.as_ref().map_or("", |cause| text(cause, column));
        let kind = CauseKind::ALL.into_iter().find(|kind| kind.as_str() == word("kind"));
        let (track, label) = match tid(row, "waker_tid") {
            Some(waker) => {
                let track = self.places.thread(machine, waker);
                let name = track.and_then(|track| self.view.track(track));
                let plain = || match waker {
                    0 => "an interrupt on an idle CPU".to_owned(),
                    waker => format!("thread {waker}"),
                };
                (track, name.map_or_else(plain, |track| track.name.clone()))
            }
            None => {
                let Some(cpu) = id(row, "waker_cpu") else { return Ok(None) };
                (self.places.interrupt(machine, cpu, ts), interrupt_label(row, cpu, kind))
            }
        };
        Ok(Some(json!({
            "track": track,
            "ts": ts.to_string(),
            "label": label,
            "kind": kind.map(CauseKind::as_str),
            "evidence": evidence_of(word("evidence")),
            "interrupt": row.get("waker_tid").is_none_or(Value::is_null),
        })))
    }

    /// The cause that a waking of a thread is.
    fn cause(&self, (machine, woken, ts): (u32, i32, i64)) -> Result<Option<Row>, Response> {
        let only = vec![
            Condition::number("to_machine_id", machine),
            Condition::number("to_tid", woken),
            Condition::number("machine_id", machine),
            Condition::EndsAt(ts),
        ];
        let wanted = Wanted {
            columns: vec!["kind", "evidence"],
            ts: Some(ts.saturating_sub(LONGEST_HANDLER_NS)..ts.saturating_add(1)),
            only: Condition::All(only),
            ..Wanted::default()
        };
        let found = table_rows(self.lookup, "causes", &wanted)?;
        let wakes = |row: &Row| {
            CauseKind::ALL
                .into_iter()
                .any(|kind| is_waking(kind) && kind.as_str() == text(row, "kind"))
        };
        Ok(found.into_iter().find(wakes))
    }

    fn vcpu_thread(&self, machine: u32, vcpu: u32) -> Result<(u32, Option<i32>), Response> {
        let only = [Condition::number("machine_id", machine), Condition::number("vcpu", vcpu)];
        let wanted = Wanted {
            columns: vec!["vmm_tid"],
            only: Condition::All(only.into()),
            limit: 1,
            ..Wanted::default()
        };
        let found = table_rows(self.lookup, "vcpus", &wanted)?;
        Ok((self.places.host(machine), found.first().and_then(|row| tid(row, "vmm_tid"))))
    }

    /// Who has the CPU while a vCPU waits for it, or a guest's thread on such a vCPU does.
    fn preemptor(&self, here: &Shown, arrow: Option<&Flow>) -> Option<Value> {
        let key = self.view.keys().get(here.key as usize)?;
        let waits = matches!(key.class, Class::Preempted | Class::Waking);
        let is_state = matches!(self.track.actor.kind, Kind::Vcpu | Kind::Thread);
        key.machine_id.filter(|_| waits && is_state)?;
        let host = self.places.host(self.track.actor.machine);
        let by_thread = key.tid.and_then(|tid| self.places.thread(host, tid));
        let track = by_thread.or_else(|| arrow.map(|arrow| arrow.from.0));
        Some(json!({
            "track": track,
            "ts": track.map(|_| here.ts.to_string()),
            "label": key.label,
        }))
    }
}

/// The interrupt that woke a thread: what it was about if that is known, and what its handler served if
/// that was recorded.
fn interrupt_label(row: &Row, cpu: u32, kind: Option<CauseKind>) -> String {
    let about = match kind {
        Some(CauseKind::Timer) => "timer",
        Some(CauseKind::Ipi) => "another CPU's interrupt",
        Some(CauseKind::Completion) => "request done",
        Some(CauseKind::Packet) => "packet came",
        _ => "",
    };
    let handler = interrupt(row);
    let name = handler.map(|(source, vector)| source.name(vector));
    // A timer's interrupt says nothing that `timer` does not.
    let says_more = !matches!(
        (kind, handler),
        (Some(CauseKind::Timer), Some((IrqSource::Vector(VectorSource::LocalTimer), _)))
    );
    match (about, name) {
        ("", Some(name)) => format!("{name} on CPU {cpu}"),
        ("", None) => match text(row, "context") {
            "softirq" => format!("a softirq on CPU {cpu}"),
            "nmi" => format!("an NMI on CPU {cpu}"),
            _ => format!("an interrupt on CPU {cpu}"),
        },
        (about, Some(name)) if says_more => format!("{about} on CPU {cpu} ({name})"),
        (about, _) => format!("{about} on CPU {cpu}"),
    }
}

/// The condition that rows are the actor's.
fn of_actor(actor: &Actor) -> Condition {
    let mut parts = vec![Condition::number("machine_id", actor.machine)];
    let numbers = [
        ("cpu", actor.cpu.map(i64::from)),
        ("vcpu", actor.vcpu.map(i64::from)),
        ("tid", actor.tid.map(i64::from)),
    ];
    if actor.kind != Kind::Ticks {
        let known = numbers.into_iter().filter_map(|(column, number)| Some((column, number?)));
        parts.extend(known.map(|(column, number)| Condition::number(column, number)));
    }
    if matches!(actor.kind, Kind::Block | Kind::Net) {
        parts.push(Condition::Is("device", actor.what.clone()));
    }
    Condition::All(parts)
}
