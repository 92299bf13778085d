//! What to record, and into which directory.

use super::{flight::FlightPlan, narrow::Narrow, trigger::Trigger, units, xen::XenSettings};
use std::path::PathBuf;
use transect_access::Group;
use transect_guest::transport::GuestSpec;
use transect_tracefs::{Condition, EventRequest, Profile, cpus};

/// Buffer per CPU while events are drained all the time: seconds of a busy CPU.
const DEFAULT_KB_PER_CPU: u64 = 8 << 10;
/// A flight recorder's buffers are all it has.
const FLIGHT_KB_PER_CPU: u64 = 32 << 10;

/// What to record, and into which directory.
#[derive(Clone, Debug)]
pub struct Recorder {
    pub(super) output: PathBuf,
    pub(super) profile: Option<Profile>,
    pub(super) events: Vec<EventRequest>,
    pub(super) conditions: Vec<Condition>,
    pub(super) narrow: Narrow,
    pub(super) full: bool,
    pub(super) clock: Option<String>,
    pub(super) guests: Vec<GuestSpec>,
    pub(super) group: Option<Group>,
    pub(super) buffer_kb: Option<u64>,
    pub(super) kallsyms: bool,
    pub(super) stacks: bool,
    pub(super) flight: Option<FlightPlan>,
    pub(super) xen: XenSettings,
    pub(super) command_line: Vec<String>,
}

impl Recorder {
    /// Records the profile `vm` of this host into a new directory, or, as a flight recorder, into new directories beside
    /// it ([`numbered`](crate::numbered)).
    pub fn new(output: impl Into<PathBuf>) -> Self {
        let output = output.into();
        let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
        Recorder {
            // The program may change its directory.
            output: std::path::absolute(&output).unwrap_or(output),
            profile: None,
            events: Vec::new(),
            conditions: Vec::new(),
            narrow: Narrow::default(),
            full: false,
            clock: None,
            guests: Vec::new(),
            group: None,
            buffer_kb: None,
            kallsyms: false,
            stacks: false,
            flight: None,
            xen: XenSettings::default(),
            command_line: words.collect(),
        }
    }

    /// A set of events. Without it, and with [`Recorder::events`], these events alone are recorded.
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = Some(profile);
        self
    }

    /// Events by name.
    #[must_use]
    pub fn events(mut self, events: impl IntoIterator<Item = EventRequest>) -> Self {
        self.events.extend(events);
        self
    }

    /// Conditions of the kernel's filter syntax for events (full collector).
    #[must_use]
    pub fn conditions(mut self, conditions: impl IntoIterator<Item = Condition>) -> Self {
        self.conditions.extend(conditions);
        self
    }

    /// Whose events are recorded, and how long they take at least (compact collector).
    #[must_use]
    pub fn narrow(mut self, narrow: Narrow) -> Self {
        self.narrow = narrow;
        self
    }

    /// Uses the full collector, also for events that the compact one can record.
    #[must_use]
    pub fn full(mut self) -> Self {
        self.full = true;
        self
    }

    /// The trace clock.
    #[must_use]
    pub fn clock(mut self, clock: impl Into<String>) -> Self {
        self.clock = Some(clock.into());
        self
    }

    /// Guests whose agents are to record their kernels.
    #[must_use]
    pub fn guests(mut self, guests: impl IntoIterator<Item = GuestSpec>) -> Self {
        self.guests.extend(guests);
        self
    }

    /// A group that can read the recording, too.
    #[must_use]
    pub fn group(mut self, group: Group) -> Self {
        self.group = Some(group);
        self
    }

    /// Buffer per CPU, of the host and of the guests, KiB.
    #[must_use]
    pub fn buffer_kb(mut self, kb: u64) -> Self {
        self.buffer_kb = Some(kb);
        self
    }

    /// Also stores the kernel's symbol table (full collector).
    #[must_use]
    pub fn kallsyms(mut self) -> Self {
        self.kallsyms = true;
        self
    }

    /// Also takes the stacks of the events with which stages of requests and packets begin (compact collector), of the
    /// host and of its guests.
    #[must_use]
    pub fn stacks(mut self) -> Self {
        self.stacks = true;
        self
    }

    /// Keeps events in memory and writes them when a snapshot is taken.
    #[must_use]
    pub fn flight_recorder(mut self, plan: FlightPlan) -> Self {
        self.flight = Some(plan);
        self
    }

    /// What to record of Xen, in a dom0.
    #[must_use]
    pub fn xen(mut self, settings: XenSettings) -> Self {
        self.xen = settings;
        self
    }

    /// The command line for the manifest, instead of that of this process.
    #[must_use]
    pub fn command_line(mut self, words: Vec<String>) -> Self {
        self.command_line = words;
        self
    }

    /// A profile unless only named events are wanted, then the named ones, then the trigger's.
    pub(super) fn requests(&self) -> Vec<EventRequest> {
        let only_named = self.profile.is_none() && !self.events.is_empty();
        let profile = (!only_named).then(|| self.profile.unwrap_or(Profile::Vm));
        let mut requests: Vec<_> =
            profile.into_iter().flat_map(EventRequest::from_profile).collect();
        requests.extend(self.events.iter().cloned());
        requests.extend(self.trigger().map(Trigger::request));
        requests
    }

    pub(super) fn trigger(&self) -> Option<&Trigger> {
        self.flight.as_ref()?.trigger.as_ref()
    }

    /// KiB per CPU; the default shrinks where all CPUs together would take a quarter of memory.
    ///
    /// # Errors
    /// The wanted buffers are larger than memory.
    pub(super) fn buffer_kb_or_default(&self) -> anyhow::Result<u64> {
        if let Some(kb) = self.buffer_kb {
            units::check_memory(kb, u64::try_from(cpus::possible()?.len())?, memory_kb())?;
            return Ok(kb);
        }
        let wanted = if self.flight.is_some() { FLIGHT_KB_PER_CPU } else { DEFAULT_KB_PER_CPU };
        let cpus = u64::try_from(cpus::possible()?.len())?.max(1);
        Ok(wanted.min(memory_kb() / 4 / cpus).max(64))
    }
}

/// Memory of this machine, KiB.
fn memory_kb() -> u64 {
    let memory = rustix::system::sysinfo();
    memory.totalram * u64::from(memory.mem_unit) / 1024
}
