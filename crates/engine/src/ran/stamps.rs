//! A kernel's stamps, by CPU, in its own clock.

use std::collections::BTreeMap;
use transect_model::ids::CpuId;
use transect_tracedat::{Item, TraceDat};

/// Stamps kept for each file at most; later ones are not looked at.
const MAX_STAMPS: usize = 1 << 25;

/// The stamps of a kernel's events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    cpus: BTreeMap<u32, Vec<u64>>,
}

impl Stamps {
    /// Those of a file's main buffer, and of other buffers with the same clock.
    pub fn of(dat: &TraceDat<'_>) -> Stamps {
        let mut stamps = Stamps::default();
        let mut left = MAX_STAMPS;
        let clock = dat.buffers().first().map(|buffer| buffer.clock.as_str()).unwrap_or_default();
        for buffer in dat.buffers().iter().filter(|b| b.clock.is_empty() || b.clock == clock) {
            for cpu in buffer.cpus() {
                let Some(mut stream) = dat.stream(buffer, cpu) else { continue };
                let of_cpu = stamps.cpus.entry(cpu).or_default();
                while let Some(item) = stream.next() {
                    if let Item::Event { ts, .. } = item
                        && left > 0
                    {
                        of_cpu.push(ts.get());
                        left -= 1;
                    }
                }
            }
        }
        for of_cpu in stamps.cpus.values_mut() {
            of_cpu.sort_unstable();
        }
        stamps
    }

    /// From stamps by CPU, in any order.
    pub fn new(cpus: impl IntoIterator<Item = (CpuId, Vec<u64>)>) -> Stamps {
        let sorted = cpus.into_iter().map(|(cpu, mut stamps)| {
            stamps.sort_unstable();
            (cpu.0, stamps)
        });
        Stamps { cpus: sorted.collect() }
    }

    /// Each CPU's, in order.
    pub fn cpus(&self) -> impl Iterator<Item = (CpuId, &[u64])> {
        self.cpus.iter().map(|(cpu, stamps)| (CpuId(*cpu), stamps.as_slice()))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.cpus.values().map(Vec::len).sum()
    }
}
