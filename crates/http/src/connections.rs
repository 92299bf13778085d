//! Open connections, limited for each client and for all: one client cannot have all places.
//!
//! A client at its own limit loses its connection that has waited longest for a request; while requests of all of them are
//! being answered, the new one is refused. If all places are taken, the client with the most connections loses one to a
//! client with fewer.

use super::peer::Peer;
use std::collections::HashMap;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Limits of connections at once.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// Connections at a time.
    pub all: usize,
    /// Of them, those of one client.
    pub per_client: usize,
}

/// All open connections.
#[derive(Debug)]
pub(crate) struct Connections {
    places: Places,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// By number.
    open: HashMap<u64, Open>,
    by_client: HashMap<Peer, usize>,
    /// Numbers of connections, and of changes of their states: the smallest is the oldest.
    last: u64,
}

#[derive(Debug)]
struct Open {
    peer: Peer,
    stream: Arc<TcpStream>,
    state: State,
}

/// Waiting connections are dropped before those whose requests are being answered, of each the oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    /// For a request, since this change.
    Waiting(u64),
    Answering(u64),
}

/// A connection's place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    connections: Arc<Connections>,
    number: u64,
}

/// The limit for which a connection was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    Client,
    All,
}

impl Connections {
    pub(crate) fn new(places: Places) -> Self {
        Connections { places, inner: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a new connection of this client, and whether another connection was closed for it.
    ///
    /// # Errors
    /// There is no place.
    pub(crate) fn add(
        self: &Arc<Self>,
        peer: Peer,
        stream: &Arc<TcpStream>,
    ) -> Result<(Place, bool), Full> {
        let mut inner = self.lock();
        let own = inner.count(peer);
        let dropped = if own >= self.places.per_client {
            let oldest = inner.oldest(peer);
            let is_waiting = |(state, _): &(State, u64)| matches!(state, State::Waiting(_));
            Some(oldest.filter(is_waiting).ok_or(Full::Client)?)
        } else if inner.open.len() >= self.places.all {
            let most = inner.by_client.iter().max_by_key(|(_, count)| **count);
            let most = most.filter(|(_, count)| **count > own + 1).map(|(peer, _)| *peer);
            Some(most.and_then(|most| inner.oldest(most)).ok_or(Full::All)?)
        } else {
            None
        };
        if let Some((_, number)) = dropped {
            inner.close(number);
        }
        inner.last += 1;
        let number = inner.last;
        let state = State::Waiting(number);
        inner.open.insert(number, Open { peer, stream: Arc::clone(stream), state });
        *inner.by_client.entry(peer).or_default() += 1;
        drop(inner);
        Ok((Place { connections: Arc::clone(self), number }, dropped.is_some()))
    }
}

impl Inner {
    fn count(&self, peer: Peer) -> usize {
        self.by_client.get(&peer).copied().unwrap_or(0)
    }

    /// The client's connection that is dropped first.
    fn oldest(&self, peer: Peer) -> Option<(State, u64)> {
        let own = self.open.iter().filter(|(_, open)| open.peer == peer);
        own.map(|(number, open)| (open.state, *number)).min()
    }

    /// Closes a connection. Its thread ends with the next read or write.
    fn close(&mut self, number: u64) {
        if let Some(closed) = self.remove(number) {
            let _ = closed.stream.shutdown(Shutdown::Both);
        }
    }

    fn remove(&mut self, number: u64) -> Option<Open> {
        let removed = self.open.remove(&number)?;
        if let Some(count) = self.by_client.get_mut(&removed.peer) {
            *count -= 1;
            if *count == 0 {
                self.by_client.remove(&removed.peer);
            }
        }
        Some(removed)
    }
}

impl Place {
    /// A request has been read, and is being answered.
    pub(crate) fn begin_answer(&self) {
        self.change(State::Answering);
    }

    /// The next request is waited for.
    pub(crate) fn end_answer(&self) {
        self.change(State::Waiting);
    }

    fn change(&self, to: fn(u64) -> State) {
        let mut inner = self.connections.lock();
        inner.last += 1;
        let state = to(inner.last);
        if let Some(open) = inner.open.get_mut(&self.number) {
            open.state = state;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.lock().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests report by failing")]
    use super::*;
    use std::io::Read as _;
    use std::net::TcpListener;

    const MANY: Peer = Peer::User(1);
    const FEW: Peer = Peer::User(2);

    /// Ends of connections: the client's and the server's.
    struct Ends {
        listener: TcpListener,
        clients: Vec<TcpStream>,
    }

    impl Ends {
        fn new() -> Self {
            Ends { listener: TcpListener::bind("127.0.0.1:0").unwrap(), clients: Vec::new() }
        }

        fn connect(&mut self) -> Arc<TcpStream> {
            let address = self.listener.local_addr().unwrap();
            self.clients.push(TcpStream::connect(address).unwrap());
            Arc::new(self.listener.accept().unwrap().0)
        }

        fn is_closed(&self, client: usize) -> bool {
            let mut client = &self.clients[client];
            client.set_nonblocking(true).unwrap();
            matches!(client.read(&mut [0]), Ok(0))
        }

        fn add(&mut self, to: &Arc<Connections>, peer: Peer) -> Result<(Place, bool), Full> {
            to.add(peer, &self.connect())
        }
    }

    fn open(all: usize, per_client: usize) -> (Arc<Connections>, Ends) {
        (Arc::new(Connections::new(Places { all, per_client })), Ends::new())
    }

    #[test]
    fn client_at_its_limit_loses_the_connection_that_waited_longest() {
        let (connections, mut ends) = open(100, 3);
        let places: Vec<_> = (0..3).map(|_| ends.add(&connections, MANY).unwrap().0).collect();
        places[0].begin_answer();
        // The second has had an answer since.
        places[1].begin_answer();
        places[1].end_answer();
        let (fourth, has_dropped) = ends.add(&connections, MANY).unwrap();
        assert!(has_dropped && ends.is_closed(2) && !ends.is_closed(0) && !ends.is_closed(1));
        places[1].begin_answer();
        fourth.begin_answer();
        assert_eq!(ends.add(&connections, MANY).unwrap_err(), Full::Client);
        assert!(ends.add(&connections, FEW).is_ok());
        drop(places);
        assert!(!ends.add(&connections, MANY).unwrap().1);
    }

    #[test]
    fn client_with_the_most_connections_makes_room_for_others() {
        let (connections, mut ends) = open(6, 5);
        let many: Vec<_> = (0..5).map(|_| ends.add(&connections, MANY).unwrap().0).collect();
        many.iter().for_each(Place::begin_answer);
        let first = ends.add(&connections, FEW).unwrap();
        assert!(!first.1);
        // All are being answered: the oldest of them goes.
        let second = ends.add(&connections, FEW).unwrap();
        assert!(second.1 && ends.is_closed(0) && !ends.is_closed(1) && !ends.is_closed(5));
        let third = ends.add(&connections, FEW).unwrap();
        assert!(third.1 && ends.is_closed(1));
        // Three each: nobody has more than the other would have.
        assert_eq!(ends.add(&connections, FEW).unwrap_err(), Full::All);
        assert_eq!(ends.add(&connections, MANY).unwrap_err(), Full::All);
        let other = ends.add(&connections, Peer::User(3)).unwrap();
        assert!(other.1);
        // The places of closed connections are given back once.
        drop(many);
        let inner = connections.lock();
        let own = [MANY, FEW].map(|peer| inner.count(peer));
        assert!(own[0] == 0 && (2..=3).contains(&own[1]), "{own:?}");
        assert_eq!(inner.open.len(), own[1] + 1);
    }
}
