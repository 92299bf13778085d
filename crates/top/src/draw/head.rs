//! The lines on top and at the bottom.

use super::layout;
use crate::{
    app::{App, Overlay},
    number,
    part::{GAP, Parts, fitting, part},
    past::Past,
    sums::Span,
    table::{Cell, Tone},
    text::width,
    views::{self, Page, per_cent},
};
use transect_live::Snapshot;
use transect_model::ids::MachineKind;

/// Which machine, how busy it is, and when.
pub(super) fn top(app: &App) -> Parts {
    let mut parts = vec![part(6, "transect top").tone(Tone::Strong)];
    if let Some(Ok(moment)) = app.moment() {
        let snapshot = &moment.snapshot;
        let host = snapshot.machines.iter().find(|machine| machine.machine_id.0 == 0);
        parts.push(part(4, host.map_or("", |host| host.name.as_str())).tone(Tone::Strong));
        parts.extend(busy(app, snapshot));
        let vms = snapshot.machines.iter().filter(|machine| machine.kind == MachineKind::Guest);
        let groups = snapshot.actors.iter().filter(|actor| actor.window.cgroup.is_some());
        parts.push(part(5, counted(vms.count(), "VM")));
        let containers = snapshot.containers.len();
        if containers > 0 {
            parts.push(part(6, counted(containers, "container")));
        }
        parts.push(part(7, counted(groups.count(), "group")));
        parts.push(part(7, counted(moment.threads, "thread")));
    }
    parts.push(time(app));
    to_the_right(parts, usize::from(app.size.0))
}

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Of all CPUs: what all threads had of them. (A CPU's own row is unknown until it was idle once.)
fn busy(app: &App, snapshot: &Snapshot) -> Parts {
    let share = |snapshot: &Snapshot| {
        let gotten: i64 = snapshot.threads.iter().map(|thread| thread.gotten_ns).sum();
        per_cent(gotten, snapshot.cpus.iter().map(|cpu| cpu.dur).sum())
    };
    let Span { moments } = app.span();
    let course = Cell::Trend(moments.iter().map(|moment| share(&moment.snapshot)).collect());
    let cpus = counted(snapshot.cpus.len(), "CPU");
    vec![part(1, format!("{cpus} {:.0}% busy", share(snapshot))), part(3, course.text(&app.glyphs))]
}

/// Which window is looked at.
fn time(app: &App) -> crate::part::Part {
    let clock = match app.moment() {
        Some(Ok(moment)) => format!("{} UTC", number::clock(moment.snapshot.ended_unix_ns)),
        _ => String::new(),
    };
    let range = app.past.range();
    let at = app.number().unwrap_or(0);
    match (&app.past, app.at) {
        (Past::Log(log), _) => {
            let word = if app.is_playing { "PLAYING" } else { "LOG" };
            part(0, format!("{word} {}/{} {clock}", at + 1, log.len())).tone(Tone::Strong)
        }
        (Past::Seen(_), None) if app.ended.is_some() => {
            part(0, format!("ENDED {clock}")).tone(Tone::Alarm)
        }
        (Past::Seen(_), None) => part(0, format!("LIVE {clock}")),
        (Past::Seen(_), Some(_)) => {
            let end = |at: u64| match app.past.get(at) {
                Some(Ok(moment)) => moment.snapshot.ended_unix_ns,
                _ => 0,
            };
            let newest = end(range.end.saturating_sub(1));
            let ago = number::ago(newest.saturating_sub(end(at)));
            part(0, format!("PAUSED {clock} (-{ago})")).tone(Tone::Warn)
        }
    }
}

/// Moves the last piece to the end of the line.
fn to_the_right(parts: Parts, room: usize) -> Parts {
    let mut parts = fitting(parts, room);
    let used: usize = parts.iter().map(|part| width(&part.text) + GAP).sum();
    if let (Some(free), true) = ((room + GAP).checked_sub(used), parts.len() > 1)
        && let Some(last) = parts.last_mut()
    {
        last.text = format!("{}{}", " ".repeat(free), last.text);
    }
    parts
}

/// The way down to what is shown, and what of it is not shown.
pub(super) fn trail(app: &App, page: &Page, focus: usize, room: usize, height: usize) -> Parts {
    let moment = app.moment().and_then(Result::ok);
    let snapshot = moment.as_ref().map(|moment| &moment.snapshot);
    let mut titles: Vec<String> = app.views().map(|view| views::title(view, snapshot)).collect();
    if titles.len() > 1 {
        titles[0] = "all".to_owned();
    }
    // Of a long way its end.
    let skipped = titles.len().saturating_sub(3);
    let mut way = titles[skipped..].join(&format!(" {} ", app.glyphs.into));
    if skipped > 0 {
        way = format!("{} {way}", app.glyphs.cut);
    }
    // Where there is no room for it, where one is.
    if width(&way) + 16 > room
        && let Some(last) = titles.last()
    {
        way.clone_from(last);
    }
    let mut parts = vec![part(0, way).tone(Tone::Strong)];
    let wanted: usize = page.tables.iter().map(super::list::wanted_height).sum();
    if page.tables.len() > 1 && wanted + page.summary.len() > height {
        parts.push(part(1, "Tab: more"));
    }
    let filter = &app.level().filter;
    if !filter.is_empty() && app.typing.is_none() {
        parts.push(part(2, format!("filter \"{filter}\" (Esc: clear)")).tone(Tone::Warn));
    }
    if let Some(table) = page.tables.get(focus) {
        let shown = table.rows.len();
        let fits = height.saturating_sub(page.summary.len() + 1);
        if page.tables.len() == 1 && shown > fits {
            let cursor = app.level().cursor(focus, table);
            parts.push(part(2, format!("row {} of {shown}", cursor + 1)));
        }
        let left_out = layout::columns(&table.columns, room).left_out;
        if !left_out.is_empty() {
            let names = left_out.join(" ");
            let long = format!("too narrow for: {names}");
            let free = room.saturating_sub(parts.iter().map(|part| width(&part.text) + GAP).sum());
            let text =
                if width(&long) <= free { long } else { format!("+{} columns", left_out.len()) };
            parts.push(part(1, text).tone(Tone::Dim));
        }
    }
    parts
}

/// What this costs, how well it was counted, and the most important keys.
pub(super) fn bottom(app: &App) -> Parts {
    if app.typing.is_some() {
        let typed = format!("/{}_", app.level().filter);
        let hint = part(1, "Enter: apply  Esc: cancel").tone(Tone::Dim);
        return vec![part(0, typed).tone(Tone::Strong), hint];
    }
    let mut parts = Vec::new();
    if let Some(answer) = &app.answer {
        parts.push(part(0, answer.clone()).tone(Tone::Warn));
    }
    if let (Past::Log(log), None) = (&app.past, &app.answer)
        && let Some(note) = log.note()
    {
        parts.push(part(0, note).tone(Tone::Warn));
    }
    if let Some(why) = &app.ended {
        parts.push(part(0, why.clone()).tone(Tone::Alarm));
    }
    parts.extend(health(app));
    let keys = match app.overlay {
        Some((Overlay::Help | Overlay::Missing, _)) => ["j k scroll  q close", "q close"],
        None => ["? help  / filter  c CPUs  q quit", "? help"],
    };
    let room = usize::from(app.size.0);
    let [long, short] = keys.map(|keys| {
        let keys = part(3, keys).tone(Tone::Dim);
        fitting(parts.iter().cloned().chain([keys]).collect(), room)
    });
    if long.iter().any(|part| part.text == keys[0]) { long } else { short }
}

fn health(app: &App) -> Parts {
    let span = app.span();
    let Some(now) = span.moments.last() else { return Vec::new() };
    let health = &now.snapshot.health;
    let cost: u64 = span.moments.iter().map(|moment| moment.snapshot.health.own_cpu_ns).sum();
    let cost = i64::try_from(cost).map_or(0.0, |cost| per_cent(cost, span.all_ns()));
    let lost = health.untracked_events + health.no_room + health.missed_events;
    let late = |snapshot: &Snapshot| snapshot.health.late_threads + snapshot.missed_windows;
    let late: u64 = span.moments.iter().map(|moment| late(&moment.snapshot)).sum();
    let bad = |count: u64| if count > 0 { Tone::Alarm } else { Tone::Plain };
    let rank = |count: u64| if count > 0 { 0 } else { 2 };
    let mut parts = vec![
        part(5, format!("{} windows", number::window(now.snapshot.dur))),
        part(1, format!("cost {cost:.2}%")),
        part(rank(lost), format!("lost {}", number::rate(lost as f64))).tone(bad(lost)),
        part(rank(late), format!("late {}", number::rate(late as f64))).tone(bad(late)),
    ];
    let missing = now.snapshot.missing.len();
    if missing > 0 {
        parts.push(part(4, format!("m {missing} missing")));
    }
    parts
}
