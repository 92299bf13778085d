//! The thread that takes windows.

use super::notify;
use super::shared::Service;
use super::snapshots::Wish;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;
use transect_history::Queue;
use transect_http as http;
use transect_live::Source;

/// A window that is read too late is lost, an answer is only late.
const WINDOWS_FIRST: i32 = -5;

/// What the thread works with.
pub(super) struct Windows {
    pub(super) source: Box<dyn Source>,
    pub(super) service: Arc<Service>,
    pub(super) queue: Option<Queue>,
    pub(super) stop: Arc<AtomicBool>,
    pub(super) tell: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Windows {
    pub(super) fn run(mut self) {
        http::give_way(WINDOWS_FIRST);
        let mut is_ready = false;
        while self.wait_for_edge() {
            let window = match self.source.take() {
                Ok(window) => window,
                Err(error) => {
                    (self.tell)(&format!("no more windows: {error}"));
                    self.service.hub.end(error.to_string());
                    return;
                }
            };
            self.service.counters().add(&window);
            self.look_for_triggers(&window);
            let kept = self.service.hub.publish(window);
            if let Some(queue) = &self.queue {
                queue.push(&kept);
            }
            // Windows wait for nobody: what it has no room for now is said after the next one.
            let told =
                notify::tell(if is_ready { "WATCHDOG=1" } else { "READY=1" }, Duration::ZERO);
            is_ready |= told;
        }
    }

    /// False: it is to end.
    fn wait_for_edge(&self) -> bool {
        loop {
            if self.stop.load(Relaxed) {
                return false;
            }
            let Some(edge_ns) = self.source.next_edge_ns() else { return true };
            let left = edge_ns.saturating_sub(transect_live::monotonic_ns());
            if left == 0 {
                return true;
            }
            // Whoever ends the daemon wakes it.
            thread::park_timeout(Duration::from_nanos(left));
        }
    }

    fn look_for_triggers(&self, window: &transect_live::Snapshot) {
        let mut watches = self.service.watches();
        let is_asked = watches.iter().any(|watch| watch.trigger.when.is_finding());
        let findings = if is_asked { window.findings() } else { Vec::new() };
        for watch in watches.iter_mut() {
            let Some(reason) = watch.look(window, &findings) else { continue };
            let trigger = Some(watch.trigger.name.clone());
            let wish = Wish { seconds: watch.trigger.seconds, reason, trigger };
            // Nobody waits here for the snapshot.
            if let Err(why) = self.service.snapshots.ask(wish) {
                (self.tell)(&format!("trigger {}: no snapshot: {why:?}", watch.trigger.name));
            }
        }
    }
}
