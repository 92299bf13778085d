//! What all connections share.

use super::auth::{Access, Auth, Scope};
use super::brake::Brake;
use super::fairness::Fairness;
use super::hub::Hub;
use super::metrics::Counters;
use super::settings::Settings;
use super::snapshots::Snapshots;
use super::storm::Storm;
use super::triggers::Watch;
use super::views::Views;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use transect_history::Index;
use transect_http::{Counts, Peer, Quota, Response, Spool};

/// What all connections share.
pub(crate) struct Service {
    pub(super) hub: Arc<Hub>,
    pub(super) index: Option<Arc<Index>>,
    pub(super) auth: RwLock<Arc<Auth>>,
    pub(super) snapshots: Arc<Snapshots>,
    pub(super) watches: Mutex<Vec<Watch>>,
    pub(super) counters: Mutex<Counters>,
    pub(super) views: Views,
    pub(super) fairness: Fairness,
    pub(super) brake: Brake,
    /// Answers of the history that are being made.
    pub(super) readers: Quota,
    /// Those whose clients have to be waited for.
    pub(super) paused: Quota,
    /// Bytes of unsent answers in files.
    pub(super) spool: Quota,
    pub(super) spool_dir: Arc<Path>,
    /// Lookups of timelines that are being answered.
    pub(super) lookups: Quota,
    /// Memory of timelines' answers that are not sent yet.
    pub(super) unsent_bytes: Quota,
    pub(super) counts: Arc<Counts>,
    pub(super) storm: Storm,
    /// Answers by class: 2xx, 3xx, 4xx, 5xx.
    pub(super) answers: [AtomicU64; 4],
    /// Questions that were answered with 429: a limit of one client was reached.
    pub(super) refused_questions: AtomicU64,
    pub(super) host_name: String,
    /// What is configured, and whether all of it holds.
    pub(super) settings: Mutex<Settings>,
}

impl Service {
    pub(super) fn auth(&self) -> Arc<Auth> {
        Arc::clone(&self.auth.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Room for unsent answers of a client.
    pub(super) fn spool(&self, peer: Peer) -> Spool {
        Spool { dir: Arc::clone(&self.spool_dir), room: self.spool.clone(), peer }
    }

    pub(super) fn watches(&self) -> MutexGuard<'_, Vec<Watch>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn counters(&self) -> MutexGuard<'_, Counters> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer to a request without the rights for it: 401 if it has shown no token, 403 if its token lacks the scope.
    pub(super) fn refuse_scope(&self, needed: Scope, access: Access) -> Response {
        let scope = needed.words().last().copied().unwrap_or_default();
        let what = format!("this request needs a token with the scope {scope}");
        let hint = "send Authorization: Bearer TOKEN, or log in; if no token is configured, use the one in \
                    control.token in the data directory";
        let refusal = Response::refusal(401, &what, hint);
        if access.has_token {
            return refusal.status(403);
        }
        refusal.with("WWW-Authenticate", "Bearer")
    }
}
