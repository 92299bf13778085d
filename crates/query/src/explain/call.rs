//! What a call asks for.

use crate::arguments::{is_null, text, whole};
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use transect_explain::{NEEDS, detect, lines};
use transect_model::ids::{MachineId, Tid, VcpuId};
use transect_model::table::TableDoc;

/// Which of the functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Path,
    Explanation,
    Blame,
    Findings,
}

impl Asked {
    pub(crate) const ALL: [Asked; 4] =
        [Asked::Path, Asked::Explanation, Asked::Blame, Asked::Findings];

    /// Its name and columns.
    pub(crate) fn table(self) -> TableDoc {
        match self {
            Asked::Path => lines::PathLine::TABLE,
            Asked::Explanation => lines::SentenceLine::TABLE,
            Asked::Blame => lines::BlameLine::TABLE,
            Asked::Findings => lines::FindingLine::TABLE,
        }
    }

    /// The tables of the recording from which it is made.
    pub(crate) fn needs(self) -> Vec<TableDoc> {
        match self {
            Asked::Path | Asked::Explanation | Asked::Blame => NEEDS.to_vec(),
            Asked::Findings => detect::needed(),
        }
    }

    fn usage(self) -> String {
        let name = self.table().name;
        match self {
            Asked::Path | Asked::Explanation => {
                format!("{name}(MACHINE, TID or 'vcpuN'[, FROM_NS, UNTIL_NS])")
            }
            Asked::Blame => format!("{name}([MACHINE, TID or 'vcpuN'[, FROM_NS, UNTIL_NS]])"),
            Asked::Findings => {
                format!(
                    "{name}([FROM_NS, UNTIL_NS]) or {name}(MACHINE, TID or 'vcpuN', FROM_NS, UNTIL_NS)"
                )
            }
        }
    }
}

/// A thread or a vCPU of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Thread(Tid),
    Vcpu(VcpuId),
}

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) asked: Asked,
    /// None for everyone.
    pub(crate) who: Option<(MachineId, Who)>,
    /// Open ends are those of the recording.
    pub(crate) from: Option<i64>,
    pub(crate) until: Option<i64>,
}

impl Call {
    pub(crate) fn parse(asked: Asked, arguments: &[Expr]) -> Result<Self> {
        let usage = asked.usage();
        let (who, range) = match (asked, arguments) {
            (Asked::Blame | Asked::Findings, []) => (None, None),
            (Asked::Findings, [from, until]) => (None, Some((from, until))),
            (Asked::Path | Asked::Explanation | Asked::Blame, [machine, who]) => {
                (Some((machine, who)), None)
            }
            (_, [machine, who, from, until]) => (Some((machine, who)), Some((from, until))),
            (asked, _) => {
                return plan_err!("{} takes other arguments: {usage}", asked.table().name);
            }
        };
        let who = match who {
            Some((machine, who)) if is_null(machine) && is_null(who) => {
                if matches!(asked, Asked::Path | Asked::Explanation) {
                    return plan_err!("it takes a machine and a thread or vCPU: {usage}");
                }
                None
            }
            Some((machine, who)) => Some((machine_of(machine, &usage)?, who_of(who, &usage)?)),
            None => None,
        };
        let moment = |value: &Expr| match is_null(value) {
            true => Ok(None),
            false => match whole(value) {
                Some(ns) => Ok(Some(ns)),
                None => plan_err!("moments must be whole numbers of ns: {usage}"),
            },
        };
        let (from, until) = match range {
            Some((from, until)) => (moment(from)?, moment(until)?),
            None => (None, None),
        };
        if let Some((from, until)) = from.zip(until)
            && from >= until
        {
            return plan_err!("the range from {from} to {until} is empty: {usage}");
        }
        Ok(Call { asked, who, from, until })
    }
}

fn machine_of(value: &Expr, usage: &str) -> Result<MachineId> {
    match whole(value).and_then(|id| u32::try_from(id).ok()) {
        Some(id) => Ok(MachineId(id)),
        None => plan_err!("the machine must be its number (machine_id in machines): {usage}"),
    }
}

fn who_of(value: &Expr, usage: &str) -> Result<Who> {
    if let Some(tid) = whole(value).and_then(|tid| i32::try_from(tid).ok()) {
        return Ok(Who::Thread(Tid(tid)));
    }
    let word = text(value, usage)?;
    match word.strip_prefix("vcpu").and_then(|number| number.parse().ok()) {
        Some(vcpu) => Ok(Who::Vcpu(VcpuId(vcpu))),
        None => plan_err!("'{word}' is neither the number of a thread nor a vCPU: {usage}"),
    }
}
