//! The widest stacks of each stage as text.

use crate::flames::{Flames, Group};
use crate::frame::innermost_first;
use crate::stage::{FoldedStack, StageFlame};
use std::cmp::Reverse;
use std::io::{self, Write};
use transect_model::number::{counted, dash, duration, share};
use transect_model::time::TimeUnit;

/// Frames of a stack on its line, from the innermost.
const MOST_FRAMES: usize = 6;

/// Writes each stage with its `top` widest stacks. The names hold no character that a terminal obeys.
///
/// # Errors
/// The writer's.
pub fn write_text(
    recordings: &[(String, Flames)],
    top: usize,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut is_first = true;
    for (name, flames) in recordings {
        for group in &flames.groups {
            if !std::mem::take(&mut is_first) {
                writeln!(out)?;
            }
            if recordings.len() > 1 {
                write!(out, "{}: ", crate::frame::frame_from_name(name))?;
            }
            write_group(group, top, out)?;
        }
    }
    Ok(())
}

fn write_group(group: &Group, top: usize, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", group.title())?;
    let whole = group.total_ns;
    for stage in &group.stages {
        let StageFlame { name, rows, total_ns, stacks, .. } = stage;
        let of = whole.map_or_else(dash, |whole| share(*total_ns, whole));
        let rows = counted(*rows, group.key.noun());
        let length = duration(*total_ns, TimeUnit::Ns);
        let Some(stacks) = stacks else {
            writeln!(
                out,
                "  {name}  {length} ({of}) in {rows}; begins with no event that has a stack"
            )?;
            continue;
        };
        let found = share(stacks.found_ns, *total_ns);
        writeln!(out, "  {name}  {length} ({of}) in {rows}, {found} with a stack")?;
        let mut widest: Vec<&FoldedStack> = stacks.folded.iter().collect();
        widest.sort_by_key(|stack| (Reverse(stack.ns), &stack.frames));
        for stack in widest.iter().take(top) {
            writeln!(out, "    {:>7}  {}", share(stack.ns, *total_ns), line_of(&stack.frames))?;
        }
        let more = widest.len().saturating_sub(top);
        if more > 0 {
            let rest: i64 = widest[top..].iter().map(|stack| stack.ns).sum();
            let more = counted(more as u64, "other stack");
            writeln!(out, "    {:>7}  in {more}", share(rest, *total_ns))?;
        }
    }
    Ok(())
}

/// The thread, then the innermost frames: `nginx: start_xmit ← dev_hard_start_xmit ← …`.
fn line_of(stack: &str) -> String {
    let mut frames: Vec<&str> = innermost_first(stack).collect();
    // A row without a sample has no thread.
    let thread = if frames.len() > 1 { frames.pop() } else { None };
    let more = frames.len().saturating_sub(MOST_FRAMES);
    frames.truncate(MOST_FRAMES);
    let mut line = thread.map(|thread| format!("{thread}: ")).unwrap_or_default();
    line.push_str(&frames.join(" ← "));
    if more > 0 {
        line.push_str(&format!(" ← … {more} more"));
    }
    line
}
