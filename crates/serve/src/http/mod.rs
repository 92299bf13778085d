//! As much HTTP/1.1 as a browser on the same machine needs: one thread a connection, requests and
//! answers whole, events as a stream.
//!
//! Everything a client sends is bounded: connections, the head, the body, the time each may take; so is
//! the time in which an answer must be taken.

mod paced;
mod request;
mod response;
mod server;
pub(crate) mod tls;

pub(crate) use request::{Method, Request};
pub(crate) use response::{Answer, Response};
pub(crate) use server::{Counts, Handler, Server, give_way};
