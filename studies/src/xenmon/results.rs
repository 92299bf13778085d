//! What was measured: `runs.csv` (a line for each run) and `windows.csv` (what `transect sql` says of each second).

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::plan::Step;
use crate::csv::{self, Row, Table};
use crate::spread::Spread;

/// The first line of `runs.csv`.
pub const RUNS: &str = "setup,configuration,dom0_weight,dom1_weight,rate,repetition,traced,asked,refused,answered,us,\
                        mean_us,p50_us,p99_us,trace_bytes,tsc_hz,server_id\n";

/// The first columns of `windows.csv`; those of [`super::analysis`]'s question follow.
pub const KEY: &str = "setup,configuration,rate,repetition";

/// Which run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Name of the [`super::plan::Setup`].
    pub setup: String,
    /// Name of the [`super::plan::Configuration`].
    pub configuration: String,
    /// Requests per second asked for.
    pub rate: u32,
    /// From 1.
    pub repetition: u32,
}

/// What the asker says of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Questions sent.
    pub asked: u64,
    /// Questions the kernel would not take.
    pub refused: u64,
    /// Answers that came.
    pub answered: u64,
    /// In how long, µs.
    pub us: u64,
    /// How long an answer took, µs: mean, median, 99th percentile.
    pub took_us: [u64; 3],
}

/// What is to be known of a trace to read it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Its size; 0 without one.
    pub bytes: u64,
    /// Ticks of its clock in a second.
    pub tsc_hz: u64,
    /// Xen's number of the server's domU.
    pub server_id: u32,
}

/// What one domain did, over all windows of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Domain {
    /// Length of the windows, ns.
    pub ns: u64,
    /// Times scheduled in.
    pub executions: u64,
    /// Time on a pCPU, ns.
    pub gotten_ns: u64,
    /// Runnable and not running, ns.
    pub waited_ns: u64,
    /// Asleep, ns.
    pub blocked_ns: u64,
    /// Not known, ns.
    pub unknown_ns: u64,
    /// Pages exchanged and notifications sent.
    pub io_count: u64,
    /// Records of the whole trace that Xen had no room for.
    pub lost: u64,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Which.
    pub key: Key,
    /// Was Xen's trace recorded?
    pub traced: bool,
    /// The asker's view.
    pub load: Load,
    /// How to read its trace.
    pub trace: Trace,
    /// dom0 and the server's domU, if it was traced.
    pub domains: [Domain; 2],
}

/// All runs.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// In the order they were made.
    pub runs: Vec<Run>,
}

impl Key {
    fn of(row: Row<'_>) -> Result<Self> {
        let text = |name: &str| row.text(name).map(str::to_owned);
        let (rate, repetition) = (row.number("rate")?, row.number("repetition")?);
        Ok(Self { setup: text("setup")?, configuration: text("configuration")?, rate, repetition })
    }

    /// Its fields in a line of `windows.csv`.
    pub fn fields(&self) -> Vec<String> {
        let Self { setup, configuration, rate, repetition } = self;
        vec![setup.clone(), configuration.clone(), rate.to_string(), repetition.to_string()]
    }
}

impl Load {
    /// Reads the asker's line: `… load rate=100 asked=…`.
    ///
    /// # Errors
    /// If there is none, or a number is missing.
    pub fn parse(text: &str) -> Result<Self> {
        let (_, line) = text.split_once(" load ").context("the load generator printed nothing")?;
        let words: HashMap<_, _> =
            line.split_whitespace().filter_map(|word| word.split_once('=')).collect();
        let number = |name: &str| -> Result<u64> {
            let word = words.get(name).with_context(|| format!("no {name} in '{line}'"))?;
            word.parse().with_context(|| format!("{name} in '{line}'"))
        };
        Ok(Self {
            asked: number("asked")?,
            refused: number("refused")?,
            answered: number("answered")?,
            us: number("us")?,
            took_us: [number("mean_us")?, number("p50_us")?, number("p99_us")?],
        })
    }

    fn of(row: Row<'_>) -> Result<Self> {
        Ok(Self {
            asked: row.number("asked")?,
            refused: row.number("refused")?,
            answered: row.number("answered")?,
            us: row.number("us")?,
            took_us: [row.number("mean_us")?, row.number("p50_us")?, row.number("p99_us")?],
        })
    }
}

/// A line of `runs.csv`.
pub fn run_line(key: &Key, step: &Step, load: &Load, trace: Trace) -> String {
    let Load { asked, refused, answered, us, took_us } = load;
    let weights = [step.configuration.dom0_weight, step.configuration.dom1_weight];
    let mut fields = vec![key.setup.clone(), key.configuration.clone()];
    fields.extend(weights.map(|weight| weight.to_string()));
    fields.extend([key.rate, key.repetition, u32::from(step.traced)].map(|it| it.to_string()));
    fields.extend([asked, refused, answered, us].map(ToString::to_string));
    fields.extend(took_us.map(|us| us.to_string()));
    fields.extend([trace.bytes, trace.tsc_hz, u64::from(trace.server_id)].map(|it| it.to_string()));
    csv::line(&fields)
}

impl Results {
    /// Reads both files of a folder.
    ///
    /// # Errors
    /// If one is not there or not what this program writes.
    pub fn read(folder: &Path) -> Result<Self> {
        let text = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path).with_context(|| path.display().to_string())
        };
        Self::parse(&text("runs.csv")?, &text("windows.csv")?)
    }

    /// The same of their text.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn parse(runs: &str, windows: &str) -> Result<Self> {
        let mut all: HashMap<Key, [Domain; 2]> = HashMap::new();
        for row in Table::parse(windows).context("windows.csv")?.rows() {
            let domains = all.entry(Key::of(row)?).or_default();
            let at = match row.text("domain")? {
                "dom0" => 0,
                "dom1" => 1,
                other => anyhow::bail!("windows.csv: unknown domain {other}"),
            };
            domains[at].add(row).context("windows.csv")?;
        }
        let mut results = Self::default();
        for row in Table::parse(runs).context("runs.csv")?.rows() {
            let (key, load, trace) = (Key::of(row)?, Load::of(row)?, Trace::of(row)?);
            let traced = row.number::<u8>("traced")? == 1;
            let domains = all.get(&key).filter(|_| traced).copied().unwrap_or_default();
            results.runs.push(Run { key, traced, load, trace, domains });
        }
        Ok(results)
    }

    /// The traced runs that `windows.csv` says nothing of.
    pub fn unread(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(|run| run.traced && run.domains.iter().any(|it| it.ns == 0))
    }

    /// Only what can be compared.
    ///
    /// # Errors
    /// If there are no runs, or a traced run has no windows.
    pub fn complete(self) -> Result<Self> {
        ensure!(!self.runs.is_empty(), "no runs");
        let unread = self.unread().next().map(|run| run.key.clone());
        unread.map_or(Ok(self), |key| Err(anyhow::anyhow!("no windows of {key:?}")))
    }

    /// The setups there are runs of, in the order of the plan.
    pub fn setups(&self) -> Vec<&'static super::plan::Setup> {
        let has = |name: &str| self.runs.iter().any(|run| run.key.setup == name);
        super::plan::SETUPS.iter().filter(|setup| has(setup.name)).collect()
    }

    /// The loads there are runs of, ascending.
    pub fn rates(&self) -> Vec<u32> {
        let mut rates: Vec<_> = self.runs.iter().map(|run| run.key.rate).collect();
        rates.sort_unstable();
        rates.dedup();
        rates
    }

    /// The repetitions of a setup.
    pub fn repetitions(&self, setup: &str) -> Vec<u32> {
        let of_setup = self.runs.iter().filter(|run| run.key.setup == setup);
        let mut all: Vec<_> = of_setup.map(|run| run.key.repetition).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The traced runs of a setup and configuration.
    pub fn traced(&self, setup: &str, configuration: &str) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |run| {
            run.traced && run.key.setup == setup && run.key.configuration == configuration
        })
    }

    /// A metric over the repetitions of one setup, configuration and load.
    pub fn at(
        &self,
        setup: &str,
        configuration: &str,
        rate: u32,
        metric: impl Fn(&Run) -> f64,
    ) -> Option<Spread> {
        let runs = self.traced(setup, configuration).filter(|run| run.key.rate == rate);
        Spread::of(runs.map(metric))
    }

    /// The largest value of a metric over all loads, over the repetitions.
    pub fn most(
        &self,
        setup: &str,
        configuration: &str,
        metric: impl Fn(&Run) -> f64 + Copy,
    ) -> Option<Spread> {
        let of_one = |repetition| {
            let runs = self.traced(setup, configuration);
            let runs = runs.filter(move |run| run.key.repetition == repetition);
            runs.map(metric).max_by(f64::total_cmp)
        };
        Spread::of(self.repetitions(setup).into_iter().filter_map(of_one))
    }
}

impl Trace {
    fn of(row: Row<'_>) -> Result<Self> {
        let (bytes, tsc_hz) = (row.number("trace_bytes")?, row.number("tsc_hz")?);
        Ok(Self { bytes, tsc_hz, server_id: row.number("server_id")? })
    }
}

impl Domain {
    fn add(&mut self, row: Row<'_>) -> Result<()> {
        self.ns += row.number::<u64>("dur")?;
        self.executions += row.number::<u64>("executions")?;
        self.gotten_ns += row.number::<u64>("gotten_ns")?;
        self.waited_ns += row.number::<u64>("waited_ns")?;
        self.blocked_ns += row.number::<u64>("blocked_ns")?;
        self.unknown_ns += row.number::<u64>("unknown_ns")?;
        self.io_count += row.number::<u64>("io_count")?;
        self.lost = row.number("lost")?;
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const WINDOWS: &str = "setup,configuration,rate,repetition,domain,ts,dur,executions,gotten_ns,waited_ns,blocked_ns,\
                           unknown_ns,io_count,lost\n\
                           credit,Conf_2,100,1,dom0,0,1000000000,400,300000000,100000000,600000000,0,800,7\n\
                           credit,Conf_2,100,1,dom0,1000000000,1000000000,600,500000000,100000000,400000000,0,1200,7\n\
                           credit,Conf_2,100,1,dom1,0,1000000000,100,100000000,100000000,800000000,0,50,7\n";

    fn runs() -> String {
        format!(
            "{RUNS}credit,Conf_2,512,256,100,1,1,200,0,150,2000000,900,800,4000,12345,999999000,1\n"
        )
    }

    #[test]
    fn windows_are_summed_by_domain() {
        let results = Results::parse(&runs(), WINDOWS).unwrap().complete().unwrap();
        let [dom0, dom1] = results.runs[0].domains;
        assert_eq!((dom0.ns, dom0.executions, dom0.io_count), (2_000_000_000, 1000, 2000));
        assert_eq!((dom1.gotten_ns, dom1.blocked_ns), (100_000_000, 800_000_000));
        let executions = |run: &Run| f64::from(u32::try_from(run.domains[0].executions).unwrap());
        let spread = results.at("credit", "Conf_2", 100, executions).unwrap();
        assert_eq!(spread, results.most("credit", "Conf_2", executions).unwrap());
        assert!(results.at("credit", "Conf_2", 200, executions).is_none());
    }

    #[test]
    fn a_traced_run_without_windows_is_an_error() {
        let (header, _) = WINDOWS.split_once('\n').unwrap();
        let results = Results::parse(&runs(), &format!("{header}\n")).unwrap();
        assert_eq!(results.unread().count(), 1);
        let error = results.complete().unwrap_err().to_string();
        assert!(error.contains("no windows"), "{error}");
    }

    #[test]
    fn the_askers_line_is_read() {
        let line = "transect-guest: load rate=100 asked=200 refused=1 answered=150 us=2000000 mean_us=900 p50_us=800 p99_us=4000\n";
        let load = Load::parse(line).unwrap();
        let took_us = [900, 800, 4000];
        assert_eq!(load, Load { asked: 200, refused: 1, answered: 150, us: 2_000_000, took_us });
        assert!(Load::parse("transect-guest: load rate=100\n").is_err());
    }
}
