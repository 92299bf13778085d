//! Which source: what was asked for, or the best there is.

use crate::{
    HostSource, LiveError, Source, TracefsSource, XenSource,
    missing::{Missing, everything},
    xen,
};
use std::{fmt, str::FromStr};
use transect_bpf::live::LivePlan;

/// Where windows are to come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourceKind {
    /// In a dom0 Xen, else BPF, and where BPF cannot run tracefs.
    #[default]
    Auto,
    /// BPF programs that add up in the kernel.
    Bpf,
    /// The kernel's trace buffers, through the engine.
    Tracefs,
    /// Xen's trace, through the engine: domains and their vCPUs.
    Xen,
}

/// Their words.
pub const SOURCES: [(&str, SourceKind); 4] = [
    ("auto", SourceKind::Auto),
    ("bpf", SourceKind::Bpf),
    ("tracefs", SourceKind::Tracefs),
    ("xen", SourceKind::Xen),
];

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = SOURCES.iter().find(|(_, kind)| kind == self).map_or("", |(word, _)| word);
        f.write_str(word)
    }
}

impl FromStr for SourceKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = SOURCES.iter().find(|(word, _)| *word == text);
        found
            .map(|(_, kind)| *kind)
            .ok_or_else(|| "unknown source: use auto, bpf, tracefs or xen".to_owned())
    }
}

/// Begins to watch.
///
/// # Errors
/// The source that was asked for cannot be had; of those that are chosen from, none.
pub fn open(kind: SourceKind, plan: &LivePlan) -> Result<Box<dyn Source>, LiveError> {
    match kind {
        SourceKind::Bpf => Ok(Box::new(HostSource::start(plan)?)),
        SourceKind::Tracefs => Ok(Box::new(TracefsSource::start(plan, None)?)),
        SourceKind::Xen => Ok(Box::new(XenSource::start(plan)?)),
        SourceKind::Auto => best(plan),
    }
}

fn best(plan: &LivePlan) -> Result<Box<dyn Source>, LiveError> {
    let why_not_xen = match xen::place() {
        Ok(_) => match XenSource::start(plan) {
            Ok(source) => return Ok(Box::new(source)),
            Err(error) => Some(error.to_string()),
        },
        Err(why) => why,
    };
    let told = why_not_xen.map(|why| Missing {
        metric: "domains".to_owned(),
        machine_id: None,
        why: format!("only dom0's kernel is observed, not Xen itself: {why}"),
    });
    let bpf = match HostSource::start(plan) {
        Ok(mut source) => {
            source.tell(told);
            return Ok(Box::new(source));
        }
        Err(error) => error,
    };
    // A plan that cannot be is no reason to look for another source.
    plan.check()?;
    let why = match &bpf {
        LiveError::Nothing { why, .. } => why.clone(),
        other => other.to_string(),
    };
    match TracefsSource::start(plan, Some(&why)) {
        Ok(mut source) => {
            source.tell(told);
            Ok(Box::new(source))
        }
        Err(error) => {
            let why = format!("{why}; the kernel's trace buffers cannot be used either: {error}");
            Err(LiveError::Nothing { missing: everything(&why), why })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_have_words() {
        for (word, kind) in SOURCES {
            assert_eq!(word.parse(), Ok(kind));
            assert_eq!(kind.to_string(), word);
        }
        assert!("ebpf".parse::<SourceKind>().unwrap_err().contains("tracefs"));
        assert_eq!(SourceKind::default(), SourceKind::Auto);
    }
}
