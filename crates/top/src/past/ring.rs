//! The last windows, in bounded memory.

use crate::moment::Moment;
use std::{collections::VecDeque, rc::Rc};

/// As much as the windows that were seen may take, bytes.
pub(crate) const MEMORY_BYTES: usize = 96 << 20;
/// What is shown of one moment needs so many, however large they are.
const AT_LEAST: usize = 10;

/// Windows, the oldest of which make room for new ones.
#[derive(Default)]
pub struct Ring {
    moments: VecDeque<Rc<Moment>>,
    /// Number of the oldest.
    first: u64,
    bytes: usize,
}

impl Ring {
    /// Adds the newest window.
    pub fn push(&mut self, moment: Moment) {
        self.bytes += moment.bytes();
        self.moments.push_back(Rc::new(moment));
        while self.bytes > MEMORY_BYTES && self.moments.len() > AT_LEAST {
            if let Some(oldest) = self.moments.pop_front() {
                self.bytes -= oldest.bytes();
                self.first += 1;
            }
        }
    }

    pub(super) fn range(&self) -> std::ops::Range<u64> {
        self.first..self.first + self.moments.len() as u64
    }

    pub(super) fn get(&self, at: u64) -> Option<Rc<Moment>> {
        let place = usize::try_from(at.checked_sub(self.first)?).ok()?;
        self.moments.get(place).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transect_live::{CpuWindow, Snapshot};
    use transect_model::ids::{CpuId, MachineId};

    #[test]
    fn the_oldest_make_room_and_numbers_stay() {
        let row = CpuWindow {
            ts: 0,
            dur: 1,
            machine_id: MachineId(0),
            cpu: CpuId(0),
            busy_ns: 0,
            idle_ns: 0,
            unknown_ns: 0,
        };
        let mut ring = Ring::default();
        let moment = |ts| {
            Moment::new(Snapshot { ts, cpus: vec![row.clone(); 20_000], ..Snapshot::default() })
        };
        for ts in 0..100 {
            ring.push(moment(ts));
        }
        assert!(ring.bytes <= MEMORY_BYTES, "{}", ring.bytes);
        let range = ring.range();
        assert!(range.start > 10 && range.end == 100, "{range:?}");
        assert!(ring.get(range.start - 1).is_none() && ring.get(100).is_none());
        assert_eq!(ring.get(range.start).unwrap().snapshot.ts, i64::try_from(range.start).unwrap());
    }
}
