//! What Xen's tools say about Xen and its domains: what a trace does not hold.

mod domains;
mod info;
mod rate;
mod tsc;

pub use domains::{Domain, domains_in_list, weights_in};
pub use info::{CpuHz, Info, info};
pub use rate::printed_rate;
pub use tsc::{DomainTsc, Reliability, TscFacts, TscMode, tsc};

use crate::{EventMask, Named, Tools, Version, XenError};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// A tool that has not answered by then hangs.
const LIMIT: Duration = Duration::from_secs(15);

/// Everything about the hypervisor that is kept beside its trace (`xen.json`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// Xen's version: how its records are to be read.
    pub version: Version,
    /// The scheduler, by Xen's name for it: credit, credit2, rtds, null, arinc653.
    pub scheduler: String,
    /// Xen's command line.
    pub command_line: String,
    /// pCPUs are numbered below this.
    pub cpu_count: u32,
    /// How fast the TSC runs.
    pub cpu_hz: CpuHz,
    /// The records that were switched on.
    pub event_mask: u32,
    /// The same in words.
    pub event_classes: Vec<String>,
    /// Each pCPU's buffer as it was asked for; Xen keeps the size of the first time since boot.
    pub buffer_bytes_per_cpu: u64,
    /// How the TSC is, and how each domain sees it; none if Xen would not say.
    #[serde(default)]
    pub tsc: Option<TscFacts>,
    /// Every domain that was there at any time of the recording, by number.
    #[serde(default)]
    pub domains: BTreeMap<u32, Domain>,
}

impl Facts {
    /// Asks `xl`. What one of its answers lacks is said in the notes; only an `xl` that does not answer at all is
    /// an error.
    ///
    /// # Errors
    /// `xl info` fails: nothing else would work then.
    pub fn gather(
        tools: &Tools,
        version: &Version,
        mask: EventMask,
        notes: &mut Vec<String>,
    ) -> Result<Self, XenError> {
        let Info { scheduler, command_line, cpu_count, cpu_hz } =
            info(&tools.run("xl", &["info"], LIMIT)?);
        let mut facts = Facts {
            version: version.clone(),
            scheduler,
            command_line,
            cpu_count,
            cpu_hz,
            event_mask: mask.0,
            event_classes: mask.names().into_iter().map(str::to_owned).collect(),
            ..Facts::default()
        };
        facts.learn_domains(tools, notes);
        Ok(facts)
    }

    /// Asks for the domains that run now. Those known before stay: they did run.
    pub fn learn_domains(&mut self, tools: &Tools, notes: &mut Vec<String>) {
        let mut answer = |args: &[&str]| {
            let said = tools.run("xl", args, LIMIT);
            said.map_err(|error| notes.push(format!("the list of domains is incomplete: {error}")))
                .ok()
        };
        for (id, domain) in answer(&["list", "-l"]).iter().flat_map(|list| domains_in_list(list)) {
            let known = self.domains.entry(id).or_default();
            let (weight, cap) = (known.weight, known.cap);
            *known = Domain { weight: domain.weight.or(weight), cap: domain.cap.or(cap), ..domain };
        }
        // What is in force now; the list has what each domain was made with.
        let schedulers = [("credit", "sched-credit"), ("credit2", "sched-credit2")];
        if let Some((_, verb)) = schedulers.into_iter().find(|(name, _)| *name == self.scheduler) {
            for (id, (weight, cap)) in answer(&[verb]).iter().flat_map(|table| weights_in(table)) {
                let domain = self.domains.entry(id).or_default();
                (domain.weight, domain.cap) = (Some(weight), Some(cap));
            }
        }
    }

    /// Takes what xenstore says of a domain that has appeared. True if that is new.
    pub fn learn_named(&mut self, id: u32, named: &Named) -> bool {
        let is_new = !self.domains.contains_key(&id);
        let domain = self.domains.entry(id).or_default();
        let before = domain.clone();
        let keep = |old: &mut String, new: &str| {
            if !new.is_empty() {
                new.clone_into(old);
            }
        };
        keep(&mut domain.name, &named.name);
        keep(&mut domain.uuid, &named.uuid);
        domain.vcpus = domain.vcpus.max(named.vcpus);
        is_new || *domain != before
    }

    /// Asks Xen how each domain sees the TSC (debug key `s`), which it answers on its console. Xen compares the TSCs of
    /// all pCPUs for that, which keeps each busy for 20 ms (`check_tsc_warp`, xen/arch/x86/time.c of
    /// 4.17): not to be done while recording.
    pub fn learn_tsc(&mut self, tools: &Tools, notes: &mut Vec<String>) {
        // Xen has answered when the first command is done.
        let asked = tools.run("xl", &["debug-keys", "s"], LIMIT);
        match asked.and_then(|_| tools.run("xl", &["dmesg"], LIMIT)).map(|ring| tsc(&ring)) {
            Ok(Some(told)) => {
                let known = self.tsc.get_or_insert_with(TscFacts::default);
                (known.reliability, known.said) = (told.reliability, told.said);
                known.domains.extend(told.domains);
            }
            Ok(None) => notes.push("Xen does not report the TSC mode of its domains".to_owned()),
            Err(error) => notes.push(format!("the TSC mode of the domains is unknown: {error}")),
        }
    }

    /// Does this domain's kernel read Xen's own TSC, tick for tick? None if that is not known. A PV domain does unless
    /// its TSC is emulated; in a hardware container Xen gives each its own offset, which it does not tell.
    pub fn reads_xen_tsc(&self, id: u32) -> Option<bool> {
        let tsc = self.tsc.as_ref()?;
        if id == 0 {
            // dom0 is never emulated (`tsc_set_info`), and not in the list unless told to be.
            return Some(true);
        }
        let domain = tsc.domains.get(&id)?;
        Some(!domain.is_hvm && !domain.is_emulated(tsc.reliability))
    }
}
