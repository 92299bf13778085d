//! What this program does in processes of its own: the loads that are traced, the tracers that are
//! compared, and the reading that is timed. `ratios role NAME …`; the harness starts them.
//!
//! A tracer says `READY` when it traces, ends when its standard input ends (so none outlives the
//! harness), and then says what it has to say in one line of JSON. The others print that line only.

mod compact;
mod costs;
mod decode;
mod exits;
mod live;
mod mixed;
mod pair;
mod protocol;
mod role;
mod splice;
mod spliced;
mod sql;
mod states;
mod tiles;
mod vms;
mod watched;
mod work;

pub use compact::Pairs;
pub use live::Programs;
pub use pair::{Both, OnDisk};
pub use role::Role;
pub use sql::Answer;
pub use states::Pace;
pub use work::{Loop, Timed};
