//! From what is wanted to what is ready to record.

use super::{
    choose::{self, Choice, choose},
    compact::CompactKernel,
    continuous,
    driver::Driver,
    flight::{self, FlightPlan},
    full::{FullKernel, FullPlan},
    guests::{GuestPlan, guest_events, guest_plan},
    host::Host,
    kernel::HostKernel,
    numbers::Outcome,
    observer::Observer,
    recorder::Recorder,
    xen::{self, NoKernel, XenPlan},
};
use anyhow::bail;
use std::path::PathBuf;
use transect_bpf::Filters;
use transect_model::ids::Tid;
use transect_store::manifest::FilterEntry;
use transect_tracefs::{Namespaces, Selection, Tracefs, choose_clock};

/// Guests are smaller than their hosts, and their memory is not ours to measure.
const GUEST_KB_PER_CPU: u64 = 4 << 10;

impl Recorder {
    /// Checks what needs no look at the kernel: the directory, and that a flight recorder has no guests.
    ///
    /// # Errors
    /// The directory exists, or the settings contradict each other.
    pub fn check(&self) -> anyhow::Result<()> {
        match &self.flight {
            None => Ok(transect_store::check_free(&self.output)?),
            Some(_) if self.guests.is_empty() => Ok(()),
            Some(_) => bail!(
                "a flight recorder cannot record guests; remove --guest, or --flight-recorder and --trigger"
            ),
        }
    }

    /// Chooses what records; nothing is set up yet.
    ///
    /// # Errors
    /// What is wanted is contradictory, or is not possible on this machine.
    pub fn plan(self) -> anyhow::Result<Planned> {
        self.check()?;
        self.buffer_kb_or_default()?;
        let choice = choose(&self)?;
        let mut warnings = Vec::new();
        let xen = xen::plan(&self.xen, self.flight.is_some(), &mut warnings)?;
        Ok(Planned { wanted: self, choice, xen, warnings })
    }

    /// What the manifest says about the filter; the full collector's conditions are with its events, too.
    fn filter_entry(&self, choice: &Choice) -> anyhow::Result<Option<FilterEntry>> {
        if let Choice::Compact(plan) = choice {
            if self.narrow.is_empty() {
                return Ok(None);
            }
            let tids = |ids: &[u32]| ids.iter().map(|id| Tid(id.cast_signed())).collect();
            let Filters { tids: threads, tgids, cgroup, min_exit_ns, .. } = &plan.filters;
            return Ok(Some(FilterEntry {
                text: self.narrow.describe(),
                tids: tids(threads),
                pids: tids(tgids),
                cgroup: cgroup.as_deref().map(transect_bpf::cgroup_path).transpose()?,
                moved: Vec::new(),
                uncertain: false,
                min_ns: *min_exit_ns,
            }));
        }
        let conditions = self.conditions.iter().map(|condition| {
            let event = condition.event.as_ref();
            let event =
                event.map_or_else(String::new, |(system, event)| format!("{system}:{event} if "));
            format!("{event}{}", condition.expression)
        });
        let of_events = self.events.iter().filter_map(|event| {
            let filter = event.filter.as_ref()?;
            Some(format!("{}:{} if {filter}", event.system, event.event))
        });
        let text = conditions.chain(of_events).collect::<Vec<_>>().join(", ");
        Ok((!text.is_empty()).then(|| FilterEntry { text, ..FilterEntry::default() }))
    }

    fn kernel(&self, choice: Choice) -> anyhow::Result<Box<dyn HostKernel>> {
        Ok(match choice {
            _ if self.xen.is_only() => Box::new(NoKernel::new()),
            Choice::Compact(mut plan) => {
                if self.buffer_kb.is_none() {
                    plan.log_bytes_per_cpu = choose::log_bytes(self.buffer_kb_or_default()?)?;
                }
                Box::new(CompactKernel::prepare(*plan)?)
            }
            Choice::Full(_) => Box::new(self.full_kernel()?),
        })
    }

    fn full_kernel(&self) -> anyhow::Result<FullKernel> {
        let tracefs = Tracefs::find()?;
        let requests = self.requests();
        let mut selection = Selection::resolve(&tracefs, &requests)?;
        for condition in &self.conditions {
            selection.filter(condition)?;
        }
        if selection.events.is_empty() {
            bail!("this kernel has none of the chosen events: {}", selection.absent.join(", "));
        }
        let clock = choose_clock(&tracefs, self.clock.as_deref())?;
        FullKernel::prepare(FullPlan {
            tracefs,
            selection,
            clock,
            buffer_kb: self.buffer_kb_or_default()?,
            kallsyms: self.kallsyms,
            trigger: self.trigger(),
        })
    }
}

/// What will record, with nothing set up.
pub struct Planned {
    wanted: Recorder,
    choice: Choice,
    xen: Option<XenPlan>,
    warnings: Vec<String>,
}

impl Planned {
    /// What the user should know in any case.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Why the full collector records, if that is not what was wanted.
    pub fn why_full(&self) -> Option<&str> {
        match &self.choice {
            Choice::Full(Some(reason)) if !self.wanted.xen.is_only() => Some(reason),
            _ => None,
        }
    }

    /// Is it a flight recorder?
    pub fn is_flight_recorder(&self) -> bool {
        self.wanted.flight.is_some()
    }

    /// Sets up what records. It is taken down again when the value is dropped.
    ///
    /// # Errors
    /// The kernel lacks something, or this process may not record.
    pub fn set_up(self) -> anyhow::Result<Ready> {
        let Planned { wanted, choice, xen, .. } = self;
        let guest_kb = wanted.buffer_kb.unwrap_or(GUEST_KB_PER_CPU);
        let compact = match &choice {
            Choice::Compact(plan) => Some(guest_plan(plan, guest_kb)),
            Choice::Full(_) => None,
        };
        let of_xen = xen.as_ref().map_or(Vec::new(), |xen| xen.notes().to_vec());
        let filter = wanted.filter_entry(&choice)?;
        let kernel = wanted.kernel(choice)?;
        let mut notes = kernel.notes().to_vec();
        notes.extend(of_xen);
        notes.extend(Namespaces::current().note().map(str::to_owned));
        let events = guest_events(&wanted.requests());
        let Recorder { output, guests, group, flight, command_line, .. } = wanted;
        let host = Host::new(kernel, command_line, xen).with_filter(filter).with_group(group);
        let guests = GuestPlan { specs: guests, events, buffer_kb: guest_kb, compact };
        Ok(Ready { host, output, guests, flight, notes })
    }
}

/// A recorder that is set up and records nothing yet.
pub struct Ready {
    pub(super) host: Host,
    pub(super) output: PathBuf,
    pub(super) guests: GuestPlan,
    pub(super) flight: Option<FlightPlan>,
    pub(super) notes: Vec<String>,
}

impl Ready {
    /// What the user should know about how it records.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Records until the driver ends it.
    ///
    /// # Errors
    /// Nothing was recorded, or the recording could not be completed. One that ended before its time and can be read is
    /// no error: see [`Outcome::failure`].
    pub fn run(
        self,
        driver: &mut dyn Driver,
        observer: &mut dyn Observer,
    ) -> anyhow::Result<Outcome> {
        let Ready { host, output, guests, flight, .. } = self;
        match flight {
            None => continuous::run(host, &output, &guests, driver, observer),
            Some(plan) => flight::run(host, &output, &plan, driver, observer),
        }
    }
}
