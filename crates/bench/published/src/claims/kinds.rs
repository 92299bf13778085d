//! Claims about cost ratios.

use super::{
    super::{
        candidates::{self, Candidate, Words},
        judge::{self, Band},
        map::{Base, Entry},
        measured::{self, Found},
        model::{Agreement, Figure, Ours},
        papers::Paper,
        source::Source,
        theirs,
    },
    judged::{Judged, silent},
};
use transect_bench_core::{Better, Fault};
use transect_bench_report::Report;

/// What was found of the first pair that was measured.
pub(super) enum First<'a> {
    /// None was.
    Missing,
    /// It was, and cannot be used.
    Unusable(&'a Candidate, String),
    /// The pair, its cost, which way its metric is good.
    Cost(&'a Candidate, Figure, Better),
}

/// The first pair that a report has; one that has it but cannot be used counts only if there is no other.
pub(super) fn first<'a>(reports: &[&Report], pairs: &'a [Candidate]) -> First<'a> {
    let mut unusable = First::Missing;
    for pair in pairs {
        for report in reports {
            match measured::cost(report, pair) {
                Found::Cost(figure, better) => return First::Cost(pair, figure, better),
                Found::Unusable(why) if matches!(unusable, First::Missing) => {
                    unusable = First::Unusable(pair, why);
                }
                Found::Unusable(_) | Found::Missing => {}
            }
        }
    }
    unusable
}

/// Pairs as they are told to people who want to measure them.
pub(super) fn needed(pairs: &[Candidate]) -> Agreement {
    Agreement::NotMeasured { cells: pairs.iter().map(ToString::to_string).collect() }
}

/// A cost, or several of which each must be as claimed.
pub(super) fn costs(reports: &[&Report], works: &[Vec<Candidate>], band: Band) -> Judged {
    let count = works.len();
    let all: Vec<Judged> = works
        .iter()
        .map(|pairs| match first(reports, pairs) {
            First::Missing => silent(needed(pairs)),
            First::Unusable(pair, why) => unusable(pair, why),
            First::Cost(pair, figure, better) => {
                let figure = widened(figure, count);
                let agrees = judge::ratio(band, figure);
                Judged { ours: Some(ours(pair, figure, better)), agrees, note: chain_note(figure) }
            }
        })
        .collect();
    all_together(all)
}

fn unusable(pair: &Candidate, why: String) -> Judged {
    let ours = Ours {
        cell: pair.cell.clone(),
        reference: Some(pair.reference.clone()),
        what: "cost",
        figure: None,
        percent: None,
        speed: None,
    };
    Judged { ours: Some(ours), agrees: Agreement::Unresolved { why }, note: String::new() }
}

fn ours(pair: &Candidate, figure: Figure, better: Better) -> Ours {
    Ours {
        cell: pair.cell.clone(),
        reference: Some(pair.reference.clone()),
        what: "cost",
        figure: Some(figure),
        percent: Some(theirs::percent(figure.value, better)),
        speed: Some(100.0 / figure.value),
    }
}

fn chain_note(figure: Figure) -> String {
    match figure.links {
        0 | 1 => String::new(),
        links => format!("ours: {links} comparisons multiplied"),
    }
}

/// Of several that must all be as claimed the one that decides: one that is not, else one that is not known.
fn all_together(all: Vec<Judged>) -> Judged {
    let rank = |judged: &Judged| match judged.agrees {
        Agreement::DoesNotHold => 0,
        Agreement::Unresolved { .. } => 1,
        Agreement::NotMeasured { .. } => 2,
        _ => 3,
    };
    let count = all.len();
    let mut decides = all
        .into_iter()
        .min_by_key(rank)
        .unwrap_or_else(|| silent(Agreement::NotMeasured { cells: Vec::new() }));
    if count > 1 && decides.ours.is_some() {
        decides.note =
            [&*decides.note, &format!("{count} workloads compared, the deciding one shown")]
                .into_iter()
                .filter(|note| !note.is_empty())
                .collect::<Vec<_>>()
                .join("; ");
    }
    decides
}

/// Wider, so that several together miss no more often than one alone (Bonferroni, as if the logarithm were normal).
fn widened(figure: Figure, count: usize) -> Figure {
    if count <= 1 {
        return figure;
    }
    let miss = 1.0 - figure.confidence;
    #[expect(clippy::cast_precision_loss, reason = "a handful of workloads")]
    let factor = normal_beyond(miss / 2.0 / count as f64) / normal_beyond(miss / 2.0);
    Figure {
        low: figure.value * (figure.low / figure.value).powf(factor),
        high: figure.value * (figure.high / figure.value).powf(factor),
        ..figure
    }
}

/// What a normal variable exceeds with a probability below one half (Abramowitz and Stegun 26.2.23, to 4.5e-4).
fn normal_beyond(probability: f64) -> f64 {
    let t = (-2.0 * probability.ln()).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let below = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    t - above / below
}

/// What an arm adds to nobody's cost, over what the base arm adds.
pub(super) fn added(
    paper: &Paper,
    source: &Source,
    entry: &Entry,
    works: &[Vec<Candidate>],
    band: Band,
    reports: &[&Report],
) -> Result<Judged, Fault> {
    let state = entry.base.as_ref().and_then(|base: &Base| base.state.clone()).unwrap_or_default();
    let base = Source { state, ..source.clone() };
    let base_entry = Entry { under: Vec::new(), ..entry.clone() };
    let words = Words::of(paper, &base, &base_entry)?;
    let bases = candidates::pairs(paper, &words, entry.against);
    let (Some(pairs), Some(bases)) = (works.first(), bases.first()) else {
        return Ok(silent(Agreement::NotMeasured { cells: Vec::new() }));
    };
    Ok(match first(reports, pairs) {
        First::Missing => silent(needed(&[pairs.as_slice(), bases.as_slice()].concat())),
        First::Unusable(pair, why) => unusable(pair, why),
        First::Cost(pair, figure, better) => {
            let is_there = |base: &&Candidate| base.cell.platform == pair.cell.platform;
            let there: Vec<Candidate> = bases.iter().filter(is_there).cloned().collect();
            match first(reports, &there) {
                First::Missing => silent(needed(&there)),
                First::Unusable(pair, why) => unusable(pair, why),
                First::Cost(base, other, _) => over(pair, figure, base, other, better, band),
            }
        }
    })
}

fn over(
    pair: &Candidate,
    figure: Figure,
    base: &Candidate,
    other: Figure,
    better: Better,
    band: Band,
) -> Judged {
    let added = |cost: f64| (cost - 1.0).max(0.0);
    if added(other.low) == 0.0 || added(other.value) <= other.floor.unwrap_or(f64::INFINITY) {
        let why = format!("the added cost of {} is within the noise", base.cell);
        return unusable(pair, why);
    }
    let ratio = Figure {
        value: added(figure.value) / added(other.value),
        low: added(figure.low) / added(other.high),
        high: added(figure.high) / added(other.low),
        confidence: (figure.confidence + other.confidence - 1.0).max(0.0),
        runs: figure.runs.min(other.runs),
        floor: figure.floor,
        links: 2,
    };
    let is_resolved = figure.floor.is_some_and(|floor| added(figure.value) > floor);
    let agrees = if is_resolved {
        judge::within(band, ratio)
    } else {
        let why = format!("the added cost of {} is within the noise", pair.cell);
        Agreement::Unresolved { why }
    };
    let ours = Ours {
        reference: Some(base.cell.clone()),
        what: "added cost",
        percent: None,
        speed: None,
        ..ours(pair, ratio, better)
    };
    Judged { ours: Some(ours), agrees, note: "each minus the cost without a tracer".to_owned() }
}

/// Does the cost grow more with machines here than there?
pub(super) fn falls_more(
    reports: &[&Report],
    here: &[Vec<Candidate>],
    there: &[Vec<Candidate>],
    band: Band,
) -> Judged {
    let (Some(here), Some(there)) = (here.first(), there.first()) else {
        return silent(Agreement::NotMeasured { cells: Vec::new() });
    };
    for pair in here {
        let same = |other: &&Candidate| {
            other.cell.group == pair.cell.group && other.reference.group == pair.reference.group
        };
        let others: Vec<Candidate> = there.iter().filter(same).cloned().collect();
        let found = (first(reports, std::slice::from_ref(pair)), first(reports, others.as_slice()));
        if let (First::Cost(pair, one, better), First::Cost(other, two, _)) = found {
            let across = reports.iter().find_map(|report| {
                let (this, that) = (&pair.cell.platform, &other.cell.platform);
                measured::emulator_with_hardware(report, this, that)
            });
            if let Some(why) = across {
                return unusable(pair, why);
            }
            let figure = measured::times(one, measured::inverse(two));
            let agrees = judge::ratio(band, figure);
            let note = format!("divided by the same ratio on {}", other.cell.platform);
            return Judged { ours: Some(ours(pair, figure, better)), agrees, note };
        }
    }
    silent(needed(&[here.as_slice(), there.as_slice()].concat()))
}

/// The size of a trace over another one's: shown, and not judged.
pub(super) fn size(reports: &[&Report], works: &[Vec<Candidate>]) -> Judged {
    let pairs = works.first().map_or(&[][..], Vec::as_slice);
    for pair in pairs {
        for report in reports {
            let bytes = |cell: &transect_bench_run::plan::Cell| {
                let found = report.cells.iter().find(|found| found.cell == *cell)?;
                found.tracer.as_ref()?.bytes.filter(|bytes| *bytes > 0)
            };
            let Some((this, that)) = bytes(&pair.cell).zip(bytes(&pair.reference)) else {
                continue;
            };
            #[expect(clippy::cast_precision_loss, reason = "a ratio of sizes, shown to 3 places")]
            let ratio = this as f64 / that as f64;
            let why =
                "only medians of sizes are kept, and a single median has no interval".to_owned();
            let note = format!("ours: {this} over {that} bytes, ×{ratio:.3}");
            return Judged { note, ..unusable(pair, why) };
        }
    }
    silent(needed(pairs))
}
