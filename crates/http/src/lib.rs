//! As much HTTP/1.1 as a browser on the same machine needs: one thread a connection, requests and
//! answers whole, events as a stream.
//!
//! Everything a client sends is bounded: connections, the head, the body, the time each may take; so is
//! the time in which an answer must be taken.

mod accounts;
mod connections;
mod outbox;
mod paced;
mod peer;
mod quota;
mod request;
mod response;
mod server;
mod streaming;
pub mod tls;

pub use connections::Places;
pub use outbox::{Making, Spool};
pub use peer::{Peer, is_open};
pub use quota::{Exhausted, Quota, Share};
pub use request::{Method, Request};
pub use response::{Answer, Made, Response, Stream};
pub use server::{Caller, Counts, Handler, Server, give_way};
