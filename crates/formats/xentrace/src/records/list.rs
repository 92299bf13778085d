//! The list of all rows.

use super::{hvm, hw, misc, pv, row::RecordDef, sched, shadow};

/// Every record of Xen 4.14–4.20, class by class. Rows of one id belong to different versions.
pub fn all() -> impl Iterator<Item = &'static RecordDef> {
    [misc::ROWS, sched::ROWS, pv::ROWS, hvm::ROWS, hvm::EMULATED, shadow::ROWS, hw::ROWS]
        .into_iter()
        .flatten()
}
