//! As much HTTP/1.1 as a browser on the same machine needs: one thread a connection, requests and
//! answers whole, events as a stream.
//!
//! Everything a client sends is bounded: connections, the head, the body, the time it may take.

mod request;
mod response;
mod server;

pub(crate) use request::{Method, Request};
pub(crate) use response::{Answer, Response};
pub(crate) use server::{Handler, Server};
