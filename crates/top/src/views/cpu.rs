//! A CPU: who is or was last on it, and who waits there.

use super::{
    scene::{Page, Scene, per_cent},
    threads,
};
use crate::{
    moment::Moment,
    number,
    part::{Parts, part},
    table::{Cell, Tone},
    who::thread_label,
};
use transect_live::CpuWindow;
use transect_model::ids::CpuId;

pub(super) fn page(scene: &Scene<'_>, cpu: CpuId) -> Page {
    let table = threads::table(
        scene,
        &threads::List {
            holds: &|thread| thread.cpu == cpu,
            name: &thread_label,
            has_exits: false,
            empty: "no thread was on this CPU or waited for it",
        },
    );
    let summary = scene.now().map(|now| summary(scene, now, cpu)).unwrap_or_default();
    Page { summary, tables: vec![table] }
}

/// Per cent of what is known of it; none if that is nothing.
fn busy(row: &CpuWindow) -> Option<f64> {
    let known_ns = row.dur - row.unknown_ns;
    (known_ns > 0).then(|| per_cent(row.busy_ns, known_ns))
}

fn summary(scene: &Scene<'_>, now: &Moment, cpu: CpuId) -> Vec<Parts> {
    let row = |moment: &Moment| moment.snapshot.cpus.iter().find(|row| row.cpu == cpu).cloned();
    let mut first = match row(now).as_ref().and_then(busy) {
        Some(share) => {
            let moments = scene.span.moments.iter();
            let course: Vec<f64> =
                moments.filter_map(|moment| busy(row(moment).as_ref()?)).collect();
            let long = course.iter().sum::<f64>() / (course.len().max(1) as f64);
            vec![
                part(0, format!("busy {}%", number::share(share))).tone(Tone::Strong),
                part(1, format!("({} {}%)", scene.long_title(), number::share(long))),
                part(2, Cell::Trend(course).text(scene.glyphs)),
            ]
        }
        None => {
            vec![part(0, "busy: unknown until the CPU is idle for the first time").tone(Tone::Dim)]
        }
    };
    let of = |state: &'static str| {
        now.snapshot.threads.iter().filter(move |thread| thread.cpu == cpu && thread.state == state)
    };
    let on_it = of("running").next().map(|thread| thread_label(&now.snapshot, thread));
    let on_it = on_it.unwrap_or_else(|| "no thread".to_owned());
    first.push(part(1, format!("on it at the window's end: {on_it}")));
    let waits = of("preempted").chain(of("waking")).count();
    first.push(part(2, format!("waiting for it: {waits}")));
    let mut others = vec![part(0, "busy:")];
    for other in &now.snapshot.cpus {
        let share = busy(other);
        let share = share.map_or(scene.glyphs.missing.to_owned(), |share| format!("{share:.0}%"));
        let text = format!("{} {share}", other.cpu);
        let rank = u8::try_from(other.cpu.0 / 4 + 1).unwrap_or(u8::MAX);
        let tone = if other.cpu == cpu { Tone::Strong } else { Tone::Dim };
        let rank = if other.cpu == cpu { 0 } else { rank };
        others
            .push(part(rank, if other.cpu == cpu { format!("[{text}]") } else { text }).tone(tone));
    }
    vec![first, others]
}
