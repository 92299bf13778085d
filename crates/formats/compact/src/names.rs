//! Names that travel once: threads' and network devices'.

use crate::{
    decode::name,
    encode,
    kind::{DEVICE_NAME, NAME},
    record::{WORD_BYTES, bits},
};
use std::collections::BTreeMap;
use transect_model::{
    event::{Comm, CoreEvent, DeviceName},
    ids::Tid,
};

/// Names as they were when recording began (or, in a converter, as they were last known).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    threads: BTreeMap<Tid, Comm>,
    devices: BTreeMap<u16, DeviceName>,
}

impl Names {
    /// Names a thread; a later name replaces an earlier one.
    pub fn thread(&mut self, tid: Tid, comm: Comm) {
        self.threads.insert(tid, comm);
    }

    /// Names a network device by its `ifindex` (14 bits).
    pub fn device(&mut self, ifindex: u16, name: DeviceName) {
        self.devices.insert(ifindex & 0x3fff, name);
    }

    /// Learns the names an event carries, as events from other formats do.
    pub fn learn(&mut self, event: &CoreEvent) {
        match *event {
            CoreEvent::SchedSwitch { prev, prev_comm, next, next_comm, .. } => {
                self.learn_thread(prev, prev_comm);
                self.learn_thread(next, next_comm);
            }
            CoreEvent::SchedWaking { tid, comm, .. }
            | CoreEvent::SchedWakeup { tid, comm, .. }
            | CoreEvent::SchedWakeupNew { tid, comm, .. }
            | CoreEvent::SchedExit { tid, comm }
            | CoreEvent::TaskRename { tid, new_comm: comm } => self.learn_thread(tid, comm),
            CoreEvent::SchedFork { child, child_comm, .. } => self.learn_thread(child, child_comm),
            _ => {}
        }
    }

    fn learn_thread(&mut self, tid: Tid, comm: Comm) {
        if !comm.as_bytes().is_empty() && !tid.is_idle() && self.threads.get(&tid) != Some(&comm) {
            self.threads.insert(tid, comm);
        }
    }

    /// Threads and their names, by tid.
    pub fn threads(&self) -> impl Iterator<Item = (Tid, Comm)> {
        self.threads.iter().map(|(tid, comm)| (*tid, *comm))
    }

    /// Name of a thread.
    pub fn of(&self, tid: Tid) -> Option<Comm> {
        self.threads.get(&tid).copied()
    }

    /// Network devices and their names, by number.
    pub fn devices(&self) -> impl Iterator<Item = (u16, DeviceName)> {
        self.devices.iter().map(|(number, name)| (*number, *name))
    }

    /// No name at all?
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty() && self.devices.is_empty()
    }

    /// The records of a names block. Threads with ids the format cannot hold are left out.
    pub(crate) fn words(&self) -> Vec<u8> {
        let threads = self.threads.iter().filter_map(|(tid, comm)| {
            let a = u64::try_from(tid.0).ok().filter(|tid| *tid < 1 << 22)?;
            Some(encode::name(NAME, a, *comm))
        });
        let devices = self
            .devices
            .iter()
            .map(|(number, name)| encode::name(DEVICE_NAME, (*number).into(), *name));
        threads
            .chain(devices)
            .flat_map(|raw| [raw.first(0), raw.rest[0], raw.rest[1]])
            .flat_map(u64::to_le_bytes)
            .collect()
    }

    /// Learns the records of a names block; others are passed over.
    pub(crate) fn read(&mut self, payload: &[u8]) {
        for record in payload.as_chunks::<WORD_BYTES>().0.as_chunks::<3>().0 {
            let [w0, w1, w2] = record.map(u64::from_le_bytes);
            let a = w0 >> 30;
            match u8::try_from(w0 & 63) {
                Ok(NAME) => {
                    let tid = i32::try_from(bits(a, 0, 22)).map_or(Tid::IDLE, Tid);
                    self.thread(tid, name(w1, w2));
                }
                Ok(DEVICE_NAME) => {
                    self.device(u16::try_from(bits(a, 0, 14)).unwrap_or(0), name(w1, w2));
                }
                _ => {}
            }
        }
    }
}
