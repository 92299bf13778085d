//! xentrace's stream piece by piece: the adapter from whole windows of it, as they come, to items.
//!
//! The items of each pCPU are those that [`crate::xen::XenSource`] gives of the file that all pieces
//! together are, whatever the pieces.

use crate::{
    stream::StreamItem,
    xen::{First, Put, Quiet, first_of, item, named},
};
use std::collections::BTreeMap;
use transect_model::{exit::Isa, ids::CpuId, xen::XenEvent};
use transect_xentrace::{
    Index, Position, Problem, XenEvent as Recorded, XenTrace, XenVersion, isa_of_reason,
};

/// Items of a pCPU kept back until it is known who had it at the first of them.
const MAX_HELD: usize = 1 << 18;
/// Bytes of a CPU_CHANGE record, the head of every window.
const HEAD_BYTES: usize = 12;

/// What is known of one pCPU's stream behind the last piece.
#[derive(Debug, Default)]
struct Cpu {
    last_tsc: Option<u64>,
    quiet: Quiet,
    /// Is it known who had it at the first record?
    has_begun: bool,
    first_tsc: Option<u64>,
    held: Vec<StreamItem>,
}

/// Turns xentrace's stream into items.
#[derive(Debug)]
pub struct XenChunks {
    version: XenVersion,
    isa: Option<Isa>,
    /// Where neither records nor the caller tell.
    fallback: Isa,
    bytes: Vec<u8>,
    cpus: BTreeMap<CpuId, Cpu>,
    /// Records that could not be read: bytes.
    left_out_bytes: u64,
}

impl XenChunks {
    /// For records of this Xen. `isa` numbered exit reasons that do not tell whose they are: the
    /// processor's maker decides.
    pub fn new(version: XenVersion, isa: Isa) -> Self {
        XenChunks {
            version,
            isa: None,
            fallback: isa,
            bytes: Vec::new(),
            cpus: BTreeMap::new(),
            left_out_bytes: 0,
        }
    }

    /// Takes the next bytes of the stream, cut anywhere, and gives the items they complete to `each`, pCPU by pCPU.
    ///
    /// # Errors
    /// The bytes are no xentrace stream; those before are done with.
    pub fn read(
        &mut self,
        bytes: &[u8],
        each: &mut dyn FnMut(CpuId, Vec<StreamItem>),
    ) -> Result<(), transect_xentrace::Error> {
        self.bytes.extend_from_slice(bytes);
        let whole = whole_windows(&self.bytes);
        if whole == 0 {
            return match self.bytes.len() >= HEAD_BYTES {
                true => Index::check(&self.bytes),
                false => Ok(()),
            };
        }
        let rest = self.bytes.split_off(whole);
        let chunk = std::mem::replace(&mut self.bytes, rest);
        let trace = XenTrace::parse(&chunk, self.version)?;
        self.learn_isa(&trace);
        let isa = self.isa.unwrap_or(self.fallback);
        for cpu in trace.cpus() {
            let state = self.cpus.entry(cpu).or_default();
            let (items, left_out_bytes) = state.read(&trace, cpu, isa);
            self.left_out_bytes += left_out_bytes;
            each(cpu, items);
        }
        Ok(())
    }

    /// Gives what is kept back although it is not known who had the pCPUs: the first window is to be made.
    pub fn begin(&mut self, each: &mut dyn FnMut(CpuId, Vec<StreamItem>)) {
        for (cpu, state) in &mut self.cpus {
            state.has_begun = true;
            each(*cpu, std::mem::take(&mut state.held));
        }
    }

    /// The stream begins anew (xentrace was started again): half a window is forgotten.
    pub fn restarted(&mut self) {
        self.bytes.clear();
    }

    /// The pCPUs seen so far, and the stamp of the last record of each.
    pub fn last_stamps(&self) -> impl Iterator<Item = (CpuId, u64)> {
        self.cpus.iter().filter_map(|(cpu, state)| Some((*cpu, state.last_tsc?)))
    }

    /// Bytes of records that could not be read, since the start.
    pub fn left_out_bytes(&self) -> u64 {
        self.left_out_bytes
    }

    fn learn_isa(&mut self, trace: &XenTrace<'_>) {
        if self.isa.is_some() {
            return;
        }
        self.isa = trace.cpus().find_map(|cpu| {
            trace.stream(cpu).find_map(|record| match record.typed() {
                Recorded::VmExit { isa: Some(isa), .. } => Some(isa),
                Recorded::VmExit { reason, .. } => isa_of_reason(reason),
                _ => None,
            })
        });
    }
}

impl Cpu {
    fn read(&mut self, trace: &XenTrace<'_>, cpu: CpuId, isa: Isa) -> (Vec<StreamItem>, u64) {
        let from = Position { window: 0, bytes: 0, tsc: self.last_tsc };
        if !self.has_begun {
            self.look_for_first(trace, cpu, from);
        }
        let mut items = std::mem::take(&mut self.held);
        let mut stream = trace.resume(cpu, from);
        let mut put = Put { items: &mut items, quiet: &mut self.quiet, isa };
        while stream.give(usize::MAX, &mut put) > 0 {}
        self.last_tsc = stream.position().tsc.or(self.last_tsc);
        let lost = |problem: &&Problem| problem.what.loses();
        let left_out_bytes = match stream.problems().iter().find(lost) {
            Some(_) => stream.totals().left_out_bytes.max(1),
            None => 0,
        };
        if !self.has_begun && items.len() < MAX_HELD {
            self.held = items;
            return (Vec::new(), left_out_bytes);
        }
        self.has_begun = true;
        (items, left_out_bytes)
    }

    /// Who had the pCPU at its first record: an item before all others.
    fn look_for_first(&mut self, trace: &XenTrace<'_>, cpu: CpuId, from: Position) {
        for record in trace.resume(cpu, from) {
            let ts = *self.first_tsc.get_or_insert(record.tsc);
            match first_of(&record.typed()) {
                First::NotYet => continue,
                First::Nobody => {}
                First::Had(vcpu) => {
                    self.held.insert(0, item(ts, 0, XenEvent::Current { vcpu: named(vcpu) }));
                }
            }
            self.has_begun = true;
            return;
        }
    }
}

/// How many bytes from the beginning on are whole windows.
fn whole_windows(bytes: &[u8]) -> usize {
    let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?) as usize);
    let mut end = 0;
    while Index::check(&bytes[end..]).is_ok()
        && let Some(size) = word(end + 8)
        && let Some(next) = end.checked_add(HEAD_BYTES + size).filter(|next| *next <= bytes.len())
    {
        end = next;
    }
    end
}
