//! An explanation for programs: one JSON object.

use super::About;
use crate::records::{write_json, write_json_str};
use std::io::{self, Write};
use transect_explain::{
    Actor, Carried, Explained, Root, Rows,
    lines::{BlameLine, FindingLine, PathLine, StageLine, SumLine},
    words::{names, sentences},
};
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
            let line = |finding| FindingLine::new(rows, finding, about.unit);
            write_list(out, found.iter().map(line))?;
        }
        None => out.write_all(b"null")?,
    }
    out.write_all(b",\n\"blame\":")?;
    write_list(out, BlameLine::of_roots(rows, roots))?;
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
        ",\"window\":{{\"from\":{},\"until\":{}}},\"syscall\":",
        window.start.get(),
        window.end.get()
    )?;
    match root.call {
        Some(call) => {
            write!(out, "{{\"nr\":{},\"name\":", call.nr)?;
            write_json_str(out, &call.name())?;
            write!(out, ",\"ret\":{}}}", number(call.ret.map(|ret| ret.to_string())))?;
        }
        None => out.write_all(b"null")?,
    }
    out.write_all(b",\"request\":")?;
    match &root.carried {
        Some(Carried::Request(request)) => write_json(out, &**request)?,
        _ => out.write_all(b"null")?,
    }
    out.write_all(b",\"packet\":")?;
    match &root.carried {
        Some(Carried::Packet(packet)) => write_json(out, &**packet)?,
        _ => out.write_all(b"null")?,
    }
    out.write_all(b",\"stages\":")?;
    write_list(out, StageLine::of(root.carried.as_ref()))?;
    out.write_all(b",\"sentences\":[")?;
    for (at, text) in sentences::sentences(rows, root, about.unit).iter().enumerate() {
        out.write_all(if at == 0 { b"" } else { b"," })?;
        write_json_str(out, text)?;
    }
    out.write_all(b"],\"layers\":{")?;
    for (at, (layer, ns)) in root.layers.iter().enumerate() {
        write!(out, "{}\"{}\":{ns}", if at == 0 { "" } else { "," }, layer.as_str())?;
    }
    write!(
        out,
        "}},\"not_recorded_ns\":{},\"steps\":{},\"refused\":{},\"sums\":",
        root.not_recorded_ns, root.walked.steps, root.walked.refused
    )?;
    write_list(out, root.sums.iter().map(|sum| SumLine::new(rows, root, sum)))?;
    if paths {
        out.write_all(b",\"path\":")?;
        let path = root.path(rows);
        write_list(out, path.iter().map(|piece| PathLine::new(rows, piece)))?;
    }
    out.write_all(b"}")
}

fn write_list<R: Record>(
    out: &mut dyn Write,
    lines: impl IntoIterator<Item = R>,
) -> io::Result<()> {
    out.write_all(b"[")?;
    for (at, line) in lines.into_iter().enumerate() {
        out.write_all(if at == 0 { b"\n" } else { b",\n" })?;
        write_json(out, &line)?;
    }
    out.write_all(b"]")
}
