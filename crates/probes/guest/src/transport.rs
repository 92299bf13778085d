//! The byte channel itself: AF_VSOCK, a virtio-serial port or TCP, as one non-blocking descriptor.
//!
//! Both ends only ever wait in `poll` with a time limit, so nothing here can hang: a dead peer,
//! a full socket or a port nobody listens on all end in a value.

mod address;
mod channel;
mod connect;
mod listen;
mod spec;

pub use address::local_cid;
pub use channel::{Channel, Read1};
pub use connect::{ConnectError, connect};
pub use listen::{Listener, PortFinder};
pub use spec::{Endpoint, GuestSpec, SpecError, parse_tcp};
