//! What a trigger waits for: a column compared with a limit, or a finding.

use super::{
    comparison::Comparison,
    found::{self, Found},
    of::Of,
};
use transect_live::{FindingWindow, Snapshot};
use transect_model::ids::{MachineId, VcpuId};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Condition {
    Column(Comparison),
    Finding(Found),
}

/// Somebody of whom it holds in a window.
pub(super) struct Holds {
    pub(super) machine: MachineId,
    pub(super) vcpu: Option<VcpuId>,
    pub(super) cgroup: Option<String>,
    /// For how long.
    pub(super) dur: i64,
    /// In words, with whom.
    pub(super) said: String,
}

impl Condition {
    pub(super) fn parse(text: &str, of: Of) -> Result<Self, String> {
        match Found::parse(text, of) {
            Some(found) => found.map(Condition::Finding),
            None => Comparison::parse(text)
                .map(Condition::Column)
                .map_err(|what| format!("{what}; the findings are {}", found::names().join(", "))),
        }
    }

    pub(crate) fn text(&self) -> &str {
        match self {
            Condition::Column(comparison) => comparison.text(),
            Condition::Finding(found) => found.text(),
        }
    }

    /// Does it need the findings of windows?
    pub(crate) fn is_finding(&self) -> bool {
        matches!(self, Condition::Finding(_))
    }

    /// Of whom it holds, of those whose name fits.
    pub(super) fn holding(
        &self,
        of: Of,
        (window, findings): (&Snapshot, &[FindingWindow]),
        fits: &dyn Fn(&str) -> bool,
    ) -> Vec<Holds> {
        match self {
            Condition::Column(comparison) => columns(comparison, of, window, fits),
            Condition::Finding(found) => {
                let holds = findings.iter().filter(|row| found.holds(row));
                holds
                    .filter(|row| {
                        of.is(row.vcpu.is_some(), row.cgroup.is_some(), row.tid.is_some())
                    })
                    .filter(|row| fits(&name(window, row.machine_id, row.cgroup.as_deref())))
                    .map(|row| Holds {
                        machine: row.machine_id,
                        vcpu: row.vcpu,
                        cgroup: row.cgroup.clone(),
                        dur: row.dur,
                        said: row.sentence.trim_end_matches('.').to_owned(),
                    })
                    .collect()
            }
        }
    }

    /// Why it can hold of nobody here.
    pub(super) fn cannot(&self, window: &Snapshot) -> Option<String> {
        let column = match self {
            Condition::Column(comparison) => comparison.column(),
            Condition::Finding(_) if window.dur < 1_000_000_000 => {
                return Some("findings need windows of 1 s or more (interval)".to_owned());
            }
            Condition::Finding(found) => found.column,
        };
        let lack =
            window.missing.iter().find(|m| m.machine_id.is_none() && m.columns().contains(&column));
        // Under Xen the limit of a domain is inferred.
        let is_inferred = self.is_finding() && column == "throttled_ns";
        let lack = lack.filter(|_| !is_inferred);
        lack.map(|missing| format!("{column} is not available here: {}", missing.why))
    }
}

fn columns(
    comparison: &Comparison,
    of: Of,
    window: &Snapshot,
    fits: &dyn Fn(&str) -> bool,
) -> Vec<Holds> {
    let mut holding = Vec::new();
    for row in &window.actors {
        let w = &row.window;
        if !of.is(w.vcpu.is_some(), w.cgroup.is_some(), false) {
            continue;
        }
        let name = name(window, w.machine_id, w.cgroup.as_deref());
        if !fits(&name) {
            continue;
        }
        let Some(value) = comparison.holds(window, row) else { continue };
        let vcpu = w.vcpu.map_or(String::new(), |vcpu| format!(" vCPU {}", vcpu.0));
        holding.push(Holds {
            machine: w.machine_id,
            vcpu: w.vcpu,
            cgroup: w.cgroup.clone(),
            dur: w.dur,
            said: format!("{name}{vcpu}: {value}"),
        });
    }
    holding
}

/// The VM's name, or the control group's path.
fn name(window: &Snapshot, machine: MachineId, cgroup: Option<&str>) -> String {
    if let Some(path) = cgroup {
        return path.to_owned();
    }
    let found = window.machines.iter().find(|row| row.machine_id == machine);
    found.map_or_else(String::new, |machine| machine.name.clone())
}
