//! Every setting: where it stands, what it means, how it is set and shown.

use super::settings::{Config, OpenAccess};
use super::values::{duration, duration_text, size, size_text};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::de::DeValue;
use transect_ask::MAX_CHILDREN;

/// Settings that hold as soon as they are read; so do triggers and, where there is TLS, its files.
pub(super) const AT_ONCE: [&str; 8] = [
    "host_names",
    "access.read",
    "access.read_tokens",
    "access.control_tokens",
    "limits.questions_per_minute",
    "limits.children_per_client",
    "snapshots.keep",
    "snapshots.limit",
];

/// A setting.
pub(super) struct Field {
    /// `access`, or nothing for those that stand above all sections.
    pub(super) section: &'static str,
    pub(super) name: &'static str,
    /// What it means, for people.
    pub(super) doc: &'static str,
    /// Sets it, or says what it should be.
    pub(super) set: fn(&mut Config, &DeValue<'_>) -> Result<(), &'static str>,
    /// As the file has it; none: it is not set.
    pub(super) show: fn(&Config) -> Option<String>,
}

fn text<'v>(value: &'v DeValue<'_>) -> Option<&'v str> {
    match value {
        DeValue::String(text) => Some(text),
        _ => None,
    }
}

fn flag(value: &DeValue<'_>) -> Result<bool, &'static str> {
    match value {
        DeValue::Boolean(flag) => Ok(*flag),
        _ => Err("true or false"),
    }
}

fn path(value: &DeValue<'_>) -> Result<PathBuf, &'static str> {
    let path = text(value).filter(|text| !text.is_empty());
    path.map(PathBuf::from).ok_or("a path in quotes")
}

fn count(value: &DeValue<'_>, range: std::ops::RangeInclusive<u64>) -> Option<usize> {
    let DeValue::Integer(number) = value else { return None };
    let number = u64::from_str_radix(number.as_str(), number.radix()).ok()?;
    range.contains(&number).then_some(())?;
    usize::try_from(number).ok()
}

fn lasting(value: &DeValue<'_>, range: std::ops::RangeInclusive<u64>) -> Option<Duration> {
    let duration = duration(text(value)?)?;
    let is_in = u64::try_from(duration.as_millis()).is_ok_and(|ms| range.contains(&ms));
    is_in.then_some(duration)
}

fn bytes(value: &DeValue<'_>, least: u64) -> Option<u64> {
    size(text(value)?).filter(|bytes| *bytes >= least && *bytes <= 1 << 50)
}

fn quoted(text: &str) -> String {
    toml_string(text)
}

/// A basic string of TOML.
fn toml_string(text: &str) -> String {
    let escaped = text.chars().fold(String::new(), |mut all, c| {
        match c {
            '"' | '\\' => {
                all.push('\\');
                all.push(c);
            }
            c if c.is_control() => {
                let _ = write!(all, "\\u{:04X}", u32::from(c));
            }
            c => all.push(c),
        }
        all
    });
    format!("\"{escaped}\"")
}

fn shown(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

const S: u64 = 1000;
const H: u64 = 3600 * S;

/// A field whose value is made by an expression of the value.
macro_rules! field {
    ($section:literal $name:literal $doc:literal, |$config:ident, $value:ident| $set:expr, $show:expr) => {
        Field {
            section: $section,
            name: $name,
            doc: $doc,
            set: |$config, $value| {
                $set;
                Ok(())
            },
            show: $show,
        }
    };
}

pub(super) const FIELDS: &[Field] = &[
    field!("" "listen" "Address and port to listen on. A non-loopback address needs tokens and TLS.",
        |c, v| c.listen = text(v).and_then(|t| t.parse().ok()).ok_or("an address with port, such as \"127.0.0.1:9619\" or \"[::1]:9619\"")?,
        |c| Some(quoted(&c.listen.to_string()))),
    field!("" "data" "Directory for the history, the snapshots, and the control token that is generated if none is configured.",
        |c, v| c.data = path(v)?, |c| Some(shown(&c.data))),
    field!("" "window" "Window length, 50ms to 1m.",
        |c, v| c.window = lasting(v, 50..=60_000).ok_or("a duration from \"50ms\" to \"1m\"")?,
        |c| Some(quoted(&duration_text(c.window)))),
    field!("" "io" "Count block requests and packets.",
        |c, v| c.io = flag(v)?, |c| Some(c.io.to_string())),
    field!("" "source" "Source of the windows: \"bpf\", \"tracefs\", \"xen\" (in a dom0) or \"auto\", the best available one.",
        |c, v| c.source = text(v).and_then(|t| t.parse().ok()).ok_or("\"auto\", \"bpf\", \"tracefs\" or \"xen\"")?,
        |c| Some(quoted(&c.source.to_string()))),
    field!("" "host_names" "On 127.0.0.1: names that the Host header may have besides this machine's own, for example a proxy's.",
        |c, v| c.host_names = names(v).ok_or("a list of names, such as [\"host.example\"]")?,
        |c| Some(format!("[{}]", c.host_names.iter().map(|n| quoted(n)).collect::<Vec<_>>().join(", ")))),
    field!("access" "read" "Read access without a token on 127.0.0.1: \"windows\" (windows, history and metrics), \"all\" (also snapshots and their timelines) or \"token\" (none).",
        |c, v| {
            let known = OpenAccess::ALL.into_iter().find(|access| text(v) == Some(access.word()));
            c.open_access = known.ok_or("\"windows\", \"all\" or \"token\"")?;
        },
        |c| Some(quoted(c.open_access.word()))),
    field!("access" "read_tokens" "File of tokens that give read access, one per line, at least 16 characters each.",
        |c, v| c.read_tokens = Some(path(v)?), |c| c.read_tokens.as_deref().map(shown)),
    field!("access" "control_tokens" "File of tokens that also give control access: take and delete snapshots. Format as read_tokens.",
        |c, v| c.control_tokens = Some(path(v)?), |c| c.control_tokens.as_deref().map(shown)),
    field!("access" "insecure" "Serve non-loopback addresses without TLS, and without tokens if none are configured.",
        |c, v| c.insecure = flag(v)?, |c| Some(c.insecure.to_string())),
    field!("access" "require_sandbox" "Refuse to start if a wall around SQL queries is missing on this machine.",
        |c, v| c.require_sandbox = flag(v)?, |c| Some(c.require_sandbox.to_string())),
    field!("tls" "certificate" "File of the certificate and its chain, PEM.",
        |c, v| c.tls_certificate = Some(path(v)?), |c| c.tls_certificate.as_deref().map(shown)),
    field!("tls" "key" "File of the certificate's private key, PEM.",
        |c, v| c.tls_key = Some(path(v)?), |c| c.tls_key.as_deref().map(shown)),
    field!("limits" "connections" "Open connections at once, 8 to 10000.",
        |c, v| c.connections = count(v, 8..=10_000).ok_or("a whole number from 8 to 10000")?,
        |c| Some(c.connections.to_string())),
    field!("limits" "connections_per_client" "Open connections of one client (a user of this machine, or an IP address) at once, 4 to 10000. A reverse proxy is one client.",
        |c, v| c.connections_per_client = count(v, 4..=10_000).ok_or("a whole number from 4 to 10000")?,
        |c| Some(c.connections_per_client.to_string())),
    field!("limits" "waiting" "Clients that wait for a window at once, 1 to 10000.",
        |c, v| c.waiting = count(v, 1..=10_000).ok_or("a whole number from 1 to 10000")?,
        |c| Some(c.waiting.to_string())),
    field!("limits" "questions_per_minute" "Requests for snapshots' timelines per minute and client (a user of this machine, or an IP address), 1 to 1000000.",
        |c, v| c.questions_per_minute = count(v, 1..=1_000_000).ok_or("a whole number from 1 to 1000000")?,
        |c| Some(c.questions_per_minute.to_string())),
    field!("limits" "children_per_client" "SQL engines per client, 1 to 4; all clients together have four.",
        |c, v| c.children_per_client = count(v, 1..=MAX_CHILDREN as u64).ok_or("a whole number from 1 to 4")?,
        |c| Some(c.children_per_client.to_string())),
    field!("history" "enabled" "Keep a history of the windows on disk.",
        |c, v| c.history = flag(v)?, |c| Some(c.history.to_string())),
    field!("history" "limit" "Size limit of the history on disk, at least 16MiB. Beyond it the oldest file is deleted.",
        |c, v| c.history_limit_bytes = bytes(v, 16 << 20).ok_or("a size of at least \"16MiB\"")?,
        |c| Some(quoted(&size_text(c.history_limit_bytes)))),
    field!("history" "keep" "How far back the history goes, 1m or more. The oldest part has steps of a minute.",
        |c, v| c.history_keep = lasting(v, 60 * S..=3660 * 24 * H).ok_or("a duration of at least \"1m\"")?,
        |c| Some(quoted(&duration_text(c.history_keep)))),
    field!("history" "windows_for" "How far back single windows are kept, at most keep. Older data has steps of 10 s.",
        |c, v| c.history_windows_for = lasting(v, 60 * S..=3660 * 24 * H).ok_or("a duration of at least \"1m\"")?,
        |c| Some(quoted(&duration_text(c.history_windows_for)))),
    field!("history" "ten_seconds_for" "How far back steps of 10 s are kept, at most keep. Older data has steps of a minute.",
        |c, v| c.history_ten_seconds_for = lasting(v, 60 * S..=3660 * 24 * H).ok_or("a duration of at least \"1m\"")?,
        |c| Some(quoted(&duration_text(c.history_ten_seconds_for)))),
    field!("history" "flush" "Interval between writes to disk, 1s to 1m: a kill -9 loses at most this much.",
        |c, v| c.history_flush = lasting(v, S..=60 * S).ok_or("a duration from \"1s\" to \"1m\"")?,
        |c| Some(quoted(&duration_text(c.history_flush)))),
    field!("metrics" "vms" "VMs with their own metrics series, up to 100000; the rest is summed as \"other\".",
        |c, v| c.metrics.vms = count(v, 0..=100_000).ok_or("a whole number up to 100000")?,
        |c| Some(c.metrics.vms.to_string())),
    field!("metrics" "vcpus" "vCPUs with their own metrics series, up to 100000; the rest is summed as \"other\".",
        |c, v| c.metrics.vcpus = count(v, 0..=100_000).ok_or("a whole number up to 100000")?,
        |c| Some(c.metrics.vcpus.to_string())),
    field!("metrics" "cgroups" "Control groups with their own metrics series, up to 100000; the rest is summed as \"other\".",
        |c, v| c.metrics.cgroups = count(v, 0..=100_000).ok_or("a whole number up to 100000")?,
        |c| Some(c.metrics.cgroups.to_string())),
    field!("metrics" "devices" "Network devices with their own metrics series, up to 100000; the rest is summed as \"other\".",
        |c, v| c.metrics.devices = count(v, 0..=100_000).ok_or("a whole number up to 100000")?,
        |c| Some(c.metrics.devices.to_string())),
    field!("metrics" "reasons" "Exit reasons with their own metrics series, up to 1000; the rest is summed as \"other\".",
        |c, v| c.metrics.reasons = count(v, 0..=1000).ok_or("a whole number up to 1000")?,
        |c| Some(c.metrics.reasons.to_string())),
    field!("metrics" "antagonists" "Pairs of a waiting machine and its antagonist with their own metrics series, up to 100000; the rest is summed as \"other\".",
        |c, v| c.metrics.antagonists = count(v, 0..=100_000).ok_or("a whole number up to 100000")?,
        |c| Some(c.metrics.antagonists.to_string())),
    field!("flight_recorder" "enabled" "Keep the events of the last seconds in memory, for snapshots.",
        |c, v| c.recorder = flag(v)?, |c| Some(c.recorder.to_string())),
    field!("flight_recorder" "profile" "Profile of recorded events: \"sched\", \"vm\", \"io\" or \"explain\".",
        |c, v| c.recorder_profile = text(v).filter(|t| ["sched", "vm", "io", "explain"].contains(t)).ok_or("\"sched\", \"vm\", \"io\" or \"explain\"")?.to_owned(),
        |c| Some(quoted(&c.recorder_profile))),
    field!("flight_recorder" "buffer" "Buffer size for each CPU, 64KiB to 1GiB.",
        |c, v| c.recorder_buffer_bytes = bytes(v, 64 << 10).filter(|b| *b <= 1 << 30).ok_or("a size from \"64KiB\" to \"1GiB\"")?,
        |c| Some(quoted(&size_text(c.recorder_buffer_bytes)))),
    field!("snapshots" "keep" "Number of snapshots to keep, 1 to 10000; the oldest are deleted first.",
        |c, v| c.snapshots_keep = count(v, 1..=10_000).ok_or("a whole number from 1 to 10000")?,
        |c| Some(c.snapshots_keep.to_string())),
    field!("snapshots" "limit" "Size limit of all snapshots together, 1MiB or more; the oldest are deleted first.",
        |c, v| c.snapshots_limit_bytes = bytes(v, 1 << 20).ok_or("a size of at least \"1MiB\"")?,
        |c| Some(quoted(&size_text(c.snapshots_limit_bytes)))),
];

fn names(value: &DeValue<'_>) -> Option<Vec<String>> {
    let DeValue::Array(list) = value else { return None };
    let is_name = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
    let name = |value: &DeValue<'_>| {
        let name = text(value)?;
        (!name.is_empty() && name.chars().all(is_name)).then(|| name.to_owned())
    };
    list.iter().map(|value| name(value.as_ref())).collect()
}

pub(super) const EXAMPLES: [(&str, &str, &str); 4] = [
    ("access", "read_tokens", "\"/etc/transect/read.tokens\""),
    ("access", "control_tokens", "\"/etc/transect/control.tokens\""),
    ("tls", "certificate", "\"/etc/transect/cert.pem\""),
    ("tls", "key", "\"/etc/transect/key.pem\""),
];

impl Config {
    /// Names of settings that another configuration has otherwise and that hold only after a restart.
    pub(crate) fn needs_restart_for(&self, other: &Config) -> Vec<String> {
        let mut changed = changed(self, other);
        let has_tls = |config: &Config| config.tls_certificate.is_some();
        let stays = has_tls(self) == has_tls(other);
        changed.retain(|name| match name.as_str() {
            "tls.certificate" | "tls.key" => !stays,
            name => !AT_ONCE.contains(&name),
        });
        changed
    }

    /// A file with all settings as they are, each with what it means.
    pub fn print(&self) -> String {
        print(self)
    }
}

/// Names of settings that differ.
fn changed(one: &Config, other: &Config) -> Vec<String> {
    let differ = FIELDS.iter().filter(|field| (field.show)(one) != (field.show)(other));
    let named = differ.map(|field| match field.section {
        "" => field.name.to_owned(),
        section => format!("{section}.{}", field.name),
    });
    named.collect()
}

/// A file of all settings.
fn print(config: &Config) -> String {
    let mut out =
        "# transect serve: all settings. A setting that is left out has the value shown here.\n"
            .to_owned();
    let mut section = "";
    for field in FIELDS {
        if field.section != section {
            section = field.section;
            let _ = write!(out, "\n[{section}]\n");
        }
        let example = EXAMPLES.iter().find(|(s, n, _)| (*s, *n) == (field.section, field.name));
        let example = example.map_or("\"\"", |(.., example)| example);
        let line = match (field.show)(config) {
            Some(value) => format!("{} = {value}", field.name),
            None => format!("# {} = {example}", field.name),
        };
        let _ = writeln!(out, "# {}\n{line}", field.doc);
    }
    for trigger in &config.triggers {
        let _ = write!(out, "\n{}", trigger.print());
    }
    if config.triggers.is_empty() {
        out.push_str(
            "\n# A trigger takes a snapshot when its condition holds. Any number of triggers is allowed.\n\
             # [[trigger]]\n# name = \"starved\"\n# of = \"vcpu\"              # vcpu, vm or cgroup\n\
             # match = \"*\"              # the VM's name, or the control group's path\n\
             # when = \"waited_ns > 20%\" # a column of windows or window_details, or a finding: starved\n\
             # for = \"3s\"\n# cooldown = \"5m\"\n# seconds = 10            # length of the snapshot\n",
        );
    }
    out
}
