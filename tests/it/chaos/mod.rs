//! Damage to everything that is kept, and the judge of what the verbs then answer.
//!
//! A case damages one file of a copy of a recording, or of a daemon's data directory, and runs every verb that reads it, each
//! on a copy of its own. An answer is right if it equals that of the undamaged copy, if it states the loss and contradicts the
//! undamaged answer nowhere, or if it is an error with the file and a remedy. Everything else is wrong.

pub(crate) mod answer;
pub(crate) mod cases;
pub(crate) mod daemon;
pub(crate) mod damage;
pub(crate) mod disks;
pub(crate) mod files;
pub(crate) mod forms;
pub(crate) mod http;
pub(crate) mod judge;
pub(crate) mod kills;
pub(crate) mod outcomes;
pub(crate) mod random;
pub(crate) mod report;
pub(crate) mod rows;
pub(crate) mod stops;
pub(crate) mod subjects;
pub(crate) mod verbs;
