//! Stacks: at which events they are taken.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most stacks that one source of events keeps: their numbers in the source are below this.
pub const MAX_STACKS: u32 = 1 << 14;
/// Most frames that are kept of one stack, the innermost.
pub const MAX_FRAMES: usize = 127;

/// The event at which a stack is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum StackPoint {
    /// A block driver gets a request.
    Issue,
    /// A network driver gets a packet.
    Transmit,
    /// A packet comes from a network driver.
    Receive,
    /// A vCPU's interrupt controller takes an interrupt.
    Accept,
    /// In the exit of a vCPU, a thread is woken.
    Wake,
}

impl StackPoint {
    /// Every point; its place is its number in the compact format.
    pub const ALL: [StackPoint; 5] = [
        StackPoint::Issue,
        StackPoint::Transmit,
        StackPoint::Receive,
        StackPoint::Accept,
        StackPoint::Wake,
    ];

    /// The word in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            StackPoint::Issue => "issue",
            StackPoint::Transmit => "transmit",
            StackPoint::Receive => "receive",
            StackPoint::Accept => "accept",
            StackPoint::Wake => "wake",
        }
    }
}

/// One frame of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Frame {
    /// The function; the address in hexadecimal if it has no known name.
    pub symbol: String,
    /// The kernel's module, or the program's file; none if unknown, and for the kernel itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
}

/// The stacks of one source of events by number, the innermost frame first.
pub type Stacks = BTreeMap<u32, Vec<Frame>>;
