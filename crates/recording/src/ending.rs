//! How a recording ended, as its manifest tells it.

use transect_store::Manifest;
use transect_store::manifest::Gap;
use transect_tracefs::ProcessKey;

/// How a recording ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ending {
    /// The recorder's word for it: `duration elapsed`, `disk_full`; none if it did not write one.
    pub ended_by: Option<String>,
    /// Does its recorder still run?
    pub is_running: bool,
    /// Process of the recorder, where known.
    pub recorder_pid: Option<i32>,
    /// Events that were counted and not kept, by CPU, as text; none if all were kept.
    pub not_kept: Option<String>,
    /// Their number, as far as they were counted.
    pub not_kept_events: u64,
    /// Guests that were lost and did not come back, each with the cause.
    pub lost_guests: Vec<String>,
}

impl Ending {
    /// Was it ended by a failure of the recorder?
    pub fn is_early(&self) -> bool {
        let is_failure = |reason: &String| reason == "disk_full" || reason.starts_with("failure");
        self.not_kept.is_some() || self.ended_by.as_ref().is_some_and(is_failure)
    }

    /// The ending as a sentence.
    pub fn describe(&self, finished: bool) -> String {
        let mut text = self.describe_host(finished);
        for guest in &self.lost_guests {
            text +=
                &format!("; the guest {guest} was lost before the end and is unknown from then on");
        }
        text
    }

    fn describe_host(&self, finished: bool) -> String {
        let reason = self.ended_by.as_deref();
        let reason = match reason {
            Some("disk_full") => Some("the file system was full"),
            other => other,
        };
        let not_kept = match &self.not_kept {
            Some(text) => format!("; not kept, and unknown from the last event kept on: {text}"),
            None => String::new(),
        };
        let pid = self.recorder_pid.map_or_else(String::new, |pid| format!(" (pid {pid})"));
        match reason {
            _ if !finished && self.is_running => {
                format!(
                    "not yet: its recorder{pid} still runs; only data that reached the disk is shown"
                )
            }
            _ if !finished => format!(
                "abnormally: its recorder{pid} was killed, or the machine went down; events that had not been \
                 written are missing, and each CPU is unknown from its last event on"
            ),
            Some(reason) if self.is_early() => format!("early: {reason}{not_kept}"),
            Some(reason) => format!("normally: {reason}"),
            None => format!("normally{not_kept}"),
        }
    }
}

/// Names of the guests that did not come back, with the causes.
fn lost_guests(manifest: &Manifest) -> Vec<String> {
    let is_lost = |gap: &&Gap| gap.to.is_none() && gap.cause.starts_with("guest_");
    let lost = manifest.gaps.iter().filter(is_lost).filter_map(|gap| {
        let machine = manifest.machines.iter().find(|machine| machine.id == gap.machine_id)?;
        Some(format!("{} ({})", machine.name, gap.cause))
    });
    lost.collect()
}

/// How the recording ended.
pub fn ending(manifest: &Manifest) -> Ending {
    let recorder = manifest.recorder_pid.zip(manifest.recorder_start_ticks);
    let is_running = !manifest.finished
        && recorder.is_some_and(|(pid, start_ticks)| ProcessKey { pid, start_ticks }.is_alive());
    let counts = manifest.not_kept.iter().filter_map(|entry| entry.count);
    Ending {
        ended_by: manifest.ended_by.clone(),
        is_running,
        recorder_pid: manifest.recorder_pid,
        not_kept: manifest.not_kept_text(),
        not_kept_events: counts.fold(0, u64::saturating_add),
        lost_guests: lost_guests(manifest),
    }
}
