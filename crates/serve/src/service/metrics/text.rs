//! OpenMetrics 1.0, and the text format that came before it.

use super::actor::{BOUNDS, Lengths};
use super::families::{Family, Kind};
use std::io::Write as _;
use transect_model::json::push_digits;

/// How metrics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// What Prometheus asks for.
    OpenMetrics,
    /// What `promtool check metrics` and old tools read.
    Plain,
}

impl Format {
    /// What a client takes, by its `Accept`.
    pub(crate) fn accepted(accept: Option<&str>) -> Self {
        let takes = accept.is_some_and(|accept| accept.contains("application/openmetrics-text"));
        if takes { Format::OpenMetrics } else { Format::Plain }
    }

    pub(crate) fn kind(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Plain => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Labels: name and value.
pub(super) type Labels<'l> = &'l [(&'l str, &'l str)];

/// Writes metrics, family by family.
pub(super) struct Page {
    format: Format,
    out: Vec<u8>,
    /// Bounds of histograms, as text.
    bounds: Vec<String>,
    /// The labels of a histogram's lines.
    labels: Vec<u8>,
    /// What samples are of, and whether its head was written.
    family: Option<(Family, bool)>,
}

/// A value of a metric.
pub(super) enum Value {
    Count(u64),
    /// Shown as seconds.
    Ns(i64),
}

impl Value {
    fn push(&self, out: &mut Vec<u8>) {
        const S: u64 = 1_000_000_000;
        match self {
            Value::Count(count) => push_digits(out, *count),
            // To the nanosecond: a float would lose it after 52 days.
            Value::Ns(ns) => {
                if *ns < 0 {
                    out.push(b'-');
                }
                let ns = ns.unsigned_abs();
                push_digits(out, ns / S);
                // Nine digits, with the noughts they begin with.
                let point = out.len();
                push_digits(out, S + ns % S);
                if let Some(one) = out.get_mut(point) {
                    *one = b'.';
                }
            }
        }
    }
}

impl Page {
    pub(super) fn new(format: Format) -> Self {
        let bound = |bound: &u64| {
            let mut text = Vec::new();
            Value::Ns(i64::try_from(*bound).unwrap_or(i64::MAX)).push(&mut text);
            let text = String::from_utf8_lossy(&text);
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        };
        let bounds = BOUNDS.iter().map(bound).chain(["+Inf".to_owned()]).collect();
        Page { format, out: Vec::with_capacity(64 << 10), bounds, labels: Vec::new(), family: None }
    }

    /// What follows is of this family. One without a sample is not mentioned.
    pub(super) fn begin(&mut self, family: Family) {
        self.family = Some((family, false));
    }

    fn head(&mut self) -> Option<Family> {
        let (family, has_head) = self.family.as_mut()?;
        let family = *family;
        if std::mem::replace(has_head, true) {
            return Some(family);
        }
        let Family { name, kind, help } = family;
        let is_open = self.format == Format::OpenMetrics;
        let ending = match kind {
            Kind::Counter if !is_open => "_total",
            Kind::Info if !is_open => "_info",
            _ => "",
        };
        let word = match kind {
            Kind::Counter => "counter",
            Kind::Histogram => "histogram",
            Kind::Info if is_open => "info",
            Kind::States if is_open => "stateset",
            _ => "gauge",
        };
        let _ = writeln!(self.out, "# TYPE {name}{ending} {word}");
        if let Some(unit) = family.unit().filter(|_| is_open) {
            let _ = writeln!(self.out, "# UNIT {name} {unit}");
        }
        let _ = writeln!(self.out, "# HELP {name}{ending} {}", escape(help, false));
        Some(family)
    }

    pub(super) fn sample(&mut self, labels: Labels<'_>, value: &Value) {
        let Some(family) = self.head() else { return };
        let ending = match family.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            _ => "",
        };
        self.line(family.name, ending, labels, value);
    }

    pub(super) fn count(&mut self, labels: Labels<'_>, count: u64) {
        self.sample(labels, &Value::Count(count));
    }

    pub(super) fn ns(&mut self, labels: Labels<'_>, ns: i64) {
        self.sample(labels, &Value::Ns(ns));
    }

    /// All states, of which one is on.
    pub(super) fn states(&mut self, words: &[&str], now: &str) {
        let Some(Family { name, .. }) = self.head() else { return };
        let label = if self.format == Format::OpenMetrics { name } else { "state" };
        for word in words {
            self.line(name, "", &[(label, word)], &Value::Count(u64::from(*word == now)));
        }
    }

    pub(super) fn lengths(&mut self, labels: Labels<'_>, lengths: &Lengths) {
        let Some(Family { name, .. }) = self.head() else { return };
        self.labels.clear();
        push_labels(&mut self.labels, labels);
        let (out, more) = (&mut self.out, if labels.is_empty() { "{" } else { "," });
        let mut sum = 0;
        for (bound, count) in self.bounds.iter().zip(&lengths.counts) {
            sum += count;
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"_bucket");
            out.extend_from_slice(&self.labels);
            for part in [more, "le=\"", bound, "\"} "] {
                out.extend_from_slice(part.as_bytes());
            }
            push_digits(out, sum);
            out.push(b'\n');
        }
        self.line(name, "_count", labels, &Value::Count(lengths.count()));
        self.line(name, "_sum", labels, &Value::Ns(lengths.total_ns));
    }

    fn line(&mut self, name: &str, ending: &str, labels: Labels<'_>, value: &Value) {
        let out = &mut self.out;
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(ending.as_bytes());
        push_labels(out, labels);
        out.extend_from_slice(if labels.is_empty() { b" " } else { b"} " });
        value.push(out);
        out.push(b'\n');
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        if self.format == Format::OpenMetrics {
            self.out.extend_from_slice(b"# EOF\n");
        }
        self.out
    }
}

/// Labels, without the bracket behind them.
fn push_labels(out: &mut Vec<u8>, labels: Labels<'_>) {
    for (number, (label, text)) in labels.iter().enumerate() {
        out.push(if number == 0 { b'{' } else { b',' });
        out.extend_from_slice(label.as_bytes());
        out.extend_from_slice(b"=\"");
        out.extend_from_slice(escape(text, true).as_bytes());
        out.push(b'"');
    }
}

fn escape(text: &str, is_value: bool) -> std::borrow::Cow<'_, str> {
    if !text.contains(['\\', '\n', '"']) {
        return text.into();
    }
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    if is_value { text.replace('"', "\\\"").into() } else { text.into() }
}
