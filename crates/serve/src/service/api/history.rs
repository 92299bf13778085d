//! `/api/v1/history`: windows of the past, merged to steps.

use super::page::refuse_for_now;
use super::{Answered, wanted_rows, wanted_tables};
use crate::service::config::values::{duration, duration_text};
use crate::service::route::{ARROW, Call, JSON};
use crate::service::rows::Rows;
use crate::service::shared::Service;
use crate::service::tables::{self, Batch};
use arrow::ipc::writer::StreamWriter;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use transect_history::{Fold, Gone, Index, Piece, plan_verified};
use transect_http::{Answer, Made, Making, Peer, Quota, Response, Share, Stream};
use transect_live::{Snapshot, TABLES};

/// Steps of an answer, at most.
const MAX_STEPS: u64 = 2000;
/// Steps of an answer, if nobody says how long they are.
const FITTING_STEPS: u64 = 400;
/// How long somebody waits for a turn.
const TURN: Duration = Duration::from_secs(5);
/// How long an answer that was paused waits for one: it is half sent.
const AGAIN: Duration = Duration::from_secs(60);
/// Windows of an answer behind which it lets those of other clients go first, before each frame for so long at most.
const SHORT_WINDOWS: usize = 30;
const OTHERS_FIRST: Duration = Duration::from_millis(200);
/// Rows of a record batch.
const BATCH_ROWS: usize = 20_000;
const S: u64 = 1_000_000_000;
/// Steps that people like, seconds.
const NICE_S: [u64; 14] = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 6 * 3600, 24 * 3600];

/// A stretch of time in steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wish {
    from: u64,
    until: u64,
    step_ns: u64,
}

pub(crate) fn answer(service: &Service, call: &Call<'_>) -> Answered {
    let places = wanted_tables(call)?;
    let rows = wanted_rows(call, &places)?;
    let now = service.hub.newest().map_or_else(unix_now_ns, |taken| taken.snapshot().ended_unix_ns);
    let wish = wish(
        call.param("from").as_deref(),
        call.param("until").as_deref(),
        call.param("step").as_deref(),
        now,
        service.hub.window_ns,
    )
    .map_err(|(what, hint)| Response::refusal(400, &what, &hint))?;
    let peer = call.caller.peer;
    let turn = service.readers.take(peer, 1, TURN).map_err(|full| {
        let hint = "retry when another one is answered";
        refuse_for_now(full, peer, "requests of the history at once", hint)
    })?;
    let memory = service.hub.since(wish.from);
    let index = service.index.clone().unwrap_or_default();
    let asked = (wish.from, wish.until, wish.step_ns);
    let planned = plan_verified(&index, &memory, service.hub.run, asked).map_err(|error| {
        let what = format!("the history cannot be read now: {error}");
        Response::refusal(503, &what, "retry later").with("Retry-After", "1")
    })?;
    let gone_windows = planned.gone_windows();
    let gone = planned.gone;
    let steps = Steps {
        pieces: planned.pieces.into_iter(),
        index,
        fold: Fold::new(wish.step_ns),
        ready: Vec::new(),
        readers: service.readers.clone(),
        peer,
    };
    let making = Box::new(Reading {
        readers: service.readers.clone(),
        paused: service.paused.clone(),
        peer,
        place: Some(turn),
    });
    let head = |kind| Response::new(kind, Vec::new()).spooled(service.spool(peer));
    let single = places.first().copied().filter(|_| call.wants_arrow());
    let (head, body): (_, Stream) = match single {
        Some(place) => {
            (head(ARROW), Box::new(move |to| write_arrow(to, steps, &gone, (place, &rows))))
        }
        None => {
            (head(JSON), Box::new(move |to| write_json(to, steps, (wish, &gone), (&places, &rows))))
        }
    };
    let answer = Answer::Stream(Made { head, body, making: Some(making) });
    Ok(match gone_windows {
        0 => answer,
        windows => answer.with("Transect-Windows-Gone", windows.to_string()),
    })
}

/// The place of an answer of the history: among those that are made, or among those whose clients are waited for.
struct Reading {
    readers: Quota,
    paused: Quota,
    peer: Peer,
    place: Option<Share>,
}

impl Making for Reading {
    fn pause(&mut self) -> bool {
        self.place = self.paused.take(self.peer, 1, Duration::ZERO).ok();
        self.place.is_some()
    }

    fn resume(&mut self) -> bool {
        let place = self.readers.take(self.peer, 1, AGAIN).ok();
        self.place = place;
        self.place.is_some()
    }
}

/// Steps, one after the other: never more of them in memory than a frame has.
struct Steps {
    pieces: std::vec::IntoIter<Piece>,
    index: Arc<Index>,
    fold: Fold,
    ready: Vec<(Snapshot, u64)>,
    readers: Quota,
    peer: Peer,
}

impl Steps {
    fn each(&mut self, mut visit: impl FnMut(&Snapshot, u64) -> io::Result<()>) -> io::Result<()> {
        let mut read = 0;
        for piece in self.pieces.by_ref() {
            // The CPUs are for short answers of other clients first.
            if read >= SHORT_WINDOWS && matches!(piece, Piece::Disk { .. }) {
                self.readers.let_others_go_first(self.peer, OTHERS_FIRST);
            }
            let windows = piece.read(&self.index)?;
            read += windows.len();
            for (window, run) in windows {
                self.ready.extend(self.fold.push(&window, run));
                for (step, run) in self.ready.drain(..) {
                    visit(&step, run)?;
                }
            }
        }
        match self.fold.finish() {
            Some((step, run)) => visit(&step, run),
            None => Ok(()),
        }
    }
}

fn write_json(
    to: &mut dyn Write,
    mut steps: Steps,
    (wish, gone): (Wish, &[Gone]),
    (places, rows): (&[usize], &Rows),
) -> io::Result<()> {
    let Wish { from, until, step_ns } = wish;
    write!(to, "{{\"step_ns\":{step_ns},\"from_unix_ns\":{from},\"until_unix_ns\":{until},")?;
    if !gone.is_empty() {
        write!(to, "\"gone\":{},", json_of_gone(gone))?;
    }
    to.write_all(b"\"windows\":[")?;
    let mut before = "";
    steps.each(|step, run| {
        write!(to, "{before}\n{}", tables::json_head(step, run))?;
        before = ",";
        for place in places {
            let table = TABLES.get(*place).copied().unwrap_or_default();
            write!(to, ",\n\"{table}\":")?;
            to.write_all(&tables::json_of(step, table, &rows.of(step)))?;
        }
        to.write_all(b"}")
    })?;
    to.write_all(b"]}\n")
}

/// Stretches whose windows are gone, as they are in an answer.
fn json_of_gone(gone: &[Gone]) -> Value {
    let stretch = |gone: &Gone| {
        json!({
            "from_unix_ns": gone.from_unix_ns,
            "until_unix_ns": gone.until_unix_ns,
            "windows": gone.windows,
        })
    };
    gone.iter().map(stretch).collect()
}

fn write_arrow(
    to: &mut dyn Write,
    mut steps: Steps,
    gone: &[Gone],
    (place, rows): (usize, &Rows),
) -> io::Result<()> {
    let mut batch = Batch::new(place);
    let mut schema = (*batch.schema()).clone();
    if !gone.is_empty() {
        let windows: u64 = gone.iter().map(|gone| gone.windows).sum();
        schema = schema.with_metadata(HashMap::from([
            ("transect.gone_windows".to_owned(), windows.to_string()),
            ("transect.gone".to_owned(), json_of_gone(gone).to_string()),
        ]));
    }
    let mut writer = StreamWriter::try_new(to, &schema).map_err(io::Error::other)?;
    steps.each(|step, run| {
        batch.add_of(step, run, &rows.of(step));
        if batch.rows() >= BATCH_ROWS {
            let rows = batch.take().map_err(io::Error::other)?;
            writer.write(&rows).map_err(io::Error::other)?;
        }
        Ok(())
    })?;
    let rest = batch.take().and_then(|rows| writer.write(&rows)).and_then(|()| writer.finish());
    rest.map_err(io::Error::other)
}

/// What is wished, or what is wrong with it and what would do.
fn wish(
    from: Option<&str>,
    until: Option<&str>,
    step: Option<&str>,
    now: u64,
    window_ns: u64,
) -> Result<Wish, (String, String)> {
    let window_ns = window_ns.max(1);
    let time = |name: &str, text: &str| {
        moment(text, now).ok_or_else(|| {
            let what = format!("{name}: {text:?} is not a time");
            (what, "ns since 1970, or relative to now: -15m".to_owned())
        })
    };
    let until = until.map_or(Ok(now), |text| time("until", text))?;
    let from = from.map_or(Ok(until.saturating_sub(900 * S)), |text| time("from", text))?;
    if from >= until {
        return Err(("from is not before until".to_owned(), "from=-15m&until=-5m".to_owned()));
    }
    let span = until - from;
    let fitting = |steps: u64| {
        let nice = NICE_S.iter().map(|s| s * S);
        let mut nice = nice.filter(|ns| *ns >= window_ns && ns % window_ns == 0);
        let whole = (span / steps + 1).next_multiple_of(window_ns);
        nice.find(|ns| span.div_ceil(*ns) <= steps).unwrap_or(whole)
    };
    let step_ns = match step {
        None if span.div_ceil(window_ns) <= FITTING_STEPS => window_ns,
        None => fitting(FITTING_STEPS),
        Some(text) => {
            let ns = duration(text).and_then(|step| u64::try_from(step.as_nanos()).ok());
            ns.filter(|ns| *ns > 0 && ns % window_ns == 0).ok_or_else(|| {
                let window = duration_text(Duration::from_nanos(window_ns));
                let what = format!("step: {text:?} is not a multiple of the window length");
                (what, format!("a duration such as 10s; windows are {window} long"))
            })?
        }
    };
    if span.div_ceil(step_ns) > MAX_STEPS {
        let what =
            format!("the range has {} steps; the limit is {MAX_STEPS}", span.div_ceil(step_ns));
        let step = duration_text(Duration::from_nanos(fitting(MAX_STEPS)));
        return Err((what, format!("use step={step}")));
    }
    Ok(Wish { from: from - from % step_ns, until, step_ns })
}

/// ns since 1970, or relative to now.
fn moment(text: &str, now: u64) -> Option<u64> {
    if let Some(ago) = text.strip_prefix('-') {
        let ago = u64::try_from(duration(ago)?.as_nanos()).ok()?;
        return Some(now.saturating_sub(ago));
    }
    if text == "now" {
        return Some(now);
    }
    text.parse().ok().filter(|ns| *ns <= u64::MAX / 2)
}

fn unix_now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests report by failing")]
    use super::*;

    const NOW: u64 = 1_790_000_000 * S + 7;

    fn of(from: &str, until: &str, step: Option<&str>) -> Result<Wish, (String, String)> {
        wish(Some(from), Some(until), step, NOW, S)
    }

    #[test]
    fn times_steps_and_what_fits() {
        let wished = of("-15m", "now", Some("10s")).unwrap();
        assert_eq!(wished, Wish { from: (1_790_000_000 - 900) * S, until: NOW, step_ns: 10 * S });
        assert_eq!(wish(None, None, None, NOW, S).unwrap().step_ns, 5 * S);
        assert_eq!(of("-1m", "now", None).unwrap().step_ns, S);
        assert_eq!(of("-24h", "-1s", None).unwrap().step_ns, 300 * S);
        assert_eq!(of("5000000000", "9000000000", None).unwrap().until, 9 * S);
        for (from, until, step) in [
            ("-5m", "-15m", None),
            ("yesterday", "now", None),
            ("-", "now", None),
            ("99999999999999999999", "now", None),
            ("-1m", "now", Some("1500ms")),
            ("-1m", "now", Some("0s")),
            ("-1m", "now", Some("-1s")),
        ] {
            assert!(of(from, until, step).is_err(), "{from} {until} {step:?}");
        }
    }

    #[test]
    fn too_many_steps_are_refused_with_one_that_would_do() {
        let (what, hint) = of("-24h", "now", Some("1s")).unwrap_err();
        assert!(what.contains("86400 steps") && hint == "use step=1m", "{what} {hint}");
        let wished = of("-24h", "now", Some("1m")).unwrap();
        assert_eq!(wished.step_ns, 60 * S);
        let (_, hint) = of("0", "now", Some("1s")).unwrap_err();
        let step = hint.strip_prefix("use step=").unwrap();
        assert!(of("0", "now", Some(step)).is_ok(), "{hint}");
    }
}
