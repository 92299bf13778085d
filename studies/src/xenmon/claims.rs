//! The publication's statements about its figures, put to the test.

use super::charts::{ratio_of_io, ratio_of_most};
use super::figures::{
    at_load, blocked, executions, gotten, io_per_execution, io_rate, per_execution_us, spread,
    throughput, waited,
};
use super::plan::{CONFIGURATIONS, UNTRACED};
use super::results::{Domain, Results, Run};
use crate::page::table;
use crate::spread::{Holds, Spread};

/// What came out for one statement: the numbers, and whether it holds.
type Finding = Option<(String, Holds)>;

/// A statement of the publication.
struct Claim {
    place: &'static str,
    says: &'static str,
    test: fn(&Under<'_>) -> Finding,
}

const CLAIMS: [Claim; 18] = [
    Claim {
        place: "Fig. 3a",
        says: "Each increase of dom0's weight reduces throughput (1,380, 1,200, 980, 700 answers a second at most).",
        test: |it| falls(|name| it.results.most(it.setup, name, throughput)),
    },
    Claim {
        place: "Fig. 3a",
        says: "Under Conf_10 throughput is about half of that under Conf_0.5 (here: 0.4 to 0.6 of it).",
        test: |it| within(ratio_of_most(it.results, it.setup, "Conf_10")?, 0.4, 0.6),
    },
    Claim {
        place: "Fig. 3b",
        says: "Response time is shortest under Conf_0.5 (here: shorter than under Conf_10, at the heaviest load).",
        test: |it| {
            below(
                it.run("Conf_0.5", |run| millis(run.load.took_us[0]))?,
                it.run("Conf_10", |run| millis(run.load.took_us[0]))?,
            )
        },
    },
    Claim {
        place: "Fig. 4a",
        says: "Under Conf_0.5 dom0 gets about half as much CPU as dom1 (here: 0.4 to 0.6).",
        test: |it| {
            let share = |run: &Run| gotten(&run.domains[0]) / gotten(&run.domains[1]);
            within(it.run("Conf_0.5", share)?, 0.4, 0.6)
        },
    },
    Claim {
        place: "Fig. 4d",
        says: "With more weight dom0 gets more of the pCPU (Conf_10 against Conf_0.5).",
        test: |it| below(it.dom0("Conf_0.5", gotten)?, it.dom0("Conf_10", gotten)?),
    },
    Claim {
        place: "Fig. 4d",
        says: "Under Conf_10 dom0 gets far less than the ten elevenths it is entitled to: it does not use more (here: 40 to 50 %).",
        test: |it| within(it.dom0("Conf_10", gotten)?, 40.0, 50.0),
    },
    Claim {
        place: "Fig. 5a",
        says: "Under Conf_0.5 dom1 is blocked more than dom0.",
        test: |it| below(it.dom0("Conf_0.5", blocked)?, it.dom1("Conf_0.5", blocked)?),
    },
    Claim {
        place: "Fig. 5b–d",
        says: "Under all other weights dom0 is blocked more than dom1.",
        test: others_block_dom0,
    },
    Claim {
        place: "Fig. 5d",
        says: "dom0 is blocked more under Conf_10 than under Conf_0.5.",
        test: |it| below(it.dom0("Conf_0.5", blocked)?, it.dom0("Conf_10", blocked)?),
    },
    Claim {
        place: "Fig. 5d, 6d",
        says: "Under Conf_10 dom1 hardly ever blocks (at most 5 %).",
        test: |it| within(it.dom1("Conf_10", blocked)?, 0.0, 5.0),
    },
    Claim {
        place: "Fig. 6a",
        says: "Under Conf_0.5 dom0 waits more than dom1.",
        test: |it| below(it.dom1("Conf_0.5", waited)?, it.dom0("Conf_0.5", waited)?),
    },
    Claim {
        place: "Fig. 6b",
        says: "Under Conf_Equal dom0 still waits more than dom1 at most loads (here: at more than half of them).",
        test: mostly_waits_more,
    },
    Claim {
        place: "Fig. 6d",
        says: "Under Conf_10 dom0 hardly waits (2 %; here: at most 5 %).",
        test: |it| within(it.dom0("Conf_10", waited)?, 0.0, 5.0),
    },
    Claim {
        place: "Fig. 7a",
        says: "Each increase of dom0's weight reduces dom0's I/O count per second.",
        test: |it| falls(|name| it.run(name, io_rate)),
    },
    Claim {
        place: "Fig. 7a",
        says: "dom0's I/O count per second under Conf_10 is half of that under Conf_0.5 (here: 0.4 to 0.6 of it).",
        test: |it| within(ratio_of_io(it.results, it.setup, "Conf_10")?, 0.4, 0.6),
    },
    Claim {
        place: "Fig. 7b, 8, 9",
        says: "Under Conf_0.5 and a heavy load work is batched: more I/O per execution of dom0, fewer and longer \
               executions of both domains than under Conf_10.",
        test: in_bulk,
    },
    Claim {
        place: "Fig. 8a, 9a",
        says: "Under Conf_0.5 both domains' executions are fewer and longer under a heavy load than under a light one.",
        test: gathers_under_load,
    },
    Claim {
        place: "section 2",
        says: "Tracing costs at most 1 to 2 % of the CPU (here: of the answers per second under the heaviest load and Conf_Equal, at most 2 %).",
        test: tracing_is_cheap,
    },
];

/// One setup's results.
struct Under<'r> {
    results: &'r Results,
    setup: &'r str,
}

impl Under<'_> {
    /// Under the heaviest load.
    fn run(&self, configuration: &str, metric: impl Fn(&Run) -> f64) -> Option<Spread> {
        at_load(self.results, self.setup, configuration, "heavy", &metric)
    }

    fn dom0(&self, configuration: &str, metric: fn(&Domain) -> f64) -> Option<Spread> {
        self.run(configuration, |run| metric(&run.domains[0]))
    }

    fn dom1(&self, configuration: &str, metric: fn(&Domain) -> f64) -> Option<Spread> {
        self.run(configuration, |run| metric(&run.domains[1]))
    }
}

/// The table of all statements, and what came out under each setup.
pub(super) fn text(results: &Results) -> String {
    let setups = results.setups();
    let mut header = vec!["about".to_owned(), "statement of the publication".to_owned()];
    header.extend(setups.iter().map(|setup| setup.title.to_owned()));
    let rows = CLAIMS.iter().map(|claim| {
        let mut row = vec![claim.place.to_owned(), claim.says.to_owned()];
        row.extend(setups.iter().map(|setup| {
            let found = (claim.test)(&Under { results, setup: setup.name });
            found
                .map_or_else(|| "–".to_owned(), |(text, holds)| format!("{}: {text}", holds.word()))
        }));
        row
    });
    table(&"l".repeat(2 + setups.len()), &header, &rows.collect::<Vec<_>>())
}

fn below(low: Spread, high: Spread) -> Finding {
    Some((format!("{} against {}", spread(Some(low)), spread(Some(high))), low.below(high)))
}

fn within(value: Spread, from: f64, to: f64) -> Finding {
    Some((spread(Some(value)), value.within(from, to)))
}

/// Each configuration has less of it than the one before.
fn falls(of: impl Fn(&str) -> Option<Spread>) -> Finding {
    let all: Option<Vec<_>> = CONFIGURATIONS.iter().map(|it| of(it.name)).collect();
    let all = all?;
    let holds = Holds::all(all.windows(2).map(|pair| pair[1].below(pair[0])));
    let texts: Vec<_> = all.into_iter().map(|it| spread(Some(it))).collect();
    Some((texts.join("; "), holds))
}

fn others_block_dom0(it: &Under<'_>) -> Finding {
    let mut findings = Vec::new();
    for name in ["Conf_Equal", "Conf_2", "Conf_10"] {
        findings.push(below(it.dom1(name, blocked)?, it.dom0(name, blocked)?)?);
    }
    Some(joined(findings))
}

fn mostly_waits_more(it: &Under<'_>) -> Finding {
    let rates = it.results.rates();
    let of = |rate, at: usize| {
        it.results.at(it.setup, "Conf_Equal", rate, |run: &Run| waited(&run.domains[at]))
    };
    let all: Option<Vec<_>> =
        rates.iter().map(|&rate| Some(of(rate, 1)?.below(of(rate, 0)?))).collect();
    let all = all?;
    let count = |wanted| all.iter().filter(|&&holds| holds == wanted).count();
    let (yes, open) = (count(Holds::Yes), count(Holds::Unresolved));
    let holds = match (2 * yes > all.len(), 2 * (yes + open) > all.len()) {
        (true, _) => Holds::Yes,
        (false, true) => Holds::Unresolved,
        (false, false) => Holds::No,
    };
    Some((format!("at {yes} of {} loads", all.len()), holds))
}

fn gathers_under_load(it: &Under<'_>) -> Finding {
    let mut findings = Vec::new();
    for at in [0, 1] {
        let of = |load, metric: fn(&Domain) -> f64| {
            at_load(it.results, it.setup, "Conf_0.5", load, &|run: &Run| metric(&run.domains[at]))
        };
        findings.push(below(of("heavy", executions)?, of("light", executions)?)?);
        findings.push(below(of("light", per_execution_us)?, of("heavy", per_execution_us)?)?);
    }
    Some(joined(findings))
}

fn in_bulk(it: &Under<'_>) -> Finding {
    let (few, many) = ("Conf_0.5", "Conf_10");
    Some(joined(vec![
        below(it.run(many, io_per_execution)?, it.run(few, io_per_execution)?)?,
        below(it.dom0(few, executions)?, it.dom0(many, executions)?)?,
        below(it.dom1(few, executions)?, it.dom1(many, executions)?)?,
        below(it.dom0(many, per_execution_us)?, it.dom0(few, per_execution_us)?)?,
        below(it.dom1(many, per_execution_us)?, it.dom1(few, per_execution_us)?)?,
    ]))
}

/// Percent of the untraced throughput that is gone with the trace, within each repetition.
fn tracing_is_cheap(it: &Under<'_>) -> Finding {
    let heaviest = it.results.rates().last().copied()?;
    let of = |repetition, traced| {
        let runs = it.results.runs.iter().filter(|run| run.traced == traced);
        let key = (it.setup, UNTRACED.name, heaviest, repetition);
        let mut runs = runs.filter(|run| {
            let it = &run.key;
            (it.setup.as_str(), it.configuration.as_str(), it.rate, it.repetition) == key
        });
        runs.next().map(throughput)
    };
    let loss = |repetition| Some(100.0 * (1.0 - of(repetition, true)? / of(repetition, false)?));
    let all = it.results.repetitions(it.setup).into_iter().filter_map(loss);
    let (text, holds) = within(Spread::of(all)?, -2.0, 2.0)?;
    Some((format!("{text} %"), holds))
}

fn joined(findings: Vec<(String, Holds)>) -> (String, Holds) {
    let holds = Holds::all(findings.iter().map(|(_, holds)| *holds));
    let texts: Vec<_> = findings.into_iter().map(|(text, _)| text).collect();
    (texts.join("; "), holds)
}

#[allow(clippy::cast_precision_loss, reason = "seconds at most")]
fn millis(us: u64) -> f64 {
    us as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xenmon::results::{Key, Load, Trace};

    /// A second in which dom0 and dom1 had these parts of the pCPU, in ‰, and all else blocked.
    fn run(at: usize, repetition: u32, traced: bool, answered: u64, gotten: [u64; 2]) -> Run {
        let key = Key {
            setup: "credit".to_owned(),
            configuration: CONFIGURATIONS[at].name.to_owned(),
            rate: 750,
            repetition,
        };
        let domain = |gotten: u64| Domain {
            ns: 1_000_000_000,
            executions: 100,
            gotten_ns: gotten * 1_000_000,
            blocked_ns: (1000 - gotten) * 1_000_000,
            io_count: answered,
            ..Domain::default()
        };
        let load = Load { answered, us: 1_000_000, ..Load::default() };
        Run { key, traced, load, trace: Trace::default(), domains: gotten.map(domain) }
    }

    fn found(results: &Results, claim: usize) -> (String, Holds) {
        (CLAIMS[claim].test)(&Under { results, setup: "credit" }).unwrap()
    }

    /// As published: throughput and shares, with a little spread.
    fn as_published() -> Results {
        let mut runs = Vec::new();
        for repetition in 1..=3 {
            let more = u64::from(repetition);
            for (at, answered) in [1380, 1200, 980, 700].into_iter().enumerate() {
                let gotten = if at == 0 { [300, 680] } else { [450, 550] };
                runs.push(run(at, repetition, true, answered + more, gotten));
            }
            runs.push(run(1, repetition, false, 1215 + more, [450, 550]));
        }
        Results { runs }
    }

    #[test]
    fn what_is_published_holds_of_what_is_published() {
        let results = as_published();
        for claim in [0, 1, 3, 4, 5, 13, 14, 17] {
            let (text, holds) = found(&results, claim);
            assert_eq!(holds, Holds::Yes, "{}: {text}", CLAIMS[claim].says);
        }
        let (text, _) = found(&results, 0);
        assert!(text.starts_with("1,382 (1,381–1,383); 1,202"), "{text}");
    }

    #[test]
    fn the_opposite_is_no_and_a_scatter_is_unresolved() {
        let mut results = as_published();
        for run in &mut results.runs {
            run.load.answered = 3000 - run.load.answered;
        }
        assert_eq!(found(&results, 0).1, Holds::No);
        results = as_published();
        results.runs[0].load.answered = 1100;
        assert_eq!(found(&results, 0).1, Holds::Unresolved);
    }

    #[test]
    fn loads_are_told_apart() {
        let mut results = as_published();
        let mut light = results.runs.clone();
        for run in &mut light {
            run.key.rate = 150;
            for domain in &mut run.domains {
                domain.executions = 1000;
                domain.gotten_ns /= 2;
            }
            run.domains[0].waited_ns = 1;
        }
        results.runs.extend(light);
        let (fewer, more) = (16, 11);
        let (text, holds) = found(&results, fewer);
        assert_eq!(holds, Holds::Yes, "{text}");
        // dom0 waits more at one of two loads: that is not most of them.
        assert_eq!(found(&results, more), ("at 1 of 2 loads".to_owned(), Holds::No));
        for run in &mut results.runs {
            run.domains[0].waited_ns = 1;
            run.domains.iter_mut().for_each(|domain| domain.executions = 1000);
        }
        assert_eq!(found(&results, fewer).1, Holds::No);
        assert_eq!(found(&results, more).1, Holds::Yes);
    }

    #[test]
    fn a_setup_without_runs_finds_nothing() {
        let results = as_published();
        let under = Under { results: &results, setup: "credit2" };
        assert!(CLAIMS.iter().all(|claim| (claim.test)(&under).is_none()));
    }
}
