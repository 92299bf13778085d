//! The server as a whole: who may ask, and who answers what.

use crate::api;
use crate::guard::Guard;
use crate::http::{self, Answer, Handler, Method, Request, Response};
use crate::page;
use crate::sql::{Asker, Sql};
use crate::state::{Recording, State};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use transect_ask::{Client, Limits};

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
/// The page of one recording is used by its owner, who waits for an answer.
const LIMITS: Limits = Limits { rows: u64::MAX, bytes: 64 << 20, ms: 600_000 };

struct App {
    guard: Guard,
    /// Who was let in knows the one token: all of them are one client.
    client: Client,
    view: View,
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
        let view = View::open(recording, sql, options.threads);
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
    fn answer(&self, request: &Request, client: &TcpStream) -> Answer {
        if let Some(refusal) = self.guard.refuse(request) {
            return refusal.into();
        }
        match self.view.answer(request, client, || Ok((self.client.clone(), ()))) {
            Answer::Whole(page) if !request.path.starts_with("/api/") => {
                page.with("Set-Cookie", self.guard.set_cookie()).into()
            }
            answer => answer,
        }
    }
}

impl View {
    /// Begins to make what is missing.
    pub(crate) fn open(recording: Box<dyn Recording>, sql: Arc<Sql>, threads: usize) -> Self {
        let state = Arc::new(State::new(recording, threads));
        state.build(false);
        View { state, queries: AtomicUsize::new(0), sql }
    }

    /// Ends the engine's children that have its tables open.
    pub(crate) fn close(&self) {
        if let Some(opened) = self.state.opened() {
            self.sql.pool.end_recording(&opened.tables);
        }
    }

    /// Answers a request that has been authorized. `admit` is called once for a request that costs memory and time: it
    /// returns the client and a value that is kept until the answer is sent, or the refusal.
    pub(crate) fn answer<T: Send + Sync + 'static>(
        &self,
        request: &Request,
        connection: &TcpStream,
        admit: impl FnOnce() -> Result<(Client, T), Response>,
    ) -> Answer {
        let Some(api) = request.path.strip_prefix("/api/") else {
            if request.method != Method::Get {
                return Response::error(405, "pages are only read").into();
            }
            return page::answer(&request.path).into();
        };
        self.answer_api(api, request, connection, admit)
    }

    fn answer_api<T: Send + Sync + 'static>(
        &self,
        name: &str,
        request: &Request,
        connection: &TcpStream,
        admit: impl FnOnce() -> Result<(Client, T), Response>,
    ) -> Answer {
        use Method::{Get, Post};
        let (state, body) = (&self.state, &request.body);
        let answer = match (request.method, name) {
            (Get, "recording") => api::recording::answer(state),
            (Get, "progress") => return api::recording::progress(Arc::clone(state)),
            (Get, "tracks") => api::tiles::tracks(state),
            (Get, "keys") => api::tiles::keys(state),
            (Post, "tiles") => api::tiles::tiles(state, body, transect_timeline::MAX_ROWS),
            (Post, "search") => api::search::answer(state, body),
            (Get, "at") => self.answer_question(admit, |_| api::at::answer(state, request)),
            (Post, "busy") => self.answer_question(admit, |_| api::busy::answer(state, body)),
            (Post, "next") => self.answer_question(admit, |_| api::next::answer(state, body)),
            (Post, "flows") => self.answer_question(admit, |_| api::flows::answer(state, body)),
            (Post, "stats") => self.answer_question(admit, |client| {
                api::stats::answer(state, body, &self.open_asker(client, connection)?)
            }),
            (Post, "sql") => self.answer_question(admit, |client| {
                api::query::answer(&self.open_asker(client, connection)?, body)
            }),
            (Post, "export") => self.answer_question(admit, |_| api::export::answer(state, body)),
            _ => {
                Err(Response::error(404, &format!("there is no {:?} /api/{name}", request.method)))
            }
        };
        answer.unwrap_or_else(|refusal| refusal).into()
    }

    fn open_asker<'a>(
        &'a self,
        client: &'a Client,
        connection: &'a TcpStream,
    ) -> Result<Asker<'a>, Response> {
        let tables = api::tables(&self.state)?;
        Ok(Asker { sql: &self.sql, client, connection, tables })
    }

    /// Runs what takes memory and time, if the client is admitted and not too much of it is under way.
    fn answer_question<T: Send + Sync + 'static>(
        &self,
        admit: impl FnOnce() -> Result<(Client, T), Response>,
        work: impl FnOnce(&Client) -> api::Answered,
    ) -> api::Answered {
        // First: a client that is refused must not take a place meanwhile.
        let (client, turn) = admit()?;
        let _guard = Running::new(&self.queries).ok_or_else(|| {
            let busy = Response::error(503, "too many questions at once: ask again");
            busy.with("Retry-After", "1")
        })?;
        // An answer that is not taken is memory, which counts as long as it is there.
        Ok(work(&client)?.keep_until_sent(turn))
    }
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
