//! `/api/at`: everything about what is at a moment of a track.

use super::flows::{Ends, Flow, Places, between};
use super::{Answered, database, exact, view};
use crate::http::{Request, Response};
use crate::sql::{Row, int, rows, tid};
use crate::state::State;
use serde_json::{Value, json};
use transect_query::{Database, Stop};
use transect_timeline::{Actor, Class, Kind, Shown, Track, View};

/// Arrows listed.
const MAX_ARROWS: usize = 50;

pub(crate) fn answer(state: &State, request: &Request) -> Answered {
    let wanted = |name: &str| {
        let bad = || Response::error(400, &format!("{name} is missing or no whole number"));
        request.value(name).and_then(|value| value.parse::<i64>().ok()).ok_or_else(bad)
    };
    let ts = wanted("ts")?;
    let number = u32::try_from(wanted("track")?).unwrap_or(u32::MAX);
    let (view, database) = (view(state)?, database(state)?);
    let unknown = || Response::error(404, &format!("there is no track {number}"));
    let track = view.track(number).ok_or_else(unknown)?;
    let failed = |error| Response::error(500, &format!("{error}"));
    let [before, here, after] = view.around(number, ts).map_err(failed)?;
    let here = here.ok_or_else(|| Response::error(404, "nothing is there"))?;
    let places = Places::new(&view, &database)?;
    let about = About { view: &view, database: &database, places, track };
    about.facts(before, here, after).map(|facts| Response::json(&facts))
}

struct About<'a> {
    view: &'a View,
    database: &'a Database,
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
        let arrows = between(&self.places, self.database, range, ends, MAX_ARROWS)?;
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
        let table = match actor.kind {
            Kind::Ticks => format!("\"ev_{}\"", actor.what.replace('"', "\"\"")),
            // It is of the guests' slices, cut; those have tracks of their own.
            Kind::CpuGuest => return Ok(json!([])),
            _ => self.track.table.clone(),
        };
        // A row of a thread may be shown in several pieces.
        let when = match actor.kind {
            Kind::Thread => format!("ts <= {at} AND ts + dur > {at}", at = here.ts),
            _ => format!("ts = {}", here.ts),
        };
        let sql = format!("SELECT * FROM {table} WHERE {when} AND {} LIMIT 8", of_actor(actor));
        let found = rows(self.database, &sql, 8, &Stop::never())?;
        let shown = found.into_iter().map(|row| {
            let values: Row = row.into_iter().map(|(name, value)| (name, exact(value))).collect();
            json!({ "table": table.trim_matches('"'), "values": values })
        });
        Ok(shown.collect())
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

    /// Who woke the thread, or the vCPU's thread, for what is here.
    fn waker(&self, here: &Shown) -> Result<Option<Value>, Response> {
        let actor = &self.track.actor;
        let (machine, tid_of) = match (actor.kind, actor.tid, actor.vcpu) {
            (Kind::Thread, Some(tid), _) => (actor.machine, Some(tid)),
            (Kind::Vcpu, _, Some(vcpu)) => self.vcpu_thread(actor.machine, vcpu)?,
            _ => return Ok(None),
        };
        let Some(woken) = tid_of else { return Ok(None) };
        // Woken when this began, or long enough before to begin this.
        let sql = format!(
            "SELECT ts, waker_tid FROM wakeups WHERE machine_id = {machine} AND tid = {woken} \
             AND ts <= {at} AND ts >= {at} - 60000000000 AND (ts = {at} OR ts + dur = {at}) \
             ORDER BY ts DESC LIMIT 1",
            at = here.ts
        );
        let found = rows(self.database, &sql, 1, &Stop::never())?;
        let waker = found.first().and_then(|row| {
            let (ts, waker) = (int(row, "ts")?, tid(row, "waker_tid")?);
            let track = self.places.thread(machine, waker);
            let name = track.and_then(|track| self.view.track(track));
            let plain = || match waker {
                0 => "an interrupt on an idle CPU".to_owned(),
                waker => format!("thread {waker}"),
            };
            let label = name.map_or_else(plain, |track| track.name.clone());
            Some(json!({ "track": track, "ts": ts.to_string(), "label": label }))
        });
        Ok(waker)
    }

    fn vcpu_thread(&self, machine: u32, vcpu: u32) -> Result<(u32, Option<i32>), Response> {
        let sql =
            format!("SELECT vmm_tid FROM vcpus WHERE machine_id = {machine} AND vcpu = {vcpu}");
        let found = rows(self.database, &sql, 1, &Stop::never())?;
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

/// The condition that rows are the actor's.
fn of_actor(actor: &Actor) -> String {
    let mut sql = format!("machine_id = {}", actor.machine);
    let is_event = actor.kind == Kind::Ticks;
    let numbers = [
        ("cpu", actor.cpu.map(i64::from)),
        ("vcpu", actor.vcpu.map(i64::from)),
        ("tid", actor.tid.map(i64::from)),
    ];
    for (column, number) in numbers {
        if let Some(number) = number.filter(|_| !is_event) {
            sql.push_str(&format!(" AND {column} = {number}"));
        }
    }
    if matches!(actor.kind, Kind::Block | Kind::Net) {
        sql.push_str(&format!(" AND device = '{}'", actor.what.replace('\'', "''")));
    }
    sql
}
