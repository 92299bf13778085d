//! From a folder of results to a report.

use super::{
    Comparison, Contrast, Estimate, Point, Report, ReportedCell, ReportedPlatform, Suspect, Verdict,
};
use std::collections::{BTreeMap, BTreeSet};
use transect_bench_core::{
    Better, Distribution, Fault, Kind, Metric, Refusal, Unit, protocol::TracerCost,
};
use transect_bench_run::{
    journal::{self, CellResult, Confirmation, Entry, Outcome, State},
    ledger::{self, Lossy},
    plan::{Cell, Plan},
    procedure::{self, Results},
};
use transect_bench_stats::{
    design::{self, ContrastSummary, Label, Relation, Summary},
    statistics::quantile::{median, quantile},
};

/// What is asked of a report besides what the plan says.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'a> {
    /// Platforms are compared with this one instead of the plan's reference: what a guest costs over its own host.
    pub against: Option<&'a str>,
    /// Limiters are named by this program's rules, from the samples that were kept, and not as they were named then.
    pub judges_again: bool,
}

/// Everything there is to show of a folder of results, finished or not.
pub fn of(results: &Results) -> Result<Report, Fault> {
    of_asked(results, Asked::default())
}

/// The same, as it is asked for.
///
/// # Errors
/// As [`of`]; and the plan does not have the platform of [`Asked::against`].
pub fn of_asked(results: &Results, asked: Asked<'_>) -> Result<Report, Fault> {
    let text = results.plan_text()?;
    let mut plan = Plan::parse(&text, &results.plan().display().to_string())?;
    if let Some(platform) = asked.against {
        let cells = plan.cells()?;
        let there: BTreeSet<&str> = cells.iter().map(|cell| cell.platform.as_str()).collect();
        if !there.contains(platform) {
            let all = there.into_iter().collect::<Vec<_>>().join(", ");
            let why = format!("these results have no platform of that name; they have {all}");
            return Err(Refusal::new(Kind::Plan, format!("platform {platform}"), why).into());
        }
        platform.clone_into(&mut plan.reference.platform);
    }
    let mut entries = journal::read(&results.journal())?;
    if asked.judges_again {
        procedure::judge_again(&mut entries)?;
    }
    let state = State::of(&entries)?;
    let mut ledger = ledger::ledger_of(&plan, &state, Lossy::Apart)?;
    let warming = ledger.exclude_warm_up();
    let summary = design::summarise(&ledger, &ledger::goal_of(&plan));
    let runs = runs_of(&entries);
    let mut report = Report {
        name: plan.name.clone(),
        about: plan.about.clone(),
        plan: text,
        finished: state.finished.clone(),
        resumes: state.resumes,
        blocks: whole_blocks(&state),
        environment: results.environment()?.facts,
        platforms: platforms_of(&state),
        refused: state.refused.clone(),
        failed: failed_of(&state),
        cells: cells_of(&runs, &summary, &state)?,
        comparisons: summary.contrasts.iter().filter_map(|found| compared(found, &runs)).collect(),
        ..Report::default()
    };
    stamp(&mut report, &entries);
    report.warnings = warnings_of(&report, &summary, warming);
    Ok(report)
}

/// A run that has a result, with when it began.
struct Run<'a> {
    block: u32,
    label: Label,
    unix_ns: u64,
    result: &'a CellResult,
}

/// Runs with a result by cell, in order of time; where a tracer lost events, of an arm of their own.
fn runs_of(entries: &[Entry]) -> BTreeMap<Cell, Vec<Run<'_>>> {
    let mut began = BTreeMap::new();
    let mut runs: BTreeMap<Cell, Vec<Run<'_>>> = BTreeMap::new();
    for entry in entries {
        match entry {
            Entry::Started(started) => drop(began.insert(&started.id, started.unix_ns)),
            Entry::Ended(ended) => {
                let Outcome::Measured(result) = &ended.outcome else { continue };
                let mut cell = ended.key.cell.clone();
                if result.lost_events() > 0 {
                    cell.tracer = ledger::lossy(&cell.tracer);
                }
                let unix_ns = began.get(&ended.id).copied().unwrap_or(0);
                let (block, label) = (ended.key.block, ended.key.label);
                runs.entry(cell).or_default().push(Run { block, label, unix_ns, result });
            }
            _ => {}
        }
    }
    runs
}

fn stamp(report: &mut Report, entries: &[Entry]) {
    for entry in entries {
        let unix_ns = match entry {
            Entry::Begun { unix_ns, version, .. } => {
                report.version.clone_from(version);
                report.began_unix_ns = *unix_ns;
                *unix_ns
            }
            Entry::Resumed { unix_ns, .. } | Entry::Finished { unix_ns, .. } => *unix_ns,
            Entry::Started(started) => started.unix_ns,
            _ => continue,
        };
        report.last_unix_ns = report.last_unix_ns.max(unix_ns);
    }
}

/// Blocks before the last that anything was tried in are whole; the last one is when it is finished.
fn whole_blocks(state: &State) -> u32 {
    let tried = u32::try_from(state.blocks().len()).unwrap_or(u32::MAX);
    if state.finished.is_some() { tried } else { tried.saturating_sub(1) }
}

fn platforms_of(state: &State) -> Vec<ReportedPlatform> {
    let mut found: BTreeMap<&str, (ReportedPlatform, Vec<f64>)> = BTreeMap::new();
    for opened in &state.opened {
        let (platform, times) = found.entry(&opened.platform).or_default();
        #[expect(clippy::cast_precision_loss, reason = "seconds, to a few digits")]
        times.push(opened.took_ns as f64 / 1e9);
        let cpus = u32::try_from(opened.worker.cpus.len()).unwrap_or(u32::MAX);
        let opened_before = platform.opened;
        let mut notes = opened.facts.notes.clone();
        notes.extend(opened.worker.notes.clone());
        *platform = ReportedPlatform {
            name: opened.platform.clone(),
            accelerator: opened.facts.accelerator.clone(),
            emulated: opened.facts.emulated.clone(),
            kernel: opened.worker.kernel.clone(),
            cpus,
            memory_bytes: opened.worker.memory_bytes,
            opened: opened_before + 1,
            opening_s: 0.0,
            notes,
        };
    }
    let with_time = |(platform, times): (ReportedPlatform, Vec<f64>)| ReportedPlatform {
        opening_s: median(&times).unwrap_or(0.0),
        ..platform
    };
    found.into_values().map(with_time).collect()
}

fn failed_of(state: &State) -> Vec<(Cell, u32, Fault)> {
    let mut failed: BTreeMap<Cell, (u32, Fault)> = BTreeMap::new();
    for ended in state.ended.values() {
        if let Outcome::Faulted { fault, .. } = &ended.outcome {
            let entry = failed.entry(ended.key.cell.clone()).or_insert((0, fault.clone()));
            *entry = (entry.0 + 1, fault.clone());
        }
    }
    failed.into_iter().map(|(cell, (times, fault))| (cell, times, fault)).collect()
}

fn cells_of(
    runs: &BTreeMap<Cell, Vec<Run<'_>>>,
    summary: &Summary,
    state: &State,
) -> Result<Vec<ReportedCell>, Fault> {
    let excluded = excluded_of(summary);
    let mut cells = Vec::new();
    for (cell, runs) in runs {
        let about = cell.group.about()?;
        let (metric, unit, better) = about.metric;
        let points: Vec<Point> =
            runs.iter().filter_map(|run| point(cell, run, &excluded)).collect();
        let counted = points.iter().filter(|point| point.excluded.is_empty());
        let values: Vec<f64> = counted.map(|point| point.value).collect();
        cells.push(ReportedCell {
            cell: cell.clone(),
            family: family_name(about.family),
            metric: metric.to_owned(),
            unit,
            better,
            median: median(&values),
            quartiles: quantile(&values, 0.25).zip(quantile(&values, 0.75)).map(|(a, b)| [a, b]),
            others: others_of(runs),
            distributions: distributions_of(runs),
            limiter: suspect_of(runs).map(|suspect| confirmed(suspect, state.confirmed.get(cell))),
            tracer: tracer_of(runs),
            lossy_runs: lossy_runs(runs),
            points,
        });
    }
    Ok(cells)
}

fn lossy_runs(runs: &[Run<'_>]) -> u32 {
    let lossy = runs.iter().filter(|run| run.result.lost_events() > 0).count();
    u32::try_from(lossy).unwrap_or(u32::MAX)
}

/// A family's name as the journal has it.
fn family_name(family: transect_bench_core::Family) -> String {
    format!("{family:?}").to_lowercase()
}

type Excluded = BTreeMap<(String, u32), String>;

fn excluded_of(summary: &Summary) -> Excluded {
    let of_cell = |found: &design::CellSummary| {
        let id = found.cell.id.clone();
        let excluded = found.excluded.clone().into_iter();
        excluded.map(move |(block, exclusion)| {
            ((id.clone(), block), format!("{}: {}", exclusion.cause, exclusion.evidence))
        })
    };
    summary.cells.iter().flat_map(of_cell).collect()
}

fn point(cell: &Cell, run: &Run<'_>, excluded: &Excluded) -> Option<Point> {
    let id = ledger::id_of(cell, run.label);
    Some(Point {
        block: run.block,
        label: run.label,
        value: run.result.metrics.first()?.value,
        unix_ns: run.unix_ns,
        excluded: excluded.get(&(id, run.block)).into_iter().cloned().collect(),
    })
}

/// Medians of all metrics but the primary one.
fn others_of(runs: &[Run<'_>]) -> BTreeMap<String, (f64, Unit, Better)> {
    let mut all: BTreeMap<&str, (Vec<f64>, &Metric)> = BTreeMap::new();
    for metric in runs.iter().flat_map(|run| run.result.metrics.iter().skip(1)) {
        all.entry(&metric.name).or_insert_with(|| (Vec::new(), metric)).0.push(metric.value);
    }
    let row = |(name, (values, metric)): (&str, (Vec<f64>, &Metric))| {
        Some((name.to_owned(), (median(&values)?, metric.unit, metric.better)))
    };
    all.into_iter().filter_map(row).collect()
}

/// Of each metric whose operations were measured one by one: sums of counts, medians of all else over the runs.
fn distributions_of(runs: &[Run<'_>]) -> BTreeMap<String, (Unit, Distribution)> {
    let mut all: BTreeMap<&str, (Unit, Vec<&Distribution>)> = BTreeMap::new();
    for metric in runs.iter().flat_map(|run| &run.result.metrics) {
        if let Some(distribution) = &metric.distribution {
            all.entry(&metric.name).or_insert((metric.unit, Vec::new())).1.push(distribution);
        }
    }
    let row = |(name, (unit, of)): (&str, (Unit, Vec<&Distribution>))| {
        Some((name.to_owned(), (unit, median_of(&of)?)))
    };
    all.into_iter().filter_map(row).collect()
}

fn median_of(all: &[&Distribution]) -> Option<Distribution> {
    let middle = |what: fn(&Distribution) -> f64| {
        median(&all.iter().map(|one| what(one)).collect::<Vec<_>>())
    };
    let at = |q: f64| {
        let values: Vec<f64> = all.iter().filter_map(|one| one.at(q)).collect();
        (values.len() == all.len()).then(|| median(&values)).flatten().map(|value| (q, value))
    };
    Some(Distribution {
        samples: all.iter().map(|one| one.samples).sum(),
        failed: all.iter().map(|one| one.failed).sum(),
        min: middle(|one| one.min)?,
        mean: middle(|one| one.mean)?,
        max: middle(|one| one.max)?,
        quantiles: all.first()?.quantiles.iter().filter_map(|(q, _)| at(*q)).collect(),
    })
}

/// The suspect of most runs, with the evidence of one of them.
fn suspect_of(runs: &[Run<'_>]) -> Option<Suspect> {
    let limiters: Vec<_> = runs.iter().filter_map(|run| run.result.limiter.as_ref()).collect();
    let mut votes: BTreeMap<String, Vec<&transect_bench_limiter::Limiter>> = BTreeMap::new();
    for limiter in &limiters {
        votes.entry(limiter.name()).or_default().push(limiter);
    }
    let (name, of) = votes.into_iter().max_by_key(|(_, of)| of.len())?;
    let evidence = of.get(of.len() / 2).map(|limiter| limiter.evidence.clone());
    Some(Suspect {
        name,
        evidence: evidence.unwrap_or_default(),
        runs: u32::try_from(of.len()).unwrap_or(u32::MAX),
        of_runs: u32::try_from(limiters.len()).unwrap_or(u32::MAX),
        elasticity: None,
    })
}

/// With the elasticity that was found when it was halved.
fn confirmed(suspect: Suspect, confirmation: Option<&Confirmation>) -> Suspect {
    let found = confirmation.and_then(|confirmation| confirmation.elasticity);
    let elasticity = found.and_then(|found| {
        let (low, high) = found.interval?;
        Some([found.value, low, high])
    });
    Suspect { elasticity, ..suspect }
}

/// Medians of what the tracer did.
fn tracer_of(runs: &[Run<'_>]) -> Option<TracerCost> {
    let parts = runs.iter().flat_map(|run| &run.result.parts);
    let costs: Vec<&TracerCost> = parts.filter_map(|part| part.result.tracer.as_ref()).collect();
    let last = costs.last()?;
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "counts of events and bytes of one run, far below 2^52"
    )]
    let of = |what: fn(&TracerCost) -> Option<u64>| {
        let values: Vec<f64> =
            costs.iter().filter_map(|cost| what(cost)).map(|n| n as f64).collect();
        median(&values).map(|n| n as u64)
    };
    Some(TracerCost {
        exits: None,
        events: of(|cost| cost.events),
        bytes: of(|cost| cost.bytes),
        lost_events: of(|cost| cost.lost_events),
        consumer_cpu_ns: of(|cost| cost.consumer_cpu_ns),
        closing_cpu_ns: of(|cost| cost.closing_cpu_ns),
        version: last.version.clone(),
    })
}

fn compared(found: &ContrastSummary, runs: &BTreeMap<Cell, Vec<Run<'_>>>) -> Option<Comparison> {
    let named = |id: &str| {
        let cells = runs.keys();
        let is_it = |cell: &&Cell| {
            [Label::First, Label::Again].iter().any(|label| ledger::id_of(cell, *label) == id)
        };
        cells.clone().find(is_it).cloned()
    };
    let (cell, reference) = (named(&found.contrast.cell)?, named(&found.contrast.base)?);
    let about = cell.group.about().ok()?;
    let better = about.metric.2;
    // Of costs, where above 1 is always slower; here of values.
    let value = |ratio: f64| if better == Better::More { 1.0 / ratio } else { ratio };
    let estimate = &found.estimate;
    let interval = estimate.low.zip(estimate.high).zip(estimate.ratio);
    let estimate_of = |((low, high), ratio): ((f64, f64), f64)| Estimate {
        ratio: value(ratio),
        low: value(low).min(value(high)),
        high: value(low).max(value(high)),
        confidence: estimate.achieved.unwrap_or(estimate.confidence),
        blocks: u32::try_from(estimate.n).unwrap_or(u32::MAX),
    };
    Some(Comparison {
        contrast: match found.contrast.relation {
            Relation::Again => Contrast::Noise,
            Relation::Arm => Contrast::Tracer,
            Relation::Platform => Contrast::Platform,
            Relation::Chosen => Contrast::Guests,
        },
        cell,
        reference,
        family: family_name(found.family),
        better,
        ratios: estimate.points.iter().map(|point| (point.block, value(point.ratio))).collect(),
        estimate: interval.map(estimate_of),
        floor: found.floor.map(|floor| floor.ratio - 1.0),
        verdict: match found.verdict {
            design::Verdict::Slower => Verdict::Worse,
            design::Verdict::Faster => Verdict::Better,
            design::Verdict::NotResolved(_) => Verdict::NotResolved,
            design::Verdict::TooFew => Verdict::TooFew,
        },
        p_corrected: found.p_adjusted,
    })
}

/// What must be known before a figure is used.
fn warnings_of(report: &Report, summary: &Summary, warming: usize) -> Vec<String> {
    let mut warnings = Vec::new();
    if report.finished.is_none() {
        warnings.push(
            "The run is not finished: the missing blocks may change these results.".to_owned(),
        );
    }
    if warming > 0 {
        warnings.push(format!(
            "{warming} blocks are excluded: the sentinel shows that the machine was still warming up."
        ));
    }
    if let Some(sentinel) = &summary.sentinels
        && sentinel.range > 1.1
    {
        warnings.push(format!(
            "The sentinel, a fixed piece of work on this host, took up to {:.0} % longer at one time than at another: the host was not quiet. \
             Ratios within blocks cancel this, medians of cells do not.",
            (sentinel.range - 1.0) * 100.0
        ));
    }
    let restless = |found: &&ContrastSummary| {
        found.contrast.relation == Relation::Again
            && found.floor.is_some_and(|floor| !floor.is_quiet)
    };
    let restless = summary.contrasts.iter().filter(restless).count();
    let all = summary.contrasts.iter().filter(|found| found.contrast.relation == Relation::Again);
    if restless > 0 {
        warnings.push(format!(
            "{restless} of {} references differ from their own second measurement: their interval does not contain 1. One in 20 does so by chance.",
            all.count()
        ));
    }
    warnings.extend(summary.refusals.iter().map(ToString::to_string));
    warnings.extend(unsaid(report));
    warnings
}

/// What emulation makes of the figures.
fn unsaid(report: &Report) -> Vec<String> {
    let emulated = report.platforms.iter().filter(|platform| !platform.emulated.is_empty());
    let sentence = |platform: &ReportedPlatform| {
        format!(
            "{} is emulated ({}): its times do not transfer to other machines.",
            platform.name,
            platform.emulated.join(", ")
        )
    };
    emulated.map(sentence).collect()
}

#[cfg(test)]
mod tests;
