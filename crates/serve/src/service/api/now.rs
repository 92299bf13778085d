//! `/api/v1/now`: the newest window, or one that is newer than a known one.

use super::page::refuse_for_now;
use super::{Answered, internal, wanted_rows, wanted_tables};
use crate::service::hub::{Taken, Waited};
use crate::service::route::{ARROW, Call, JSON};
use crate::service::rows::Rows;
use crate::service::shared::Service;
use crate::service::tables::{self, Batch};
use arrow::ipc::writer::StreamWriter;
use std::sync::Arc;
use std::time::Duration;
use transect_http::Response;
use transect_live::TABLES;

/// How long a client waits.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn answer(service: &Service, call: &Call<'_>) -> Answered {
    let places = wanted_tables(call)?;
    let rows = wanted_rows(call, &places)?;
    let taken = match call.param("after") {
        None => service.hub.newest(),
        Some(after) => {
            let after = after.parse().map_err(|_| {
                Response::refusal(
                    400,
                    "after is not a ts",
                    "use the ts of the last window you have",
                )
            })?;
            match service.hub.wait(call.caller.peer, after, PATIENCE) {
                Waited::Newer(taken) => Some(taken),
                Waited::Same(Some(_)) => {
                    return Ok(Response::empty(204).into());
                }
                Waited::Same(None) => None,
                Waited::TooMany(full) => {
                    let (peer, hint) = (call.caller.peer, "omit after, or retry later");
                    return Err(refuse_for_now(
                        full,
                        peer,
                        "requests that wait for a window",
                        hint,
                    ));
                }
            }
        }
    };
    let taken = taken.ok_or_else(|| {
        let why = service.hub.ended().unwrap_or_else(|| "no window yet".to_owned());
        Response::refusal(503, &why, "retry later").with("Retry-After", "1")
    })?;
    match places.as_slice() {
        [place] if call.wants_arrow() => arrow(&taken, *place, &rows),
        _ => Ok(json(&taken, &places, &rows).into()),
    }
}

/// Whole tables are shared by all who ask.
fn json(taken: &Taken, places: &[usize], rows: &Rows) -> Response {
    let mut response = Response::new(JSON, Vec::new());
    // Who is who is told by the window itself; one that has all rows of a table has no other.
    let wanted = rows.of(taken.snapshot());
    let mut before = tables::json_head(taken.snapshot(), taken.run);
    for place in places {
        let name = TABLES.get(*place).copied().unwrap_or_default();
        before.push_str(&format!(",\n\"{name}\":"));
        response.shared.push(Arc::new(std::mem::take(&mut before).into_bytes()));
        response.shared.push(match rows.is_all() {
            true => taken.json(*place),
            false => tables::json_of(taken.with(*place), name, &wanted),
        });
    }
    before.push_str("}\n");
    response.shared.push(Arc::new(before.into_bytes()));
    response
}

fn arrow(taken: &Taken, place: usize, rows: &Rows) -> Answered {
    let mut batch = Batch::new(place);
    batch.add_of(taken.with(place), taken.run, &rows.of(taken.snapshot()));
    let mut bytes = Vec::new();
    let mut writer =
        StreamWriter::try_new(&mut bytes, &batch.schema()).map_err(|e| internal(&e))?;
    let rows = batch.take().map_err(|e| internal(&e))?;
    writer.write(&rows).and_then(|()| writer.finish()).map_err(|e| internal(&e))?;
    drop(writer);
    Ok(Response::new(ARROW, bytes).into())
}
