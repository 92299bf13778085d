//! Roots together with what was found in the range.

use crate::{
    blame::parties,
    detect::{self, Finding, Range},
    root::Root,
    rows::Rows,
};
use transect_model::table::Tables;

/// Roots that were explained, and what was found in the range.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The roots.
    pub roots: Vec<Root>,
    /// What concerns them; none if the range is too short for that.
    pub findings: Option<Vec<Finding>>,
}

impl Explained {
    /// Of roots that were explained in the range.
    pub fn new(rows: &Rows<'_>, tables: &Tables, roots: Vec<Root>, range: Range) -> Self {
        let all = range.is_long_enough().then(|| detect::findings(rows, tables, range));
        let findings = all.map(|mut all| {
            for root in &roots {
                all.extend(detect::of_path(rows, root.actor, &root.pieces));
            }
            detect::sort(&mut all);
            concerning(rows, &all, &roots).into_iter().cloned().collect()
        });
        Explained { roots, findings }
    }
}

/// Those that concern the roots: about one that is on their paths, or a machine of them.
fn concerning<'f>(rows: &Rows<'_>, findings: &'f [Finding], roots: &[Root]) -> Vec<&'f Finding> {
    let on_paths = parties(rows, roots.iter().flat_map(|root| &root.pieces));
    findings.iter().filter(|finding| on_paths.contains(&finding.subject)).collect()
}
