use super::*;
use crate::{Better, CacheState, Family};
use proptest::prelude::*;

fn about(is_distributed: bool) -> About {
    About {
        name: "some",
        text: "",
        source: "",
        family: Family::Network,
        metric: ("rate", Unit::PerSecond, Better::More),
        caches: &[CacheState::Any],
        params: vec![("tasks", Param::Int(4), "")],
        packages: &[],
        is_distributed,
        expected_s: 1.0,
    }
}

fn result(metrics: Vec<Metric>) -> RunResult {
    RunResult { metrics, ..RunResult::default() }
}

fn tasks(tasks: i64) -> BTreeMap<String, Param> {
    BTreeMap::from([("tasks".to_owned(), Param::Int(tasks))])
}

#[test]
fn distributed_cells_have_a_generator() {
    let parts = roles(&about(true), &BTreeMap::new(), 3, &[Seat::Between, Seat::Below]).unwrap();
    let got: Vec<(Seat, Role)> = parts.iter().map(|part| (part.seat, part.role)).collect();
    let servers = (0..3).map(|guest| (Seat::Guest(guest), Role::Server));
    let others = [
        (Seat::Outside, Role::Generator),
        (Seat::Between, Role::Bystander),
        (Seat::Below, Role::Bystander),
    ];
    assert_eq!(got, servers.chain(others).collect::<Vec<_>>());
    assert!(roles(&about(true), &BTreeMap::new(), 0, &[]).is_err());
}

#[test]
fn tasks_are_shared_out_evenly_or_not_at_all() {
    let share = |all, guests| {
        let parts = roles(&about(false), &tasks(all), guests, &[])?;
        Ok::<_, Refusal>(parts.into_iter().map(|part| part.params).collect::<Vec<_>>())
    };
    assert_eq!(share(4, 4).unwrap(), vec![tasks(1); 4]);
    assert_eq!(share(4, 1).unwrap(), vec![tasks(4)]);
    assert_eq!(share(4, 3).unwrap_err().kind, Kind::Plan);
    assert_eq!(share(2, 4).unwrap_err().kind, Kind::Plan);
}

#[test]
fn a_part_gets_its_own_job() {
    let cell = Job { id: "b1-2".into(), cpus: vec![1], params: tasks(4), ..Job::default() };
    let parts = roles(&about(true), &cell.params, 2, &[Seat::Below]).unwrap();
    let jobs: Vec<Job> = parts.iter().map(|part| part.job(&cell, &["a:1".into()])).collect();
    let ids: Vec<&str> = jobs.iter().map(|job| job.id.as_str()).collect();
    assert_eq!(ids, ["b1-2.0", "b1-2.1", "b1-2.outside", "b1-2.below"]);
    assert_eq!(jobs[0].params, tasks(2));
    assert_eq!((jobs[0].peers.len(), jobs[0].cpus.len()), (0, 1));
    assert_eq!((jobs[2].peers.len(), jobs[2].cpus.len()), (1, 0));
    assert_eq!(jobs[2].params, tasks(4), "the generator is told the whole");
}

#[test]
fn servers_add_what_only_they_know_and_the_primary_metric_comes_first() {
    let server = result(vec![Metric::per_second("rate", 10.0)]);
    let generator = result(vec![Metric::per_second("sent", 30.0)]);
    let results = [(Role::Server, &server), (Role::Server, &server), (Role::Generator, &generator)];
    let metrics = combine(&about(true), &results).unwrap();
    let got: Vec<(&str, f64)> = metrics.iter().map(|m| (m.name.as_str(), m.value)).collect();
    assert_eq!(got, [("rate", 20.0), ("sent", 30.0)]);
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let kind = |results: &[(Role, &RunResult)]| combine(&about(false), results).unwrap_err().kind;
    let rate = result(vec![Metric::per_second("rate", 1.0)]);
    let other = result(vec![Metric::per_second("other", 1.0)]);
    let bytes = result(vec![Metric::bytes_per_second("rate", 1.0)]);
    assert_eq!(kind(&[(Role::Whole, &rate), (Role::Whole, &other)]), Kind::Different);
    assert_eq!(kind(&[(Role::Whole, &rate), (Role::Whole, &bytes)]), Kind::Different);
    assert_eq!(kind(&[(Role::Generator, &rate), (Role::Server, &rate)]), Kind::Different);
    assert_eq!(kind(&[(Role::Whole, &other)]), Kind::Different);
    assert_eq!(kind(&[]), Kind::Different);
}

#[test]
fn a_percentile_is_the_merged_distributions() {
    let machine = |scale: u32| {
        let values = (1..=10_000u32).map(|i| f64::from(i * scale)).collect();
        let distribution = Distribution::of(values, 0).unwrap();
        let p99 = distribution.at(0.99).unwrap();
        result(vec![
            Metric::per_second("rate", 1.0),
            Metric::nanoseconds("latency", distribution.mean).with(distribution),
            Metric::nanoseconds("latency_p99", p99),
            Metric::nanoseconds("other_p99", p99),
        ])
    };
    let (fast, slow) = (machine(1), machine(10));
    let metrics = combine(&about(false), &[(Role::Whole, &fast), (Role::Whole, &slow)]).unwrap();
    let value = |name: &str| metrics.iter().find(|m| m.name == name).unwrap().value;
    // 1 % of all are 2 % of the slow ones: 98 000, within the interpolation.
    assert!((value("latency_p99") / 98_000.0 - 1.0).abs() < 0.01, "{}", value("latency_p99"));
    assert!((value("other_p99") - 99_000.0).abs() < 1.0, "without a distribution: the worst");
    assert!((value("latency") - 27_502.75).abs() < 1.0);
}

#[derive(Clone, Debug)]
struct Machine {
    rate: f64,
    time: f64,
    share: f64,
    of: f64,
    latencies: Vec<f64>,
}

impl Machine {
    fn result(&self) -> RunResult {
        let distribution = Distribution::of(self.latencies.clone(), 1).unwrap();
        result(vec![
            Metric::seconds("time", self.time),
            Metric::per_second("rate", self.rate),
            Metric::new("good", Unit::Share, Better::More, self.share),
            Metric::new("good_of", Unit::Count, Better::More, self.of),
            Metric::nanoseconds("latency", distribution.mean).with(distribution),
        ])
    }
}

fn machines() -> impl Strategy<Value = Vec<Machine>> {
    let machine = (
        0.0..1e6f64,
        0.0..1e3f64,
        0.0..=1.0f64,
        1.0..1e6f64,
        prop::collection::vec(0.0..1e9f64, 1..50),
    );
    let machine = machine.prop_map(|(rate, time, share, of, latencies)| Machine {
        rate,
        time,
        share,
        of,
        latencies,
    });
    prop::collection::vec(machine, 1..9)
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
}

fn of(machines: &[Machine]) -> Vec<Metric> {
    let results: Vec<RunResult> = machines.iter().map(Machine::result).collect();
    let results: Vec<(Role, &RunResult)> =
        results.iter().map(|result| (Role::Whole, result)).collect();
    combine(&about(false), &results).unwrap()
}

proptest! {
    #[test]
    fn together_is_what_it_says(machines in machines()) {
        let metrics = of(&machines);
        prop_assert_eq!(&metrics[0].name, "rate");
        let value = |name: &str| metrics.iter().find(|m| m.name == name).unwrap().value;
        prop_assert!(close(value("rate"), machines.iter().map(|m| m.rate).sum()));
        prop_assert!(close(value("time"), machines.iter().map(|m| m.time).fold(0.0, f64::max)));
        let good: f64 = machines.iter().map(|m| m.share * m.of).sum();
        prop_assert!(close(value("good") * value("good_of"), good));
        let all: Vec<f64> = machines.iter().flat_map(|m| m.latencies.clone()).collect();
        prop_assert!(close(value("latency"), all.iter().sum::<f64>() / all.len() as f64));
        let latency = metrics.iter().find(|m| m.name == "latency").unwrap();
        let distribution = latency.distribution.as_ref().unwrap();
        prop_assert_eq!(distribution.samples, all.len() as u64);
        prop_assert_eq!(distribution.failed, machines.len() as u64);
    }

    #[test]
    fn the_order_of_machines_does_not_matter(machines in machines()) {
        let reversed: Vec<Machine> = machines.iter().rev().cloned().collect();
        for (a, b) in of(&machines).iter().zip(of(&reversed)) {
            prop_assert_eq!(&a.name, &b.name);
            prop_assert!(close(a.value, b.value), "{}: {} {}", a.name, a.value, b.value);
        }
    }

    #[test]
    fn one_machine_is_itself(machines in machines()) {
        let alone = machines[0].result();
        for metric in of(&machines[..1]) {
            let was = alone.metrics.iter().find(|m| m.name == metric.name).unwrap();
            prop_assert!(close(metric.value, was.value), "{}", metric.name);
        }
    }
}
