//! Who had the CPU that a thread waited for: its stretches of waiting laid over the CPU's slices.

use super::tally::{CpuSums, InTheWay, Stretch};
use std::collections::{BTreeMap, HashMap};
use transect_model::ids::{CpuId, Tid};

/// Kept of each thread; the rest of its waiting is not attributed, as with the sums that the kernel makes.
pub(crate) const HEAVIEST: usize = 4;

/// Of each thread that waited, who had the CPU meanwhile.
pub(crate) fn rivals(
    stretches: &[Stretch],
    cpus: &BTreeMap<CpuId, CpuSums>,
) -> HashMap<Tid, HashMap<Tid, InTheWay>> {
    let mut all: HashMap<Tid, HashMap<Tid, InTheWay>> = HashMap::new();
    for stretch in stretches {
        let slices = cpus.get(&stretch.cpu).map_or(&[][..], |cpu| cpu.slices.as_slice());
        let first = slices.partition_point(|(_, to, _)| *to <= stretch.from);
        for (from, to, tid) in slices[first..].iter().take_while(|slice| slice.0 < stretch.to) {
            let ns = to.min(&stretch.to) - from.max(&stretch.from);
            // In a switch's moment its own slice still counts as the CPU's.
            if ns > 0 && *tid != stretch.tid {
                let way = all.entry(stretch.tid).or_default().entry(*tid).or_default();
                way.times += 1;
                way.ns += ns;
            }
        }
    }
    all
}

/// The heaviest of them, the heaviest first.
pub(crate) fn heaviest<K: Copy + Ord>(rivals: &HashMap<K, InTheWay>) -> Vec<(K, InTheWay)> {
    let mut rivals: Vec<(K, InTheWay)> = rivals.iter().map(|(key, way)| (*key, *way)).collect();
    rivals.sort_by_key(|(key, way)| (std::cmp::Reverse(way.ns), *key));
    rivals.truncate(HEAVIEST);
    rivals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_divided_among_who_had_the_cpu() {
        let slices = vec![(0, 10, Tid(1)), (10, 30, Tid(2)), (30, 40, Tid(0)), (40, 90, Tid(9))];
        let cpu = CpuSums { slices, ..CpuSums::default() };
        let cpus = BTreeMap::from([(CpuId(3), cpu)]);
        let wait = |from, to| Stretch { tid: Tid(9), cpu: CpuId(3), from, to };
        let found = rivals(&[wait(5, 40), wait(60, 70)], &cpus);
        assert_eq!(
            heaviest(&found[&Tid(9)]),
            [
                (Tid(2), InTheWay { times: 1, ns: 20 }),
                (Tid(0), InTheWay { times: 1, ns: 10 }),
                (Tid(1), InTheWay { times: 1, ns: 5 }),
            ]
        );
        let elsewhere = Stretch { cpu: CpuId(4), ..wait(5, 40) };
        assert!(rivals(&[elsewhere], &cpus).is_empty());
    }
}
