//! Children of several clients: one per client and recording, at most [`MAX_CHILDREN`].
//!
//! Clients share no child, so they share neither definitions nor failures. An idle child is kept for [`IDLE`] for the next
//! query of its client. Each client belongs to an owner, a user for example. An owner that has its limit of children
//! replaces its own longest idle one; an owner below its limit replaces, when all places are taken, the longest idle
//! child of the owner that has most children. An owner thus cannot end all children of the others by using
//! many clients.

use crate::answer::Answer;
use crate::engine::{Engine, Options, Patience};
use crate::error::AskError;
use crate::place;
use crate::protocol::{Limits, Query};
use std::cmp::Reverse;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// Limit of child processes.
pub const MAX_CHILDREN: usize = 4;
/// Time after which an idle child is ended.
const IDLE: Duration = Duration::from_secs(60);
/// Interval of the search for idle children.
const LOOK: Duration = Duration::from_secs(5);
/// Interval at which a query that waits for its client's child checks for cancellation.
const TURN: Duration = Duration::from_millis(100);

/// Identity of a client. The owner is part of it: clients of two owners are different whatever they are called.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Client {
    owner: String,
    name: String,
}

impl Client {
    /// Identity by connection.
    pub fn connection(owner: &str, peer: SocketAddr) -> Self {
        Client { owner: owner.to_owned(), name: format!("connection {peer}") }
    }

    /// Identity by a secret or fixed name.
    pub fn named(owner: &str, name: &str) -> Self {
        Client { owner: owner.to_owned(), name: format!("name {name}") }
    }
}

/// Locates the engine.
type Find = dyn Fn() -> Result<PathBuf, AskError> + Send + Sync;

/// Child processes of all clients.
#[derive(Clone)]
pub struct Pool(Arc<Inner>);

struct Inner {
    find: Box<Find>,
    options: Options,
    /// Limit of children per owner.
    per_owner: AtomicUsize,
    children: Mutex<Vec<Slot>>,
    given_back: Condvar,
}

/// Entry of one child, which may still be starting.
struct Slot {
    client: Client,
    tables: PathBuf,
    number: u64,
    /// None while a query uses it.
    engine: Option<Engine>,
    used: Instant,
}

impl Slot {
    fn is_of(&self, client: &Client, tables: &Path) -> bool {
        self.client == *client && self.tables == tables
    }
}

impl Pool {
    /// Uses the engine in this program's folder.
    pub fn new(options: Options) -> Self {
        Self::of(place::program, options)
    }

    /// Uses the engine that `find` returns; called for each new child.
    pub fn of(
        find: impl Fn() -> Result<PathBuf, AskError> + Send + Sync + 'static,
        options: Options,
    ) -> Self {
        let inner = Arc::new(Inner {
            find: Box::new(find),
            options,
            per_owner: AtomicUsize::new(MAX_CHILDREN),
            children: Mutex::default(),
            given_back: Condvar::new(),
        });
        let of_pool = Arc::downgrade(&inner);
        // Without the thread idle children stay until the limit is reached.
        let _ = thread::Builder::new()
            .name("sql-children".to_owned())
            .spawn(move || end_stale(&of_pool));
        Pool(inner)
    }

    /// Limits the children of each owner, which is [`MAX_CHILDREN`] at first. An owner that has more keeps them until they
    /// are idle and displaced, or idle for [`IDLE`].
    pub fn limit_owners(&self, children: usize) {
        self.0.per_owner.store(children.max(1), Ordering::Relaxed);
    }

    /// Runs a query in the client's child for these tables, which is started if needed.
    ///
    /// # Errors
    /// See [`AskError`]. A child that cannot go on is replaced at the next query.
    pub fn ask(
        &self,
        client: &Client,
        tables: &Path,
        query: &Query,
        patience: &Patience<'_>,
    ) -> Result<Answer, AskError> {
        let time = Duration::from_millis(query.limits.ms);
        let until = Instant::now().checked_add(time);
        let turn = self.turn(client, tables, until, patience);
        let mut turn = turn.map_err(|error| match error {
            AskError::TooLong(_) => AskError::TooLong(time),
            other => other,
        })?;
        let engine = match turn.engine.take() {
            Some(engine) => engine,
            None => Engine::start(&(self.0.find)()?, tables, &self.0.options)?,
        };
        // The time for which the query waited for its client's child is part of its time.
        let left = until.map_or(time, |until| until.saturating_duration_since(Instant::now()));
        let ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        let query = Query { limits: Limits { ms, ..query.limits }, ..query.clone() };
        match turn.engine.insert(engine).ask(&query, patience) {
            Err(AskError::TooLong(_)) => Err(AskError::TooLong(time)),
            answer => answer,
        }
    }

    /// Ends the idle children of a client.
    pub fn end_client(&self, client: &Client) {
        self.0.end_idle(|slot| slot.client == *client);
    }

    /// Ends the idle children that have these tables open.
    pub fn end_recording(&self, tables: &Path) {
        self.0.end_idle(|slot| slot.tables == tables);
    }

    /// The error if the engine is missing.
    pub fn missing(&self) -> Option<AskError> {
        (self.0.find)().err()
    }

    /// Number of children, busy and idle.
    pub fn children(&self) -> usize {
        self.0.lock().len()
    }

    /// Number of an owner's children, busy and idle.
    pub fn children_of_owner(&self, owner: &str) -> usize {
        count_owned(&self.0.lock(), owner)
    }

    fn turn(
        &self,
        client: &Client,
        tables: &Path,
        until: Option<Instant>,
        patience: &Patience<'_>,
    ) -> Result<Turn<'_>, AskError> {
        let mut children = self.0.lock();
        while let Some(own) = children.iter_mut().find(|slot| slot.is_of(client, tables)) {
            if let Some(engine) = own.engine.take() {
                return Ok(Turn { pool: &self.0, number: own.number, engine: Some(engine) });
            }
            // A child runs one query at a time.
            let waited = self.0.given_back.wait_timeout(children, TURN);
            (children, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if !(patience.wanted)() {
                return Err(AskError::Stopped);
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return Err(AskError::TooLong(Duration::ZERO));
            }
        }
        let displaced = make_room(&mut children, client, self.0.per_owner.load(Ordering::Relaxed))?;
        let number = children.iter().map(|slot| slot.number + 1).max().unwrap_or(0);
        let (client, tables) = (client.clone(), tables.to_owned());
        children.push(Slot { client, tables, number, engine: None, used: Instant::now() });
        drop(children);
        drop(displaced);
        Ok(Turn { pool: &self.0, number, engine: None })
    }
}

fn count_owned(children: &[Slot], owner: &str) -> usize {
    children.iter().filter(|slot| slot.client.owner == owner).count()
}

/// Removes the idle child that gives way to a new one of this client, if one has to.
fn make_room(
    children: &mut Vec<Slot>,
    client: &Client,
    per_owner: usize,
) -> Result<Option<Slot>, AskError> {
    let idle = children.iter().enumerate().filter(|(_, slot)| slot.engine.is_some());
    let (place, otherwise) = if count_owned(children, &client.owner) >= per_owner {
        let own = idle.filter(|(_, slot)| slot.client.owner == client.owner);
        (own.min_by_key(|(_, slot)| slot.used), AskError::TooMany(per_owner))
    } else if children.len() >= MAX_CHILDREN {
        let most = |slot: &Slot| Reverse(count_owned(children, &slot.client.owner));
        (idle.min_by_key(|(_, slot)| (most(slot), slot.used)), AskError::Busy)
    } else {
        return Ok(None);
    };
    let (place, _) = place.ok_or(otherwise)?;
    Ok(Some(children.remove(place)))
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends matching idle children; busy ones end by their query's cancellation.
    fn end_idle(&self, which: impl Fn(&Slot) -> bool) {
        let mut children = self.lock();
        let ended: Vec<Slot> =
            children.extract_if(.., |slot| slot.engine.is_some() && which(slot)).collect();
        drop(children);
        drop(ended);
    }
}

/// Exclusive use of a child for one query; on drop a usable child returns to the pool.
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

/// Ends children idle for longer than [`IDLE`], until the pool is dropped.
fn end_stale(pool: &Weak<Inner>) {
    loop {
        thread::sleep(LOOK);
        let Some(pool) = pool.upgrade() else { return };
        pool.end_idle(|slot| slot.used.elapsed() > IDLE);
    }
}
