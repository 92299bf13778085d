//! The domains of the Xen host while it is recorded: machines of the manifest, named as they come.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use transect_clock::evidence::Evidence;
use transect_guest::{proto::MachineFacts, stamp::StampClock, transport::GuestSpec};
use transect_model::ids::{MachineId, MachineKind, VcpuId};
use transect_store::{
    Manifest, RecordingWriter, StoreError,
    manifest::{MachineEntry, VcpuEntry},
};
use transect_xen::{Domain, Facts, Tools, XenStore};

/// The facts' file.
pub(super) const FACTS_FILE: &str = "xen.json";

/// The machines of a recording of a Xen host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Places {
    /// The hypervisor.
    pub(super) xen: MachineId,
    /// dom0.
    pub(super) host: MachineId,
}

/// What is known of the domains of one recording.
pub(in super::super) struct XenDomains {
    writer: Arc<RecordingWriter>,
    places: Places,
    clock: Option<StampClock>,
    tools: Tools,
    state: Mutex<State>,
}

struct State {
    facts: Facts,
    machines: BTreeMap<u32, MachineId>,
    /// None where xenstored could not be reached.
    store: Option<XenStore>,
    untold: Vec<String>,
}

impl XenDomains {
    /// Puts the domains that run now into the manifest.
    pub(super) fn start(
        writer: Arc<RecordingWriter>,
        places: Places,
        clock: &str,
        tools: Tools,
        facts: Facts,
    ) -> Result<Self, StoreError> {
        let mut untold = Vec::new();
        let store = XenStore::connect().map_err(|error| {
            untold.push(format!(
                "domains that start during the recording will have no names: {error}"
            ));
        });
        let machines = BTreeMap::from([(0, places.host)]);
        let state = State { facts, machines, store: store.ok(), untold };
        let clock = StampClock::from_name(clock);
        let domains = XenDomains { writer, places, clock, tools, state: Mutex::new(state) };
        // Those of the list have their vCPUs known; of later ones the trace tells.
        domains.publish(&mut domains.lock(), true)?;
        Ok(domains)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has anything changed? xenstored tells by itself, so that asking costs next to nothing. Returns what is new
    /// to tell.
    pub(super) fn look(&self) -> Result<Vec<String>, StoreError> {
        let mut state = self.lock();
        let news = match state.store.as_mut().map(XenStore::has_news) {
            Some(Ok(true)) => state.store.as_mut().map(XenStore::domains),
            Some(Err(error)) => Some(Err(error)),
            Some(Ok(false)) | None => None,
        };
        match news {
            None => {}
            Some(Ok(named)) => {
                let mut changed = false;
                for (id, named) in &named {
                    changed |= state.facts.learn_named(*id, named);
                }
                if changed {
                    self.publish(&mut state, false)?;
                }
            }
            Some(Err(error)) => {
                state.untold.push(format!("new domains have no names from now on: {error}"));
                state.store = None;
            }
        }
        Ok(std::mem::take(&mut state.untold))
    }

    /// Asks Xen once more: weights may have changed, and domains that came have details now.
    pub(super) fn finish(&self) -> Vec<String> {
        let mut state = self.lock();
        let mut notes = Vec::new();
        let known_tsc = |state: &State| state.facts.tsc.as_ref().map_or(0, |tsc| tsc.domains.len());
        state.facts.learn_domains(&self.tools, &mut notes);
        if state.facts.domains.len() > known_tsc(&state) + 1 {
            state.facts.learn_tsc(&self.tools, &mut notes);
        }
        notes.extend(self.publish(&mut state, false).err().map(|error| error.to_string()));
        notes
    }

    /// The facts as they are now.
    pub(super) fn facts(&self) -> Facts {
        self.lock().facts.clone()
    }

    /// The domain an agent speaks from, once it is known: by the name the user gave, or by the UUID.
    pub(in super::super) fn machine_of(
        &self,
        spec: &GuestSpec,
        facts: &MachineFacts,
    ) -> Result<Option<MachineId>, StoreError> {
        let state = self.lock();
        let named = |domain: &Domain| spec.name.as_ref() == Some(&domain.name);
        let same = |domain: &Domain| !domain.uuid.is_empty() && facts.uuid == domain.uuid.as_str();
        let by = |fits: &dyn Fn(&Domain) -> bool| {
            // Of several with one name, as when it was booted again, the last.
            let mut fitting = state.facts.domains.iter().rev().filter(|(_, domain)| fits(domain));
            fitting.next().map(|(id, _)| *id)
        };
        let Some(id) = by(&same).or_else(|| by(&named)) else { return Ok(None) };
        let Some(machine) = state.machines.get(&id).copied() else { return Ok(None) };
        if state.facts.reads_xen_tsc(id) == Some(true)
            && let Some(at_host) = self.clock.and_then(StampClock::now)
        {
            self.writer.evidence(&same_tsc(machine, self.places.host, at_host))?;
        }
        Ok(Some(machine))
    }

    /// Brings manifest and facts file up to date.
    fn publish(&self, state: &mut State, with_vcpus: bool) -> Result<(), StoreError> {
        let State { facts, machines, .. } = state;
        self.writer.update(|manifest| {
            for (id, domain) in &facts.domains {
                let is_new = !machines.contains_key(id);
                let machine = *machines
                    .entry(*id)
                    .or_insert_with(|| manifest.add_machine(entry(*id, domain, self.places.xen)));
                learn(manifest, machine, *id, domain, is_new && with_vcpus);
            }
        })?;
        let mut text = serde_json::to_vec_pretty(&*facts).unwrap_or_default();
        text.push(b'\n');
        self.writer.write_file(FACTS_FILE, &text)
    }
}

/// Two machines of one counter: what one reads is what the other would.
pub(super) fn same_tsc(machine: MachineId, parent: MachineId, at_host: u64) -> Evidence {
    Evidence::TscOffset {
        machine,
        parent,
        vcpu: VcpuId(0),
        offset: 0,
        ratio: None,
        frac_bits: None,
        at_host,
    }
}

fn entry(id: u32, domain: &Domain, xen: MachineId) -> MachineEntry {
    MachineEntry {
        id: MachineId(0),
        parent: Some(xen),
        kind: MachineKind::Guest,
        name: name(id, domain),
        domid: Some(id),
        vmm_pid: None,
        cgroup: None,
        uname: None,
        cpu_count: None,
        clock: None,
        vcpus: Vec::new(),
    }
}

/// Without a name (it was gone too soon, or is being made) by its number.
fn name(id: u32, domain: &Domain) -> String {
    if domain.name.is_empty() { format!("dom{id}") } else { domain.name.clone() }
}

fn learn(manifest: &mut Manifest, machine: MachineId, id: u32, domain: &Domain, with_vcpus: bool) {
    let index = usize::try_from(machine.0).ok();
    let Some(entry) = index.and_then(|index| manifest.machines.get_mut(index)) else { return };
    // dom0 is called dom0; its agentless siblings keep the name they have until xenstore has one.
    if id != 0 && !domain.name.is_empty() {
        entry.name.clone_from(&domain.name);
    }
    if domain.vcpus > 0 {
        entry.cpu_count.get_or_insert(domain.vcpus);
    }
    if with_vcpus {
        let vcpus = (0..domain.vcpus).map(|vcpu| VcpuEntry { vcpu: VcpuId(vcpu), vmm_tid: None });
        entry.vcpus = vcpus.collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transect_xen::{DomainTsc, Reliability, TscFacts, TscMode};

    fn domains(dir: &std::path::Path) -> XenDomains {
        let writer = Arc::new(RecordingWriter::create(dir, Manifest::new(1, Vec::new())).unwrap());
        let places = writer
            .update(|manifest| {
                let xen = manifest.add_machine(super::super::hypervisor::machine(None));
                let dom0 = entry(0, &Domain::default(), xen);
                Places { xen, host: manifest.add_machine(dom0) }
            })
            .unwrap();
        let domain = |name: &str, vcpus| Domain {
            name: name.to_owned(),
            uuid: format!("uuid-of-{name}"),
            vcpus,
            ..Domain::default()
        };
        let native = DomainTsc {
            is_hvm: false,
            mode: TscMode::Native,
            offset_ns: 1,
            khz: 1,
            incarnation: 1,
        };
        let emulated = DomainTsc { mode: TscMode::AlwaysEmulate, ..native };
        let tsc = TscFacts {
            reliability: Reliability::Unreliable,
            said: String::new(),
            domains: BTreeMap::from([(3, native), (4, emulated)]),
        };
        let all = [(0, domain("Domain-0", 0)), (3, domain("web", 2)), (4, domain("db", 1))];
        let facts = Facts { domains: BTreeMap::from(all), tsc: Some(tsc), ..Facts::default() };
        let nowhere = std::path::Path::new("/nonexistent");
        let tools = Tools::of_version(nowhere, &transect_xen::Version::default());
        XenDomains::start(writer, places, "x86-tsc", tools, facts).unwrap()
    }

    fn spec(text: &str) -> GuestSpec {
        text.parse().unwrap()
    }

    #[test]
    fn domains_are_machines() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("r.transect");
        let domains = domains(&dir);
        let manifest = Manifest::read(&dir).unwrap();
        let told = |m: &MachineEntry| (m.name.clone(), m.domid, m.parent, m.vcpus.len());
        let xen = Some(MachineId(0));
        assert_eq!(
            manifest.machines.iter().map(told).collect::<Vec<_>>(),
            [
                ("xen".to_owned(), None, None, 0),
                ("dom0".to_owned(), Some(0), xen, 0),
                ("web".to_owned(), Some(3), xen, 2),
                ("db".to_owned(), Some(4), xen, 1),
            ]
        );
        let text = std::fs::read(dir.join(FACTS_FILE)).unwrap();
        assert_eq!(serde_json::from_slice::<Facts>(&text).unwrap(), domains.facts());
    }

    #[test]
    fn agents_are_told_by_name_and_uuid_and_their_clock_by_xen() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("r.transect");
        let domains = domains(&dir);
        let of = |spec_text: &str, uuid: &str| {
            let facts = MachineFacts { uuid: uuid.into(), ..MachineFacts::default() };
            domains.machine_of(&spec(spec_text), &facts).unwrap()
        };
        assert_eq!(of("vsock:3", "uuid-of-db"), Some(MachineId(3)));
        assert_eq!(of("vsock:3", ""), None);
        let clocks = || std::fs::read_to_string(dir.join("clocks.jsonl")).unwrap();
        assert_eq!(
            clocks(),
            "",
            "an emulated TSC is Xen's with an offset that only exchanges tell"
        );
        if StampClock::X86Tsc.is_readable() {
            assert_eq!(of("name=web,vsock:3", ""), Some(MachineId(2)));
            assert!(
                clocks().contains(r#""machine":2,"parent":1,"vcpu":0,"offset":0"#),
                "{}",
                clocks()
            );
        }
    }
}
