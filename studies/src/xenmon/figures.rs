//! The publication's figures: which metric each shows, of whom; and the tables that go with them.

use super::plan::CONFIGURATIONS;
use super::published::{Published, cell};
use super::results::{Domain, Results, Run};
use crate::page::{short, table};
use crate::spread::Spread;

/// What is made of a run.
pub(super) type Metric = Box<dyn Fn(&Run) -> f64>;

/// Whose metric.
#[derive(Clone, Copy)]
pub(super) enum Of {
    /// Of the run as a whole.
    Run(fn(&Run) -> f64),
    /// Of dom0 and of dom1.
    Domain(fn(&Domain) -> f64),
}

/// One figure.
#[derive(Clone, Copy)]
pub(super) struct Figure {
    /// Name of its chart and of its part of the page.
    pub id: &'static str,
    /// As the publication numbers it.
    pub number: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// In which unit.
    pub unit: &'static str,
    /// The metric.
    pub of: Of,
    /// Does it compare across machines? Then what is published stands in the chart too.
    pub is_share: bool,
}

/// All of them.
pub(super) const FIGURES: [Figure; 9] = [
    of_run("fig3a", "Fig. 3a", "Throughput", "answers per second", throughput),
    of_run("fig3b", "Fig. 3b", "Response time", "mean, ms", |run| {
        number(run.load.took_us[0]) / 1e3
    }),
    of_domains("fig4", "Fig. 4", "Gotten", "% of the pCPU", true, gotten),
    of_domains("fig5", "Fig. 5", "Blocked", "% of the time", true, blocked),
    of_domains("fig6", "Fig. 6", "Waited", "% of the time", true, waited),
    of_run("fig7a", "Fig. 7a", "I/O count of dom0", "pages, notifications/s", io_rate),
    of_run(
        "fig7b",
        "Fig. 7b",
        "I/O count of dom0 per execution",
        "pages, notifications",
        io_per_execution,
    ),
    of_domains("fig8", "Fig. 8", "Executions", "per second", false, executions),
    of_domains("fig9", "Fig. 9", "Gotten per execution", "µs", false, per_execution_us),
];

const fn of_run(
    id: &'static str,
    number: &'static str,
    title: &'static str,
    unit: &'static str,
    metric: fn(&Run) -> f64,
) -> Figure {
    Figure { id, number, title, unit, of: Of::Run(metric), is_share: false }
}

const fn of_domains(
    id: &'static str,
    number: &'static str,
    title: &'static str,
    unit: &'static str,
    is_share: bool,
    metric: fn(&Domain) -> f64,
) -> Figure {
    Figure { id, number, title, unit, of: Of::Domain(metric), is_share }
}

/// Answers per second.
pub(super) fn throughput(run: &Run) -> f64 {
    ratio(run.load.answered, run.load.us) * 1e6
}

/// Percent of a pCPU.
pub(super) fn gotten(domain: &Domain) -> f64 {
    100.0 * ratio(domain.gotten_ns, domain.ns)
}

/// Percent of the time.
pub(super) fn blocked(domain: &Domain) -> f64 {
    100.0 * ratio(domain.blocked_ns, domain.ns)
}

/// Percent of the time.
pub(super) fn waited(domain: &Domain) -> f64 {
    100.0 * ratio(domain.waited_ns, domain.ns)
}

/// Of dom0, which makes the hypercalls that exchange pages: dom1 only lends them.
pub(super) fn io_rate(run: &Run) -> f64 {
    ratio(run.domains[0].io_count, run.domains[0].ns) * 1e9
}

/// Of dom0.
pub(super) fn io_per_execution(run: &Run) -> f64 {
    ratio(run.domains[0].io_count, run.domains[0].executions)
}

/// Per second.
pub(super) fn executions(domain: &Domain) -> f64 {
    ratio(domain.executions, domain.ns) * 1e9
}

/// Time on the pCPU between being scheduled in and out, µs.
pub(super) fn per_execution_us(domain: &Domain) -> f64 {
    ratio(domain.gotten_ns, domain.executions) / 1e3
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { number(part) / number(whole) }
}

#[allow(clippy::cast_precision_loss, reason = "ratios of what happened in seconds")]
fn number(value: u64) -> f64 {
    value as f64
}

/// Repetitions in a cell.
pub(super) fn spread(spread: Option<Spread>) -> String {
    let Some(Spread { low, median, high }) = spread else { return "–".to_owned() };
    let [low, median, high] = [low, median, high].map(short);
    if low == high { median } else { format!("{median} ({low}–{high})") }
}

impl Figure {
    /// Its lines: what they are called, and the metric of each.
    pub(super) fn lines(self) -> Vec<(&'static str, Metric)> {
        match self.of {
            Of::Run(metric) => vec![("", Box::new(metric))],
            Of::Domain(metric) => ["dom0", "dom1"]
                .into_iter()
                .zip(0..)
                .map(|(name, at): (_, usize)| {
                    (name, Box::new(move |run: &Run| metric(&run.domains[at])) as _)
                })
                .collect(),
        }
    }

    /// Its table: the heaviest load and, for counts and times of executions, the lightest; throughput at its best.
    pub(super) fn table(self, results: &Results, published: &[Published]) -> String {
        let mut header = vec!["weights".to_owned(), "load".to_owned()];
        let is_of_domains = matches!(self.of, Of::Domain(_));
        if is_of_domains {
            header.push("domain".to_owned());
        }
        header.push("published".to_owned());
        let setups = results.setups();
        header.extend(setups.iter().map(|setup| setup.title.to_owned()));
        let mut rows = Vec::new();
        for load in self.loads() {
            for configuration in CONFIGURATIONS.map(|it| it.name) {
                for (domain, metric) in self.lines() {
                    let mut row = vec![configuration.to_owned(), (*load).to_owned()];
                    if is_of_domains {
                        row.push(domain.to_owned());
                    }
                    row.push(cell(published, self.number, configuration, domain, load));
                    let measured = setups.iter().map(|setup| {
                        spread(at_load(results, setup.name, configuration, load, &*metric))
                    });
                    row.extend(measured);
                    rows.push(row);
                }
            }
        }
        let text = if is_of_domains { "lllr" } else { "llr" };
        let align = text.to_owned() + &"r".repeat(setups.len());
        table(&align, &header, &rows)
    }

    fn loads(self) -> &'static [&'static str] {
        match self.id {
            "fig3a" => &["most"],
            "fig8" | "fig9" => &["light", "heavy"],
            _ => &["heavy"],
        }
    }
}

/// A metric at the lightest or heaviest load, or the most of it.
pub(super) fn at_load(
    results: &Results,
    setup: &str,
    configuration: &str,
    load: &str,
    metric: &dyn Fn(&Run) -> f64,
) -> Option<Spread> {
    let rates = results.rates();
    match load {
        "most" => results.most(setup, configuration, metric),
        "light" => results.at(setup, configuration, *rates.first()?, metric),
        _ => results.at(setup, configuration, *rates.last()?, metric),
    }
}
