//! One keep-alive connection that is never waited for.

use super::{
    answer::{Answer, Progress, Wrong},
    files::File,
    schedule::Request,
};
use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    io::Errno,
    net::{
        AddressFamily, SendFlags, SocketFlags, SocketType, connect, ipproto, send, socket_with,
        sockopt,
    },
};
use std::net::SocketAddr;

/// A request that is on its way.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) request: Request,
    answer: Answer,
    out: Vec<u8>,
    sent: usize,
    /// It was begun on a connection that had served before: the server may have closed it meanwhile, and then a
    /// visitor's browser asks once more.
    pub(super) may_repeat: bool,
}

/// What happened to a connection.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Nothing is decided yet.
    Waits,
    /// It has just been connected, and has nothing to do.
    Idle,
    /// A right answer. If the server does not keep the connection it is closed.
    Right { request: Request },
    /// No answer, or none that is right. The connection is closed.
    Wrong { request: Request, wrong: Wrong },
    /// The server closed it while it was idle, or before the first byte of an answer: not the request's fault.
    Closed { repeat: Option<Request> },
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) server: usize,
    address: SocketAddr,
    socket: Option<OwnedFd>,
    is_connected: bool,
    served: u64,
    flight: Option<Flight>,
    /// Counts sockets: an event of an old one is told by it.
    pub(super) generation: u32,
    /// Bytes received.
    pub(super) received: u64,
}

impl Connection {
    pub(super) fn new(server: usize, address: SocketAddr) -> Self {
        Self {
            server,
            address,
            socket: None,
            is_connected: false,
            served: 0,
            flight: None,
            generation: 0,
            received: 0,
        }
    }

    pub(super) fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_ref().map(AsFd::as_fd)
    }

    pub(super) fn request(&self) -> Option<&Request> {
        self.flight.as_ref().map(|flight| &flight.request)
    }

    /// Begins to connect. It must then be registered with the poller.
    pub(super) fn open(&mut self) -> Result<(), Errno> {
        let family = match self.address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
        // Requests are one small write each; waiting for more would be the generator's delay, not the server's.
        sockopt::set_tcp_nodelay(&socket, true)?;
        match connect(&socket, &self.address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error),
        }
        self.socket = Some(socket);
        self.is_connected = false;
        self.served = 0;
        self.generation = self.generation.wrapping_add(1);
        Ok(())
    }

    pub(super) fn close(&mut self) -> Option<Request> {
        self.socket = None;
        self.is_connected = false;
        self.flight.take().map(|flight| flight.request)
    }

    /// Gives it a request: sent now if it is connected, else as soon as it is.
    pub(super) fn begin(&mut self, request: Request) -> Outcome {
        self.flight = Some(Flight {
            request,
            answer: Answer::to(request.file),
            out: question(request.file, self.address),
            sent: 0,
            may_repeat: self.served > 0,
        });
        if self.is_connected { self.send() } else { Outcome::Waits }
    }

    /// Sends what can be sent.
    pub(super) fn writable(&mut self) -> Outcome {
        if self.socket.is_some() && !self.is_connected {
            if let Err(outcome) = self.finish_connect() {
                return outcome;
            }
            if self.flight.is_none() {
                return Outcome::Idle;
            }
        }
        self.send()
    }

    fn finish_connect(&mut self) -> Result<(), Outcome> {
        let Some(socket) = &self.socket else { return Err(Outcome::Waits) };
        match sockopt::socket_error(socket) {
            Ok(Ok(())) => {
                self.is_connected = true;
                Ok(())
            }
            Ok(Err(_)) | Err(_) => Err(self.fail(Wrong::Connect)),
        }
    }

    fn send(&mut self) -> Outcome {
        let (Some(socket), Some(flight)) = (&self.socket, &mut self.flight) else {
            return Outcome::Waits;
        };
        while flight.sent < flight.out.len() {
            match send(socket, &flight.out[flight.sent..], SendFlags::NOSIGNAL) {
                Ok(count) => flight.sent += count,
                Err(Errno::AGAIN) => return Outcome::Waits,
                Err(Errno::INTR) => {}
                Err(_) => return self.fail(Wrong::Closed),
            }
        }
        Outcome::Waits
    }

    /// Reads what is there, until the answer is complete or nothing more is there.
    pub(super) fn readable(&mut self, buffer: &mut [u8]) -> Outcome {
        if !self.is_connected {
            return Outcome::Waits;
        }
        loop {
            let Some(socket) = &self.socket else { return Outcome::Waits };
            let count = match rustix::io::read(socket, &mut *buffer) {
                Ok(count) => count,
                Err(Errno::AGAIN) => return Outcome::Waits,
                Err(Errno::INTR) => continue,
                Err(_) => return self.fail(Wrong::Closed),
            };
            self.received += count as u64;
            let Some(flight) = &mut self.flight else {
                // The end, or an answer that nobody has asked for: neither makes a connection that can be used.
                return self.fail(Wrong::Closed);
            };
            let progress = if count == 0 {
                flight.answer.close()
            } else {
                flight.answer.take(&buffer[..count])
            };
            match progress {
                Progress::More => {}
                Progress::Right { is_kept } => return self.finish(is_kept && count > 0),
                Progress::Wrong(wrong) => return self.fail(wrong),
            }
        }
    }

    fn finish(&mut self, is_kept: bool) -> Outcome {
        self.served += 1;
        let Some(flight) = self.flight.take() else { return Outcome::Waits };
        if !is_kept {
            self.close();
        }
        Outcome::Right { request: flight.request }
    }

    /// Closes it; a request that a server could not have seen the first byte of an answer to may be repeated.
    fn fail(&mut self, wrong: Wrong) -> Outcome {
        let is_untouched = self
            .flight
            .as_ref()
            .is_some_and(|flight| flight.may_repeat && flight.answer.is_untouched());
        match self.close() {
            Some(request) if is_untouched && wrong == Wrong::Closed => {
                Outcome::Closed { repeat: Some(request) }
            }
            Some(request) => Outcome::Wrong { request, wrong },
            None => Outcome::Closed { repeat: None },
        }
    }
}

fn question(file: File, address: SocketAddr) -> Vec<u8> {
    format!("GET {} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: transect\r\n\r\n", file.path())
        .into_bytes()
}
