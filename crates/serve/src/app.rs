//! The server as a whole: who may ask, and who answers what.

use crate::api;
use crate::builders::Builders;
use crate::guard::Guard;
use crate::page;
use crate::sql::{Asker, Sql};
use crate::state::{Recording, State};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use transect_ask::{Client, Limits};
use transect_http::{self as http, Answer, Caller, Handler, Method, Request, Response};

/// How to serve.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to listen: 127.0.0.1 or ::1; port 0 is any that is free.
    pub address: SocketAddr,
    /// Memory that queries may use, bytes.
    pub memory_bytes: usize,
    /// Threads that make tiles, and that a query uses.
    pub threads: usize,
    /// Answer no query if a wall around it is missing.
    pub require_sandbox: bool,
}

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// No thread, no random number.
    #[error("cannot start the server: {0}")]
    Start(#[from] io::Error),
}

/// A recording that is being served, until the process ends.
#[derive(Debug)]
pub struct Server {
    url: String,
}

/// Questions under way at once.
const MAX_QUERIES: usize = 4;
/// Limits of an answer of `transect view`, whose only client is the recording's owner.
const LIMITS: Limits = Limits { rows: u64::MAX, bytes: 64 << 20, ms: 600_000 };

struct App {
    guard: Guard,
    /// Who was let in knows the one token: all of them are one client.
    client: Client,
    view: View,
}

/// A request of the API of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Events until the timeline is ready.
    Progress,
    Lookup(Lookup),
    Question(Question),
}

/// A request that is answered from what the timeline has in memory or in its tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    Recording,
    Tracks,
    Keys,
    Tiles,
    Search,
}

/// A request that reads tables, for which it takes memory and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    At,
    Busy,
    Next,
    Flows,
    Stats,
    Sql,
    Export,
}

/// The limits of the client of one request.
pub(crate) trait Admission {
    /// Kept until the answer of a question is sent.
    type Turn: Send + Sync + 'static;
    /// Kept until the answer of a lookup is made.
    type Place;
    /// Rows of an answer with tiles at most.
    const TILE_ROWS: usize;

    /// Called once for a question: returns the client and its turn, or the refusal.
    fn admit_question(&mut self) -> Result<(Client, Self::Turn), Response>;

    /// Called for the turn of a question that was refused for now, which does not count.
    fn give_back(turn: Self::Turn);

    /// Called once for a lookup: returns its place, or the refusal.
    fn admit_lookup(&mut self) -> Result<Self::Place, Response>;
}

/// The owner of the one recording, who has no limits.
struct Owner<'a>(&'a Client);

impl Admission for Owner<'_> {
    type Turn = ();
    type Place = ();
    const TILE_ROWS: usize = transect_timeline::MAX_ROWS;

    fn admit_question(&mut self) -> Result<(Client, ()), Response> {
        Ok((self.0.clone(), ()))
    }

    fn give_back((): ()) {}

    fn admit_lookup(&mut self) -> Result<(), Response> {
        Ok(())
    }
}

/// One recording's timeline: the page and what it asks.
pub(crate) struct View {
    state: Arc<State>,
    queries: AtomicUsize,
    sql: Arc<Sql>,
}

impl Server {
    /// Listens, begins to make what is missing, and answers from then on.
    ///
    /// # Errors
    /// The address is not this machine's, or taken.
    pub fn start(recording: Box<dyn Recording>, options: &Options) -> Result<Self, ServeError> {
        let address = options.address;
        let server = http::Server::bind(address);
        let server = server.map_err(|source| ServeError::Listen { address, source })?;
        let guard = Guard::new(server.address())?;
        let url = guard.url();
        let engine = transect_ask::Options {
            memory_bytes: options.memory_bytes,
            threads: options.threads,
            require_sandbox: options.require_sandbox,
        };
        let sql = Arc::new(Sql::new(engine, LIMITS));
        let state = State::new(recording, options.threads, Builders::new(1), String::new());
        let view = View::open(state, sql, ());
        let app = Arc::new(App { guard, client: Client::named("view", "page"), view });
        let work = move || -> () { server.run(&app) };
        thread::Builder::new().name("view-listener".to_owned()).spawn(work)?;
        Ok(Server { url })
    }

    /// The address for the browser, token included.
    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Handler for App {
    fn answer(&self, request: &Request, caller: &Caller) -> Answer {
        if let Some(refusal) = self.guard.refuse(request) {
            return refusal.into();
        }
        match Ask::find(request) {
            Ok(Some(ask)) => self.view.answer(ask, request, &caller.stream, Owner(&self.client)),
            Ok(None) => answer_page(request).with("Set-Cookie", self.guard.set_cookie()).into(),
            Err(refusal) => refusal.into(),
        }
    }
}

impl View {
    /// Begins to make what is missing. `kept` is dropped when that has ended.
    pub(crate) fn open(state: State, sql: Arc<Sql>, kept: impl Send + 'static) -> Self {
        let state = Arc::new(state);
        state.build(false, kept);
        View { state, queries: AtomicUsize::new(0), sql }
    }

    /// Gives up its build, and ends the engine's children that have its tables open.
    pub(crate) fn close(&self) {
        self.stop();
        if let Some(opened) = self.state.opened() {
            self.sql.pool.end_recording(&opened.tables);
        }
    }

    /// Gives up its build, if that is not over.
    pub(crate) fn stop(&self) {
        self.state.stop();
    }

    #[cfg(test)]
    pub(crate) fn is_stopped(&self) -> bool {
        self.state.is_stopped()
    }

    /// Answers a request of the API that has been authorized, within the limits of its client.
    pub(crate) fn answer<A: Admission>(
        &self,
        ask: Ask,
        request: &Request,
        connection: &TcpStream,
        admission: A,
    ) -> Answer {
        let answer = match ask {
            Ask::Progress => return api::recording::progress(Arc::clone(&self.state)),
            Ask::Lookup(lookup) => self.answer_lookup(lookup, request, admission),
            Ask::Question(question) => {
                self.answer_question(question, request, connection, admission)
            }
        };
        let refused = |refusal: Response| {
            if refusal.is_of_damaged_tables() {
                self.state.distrust_tables();
            }
            refusal
        };
        answer.unwrap_or_else(refused).into()
    }

    fn answer_lookup<A: Admission>(
        &self,
        lookup: Lookup,
        request: &Request,
        mut admission: A,
    ) -> api::Answered {
        let _place = admission.admit_lookup()?;
        let (state, body) = (&self.state, &request.body);
        match lookup {
            Lookup::Recording => api::recording::answer(state),
            Lookup::Tracks => api::tiles::tracks(state),
            Lookup::Keys => api::tiles::keys(state),
            Lookup::Tiles => api::tiles::tiles(state, body, A::TILE_ROWS),
            Lookup::Search => api::search::answer(state, body),
        }
    }

    /// Runs a question, if the client is admitted and not too much is under way.
    fn answer_question<A: Admission>(
        &self,
        question: Question,
        request: &Request,
        connection: &TcpStream,
        mut admission: A,
    ) -> api::Answered {
        // First: a client that is refused must not take a place meanwhile.
        let (client, turn) = admission.admit_question()?;
        match self.run_question(question, request, connection, &client) {
            // An answer that is not taken is memory, which counts as long as it is there.
            Ok(answer) => Ok(answer.keep_until_sent(turn)),
            Err(refusal) => {
                if refusal.is_refused_for_now() {
                    A::give_back(turn);
                }
                Err(refusal)
            }
        }
    }

    fn run_question(
        &self,
        question: Question,
        request: &Request,
        connection: &TcpStream,
        client: &Client,
    ) -> api::Answered {
        let _guard = Running::new(&self.queries).ok_or_else(|| {
            let busy = Response::error(503, "too many requests at once: retry later");
            busy.with("Retry-After", "1")
        })?;
        let (state, body) = (&self.state, &request.body);
        match question {
            Question::At => api::at::answer(state, request),
            Question::Busy => api::busy::answer(state, body),
            Question::Next => api::next::answer(state, body),
            Question::Flows => api::flows::answer(state, body),
            Question::Stats => {
                api::stats::answer(state, body, &self.open_asker(client, connection)?)
            }
            Question::Sql => api::query::answer(&self.open_asker(client, connection)?, body),
            Question::Export => api::export::answer(state, body),
        }
    }

    fn open_asker<'a>(
        &'a self,
        client: &'a Client,
        connection: &'a TcpStream,
    ) -> Result<Asker<'a>, Response> {
        let tables = api::tables(&self.state)?;
        Ok(Asker { sql: &self.sql, client, connection, tables })
    }
}

impl Ask {
    /// Finds the request of a timeline's API that has this method and path. None: it is for a file of the page.
    ///
    /// # Errors
    /// The API has no such request.
    pub(crate) fn find(request: &Request) -> Result<Option<Self>, Response> {
        use Method::{Get, Post};
        let Some(name) = request.path.strip_prefix("/api/") else { return Ok(None) };
        let ask = match (request.method, name) {
            (Get, "progress") => Ask::Progress,
            (Get, "recording") => Ask::Lookup(Lookup::Recording),
            (Get, "tracks") => Ask::Lookup(Lookup::Tracks),
            (Get, "keys") => Ask::Lookup(Lookup::Keys),
            (Post, "tiles") => Ask::Lookup(Lookup::Tiles),
            (Post, "search") => Ask::Lookup(Lookup::Search),
            (Get, "at") => Ask::Question(Question::At),
            (Post, "busy") => Ask::Question(Question::Busy),
            (Post, "next") => Ask::Question(Question::Next),
            (Post, "flows") => Ask::Question(Question::Flows),
            (Post, "stats") => Ask::Question(Question::Stats),
            (Post, "sql") => Ask::Question(Question::Sql),
            (Post, "export") => Ask::Question(Question::Export),
            (method, _) => {
                return Err(Response::error(
                    404,
                    &format!("unknown request {method:?} /api/{name}"),
                ));
            }
        };
        Ok(Some(ask))
    }
}

/// Answers a request for a file of the page.
pub(crate) fn answer_page(request: &Request) -> Response {
    if request.method != Method::Get {
        return Response::error(405, "pages are read-only: use GET");
    }
    page::answer(&request.path)
}

/// Counts a question.
struct Running<'a>(&'a AtomicUsize);

impl<'a> Running<'a> {
    fn new(count: &'a AtomicUsize) -> Option<Self> {
        if count.fetch_add(1, Ordering::Relaxed) < MAX_QUERIES {
            return Some(Running(count));
        }
        count.fetch_sub(1, Ordering::Relaxed);
        None
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests report by failing")]
    use super::*;
    use crate::state::NoRecording;
    use std::net::TcpListener;

    /// Counts the turns that are given back.
    struct Counting(Arc<AtomicUsize>);

    impl Admission for Counting {
        type Turn = Arc<AtomicUsize>;
        type Place = ();
        const TILE_ROWS: usize = 0;

        fn admit_question(&mut self) -> Result<(Client, Self::Turn), Response> {
            Ok((Client::named("a", "b"), Arc::clone(&self.0)))
        }

        fn give_back(turn: Self::Turn) {
            turn.fetch_add(1, Ordering::Relaxed);
        }

        fn admit_lookup(&mut self) -> Result<(), Response> {
            Ok(())
        }
    }

    #[test]
    fn question_without_a_place_is_given_back() {
        let engine = transect_ask::Options { memory_bytes: 0, threads: 1, require_sandbox: false };
        let state = State::new(Box::new(NoRecording), 1, Builders::new(1), String::new());
        let view = View::open(state, Arc::new(Sql::new(engine, LIMITS)), ());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connection = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let request = Request::new_plain(Method::Post, "/api/sql", "{}");
        let ask = || {
            let given_back = Arc::default();
            let admission = Counting(Arc::clone(&given_back));
            let answer =
                view.answer(Ask::Question(Question::Sql), &request, &connection, admission);
            let Answer::Whole(answer) = answer else { return (0, 0) };
            (answer.status, given_back.load(Ordering::Relaxed))
        };
        let places: Vec<_> = (0..MAX_QUERIES).map(|_| Running::new(&view.queries)).collect();
        assert_eq!(ask(), (503, 1));
        drop(places);
        // The tables are missing, which is no matter of time.
        assert_eq!(ask(), (503, 0));
    }
}
