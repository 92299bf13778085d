//! One page with a table of the stages and a flame graph for each stage, which needs no network.

use crate::flames::{Flames, Group};
use crate::graph::draw;
use crate::stage::StageFlame;
use std::io::{self, Write};
use transect_model::escape::html;
use transect_model::number::{count, dash, duration, share};
use transect_model::time::TimeUnit;

/// Only the page's own styles and its own script.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";
const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("graph.js");

/// Writes the page. Each recording has its name, which is a heading if there are several.
///
/// # Errors
/// The writer's.
pub fn write_page(recordings: &[(String, Flames)], out: &mut dyn Write) -> io::Result<()> {
    let names: Vec<&str> = recordings.iter().map(|(name, _)| name.as_str()).collect();
    let title = names.join(", ");
    let title = html(&title);
    write!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Stages by stack: {title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>Stages by stack: {title}</h1>\n\
         <p>The width of a frame is the time of the stage in the rows whose stage began with this stack; frames in the \
         kernel are orange, those of a program blue. Click a frame to enlarge it, the lowest one for all. \
         <label>Find <input id=\"find\" type=\"search\" autocomplete=\"off\"></label> <output id=\"found\"></output></p>\n"
    )?;
    for (name, flames) in recordings {
        if recordings.len() > 1 {
            writeln!(out, "<h2>{}</h2>", html(name))?;
        }
        flames.groups.iter().try_for_each(|group| write_group(group, out))?;
    }
    writeln!(out, "<script>\n{SCRIPT}</script>\n</body>\n</html>")
}

fn write_group(group: &Group, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "<section>\n<h3>{}</h3>\n<table>", html(&group.title()))?;
    writeln!(
        out,
        "<tr><th>stage</th><th>{}s</th><th>total</th><th>share of time</th><th>with a stack</th></tr>",
        group.key.noun()
    )?;
    let whole = group.total_ns;
    group.stages.iter().try_for_each(|stage| write_line(stage, whole, out))?;
    writeln!(out, "</table>")?;
    for stage in &group.stages {
        draw(stage, out)?;
    }
    writeln!(out, "</section>")
}

fn write_line(stage: &StageFlame, whole: Option<i64>, out: &mut dyn Write) -> io::Result<()> {
    let StageFlame { name, rows, total_ns, stacks, .. } = stage;
    writeln!(
        out,
        "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
        html(name),
        count(*rows),
        duration(*total_ns, TimeUnit::Ns),
        whole.map_or_else(dash, |whole| share(*total_ns, whole)),
        stacks.as_ref().map_or_else(dash, |stacks| share(stacks.found_ns, *total_ns)),
    )
}
