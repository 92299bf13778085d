//! An explanation for people: sentences first, then where the time went, and the path.

use super::About;
use crate::text::grid::{Column, Grid, left, right};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};
use transect_explain::{
    Carried, Explained, Layer, Level, Piece, Root, Rows, Sum, ThreadId, Why, blame, charged,
    detect::Finding,
    lines::{FindingLine, StageLine},
    words::{names, sentences},
};
use transect_model::{
    cause::Evidence,
    escape::terminal,
    guard::{Guard, Syntax},
    number::{count, dash, duration, share},
    time::TimeUnit,
};

/// What is shown.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// Characters per line; none where nothing limits them.
    pub width: Option<usize>,
    /// Lines of each list.
    pub top: usize,
}

const TIME: [Column; 5] = [
    right("share"),
    right("time"),
    right("pieces").expendable(1),
    left("where"),
    left("evidence").expendable(2),
];
const STAGES: [Column; 4] = [left("stage"), right("start"), right("length"), right("share")];
const PATH: [Column; 6] = [
    right("start"),
    right("length"),
    left("where"),
    left("state"),
    left("because of").expendable(1),
    left("evidence").expendable(2),
];
const BLAME: [Column; 6] = [
    right("time"),
    right("waits").expendable(1),
    left("victim"),
    left("antagonist"),
    left("why"),
    left("evidence").expendable(2),
];
const OVERVIEW: [Column; 8] = [
    left("thread"),
    right("ran").expendable(1),
    right("kept"),
    right("host").expendable(3),
    right("timer").expendable(4),
    right("unknown").expendable(2),
    right("most"),
    left("largest part"),
];

/// Roots whose sentences are shown before the list of all.
const MOST_SENTENCES: usize = 4;

/// A moment after the start of the recording: `+1.234567 s`.
fn moment(after: i64, unit: TimeUnit) -> String {
    match unit {
        TimeUnit::Ns => {
            let us = after.div_euclid(1_000);
            format!("+{}.{:06} s", us / 1_000_000, us % 1_000_000)
        }
        TimeUnit::Ticks => format!("+{after}"),
    }
}

/// The longest pieces of the root's path, in order of time.
fn longest(rows: &Rows<'_>, root: &Root, top: usize) -> Vec<Piece> {
    // By length; of the same, those that come first.
    let mut longest: BTreeMap<(i64, Reverse<i64>), Piece> = BTreeMap::new();
    root.each_piece(rows, &mut |piece| {
        let of = (piece.dur, Reverse(piece.ts));
        let is_in = longest.len() < top || longest.first_key_value().is_some_and(|(k, _)| *k < of);
        if is_in {
            longest.insert(of, *piece);
        }
        if longest.len() > top {
            longest.pop_first();
        }
    });
    let mut longest: Vec<Piece> = longest.into_values().collect();
    longest.sort_by_key(|piece| piece.ts);
    longest
}

struct Page<'a, 't> {
    rows: &'a Rows<'t>,
    about: &'a About,
    shown: Shown,
    out: Guard<&'a mut dyn Write>,
}

/// Writes findings, each with what one can try.
pub(crate) fn write_findings(
    out: &mut dyn Write,
    found: &[FindingLine],
    top: usize,
) -> io::Result<()> {
    if found.is_empty() {
        return writeln!(out, "  none");
    }
    for line in found.iter().take(top) {
        let (name, sure) = (line.detector, line.confidence);
        writeln!(out, "  {}  [{name}, {sure}]", terminal(&line.sentence))?;
        writeln!(out, "    try: {}", line.hint)?;
    }
    write_rest(out, found.len().saturating_sub(top))
}

fn write_rest(out: &mut dyn Write, rest: usize) -> io::Result<()> {
    if rest > 0 {
        writeln!(out, "  and {} more (--top)", count(u64::try_from(rest).unwrap_or(0)))?;
    }
    Ok(())
}

/// Writes the roots for people.
///
/// # Errors
/// Of the output.
pub fn write(
    rows: &Rows<'_>,
    about: &About,
    explained: &Explained,
    shown: Shown,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut page = Page { rows, about, shown, out: Guard::new(out, Some(Syntax::Lines)) };
    let roots = &explained.roots;
    page.sentences(roots)?;
    page.findings(explained.findings.as_deref())?;
    match &roots[..] {
        [root] => page.root(root)?,
        roots => page.overview(roots)?,
    }
    page.blame(roots)
}

impl Page<'_, '_> {
    /// Of the roots that were kept most.
    fn sentences(&mut self, roots: &[Root]) -> io::Result<()> {
        let mut most: Vec<&Root> = roots.iter().collect();
        most.sort_by_key(|root| std::cmp::Reverse(root.kept()));
        for root in most.into_iter().take(MOST_SENTENCES) {
            let all = sentences::sentences(self.rows, root, self.about.unit);
            for (at, text) in all.iter().enumerate() {
                writeln!(self.out, "{}{}", if at == 0 { "" } else { "  " }, terminal(text))?;
            }
            writeln!(self.out, "  {}", sentences::layers(root))?;
        }
        Ok(())
    }

    fn findings(&mut self, found: Option<&[Finding]>) -> io::Result<()> {
        writeln!(self.out, "\nFINDINGS")?;
        let Some(found) = found else {
            return writeln!(self.out, "  none: the range is shorter than a second");
        };
        let line = |finding| FindingLine::new(self.rows, finding, self.about.unit);
        let lines: Vec<FindingLine> = found.iter().map(line).collect();
        write_findings(&mut self.out, &lines, self.shown.top)
    }

    fn rest(&mut self, rest: usize) -> io::Result<()> {
        write_rest(&mut self.out, rest)
    }

    fn root(&mut self, root: &Root) -> io::Result<()> {
        let mut grid = Grid::new(&TIME);
        for sum in &root.sums {
            grid.row(self.sum_cells(root, sum));
        }
        self.list("WHERE THE TIME WENT", grid)?;
        if let Some(carried) = &root.carried {
            self.stages(root, carried)?;
        }
        let longest = longest(self.rows, root, self.shown.top);
        let mut grid = Grid::new(&PATH);
        for piece in &longest {
            grid.row(self.piece_cells(piece));
        }
        let shown = longest.len();
        match u64::try_from(shown) == Ok(root.walked.pieces) {
            true => self.list("PATH", grid),
            false => {
                let all = count(root.walked.pieces);
                self.list(&format!("PATH: the {shown} longest of {all} pieces"), grid)
            }
        }
    }

    fn stages(&mut self, root: &Root, carried: &Carried) -> io::Result<()> {
        let mut grid = Grid::new(&STAGES);
        for line in StageLine::of(Some(carried)) {
            grid.row(vec![
                line.stage,
                moment(line.ts - self.about.start, self.about.unit),
                duration(line.dur, self.about.unit),
                share(line.dur, root.length()),
            ]);
        }
        let name = |machine| names::machine(self.rows, machine);
        let (title, evidence, missing) = match carried {
            Carried::Request(row) => {
                let (device, op, bytes) = (row.device, row.op.as_str(), count(row.bytes));
                let title =
                    format!("{op} of {bytes} bytes, device {device} of {}", name(row.machine_id));
                (title, row.evidence, &row.missing)
            }
            Carried::Packet(row) => {
                let from = row.send_ts.map_or("outside".to_owned(), |_| name(row.machine_id));
                let to = row.to_machine_id.map_or("outside".to_owned(), name);
                let bytes = row.bytes.map(|bytes| format!(" of {} bytes", count(bytes)));
                let title = format!("packet{}, {from} to {to}", bytes.unwrap_or_default());
                (title, row.evidence, &row.missing)
            }
        };
        writeln!(self.out, "\nSTAGES  {}", terminal(&title))?;
        grid.write(&mut self.out, 2, self.shown.width)?;
        if let Some(evidence) = evidence {
            writeln!(self.out, "  joined by {}", evidence.as_str())?;
        }
        if !missing.is_empty() {
            writeln!(self.out, "  not known: {}", missing.replace(',', ", "))?;
        }
        Ok(())
    }

    fn list(&mut self, title: &str, mut grid: Grid) -> io::Result<()> {
        let rest = grid.cut(self.shown.top);
        writeln!(self.out, "\n{title}")?;
        grid.write(&mut self.out, 2, self.shown.width)?;
        self.rest(rest)
    }

    fn sum_cells(&self, root: &Root, sum: &Sum) -> Vec<String> {
        vec![
            share(sum.ns, root.length()),
            duration(sum.ns, self.about.unit),
            count(sum.count),
            sentences::phrase(self.rows, sum),
            sum.evidence.as_str().to_owned(),
        ]
    }

    fn piece_cells(&self, piece: &Piece) -> Vec<String> {
        let thread = piece.tid.map(|tid| ThreadId { machine: piece.machine, tid });
        let place = match (thread, piece.vcpu, piece.cpu) {
            (Some(thread), ..) => names::thread(self.rows, thread),
            (None, Some(vcpu), _) => names::vcpu(self.rows, piece.machine, vcpu),
            (None, None, Some(cpu)) => {
                format!("{} CPU {cpu}", names::machine(self.rows, piece.machine))
            }
            (None, None, None) => names::machine(self.rows, piece.machine),
        };
        let state = match piece.reason {
            Some(reason) => format!("{} {reason}", piece.doing.as_str()),
            None => piece.doing.as_str().to_owned(),
        };
        let because = match (piece.by, piece.why, piece.cause) {
            (_, Some(why @ Why::Throttled), _) | (None, Some(why), _) => {
                sentences::reason(why).to_owned()
            }
            (Some(by), Some(why), _) => {
                format!("{} ({})", names::by(self.rows, by), sentences::reason(why))
            }
            (Some(by), None, _) => names::by(self.rows, by),
            (None, None, Some(cause)) => cause.as_str().to_owned(),
            (None, None, None) => dash(),
        };
        vec![
            moment(piece.ts - self.about.start, self.about.unit),
            duration(piece.dur, self.about.unit),
            format!("{}{place}", "  ".repeat(usize::try_from(piece.depth.min(8)).unwrap_or(0))),
            state,
            because,
            if piece.depth == 0 && piece.cause.is_none() && piece.evidence == Evidence::Id {
                dash()
            } else {
                piece.evidence.as_str().to_owned()
            },
        ]
    }

    fn overview(&mut self, roots: &[Root]) -> io::Result<()> {
        let mut grid = Grid::new(&OVERVIEW);
        for root in roots {
            let own = root.parts.iter().find(|part| {
                part.other.is_none() && part.doing == transect_explain::Doing::Running
            });
            let part = |ns| share(ns, root.length());
            let most = root.sums.first();
            let name = names::actor(self.rows, root.actor);
            let name = match root.call {
                Some(call) => {
                    let start = root.window.start.get() - self.about.start;
                    let (at, long) = (moment(start, self.about.unit), root.length());
                    let long = duration(long, self.about.unit);
                    format!("{} of {name}, {at}, {long}", call.name())
                }
                None => name,
            };
            grid.row(vec![
                name,
                part(own.map_or(0, |own| own.ns)),
                part(root.kept()),
                part(root.in_layer(Layer::Host)),
                part(root.in_layer(Layer::Timer)),
                part(root.in_layer(Layer::Unknown)),
                most.map_or_else(dash, |sum| part(sum.ns)),
                most.map_or_else(dash, |sum| sentences::phrase(self.rows, sum)),
            ]);
        }
        let are_calls = roots.iter().any(|root| root.call.is_some());
        self.list(if are_calls { "SYSTEM CALLS" } else { "THREADS" }, grid)
    }

    fn blame(&mut self, roots: &[Root]) -> io::Result<()> {
        for (level, title) in
            [(Level::Thread, "WAITS FOR A CPU"), (Level::Machine, "WAITS FOR A CPU BY MACHINE")]
        {
            let lines = blame(self.rows, charged(self.rows, roots), level);
            if lines.is_empty() {
                continue;
            }
            let mut grid = Grid::new(&BLAME);
            for line in &lines {
                grid.row(vec![
                    duration(line.ns, self.about.unit),
                    count(line.count),
                    names::party(self.rows, &line.victim),
                    names::party(self.rows, &line.culprit),
                    line.why.map_or_else(dash, |why| sentences::reason(why).to_owned()),
                    line.evidence.as_str().to_owned(),
                ]);
            }
            self.list(title, grid)?;
        }
        Ok(())
    }
}
