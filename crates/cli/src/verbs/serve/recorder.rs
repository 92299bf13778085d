//! The flight recorder of the daemon: that of `transect-recorder`, as `transect-serve` knows it.

use crate::errors::one_line;
use std::path::Path;
use std::time::Duration;
use transect_recorder::{FlightService, Taken};
use transect_serve::service::{Config, Recorded, Recorder};

struct Flight(FlightService);

/// The flight recorder, or why there is none.
pub(super) fn start(config: &Config) -> Result<Box<dyn Recorder>, String> {
    if !config.recorder {
        return Err("the flight recorder is disabled (flight_recorder.enabled = false)".to_owned());
    }
    let command_line = vec!["transect".to_owned(), "serve".to_owned()];
    let (profile, bytes) = (&config.recorder_profile, config.recorder_buffer_bytes);
    let service = FlightService::start(profile, bytes, command_line);
    service
        .map(|service| Box::new(Flight(service)) as Box<dyn Recorder>)
        .map_err(|error| one_line(&error))
}

impl Recorder for Flight {
    fn reaches_back(&mut self) -> Duration {
        self.0.reaches_back()
    }

    fn snapshot(&mut self, dir: &Path, last: Duration, why: &str) -> Result<Recorded, String> {
        let taken = self.0.snapshot(dir, last, why).map_err(|error| one_line(&error))?;
        let Taken { events, lost, window_unix_ns } = taken;
        Ok(Recorded { events, lost, window_unix_ns })
    }
}
