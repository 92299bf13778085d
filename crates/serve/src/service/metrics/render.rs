//! A scrape: all counters as text.

use super::actor::{Actor, STATES};
use super::counters::{Counters, Io};
use super::families as f;
use super::places::Places;
use super::text::{Format, Page, Value};
use transect_history::State;

/// What is not counted from windows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Around {
    pub(crate) window_ns: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) history: transect_history::Numbers,
    pub(crate) snapshots_asked: u64,
    pub(crate) snapshots_triggered: u64,
    pub(crate) snapshots_failed: u64,
    pub(crate) snapshots_kept: u64,
    pub(crate) snapshots_bytes: u64,
    /// Name, times fired, for how many it holds.
    pub(crate) triggers: Vec<(String, u64, u64)>,
    /// Answers by class: 2xx, 3xx, 4xx, 5xx.
    pub(crate) answers: [u64; 4],
    pub(crate) refused_questions: u64,
    pub(crate) turned_away: u64,
    pub(crate) bad: u64,
    pub(crate) connections: u64,
    pub(crate) waiting: u64,
}

/// The page that is scraped.
pub(crate) fn render(counters: &Counters, around: &Around, format: Format) -> Vec<u8> {
    let mut page = Page::new(format);
    own(&mut page, counters, around);
    vms(&mut page, counters);
    vcpus_and_groups(&mut page, counters);
    containers(&mut page, counters);
    pressure(&mut page, counters);
    others(&mut page, counters);
    io(&mut page, counters);
    history(&mut page, around);
    faces(&mut page, around);
    page.finish()
}

fn own(page: &mut Page, counters: &Counters, around: &Around) {
    page.begin(f::BUILD);
    page.count(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    page.begin(f::MISSING);
    for (missing, machine) in &counters.missing {
        let labels = [
            ("metric", missing.metric.as_str()),
            ("reason", missing.why.as_str()),
            ("vm", machine),
        ];
        let labels = if machine.is_empty() { &labels[..2] } else { &labels[..] };
        page.count(labels, 1);
    }
    page.begin(f::WINDOW_S);
    page.ns(&[], i64::try_from(around.window_ns).unwrap_or(i64::MAX));
    page.begin(f::WINDOWS);
    page.count(&[], counters.windows);
    page.begin(f::WINDOWS_MISSED);
    page.count(&[], counters.missed_windows);
    page.begin(f::SUMMED);
    let summed = [
        ("vm", counters.vms.summed()),
        ("vcpu", counters.vcpus.summed()),
        ("cgroup", counters.cgroups.summed()),
        ("container", counters.containers.summed()),
        ("pressure", counters.pressure.summed()),
        ("exit", counters.exits.summed()),
        ("reason", counters.reasons.summed()),
        ("block", counters.block.summed()),
        ("net", counters.net.summed()),
        ("antagonist", counters.antagonists.summed()),
    ];
    for (kind, count) in summed {
        page.count(&[("kind", kind)], count as u64);
    }
    let health = &counters.health;
    let counts = [
        (f::LATE, counters.late_threads),
        (f::UNTRACKED, health.untracked_events),
        (f::NO_ROOM, health.no_room),
        (f::MISSED, health.missed_events),
    ];
    for (family, count) in counts {
        page.begin(family);
        page.count(&[], count);
    }
    page.begin(f::OWN_CPU);
    page.ns(&[], i64::try_from(counters.own_cpu_ns).unwrap_or(i64::MAX));
    page.begin(f::OWN_MEMORY);
    page.count(&[], around.memory_bytes);
    page.begin(f::CPU_TIME);
    for (cpu, sums) in &counters.cpus {
        for (state, ns) in ["busy", "idle", "unknown"].into_iter().zip(sums) {
            page.ns(&[("cpu", &cpu.to_string()), ("state", state)], *ns);
        }
    }
}

/// One counter of all actors that have it.
fn each<N: Copy>(
    page: &mut Page,
    family: f::Family,
    places: &Places<Actor>,
    names: &[&str],
    get: impl Fn(&Actor) -> Option<N>,
    value: impl Fn(N) -> Value,
) {
    page.begin(family);
    for (values, actor) in places.each() {
        if let Some(sum) = get(actor) {
            let labels: Vec<_> = names.iter().copied().zip(values).collect();
            page.sample(&labels, &value(sum));
        }
    }
}

fn states(page: &mut Page, family: f::Family, places: &Places<Actor>, names: &[&str]) {
    page.begin(family);
    for (values, actor) in places.each() {
        for (state, ns) in STATES.iter().zip(actor.states_ns) {
            let Some(ns) = ns else { continue };
            let labels = names.iter().copied().zip(values.iter().copied());
            page.ns(&labels.chain([("state", *state)]).collect::<Vec<_>>(), ns);
        }
    }
}

fn waits(page: &mut Page, family: f::Family, places: &Places<Actor>, name: &str) {
    page.begin(family);
    for (values, actor) in places.each() {
        page.lengths(&[(name, values.first().copied().unwrap_or_default())], &actor.waits);
    }
}

fn vms(page: &mut Page, counters: &Counters) {
    let (vms, vm) = (&counters.vms, &["vm"][..]);
    states(page, f::VM_TIME, vms, vm);
    each(page, f::VM_GUEST, vms, vm, |a| a.guest_ns, Value::Ns);
    each(page, f::VM_EXECUTIONS, vms, vm, |a| a.executions, Value::Count);
    each(page, f::VM_MIGRATIONS, vms, vm, |a| a.migrations, Value::Count);
    waits(page, f::VM_WAIT, vms, "vm");
    each(page, f::VM_IO, vms, vm, |a| a.io_count, Value::Count);
    each(page, f::VM_INJECTIONS, vms, vm, |a| a.injections, Value::Count);
    page.begin(f::VM_HALTS);
    for (values, actor) in vms.each() {
        let (Some(halts), Some(polled)) = (actor.halts, actor.halts_polled) else { continue };
        let vm = values.first().copied().unwrap_or_default();
        page.count(&[("vm", vm), ("how", "polled")], polled);
        page.count(&[("vm", vm), ("how", "blocked")], halts.saturating_sub(polled));
    }
    each(page, f::VM_POLL, vms, vm, |a| a.poll_ns, Value::Ns);
    page.begin(f::VM_EXITS);
    for (values, exits) in counters.exits.each() {
        page.count(&pair("vm", "reason", &values), exits.count);
    }
    page.begin(f::VM_EXIT_S);
    for (values, exits) in counters.exits.each() {
        page.ns(&pair("vm", "reason", &values), exits.total_ns);
    }
    page.begin(f::VM_HANDLING);
    for (values, exits) in counters.exits.each() {
        page.ns(&pair("vm", "reason", &values), exits.handling_ns);
    }
    page.begin(f::EXIT_S);
    for (values, lengths) in counters.reasons.each() {
        page.lengths(&[("reason", values.first().copied().unwrap_or_default())], lengths);
    }
}

/// Two labels of two values.
fn pair<'l>(one: &'l str, other: &'l str, values: &[&'l str]) -> [(&'l str, &'l str); 2] {
    let value = |at: usize| values.get(at).copied().unwrap_or(super::places::OTHER);
    [(one, value(0)), (other, value(1))]
}

fn vcpus_and_groups(page: &mut Page, counters: &Counters) {
    let names = &["vm", "vcpu"][..];
    states(page, f::VCPU_TIME, &counters.vcpus, names);
    each(page, f::VCPU_EXITS, &counters.vcpus, names, |a| a.exits, Value::Count);
    let (groups, name) = (&counters.cgroups, &["cgroup"][..]);
    states(page, f::CGROUP_TIME, groups, name);
    each(page, f::CGROUP_EXECUTIONS, groups, name, |a| a.executions, Value::Count);
    each(page, f::CGROUP_MIGRATIONS, groups, name, |a| a.migrations, Value::Count);
    waits(page, f::CGROUP_WAIT, groups, "cgroup");
}

fn containers(page: &mut Page, counters: &Counters) {
    let named =
        |values: &[&str]| -> Vec<String> { values.iter().map(ToString::to_string).collect() };
    let all: Vec<_> =
        counters.containers.each().map(|(values, sums)| (named(&values), sums)).collect();
    fn labels(values: &[String]) -> Vec<(&str, &str)> {
        let names = ["kind", "container", "pod", "namespace"];
        let pairs = names.into_iter().zip(values.iter().map(String::as_str));
        // What is not in a pod has no label for it.
        pairs.filter(|(_, value)| !value.is_empty()).collect()
    }
    page.begin(f::CONTAINER_TIME);
    for (values, sums) in &all {
        for (state, ns) in super::groups::STATES.iter().zip(sums.states_ns) {
            let mut labels = labels(values);
            labels.push(("state", state));
            page.ns(&labels, ns);
        }
    }
    page.begin(f::CONTAINER_EXECUTIONS);
    for (values, sums) in &all {
        page.count(&labels(values), sums.executions);
    }
    page.begin(f::CONTAINER_WAIT);
    for (values, sums) in &all {
        page.lengths(&labels(values), &sums.waits);
    }
}

fn pressure(page: &mut Page, counters: &Counters) {
    let cgroup = |values: &[&str]| values.first().copied().unwrap_or_default().to_owned();
    let all: Vec<_> =
        counters.pressure.each().map(|(values, sums)| (cgroup(&values), sums)).collect();
    page.begin(f::THROTTLED);
    for (cgroup, sums) in &all {
        if let Some(ns) = sums.throttled_ns {
            page.ns(&[("cgroup", cgroup)], ns);
        }
    }
    page.begin(f::PERIODS);
    for (cgroup, sums) in &all {
        if let Some(count) = sums.periods {
            page.count(&[("cgroup", cgroup)], count);
        }
    }
    page.begin(f::THROTTLED_N);
    for (cgroup, sums) in &all {
        if let Some(count) = sums.periods_throttled {
            page.count(&[("cgroup", cgroup)], count);
        }
    }
    page.begin(f::PRESSURE);
    for (cgroup, sums) in &all {
        for ((resource, share), ns) in super::groups::PRESSURES.iter().zip(sums.stalls_ns) {
            if let Some(ns) = ns {
                page.ns(&[("cgroup", cgroup), ("resource", resource), ("share", share)], ns);
            }
        }
    }
}

fn others(page: &mut Page, counters: &Counters) {
    page.begin(f::ANTAGONIST_S);
    for (values, sums) in counters.antagonists.each() {
        page.ns(&pair("machine", "by", &values), sums.ns);
    }
    page.begin(f::ANTAGONIST_N);
    for (values, sums) in counters.antagonists.each() {
        page.count(&pair("machine", "by", &values), sums.times);
    }
}

fn io(page: &mut Page, counters: &Counters) {
    page.begin(f::BLOCK_S);
    for (values, sums) in counters.block.each() {
        page.lengths(&pair("machine", "direction", &values), &sums.lengths);
    }
    page.begin(f::BLOCK_BYTES);
    for (values, sums) in counters.block.each() {
        page.count(&pair("machine", "direction", &values), sums.bytes);
    }
    let net = |page: &mut Page, get: fn(&Io) -> u64| {
        for (values, sums) in counters.net.each() {
            let labels: Vec<_> =
                ["machine", "device", "direction"].into_iter().zip(values).collect();
            page.count(&labels, get(sums));
        }
    };
    page.begin(f::NET_PACKETS);
    net(page, |io| io.count);
    page.begin(f::NET_BYTES);
    net(page, |io| io.bytes);
}

fn history(page: &mut Page, around: &Around) {
    let history = &around.history;
    page.begin(f::HISTORY_STATE);
    page.states(&State::WORDS, history.state.word());
    if history.state == State::Off {
        return;
    }
    page.begin(f::HISTORY_BYTES);
    page.count(&[], history.bytes);
    page.begin(f::HISTORY_LIMIT);
    page.count(&[], history.bytes_limit);
    if let Some(oldest) = history.oldest_unix_ns {
        page.begin(f::HISTORY_OLDEST);
        page.ns(&[], i64::try_from(oldest).unwrap_or(i64::MAX));
    }
    page.begin(f::HISTORY_WINDOWS);
    page.count(&[("how", "written")], history.written);
    page.count(&[("how", "lost")], history.lost);
    page.begin(f::HISTORY_GONE);
    page.count(&[], history.gone);
    page.begin(f::HISTORY_FAILURES);
    page.count(&[], history.failures);
}

fn faces(page: &mut Page, around: &Around) {
    page.begin(f::SNAPSHOTS);
    page.count(&[("by", "request")], around.snapshots_asked);
    page.count(&[("by", "trigger")], around.snapshots_triggered);
    page.begin(f::SNAPSHOTS_FAILED);
    page.count(&[], around.snapshots_failed);
    page.begin(f::SNAPSHOTS_KEPT);
    page.count(&[], around.snapshots_kept);
    page.begin(f::SNAPSHOTS_BYTES);
    page.count(&[], around.snapshots_bytes);
    page.begin(f::TRIGGER_FIRED);
    for (name, fired, _) in &around.triggers {
        page.count(&[("trigger", name)], *fired);
    }
    page.begin(f::TRIGGER_HOLDING);
    for (name, _, holding) in &around.triggers {
        page.count(&[("trigger", name)], *holding);
    }
    page.begin(f::REQUESTS);
    for (class, count) in ["2xx", "3xx", "4xx", "5xx"].into_iter().zip(around.answers) {
        page.count(&[("status", class)], count);
    }
    page.begin(f::REFUSED);
    page.count(&[("why", "connections")], around.turned_away);
    page.count(&[("why", "request")], around.bad);
    page.begin(f::QUESTIONS_REFUSED);
    page.count(&[], around.refused_questions);
    page.begin(f::CONNECTIONS);
    page.count(&[], around.connections);
    page.begin(f::WAITING);
    page.count(&[], around.waiting);
}
