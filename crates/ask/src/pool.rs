//! The children of several clients.
//!
//! One a client and recording, so that nobody sees what another asked for, changed or broke. An idle one is kept for
//! the next question of the same client, for a while, and gives way where there are as many as there may be.

use crate::answer::Answer;
use crate::engine::{Engine, Options, Patience};
use crate::error::AskError;
use crate::place;
use crate::protocol::Query;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// Children at once.
pub const MAX_CHILDREN: usize = 4;
/// How long an idle one is kept.
const IDLE: Duration = Duration::from_secs(60);
/// How often idle ones are looked at.
const LOOK: Duration = Duration::from_secs(5);
/// How often who waits for another question of the same client looks whether it is still wanted.
const TURN: Duration = Duration::from_millis(100);

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Client(String);

impl Client {
    /// Whoever has this connection.
    pub fn connection(peer: SocketAddr) -> Self {
        Client(format!("connection {peer}"))
    }

    /// Whoever knows this name.
    pub fn named(name: &str) -> Self {
        Client(format!("name {name}"))
    }
}

/// Where the engine is.
type Find = dyn Fn() -> Result<PathBuf, AskError> + Send + Sync;

/// The children of all clients.
#[derive(Clone)]
pub struct Pool(Arc<Inner>);

struct Inner {
    find: Box<Find>,
    options: Options,
    children: Mutex<Vec<Slot>>,
    given_back: Condvar,
}

/// A child, or one that is being started.
struct Slot {
    client: Client,
    tables: PathBuf,
    number: u64,
    /// None while it is at work.
    engine: Option<Engine>,
    used: Instant,
}

impl Slot {
    fn is_of(&self, client: &Client, tables: &Path) -> bool {
        self.client == *client && self.tables == tables
    }
}

impl Pool {
    /// Children of the engine beside this program.
    pub fn new(options: Options) -> Self {
        Self::of(place::program, options)
    }

    /// Children of the engine that `find` finds.
    pub fn of(
        find: impl Fn() -> Result<PathBuf, AskError> + Send + Sync + 'static,
        options: Options,
    ) -> Self {
        let inner = Arc::new(Inner {
            find: Box::new(find),
            options,
            children: Mutex::default(),
            given_back: Condvar::new(),
        });
        let of_pool = Arc::downgrade(&inner);
        // Without it idle children stay until they have to give way.
        let _ =
            thread::Builder::new().name("sql-children".to_owned()).spawn(move || look(&of_pool));
        Pool(inner)
    }

    /// Asks a child of this client that has these tables open; one that is there, or a new one.
    ///
    /// # Errors
    /// See [`AskError`]. Whatever happened to the child, the next question is answered by another.
    pub fn ask(
        &self,
        client: &Client,
        tables: &Path,
        query: &Query,
        patience: &Patience<'_>,
    ) -> Result<Answer, AskError> {
        let mut turn = self.turn(client, tables, patience)?;
        let engine = match turn.engine.take() {
            Some(engine) => engine,
            None => Engine::start(&(self.0.find)()?, tables, &self.0.options)?,
        };
        turn.engine.insert(engine).ask(query, patience)
    }

    /// Ends what is left of a client.
    pub fn forget(&self, client: &Client) {
        self.0.end(|slot| slot.client == *client);
    }

    /// Ends what has these tables open: they go away.
    pub fn close(&self, tables: &Path) {
        self.0.end(|slot| slot.tables == tables);
    }

    /// Why nothing can be asked; none if there is an engine.
    pub fn missing(&self) -> Option<AskError> {
        (self.0.find)().err()
    }

    /// How many there are, at work and idle.
    pub fn children(&self) -> usize {
        self.0.lock().len()
    }

    fn turn(
        &self,
        client: &Client,
        tables: &Path,
        patience: &Patience<'_>,
    ) -> Result<Turn<'_>, AskError> {
        let mut children = self.0.lock();
        while let Some(own) = children.iter_mut().find(|slot| slot.is_of(client, tables)) {
            if let Some(engine) = own.engine.take() {
                return Ok(Turn { pool: &self.0, number: own.number, engine: Some(engine) });
            }
            // It answers one question after the other.
            let waited = self.0.given_back.wait_timeout(children, TURN);
            (children, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if !(patience.wanted)() {
                return Err(AskError::Stopped);
            }
        }
        let mut displaced = None;
        if children.len() >= MAX_CHILDREN {
            let idle = children.iter().enumerate().filter(|(_, slot)| slot.engine.is_some());
            let oldest = idle.min_by_key(|(_, slot)| slot.used).map(|(place, _)| place);
            displaced = Some(children.remove(oldest.ok_or(AskError::Busy)?));
        }
        let number = children.iter().map(|slot| slot.number + 1).max().unwrap_or(0);
        let (client, tables) = (client.clone(), tables.to_owned());
        children.push(Slot { client, tables, number, engine: None, used: Instant::now() });
        drop(children);
        drop(displaced);
        Ok(Turn { pool: &self.0, number, engine: None })
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends idle ones; those at work end when nobody wants their answer.
    fn end(&self, which: impl Fn(&Slot) -> bool) {
        let mut children = self.lock();
        let ended: Vec<Slot> =
            children.extract_if(.., |slot| slot.engine.is_some() && which(slot)).collect();
        drop(children);
        drop(ended);
    }
}

/// A client's turn with its child, which goes back when it is over, if it can be asked again.
struct Turn<'p> {
    pool: &'p Inner,
    number: u64,
    engine: Option<Engine>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let engine = self.engine.take();
        let (usable, lost) = match engine {
            Some(engine) if engine.is_usable() => (Some(engine), None),
            other => (None, other),
        };
        let mut children = self.pool.lock();
        if let Some(place) = children.iter().position(|slot| slot.number == self.number) {
            match (usable, children.get_mut(place)) {
                (Some(engine), Some(slot)) => {
                    slot.engine = Some(engine);
                    slot.used = Instant::now();
                }
                _ => drop(children.remove(place)),
            }
        }
        drop(children);
        drop(lost);
        self.pool.given_back.notify_all();
    }
}

/// Ends children that were idle for long, until the pool is gone.
fn look(pool: &Weak<Inner>) {
    loop {
        thread::sleep(LOOK);
        let Some(pool) = pool.upgrade() else { return };
        pool.end(|slot| slot.used.elapsed() > IDLE);
    }
}
