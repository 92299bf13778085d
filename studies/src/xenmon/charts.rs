//! The charts of the page.

use super::figures::{FIGURES, Figure, Of, io_rate, throughput};
use super::plan::CONFIGURATIONS;
use super::published::Published;
use super::results::{Results, Run};
use crate::chart::{Chart, Panel, Series};
use crate::spread::Spread;

/// Names and texts of all SVG files.
pub(super) fn all(results: &Results, published: &[Published]) -> Vec<(String, String)> {
    let mut files: Vec<_> = FIGURES
        .into_iter()
        .map(|figure| (figure.id.to_owned(), chart(figure, results, published)))
        .collect();
    files.push(("relative".to_owned(), relative(results, published)));
    files.into_iter().map(|(name, chart)| (format!("{name}.svg"), chart.svg())).collect()
}

fn chart(figure: Figure, results: &Results, published: &[Published]) -> Chart {
    let is_marked = figure.is_share && published.iter().any(|it| it.figure == figure.number);
    let panels = match figure.of {
        Of::Run(metric) => by_configuration(results, metric),
        Of::Domain(_) => by_domain(figure, results, published),
    };
    Chart {
        title: format!("{}: {}", figure.number, figure.title),
        x_label: "requests per second".to_owned(),
        y_label: figure.unit.to_owned(),
        x_ticks: results
            .rates()
            .into_iter()
            .map(|rate| (f64::from(rate), rate.to_string()))
            .collect(),
        columns: if matches!(figure.of, Of::Run(_)) { 3 } else { 4 },
        panels,
        marks: if is_marked { "published, heavy load".to_owned() } else { String::new() },
    }
}

/// A panel for each setup, a line for each pair of weights.
fn by_configuration(results: &Results, metric: fn(&Run) -> f64) -> Vec<Panel> {
    let panel = |setup: &super::plan::Setup| Panel {
        title: setup.title.to_owned(),
        series: CONFIGURATIONS
            .iter()
            .map(|configuration| Series {
                name: configuration.name.to_owned(),
                points: points(results, setup.name, configuration.name, &metric),
                marks: Vec::new(),
            })
            .collect(),
    };
    results.setups().into_iter().map(panel).collect()
}

/// A row of panels for each setup, a panel for each pair of weights, a line for each domain: as the publication has it.
fn by_domain(figure: Figure, results: &Results, published: &[Published]) -> Vec<Panel> {
    let heaviest = results.rates().last().copied().map_or(0.0, f64::from);
    let mut panels = Vec::new();
    for setup in results.setups() {
        for configuration in CONFIGURATIONS {
            let series = figure.lines().into_iter().map(|(domain, metric)| {
                let about = published.iter().filter(|it| {
                    figure.is_share
                        && it.figure == figure.number
                        && it.configuration == configuration.name
                        && it.domain == domain
                });
                Series {
                    name: domain.to_owned(),
                    points: points(results, setup.name, configuration.name, &*metric),
                    marks: about.map(|it| (heaviest, it.value)).collect(),
                }
            });
            let title = format!("{}, {}", setup.title, configuration.name);
            panels.push(Panel { title, series: series.collect() });
        }
    }
    panels
}

fn points(
    results: &Results,
    setup: &str,
    configuration: &str,
    metric: &dyn Fn(&Run) -> f64,
) -> Vec<(f64, Spread)> {
    let at = |rate| Some((f64::from(rate), results.at(setup, configuration, rate, metric)?));
    results.rates().into_iter().filter_map(at).collect()
}

/// What compares across machines: throughput and I/O count as a share of what they are with the least weight for dom0.
fn relative(results: &Results, published: &[Published]) -> Chart {
    let positions = || CONFIGURATIONS.into_iter().zip([0.0, 1.0, 2.0, 3.0]);
    let panel = |title: &str, of: &dyn Fn(&str, &str) -> Option<Spread>, known: Vec<(f64, f64)>| {
        let lines = results.setups().into_iter().map(|setup| {
            let points = positions().filter_map(|(it, x)| Some((x, of(setup.name, it.name)?)));
            Series { name: setup.title.to_owned(), points: points.collect(), marks: vec![] }
        });
        let mut series: Vec<_> = lines.collect();
        series.push(Series { name: "published".to_owned(), points: vec![], marks: known });
        Panel { title: title.to_owned(), series }
    };
    let throughputs =
        positions().filter_map(|(it, x)| Some((x, published_ratio(published, it.name)?))).collect();
    let exchanges = positions().filter_map(|(it, x)| match it.name {
        "Conf_0.5" => Some((x, 1.0)),
        name => {
            let row = published.iter().find(|row| {
                row.figure == "Fig. 7a" && row.load == "relative" && row.configuration == name
            })?;
            Some((x, row.value))
        }
    });
    Chart {
        title: "Relative to Conf_0.5".to_owned(),
        x_label: "weights dom0 : dom1".to_owned(),
        y_label: "share of Conf_0.5's".to_owned(),
        x_ticks: positions().map(|(it, x)| (x, it.ratio())).collect(),
        columns: 2,
        panels: vec![
            panel(
                "largest throughput",
                &|setup, it| ratio_of_most(results, setup, it),
                throughputs,
            ),
            panel(
                "I/O count per second, heavy load",
                &|setup, it| ratio_of_io(results, setup, it),
                exchanges.collect(),
            ),
        ],
        marks: "published".to_owned(),
    }
}

/// The published largest throughput as a share of that of Conf_0.5.
pub(super) fn published_ratio(published: &[Published], configuration: &str) -> Option<f64> {
    let of = |name: &str| {
        let row = published.iter().find(|it| it.figure == "Fig. 3a" && it.configuration == name);
        row.map(|row| row.value)
    };
    Some(of(configuration)? / of("Conf_0.5")?)
}

/// The largest throughput as a share of that of Conf_0.5 in the same repetition.
pub(super) fn ratio_of_most(results: &Results, setup: &str, configuration: &str) -> Option<Spread> {
    let most = |name: &str, repetition| {
        let runs = results.traced(setup, name).filter(|run| run.key.repetition == repetition);
        runs.map(throughput).max_by(f64::total_cmp)
    };
    let ratio = |repetition| Some(most(configuration, repetition)? / most("Conf_0.5", repetition)?);
    Spread::of(results.repetitions(setup).into_iter().filter_map(ratio))
}

/// The same for dom0's I/O count per second under the heaviest load.
pub(super) fn ratio_of_io(results: &Results, setup: &str, configuration: &str) -> Option<Spread> {
    let heaviest = results.rates().last().copied()?;
    let rate = |name: &str, repetition| {
        let mut runs = results.traced(setup, name);
        runs.find(|run| run.key.repetition == repetition && run.key.rate == heaviest).map(io_rate)
    };
    let ratio = |repetition| Some(rate(configuration, repetition)? / rate("Conf_0.5", repetition)?);
    Spread::of(results.repetitions(setup).into_iter().filter_map(ratio))
}
