//! An explanation for programs: one JSON object.

use super::{
    explained::Explained,
    findings,
    lines::{BlameLine, FindingLine, PathLine, SumLine},
    names,
    root::{About, Root, charged},
    sentences,
};
use crate::records::{write_json, write_json_str};
use std::io::{self, Write};
use transect_explain::{Actor, Blame, By, Layer, Level, Piece, Rows, Sum, blame, detect::Finding};
use transect_model::cell::Record;

/// The version of the JSON's shape, as in the report's.
const SCHEMA: &str = "transect-explain/1";

/// Writes the roots; with `paths`, every piece of their paths.
///
/// # Errors
/// Of the output.
pub fn write(
    rows: &Rows<'_>,
    about: &About,
    explained: &Explained,
    paths: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let roots = &explained.roots;
    write!(
        out,
        "{{\"schema\":\"{SCHEMA}\",\"time_unit\":\"{}\",\"recording\":",
        about.unit.as_str()
    )?;
    write_json_str(out, &about.recording)?;
    out.write_all(b",\"roots\":[")?;
    for (at, root) in roots.iter().enumerate() {
        out.write_all(if at == 0 { b"\n" } else { b",\n" })?;
        write_root(rows, about, root, paths, out)?;
    }
    out.write_all(b"],\n\"findings\":")?;
    match &explained.findings {
        Some(found) => {
            let lines: Vec<FindingLine> =
                found.iter().map(|finding| found_line(rows, about, finding)).collect();
            write_list(out, &lines)?;
        }
        None => out.write_all(b"null")?,
    }
    out.write_all(b",\n\"blame\":")?;
    let of =
        |level| blame(rows, charged(rows, roots), level).into_iter().map(move |line| (level, line));
    let lines: Vec<BlameLine> = Level::ALL
        .into_iter()
        .flat_map(of)
        .map(|(level, line)| blamed(rows, level, &line))
        .collect();
    write_list(out, &lines)?;
    out.write_all(b"}\n")
}

fn write_root(
    rows: &Rows<'_>,
    about: &About,
    root: &Root,
    paths: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let window = root.window;
    let (tid, vcpu) = match root.actor {
        Actor::Thread(thread) => {
            (Some(thread.tid), rows.vcpu_of_thread(thread).map(|(_, vcpu)| vcpu))
        }
        Actor::Vcpu(_, vcpu) => (None, Some(vcpu)),
    };
    let number = |number: Option<String>| number.unwrap_or_else(|| "null".to_owned());
    write!(
        out,
        "{{\"machine_id\":{},\"tid\":{},\"vcpu\":{},\"name\":",
        root.actor.machine(),
        number(tid.map(|tid| tid.to_string())),
        number(vcpu.map(|vcpu| vcpu.to_string()))
    )?;
    write_json_str(out, &names::actor(rows, root.actor))?;
    write!(
        out,
        ",\"window\":{{\"from\":{},\"until\":{}}},\"sentences\":[",
        window.start.get(),
        window.end.get()
    )?;
    for (at, text) in sentences::sentences(rows, root, about.unit).iter().enumerate() {
        out.write_all(if at == 0 { b"" } else { b"," })?;
        write_json_str(out, text)?;
    }
    out.write_all(b"],\"layers\":{")?;
    for (at, (layer, ns)) in root.layers.iter().enumerate() {
        write!(out, "{}\"{}\":{ns}", if at == 0 { "" } else { "," }, layer.as_str())?;
    }
    write!(out, "}},\"steps\":{},\"refused\":{},\"sums\":", root.path.steps, root.path.refused)?;
    let sums: Vec<SumLine> = root.sums.iter().map(|sum| summed(rows, root, sum)).collect();
    write_list(out, &sums)?;
    if paths {
        out.write_all(b",\"path\":")?;
        let path: Vec<PathLine> =
            root.path.pieces.iter().map(|piece| path_line(rows, piece)).collect();
        write_list(out, &path)?;
    }
    out.write_all(b"}")
}

fn write_list<R: Record>(out: &mut dyn Write, lines: &[R]) -> io::Result<()> {
    out.write_all(b"[")?;
    for (at, line) in lines.iter().enumerate() {
        out.write_all(if at == 0 { b"\n" } else { b",\n" })?;
        write_json(out, line)?;
    }
    out.write_all(b"]")
}

fn found_line(rows: &Rows<'_>, about: &About, finding: &Finding) -> FindingLine {
    FindingLine {
        detector: finding.detector.as_str().to_owned(),
        subject: names::party(rows, &finding.subject),
        held_ns: finding.held_ns,
        share: finding.share(),
        count: finding.count,
        confidence: finding.confidence.as_str().to_owned(),
        sentence: findings::sentence(rows, finding, about.unit),
        hint: findings::hint(finding).to_owned(),
    }
}

fn path_line(rows: &Rows<'_>, piece: &Piece) -> PathLine {
    let (by_machine_id, by_tid, by_vcpu) = match piece.by {
        Some(By::Thread(id)) => {
            let vcpu = rows.vcpu_of_thread(id).map(|(_, vcpu)| vcpu);
            (Some(id.machine), Some(id.tid), vcpu)
        }
        Some(By::Vcpu(machine, vcpu)) => (Some(machine), None, Some(vcpu)),
        Some(By::Idle) => (None, Some(transect_model::ids::Tid::IDLE), None),
        None => (None, None, None),
    };
    PathLine {
        ts: piece.ts,
        dur: piece.dur,
        depth: piece.depth,
        layer: Layer::of(rows, piece).as_str().to_owned(),
        machine_id: piece.machine,
        tid: piece.tid,
        vcpu: piece.vcpu,
        cpu: piece.cpu,
        state: piece.doing.as_str().to_owned(),
        reason: piece.reason,
        by_machine_id,
        by_tid,
        by_vcpu,
        why: piece.why.map(|why| why.as_str().to_owned()),
        cause: piece.cause,
        evidence: piece.evidence,
        error_ns: piece.error_ns,
    }
}

fn summed(rows: &Rows<'_>, root: &Root, sum: &Sum) -> SumLine {
    #[expect(clippy::cast_precision_loss, reason = "a share of a length")]
    let share = sum.ns as f64 / root.length().max(1) as f64;
    SumLine {
        what: sentences::phrase(rows, sum),
        own: sum.is_own,
        state: sum.doing.as_str().to_owned(),
        machine_id: sum.machine,
        tid: sum.tid,
        total_ns: sum.ns,
        share,
        count: sum.count,
        evidence: sum.evidence,
    }
}

fn blamed(rows: &Rows<'_>, level: Level, line: &Blame) -> BlameLine {
    BlameLine {
        level: level.as_str().to_owned(),
        victim: names::party(rows, &line.victim),
        culprit: names::party(rows, &line.culprit),
        why: line.why.map(|why| why.as_str().to_owned()),
        total_ns: line.ns,
        count: line.count,
        evidence: line.evidence,
    }
}
