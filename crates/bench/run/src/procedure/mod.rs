//! How a plan is carried out: block after block, each in an order of its own, each run written down before the next.
//!
//! # A block
//! Every block measures every cell once, and the reference once more under another label (A/A). Machines are opened anew
//! for every block: what differs from boot to boot (where memory came to lie, which CPU interrupts went to) would
//! otherwise be the same in all of them, and be taken for an effect. Within a block the order is random at two levels: of
//! the sets of machines, and of the runs on each of them. So a drift of the machine does not favour anybody.
//!
//! # Design constraints
//! - The order is a function of the plan's seed and the block's number: a resumed run has the same one.
//! - A run that was cut off is done again. A run that has a result is not.
//! - What cannot be done is refused with its reason and stays in the results.

mod block;
mod boot;
mod confirm;
mod exclusions;
mod folder;
mod limits;
mod machines;
mod order;
mod own;
mod run;
mod sentinel;
mod session;
mod stopping;

pub use boot::{Boots, ByHand, Grub};
pub use confirm::confirm;
pub use folder::Results;
pub use limits::judge_again;
pub use order::{Unit, of_block};
pub use own::Own;
pub use run::{Witness, resume, run};
