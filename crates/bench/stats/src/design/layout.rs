//! The cells of a plan, and which of them are compared.

use super::cell::{Cell, Label};
use serde::{Deserialize, Serialize};
use transect_bench_core::{Kind, Refusal};

/// What things are compared with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// The arm that the other arms of the same platform, cache state, workload and guests are compared with: `none`.
    pub arm: String,
    /// The platform that the others are compared with, all with the reference arm: `native`.
    pub platform: Option<String>,
}

/// Why two cells are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// The reference with itself: what is found there is noise.
    Again,
    /// An arm with the reference arm.
    Arm,
    /// A platform with the reference platform.
    Platform,
    /// The plan asks for it.
    Chosen,
}

/// Two cells that are compared, within blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contrast {
    /// The one whose cost is asked for.
    pub cell: String,
    /// The one it is divided by.
    pub base: String,
    /// Why.
    pub relation: Relation,
}

/// What a plan runs and asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    cells: Vec<Cell>,
    contrasts: Vec<Contrast>,
}

impl Layout {
    /// Doubles every group's reference (A/A), compares every arm with it, and every platform's reference with the
    /// reference platform's where that has the same cache state, workload and guests.
    ///
    /// # Errors
    /// Two cells of one name; a group without the reference arm ([`Kind::NoReference`]), or with two of them.
    pub fn new(cells: Vec<Cell>, reference: &Reference) -> Result<Self, Refusal> {
        let mut layout = Self { cells: Vec::new(), contrasts: Vec::new() };
        for cell in &cells {
            let base = reference_of(&cells, cell, &reference.arm)?;
            layout.push(cell.clone())?;
            if base.id == cell.id {
                let again = cell.again();
                layout.relate(&again, cell, Relation::Again);
                layout.push(again)?;
                if let Some(native) = platform_base(&cells, cell, reference) {
                    layout.relate(cell, native, Relation::Platform);
                }
            } else {
                layout.relate(cell, base, Relation::Arm);
            }
        }
        Ok(layout)
    }

    /// Compares two more cells.
    ///
    /// # Errors
    /// A cell that is not there, or two that do not measure the same workload: their ratio means nothing.
    pub fn add(&mut self, cell: &str, base: &str) -> Result<(), Refusal> {
        let (cell, base) = (self.find(cell)?.clone(), self.find(base)?.clone());
        if cell.workload != base.workload || cell.better != base.better || cell.id == base.id {
            return Err(Refusal::new(
                Kind::Senseless,
                format!("comparing {} with {}", cell.id, base.id),
                "both must be cells of the same workload, and not the same cell",
            ));
        }
        if !self.contrasts.iter().any(|known| known.cell == cell.id && known.base == base.id) {
            self.relate(&cell, &base, Relation::Chosen);
        }
        Ok(())
    }

    /// All cells, the second labels included.
    #[must_use]
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// Their names.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.cells.iter().map(|cell| cell.id.as_str())
    }

    /// Everything that is compared.
    #[must_use]
    pub fn contrasts(&self) -> &[Contrast] {
        &self.contrasts
    }

    /// The cell of a name.
    #[must_use]
    pub fn cell(&self, id: &str) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.id == id)
    }

    /// The cell of a name.
    ///
    /// # Errors
    /// There is none.
    pub fn find(&self, id: &str) -> Result<&Cell, Refusal> {
        self.cell(id).ok_or_else(|| {
            Refusal::new(Kind::Plan, format!("cell {id}"), "the plan has no cell of that name")
        })
    }

    /// The A/A contrast of the group that a cell belongs to.
    pub(super) fn again_of(&self, cell: &Cell) -> Option<&Contrast> {
        self.contrasts.iter().filter(|contrast| contrast.relation == Relation::Again).find(
            |contrast| self.cell(&contrast.base).is_some_and(|base| base.group() == cell.group()),
        )
    }

    fn push(&mut self, cell: Cell) -> Result<(), Refusal> {
        if self.cell(&cell.id).is_some() {
            return Err(Refusal::new(
                Kind::Plan,
                format!("cell {}", cell.id),
                "the plan has two cells of that name",
            ));
        }
        self.cells.push(cell);
        Ok(())
    }

    fn relate(&mut self, cell: &Cell, base: &Cell, relation: Relation) {
        self.contrasts.push(Contrast { cell: cell.id.clone(), base: base.id.clone(), relation });
    }
}

fn reference_of<'a>(cells: &'a [Cell], of: &Cell, arm: &str) -> Result<&'a Cell, Refusal> {
    let mut found = cells
        .iter()
        .filter(|cell| cell.group() == of.group() && cell.arm == arm && cell.label == Label::First);
    let none = || {
        Refusal::new(
            Kind::NoReference,
            format!("cell {}", of.id),
            format!("no reference: the arm {arm:?} does not run on the same platform, workload, cache state and guests"),
        )
        .mend(format!("add {arm:?} to the arms"))
    };
    let first = found.next().ok_or_else(none)?;
    match found.next() {
        None => Ok(first),
        Some(second) => Err(Refusal::new(
            Kind::Plan,
            format!("cell {}", second.id),
            format!(
                "it duplicates the reference {}; the second label is added automatically",
                first.id
            ),
        )),
    }
}

fn platform_base<'a>(cells: &'a [Cell], of: &Cell, reference: &Reference) -> Option<&'a Cell> {
    let platform = reference.platform.as_deref().filter(|platform| *platform != of.platform)?;
    let group = (platform, of.cache, of.workload.as_str(), of.guests);
    cells.iter().find(|cell| cell.group() == group && cell.arm == reference.arm)
}
