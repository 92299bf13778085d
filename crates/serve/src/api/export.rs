//! `/api/export`: a range of the recording as a file.

use super::{Answered, Time, body};
use crate::state::{Exported, State};
use transect_http::Response;

#[derive(serde::Deserialize)]
struct Wish {
    from: Time,
    to: Time,
    format: String,
}

pub(crate) fn answer(state: &State, bytes: &[u8]) -> Answered {
    let wish: Wish = body(bytes)?;
    if wish.from.0 >= wish.to.0 {
        return Err(Response::error(400, "the range is empty"));
    }
    let made = state.recording.export(wish.from.0, wish.to.0, &wish.format);
    let Exported { name, file } = made.map_err(|error| Response::error(400, &error))?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let name: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    let disposition = format!("attachment; filename=\"{name}\"");
    let answer = Response::file("application/octet-stream", file)
        .map_err(|error| Response::error(500, &format!("cannot read the export: {error}")))?;
    Ok(answer.with("Content-Disposition", disposition))
}
