//! Another configuration for a daemon that runs: all of what is valid at once, or nothing.

use super::auth::Wishes;
use super::config::Config;
use super::settings::{Settings, unix_now_ns};
use super::shared::Service;
use super::triggers::Watch;
use std::sync::{Arc, PoisonError};
use transect_http::tls;

impl Service {
    /// Takes over what can be; who is connected stays so.
    ///
    /// # Errors
    /// One line. Nothing has changed then.
    pub(crate) fn reload(&self, config: &Config) -> Result<Vec<String>, String> {
        let mut settings = self.settings();
        let taken = self.take_over(&mut settings, config);
        match &taken {
            Ok(needs_restart) => {
                settings.error = None;
                settings.loaded_unix_ns = unix_now_ns();
                settings.needs_restart.clone_from(needs_restart);
            }
            Err(why) => settings.failed(why),
        }
        taken
    }

    fn take_over(&self, settings: &mut Settings, config: &Config) -> Result<Vec<String>, String> {
        config.check()?;
        // Everything that can fail comes first.
        let auth =
            self.auth().again(&Wishes::new(config, settings.address, settings.tls.is_some()))?;
        let files = (&config.tls_certificate, &config.tls_key);
        let tls = match (&settings.tls, files) {
            (Some(tls), (Some(certificate), Some(key))) => {
                Some((tls.clone(), tls::config(certificate, key)?))
            }
            _ => None,
        };
        let needs_restart = settings.now.needs_restart_for(config);
        *self.auth.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(auth);
        if let Some((tls, read)) = tls {
            tls.replace(read);
        }
        self.snapshots.limit(config.snapshots_keep, config.snapshots_limit_bytes);
        self.fairness.set_limit(config.questions_per_minute);
        self.views.limit_children(config.children_per_client);
        let mut watches = self.watches();
        let mut known = std::mem::take(&mut *watches);
        // One that is the same goes on: it does not fire again for what it fired for.
        watches.extend(config.triggers.iter().map(|trigger| {
            let same = known.iter().position(|watch| watch.trigger == *trigger);
            same.map_or_else(|| Watch::new(trigger.clone()), |place| known.swap_remove(place))
        }));
        drop(watches);
        settings.now.take_from(config);
        Ok(needs_restart)
    }
}
