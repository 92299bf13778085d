//! One flame graph: a box for each frame, as HTML that needs no script to be read.
//!
//! The boxes are placed in percent, so that a graph is as wide as its page; the page's script places them again when a
//! frame is enlarged.

use crate::frame::{KERNEL, SEPARATOR};
use crate::stage::StageFlame;
use std::collections::BTreeMap;
use std::io::{self, Write};
use transect_model::escape::html;
use transect_model::number::{duration, share};
use transect_model::time::TimeUnit;

/// Height of a box, pixels.
const ROW_PX: usize = 18;
/// A frame narrower than this part of the graph has no box of its own.
const MIN_PART: i64 = 5000;

/// A frame and what was called by it.
#[derive(Default)]
struct Node<'f> {
    ns: i64,
    calls: BTreeMap<&'f str, Node<'f>>,
}

impl<'f> Node<'f> {
    fn add(&mut self, stack: &'f str, ns: i64) {
        self.ns += ns;
        let mut node = self;
        for frame in stack.split(SEPARATOR) {
            node = node.calls.entry(frame).or_default();
            node.ns += ns;
        }
    }

    /// Rows of boxes above this one.
    fn depth(&self) -> usize {
        self.calls.values().map(|call| 1 + call.depth()).max().unwrap_or(0)
    }
}

/// Draws the stage's stacks, the outermost frames at the bottom; nothing if there is nothing to draw.
///
/// # Errors
/// The writer's.
pub(crate) fn draw(stage: &StageFlame, out: &mut dyn Write) -> io::Result<()> {
    let Some(stacks) = stage.stacks.as_ref().filter(|_| stage.total_ns > 0) else { return Ok(()) };
    let mut root = Node::default();
    stacks.folded.iter().for_each(|stack| root.add(&stack.frames, stack.ns));
    let height = (root.depth() + 1) * ROW_PX;
    writeln!(out, "<div class=\"graph\" style=\"height:{height}px\">")?;
    let whole = root.ns;
    let mut drawing = Drawing { whole, out };
    drawing.frame(&stage.name, &root, 0, 0)?;
    writeln!(out, "</div>")
}

struct Drawing<'o> {
    whole: i64,
    out: &'o mut dyn Write,
}

impl Drawing<'_> {
    /// A frame that begins at `from` ns of the graph's width, and what it called.
    fn frame(&mut self, name: &str, node: &Node<'_>, from: i64, row: usize) -> io::Result<()> {
        if node.ns <= self.whole / MIN_PART {
            return Ok(());
        }
        let (shown, class) = match name.strip_suffix(KERNEL) {
            Some(function) => (function, "k"),
            None if row < 2 || name.starts_with('[') => (name, "t"),
            None => (name, "u"),
        };
        let title =
            format!("{shown}: {}, {}", duration(node.ns, TimeUnit::Ns), share(node.ns, self.whole));
        // A tone of its own for each name, the same on every page.
        let tone =
            shown.bytes().fold(7u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()))
                % 5;
        writeln!(
            self.out,
            "<div class=\"{class} c{tone}\" style=\"left:{:.4}%;width:{:.4}%;bottom:{}px\" data-x=\"{from}\" \
             data-w=\"{}\" title=\"{}\">{}</div>",
            percent(from, self.whole),
            percent(node.ns, self.whole),
            row * ROW_PX,
            node.ns,
            html(&title),
            html(shown)
        )?;
        let mut at = from;
        for (name, call) in &node.calls {
            self.frame(name, call, at, row + 1)?;
            at += call.ns;
        }
        Ok(())
    }
}

#[expect(clippy::cast_precision_loss, reason = "places on a screen")]
fn percent(part: i64, whole: i64) -> f64 {
    100.0 * part as f64 / whole as f64
}
