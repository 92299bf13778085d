//! The order of a block: a function of the plan's seed and the block's number, and of nothing else.
//!
//! Under drift the order is the largest error there is. In random order a cell is as often before as behind any
//! other, so that what the machine does meanwhile falls on both alike (R. Fisher, *The Design of Experiments*, 1935).

use crate::plan::{Cell, Label, Plan};
use std::collections::{BTreeMap, BTreeSet};
use transect_bench_stats::statistics::random::Random;

/// Runs that share machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The platform of the machines.
    pub platform: String,
    /// How many.
    pub guests: u32,
    /// The boot loader's entry that this host must have been booted by; `None`: any.
    pub boot: Option<String>,
    /// Runs, in their order.
    pub runs: Vec<(Cell, Label)>,
}

/// A block's units in their order, each with its runs in theirs. Units that need the same boot follow each other.
#[must_use]
pub fn of_block(plan: &Plan, cells: &[Cell], block: u32) -> Vec<Unit> {
    let mut units: BTreeMap<(&str, u32), Vec<(Cell, Label)>> = BTreeMap::new();
    for cell in cells {
        let runs = units.entry((&cell.platform, cell.group.guests)).or_default();
        runs.push((cell.clone(), Label::First));
        if cell.tracer == plan.reference.tracer {
            runs.push((cell.clone(), Label::Again));
        }
    }
    let dice = |what: &str| seeded(plan.seed, block, what);
    let of_unit = |((platform, guests), mut runs): ((&str, u32), Vec<(Cell, Label)>)| {
        runs.sort_unstable();
        dice(&format!("{platform} {guests}")).shuffle(&mut runs);
        Unit { platform: platform.to_owned(), guests, boot: plan.boot_of(platform), runs }
    };
    let mut units: Vec<Unit> = units.into_iter().map(of_unit).collect();
    dice("units").shuffle(&mut units);
    let boots: BTreeSet<Option<String>> = units.iter().map(|unit| unit.boot.clone()).collect();
    let mut boots: Vec<Option<String>> = boots.into_iter().collect();
    dice("boots").shuffle(&mut boots);
    units.sort_by_key(|unit| boots.iter().position(|boot| *boot == unit.boot));
    units
}

/// Dice of their own for everything that is shuffled: what the plan has elsewhere changes nothing here.
fn seeded(seed: u64, block: u32, what: &str) -> Random {
    // FNV-1a.
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    Random::stream(seed ^ what.bytes().fold(0xcbf2_9ce4_8422_2325, mix), u64::from(block))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Group;
    use transect_bench_core::CacheState;

    fn plan(seed: u64, machine: &str) -> Plan {
        let rest = "matrix = []\nname = \"test\"\n";
        Plan::parse(&format!("seed = {seed}\n{rest}{machine}"), "test").expect("a plan")
    }

    fn cells() -> Vec<Cell> {
        let mut cells = Vec::new();
        for platform in ["native", "tcg", "container"] {
            for workload in ["a", "b", "c", "d"] {
                for tracer in ["none", "perf"] {
                    let (workload, cache) = (workload.to_owned(), CacheState::Any);
                    let group = Group { workload, cache, guests: 1 };
                    let (platform, tracer) = (platform.to_owned(), tracer.to_owned());
                    cells.push(Cell { group, platform, tracer });
                }
            }
        }
        cells
    }

    #[test]
    fn every_block_has_every_cell_once_and_the_reference_twice() {
        for block in 0..50 {
            let units = of_block(&plan(7, ""), &cells(), block);
            let mut seen: BTreeMap<(Cell, Label), usize> = BTreeMap::new();
            for run in units.iter().flat_map(|unit| &unit.runs) {
                *seen.entry(run.clone()).or_default() += 1;
            }
            assert_eq!(seen.len(), 24 + 12);
            assert!(seen.values().all(|times| *times == 1));
            assert!(
                seen.keys().all(|(cell, label)| *label == Label::First || cell.tracer == "none")
            );
        }
    }

    #[test]
    fn the_order_is_the_seeds_and_differs_from_block_to_block() {
        let order = |seed, block| of_block(&plan(seed, ""), &cells(), block);
        assert_eq!(order(7, 3), order(7, 3));
        assert_ne!(order(7, 3), order(7, 4));
        assert_ne!(order(7, 3), order(8, 3));
    }

    #[test]
    fn nobody_is_favoured() {
        let mut first: BTreeMap<String, u32> = BTreeMap::new();
        let mut again_first = 0_u32;
        for block in 0..3000 {
            let units = of_block(&plan(7, ""), &cells(), block);
            *first.entry(units[0].platform.clone()).or_default() += 1;
            let reference =
                |run: &&(Cell, Label)| run.0.tracer == "none" && run.0.group.workload == "a";
            let found = units[0].runs.iter().find(reference).expect("the reference");
            again_first += u32::from(found.1 == Label::Again);
        }
        // 3000 throws of a fair die: 5 standard deviations.
        assert!(first.values().all(|times| times.abs_diff(1000) < 130), "{first:?}");
        assert!(again_first.abs_diff(1500) < 137, "{again_first}");
    }

    #[test]
    fn an_entry_of_the_boot_loader_is_needed_once_a_block() {
        let boots = "[machine]\nboot = \"linux\"\n[platforms.tcg]\nboot = \"xen\"\n";
        let mut xen_first = 0;
        for block in 0..200 {
            let mut entries: Vec<Option<String>> = of_block(&plan(7, boots), &cells(), block)
                .into_iter()
                .map(|unit| unit.boot)
                .collect();
            xen_first += u32::from(entries[0].as_deref() == Some("xen"));
            entries.dedup();
            assert_eq!(entries.len(), 2, "{entries:?}");
        }
        assert!((60..140).contains(&xen_first), "{xen_first}");
    }
}
