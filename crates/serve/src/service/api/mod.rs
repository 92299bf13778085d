//! What the daemon answers, one file a question.

pub(crate) mod health;
pub(crate) mod history;
pub(crate) mod login;
pub(crate) mod metrics;
pub(crate) mod now;
pub(crate) mod page;
pub(crate) mod snapshots;
pub(crate) mod status;
pub(crate) mod triggers;

use super::columns;
use super::route::Call;
use super::rows::Rows;
use transect_http::{Answer, Response};
use transect_live::TABLES;

/// The answer, or the refusal.
pub(crate) type Answered = Result<Answer, Response>;

/// The tables that a request wants, by their places, in order.
fn wanted_tables(call: &Call<'_>) -> Result<Vec<usize>, Response> {
    let Some(names) = call.param("tables") else {
        let all: Vec<_> = (0..TABLES.len()).collect();
        return one_for_arrow(call, all);
    };
    let mut places = Vec::new();
    for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let place = columns::place(name).ok_or_else(|| {
            let what = format!("unknown table {name:?}");
            Response::refusal(400, &what, &TABLES.join(", "))
        })?;
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places.sort_unstable();
    one_for_arrow(call, places)
}

fn one_for_arrow(call: &Call<'_>, places: Vec<usize>) -> Result<Vec<usize>, Response> {
    if call.wants_arrow() && places.len() != 1 {
        let hint = "name one table, as in tables=windows";
        return Err(Response::refusal(406, "an Arrow response holds exactly one table", hint));
    }
    Ok(places)
}

/// The rows that a request wants. A table that is named and cannot have such rows is refused: nothing would
/// come of it, and that would say something else.
fn wanted_rows(call: &Call<'_>, places: &[usize]) -> Result<Rows, Response> {
    let vcpu = call.param("vcpu").map(|text| {
        let what = format!("vcpu: {text:?} is not a number");
        text.parse()
            .map_err(|_| Response::refusal(400, &what, "use the vCPU's number, as in vcpu=0"))
    });
    let rows = Rows {
        machine: call.param("machine"),
        cgroup: call.param("cgroup"),
        vcpu: vcpu.transpose()?,
    };
    let is_named = call.param("tables").is_some();
    for place in places.iter().filter(|_| is_named) {
        if let Some(column) = rows.lacking(*place) {
            let table = TABLES.get(*place).copied().unwrap_or_default();
            let what = format!("rows of {table} have no column {column}");
            return Err(Response::refusal(400, &what, "omit the table or the parameter"));
        }
    }
    Ok(rows)
}

fn internal(error: &dyn std::fmt::Display) -> Response {
    Response::refusal(500, &error.to_string(), "see the daemon's log")
}
