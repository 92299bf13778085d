//! In which order the cells of a block are run.

use crate::statistics::random::Random;

/// The orders of all blocks: in each, every cell once.
///
/// Under drift the order is the largest error there is. In random order a cell is as often before as behind any
/// other, so that what the machine does meanwhile falls on both alike (R. Fisher, *The Design of Experiments*, 1935).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks {
    machines: Vec<Vec<String>>,
    seed: u64,
}

impl Blocks {
    /// Every cell anywhere in the block.
    pub fn new<Id: Into<String>>(cells: impl IntoIterator<Item = Id>, seed: u64) -> Self {
        Self { machines: cells.into_iter().map(|cell| vec![cell.into()]).collect(), seed }
    }

    /// The cells of one machine in one go, for machines that take long to start: `(machine, cell)` each. The machines
    /// are in random order, and so are the cells of each.
    pub fn by_machine<Machine: Into<String>, Id: Into<String>>(
        cells: impl IntoIterator<Item = (Machine, Id)>,
        seed: u64,
    ) -> Self {
        let mut machines: Vec<(String, Vec<String>)> = Vec::new();
        for (machine, cell) in cells {
            let (machine, cell) = (machine.into(), cell.into());
            match machines.iter_mut().find(|(known, _)| *known == machine) {
                Some((_, cells)) => cells.push(cell),
                None => machines.push((machine, vec![cell])),
            }
        }
        Self { machines: machines.into_iter().map(|(_, cells)| cells).collect(), seed }
    }

    /// The order of a block. It depends on nothing but the seed, the cells and the block's number.
    #[must_use]
    pub fn order(&self, block: u32) -> Vec<&str> {
        let mut random = Random::stream(self.seed, u64::from(block));
        let mut machines: Vec<&Vec<String>> = self.machines.iter().collect();
        random.shuffle(&mut machines);
        machines
            .into_iter()
            .flat_map(|cells| {
                let mut cells: Vec<&str> = cells.iter().map(String::as_str).collect();
                random.shuffle(&mut cells);
                cells
            })
            .collect()
    }

    /// Block after block, without end.
    pub fn iter(&self) -> impl Iterator<Item = (u32, Vec<&str>)> {
        (0..=u32::MAX).map(|block| (block, self.order(block)))
    }
}
