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
pub(crate) mod tls;

pub(crate) use connections::Places;
pub(crate) use outbox::{Making, Spool};
pub(crate) use peer::{Peer, is_open};
pub(crate) use quota::{Exhausted, Quota, Share};
pub(crate) use request::{Method, Request};
pub(crate) use response::{Answer, Made, Response, Stream};
pub(crate) use server::{Caller, Counts, Handler, Server, give_way};
