//! A plan against what there is: names, parameters, combinations, and what this machine refuses.

use super::{Cell, Group, Matrix, Params, Plan};
use serde::Serialize;
use std::collections::BTreeSet;
use transect_bench_core::{
    About, CacheState, Fault, Job, Kind, Refusal,
    protocol::{Param, Role},
};
use transect_bench_platforms as platforms;
use transect_bench_tracers as tracers;
use transect_bench_workloads as workloads;

/// A cell that is not measured, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct RefusedCell {
    /// Which.
    pub cell: Cell,
    /// Why.
    pub refusal: Refusal,
}

/// A plan that was looked at: what of it is measured here, and what is not.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Planned {
    /// Cells to be measured, in order of name.
    pub cells: Vec<Cell>,
    /// Cells that this machine refuses, in order of name.
    pub refused: Vec<RefusedCell>,
}

impl Plan {
    /// Every cell it asks for, each once, in order of name. Errors are what is wrong in the plan itself, wherever it runs.
    pub fn cells(&self) -> Result<Vec<Cell>, Fault> {
        self.check_numbers()?;
        self.check_parameters()?;
        let mut cells = BTreeSet::new();
        for matrix in &self.matrix {
            cells.extend(self.cells_of(matrix)?);
        }
        if cells.is_empty() {
            return Err(self.wrong("the plan has no cell").into());
        }
        Ok(cells.into_iter().collect())
    }

    /// What of it can be measured on this machine.
    ///
    /// A guest is not asked before it runs: what only it can refuse (a program that is not there, a tracer that its kernel
    /// has not) is told by its worker, and recorded then.
    pub fn planned(&self) -> Result<Planned, Fault> {
        let mut planned = Planned { cells: Vec::new(), refused: Vec::new() };
        for cell in self.cells()? {
            match self.refusal_of(&cell)? {
                None => planned.cells.push(cell),
                Some(refusal) => planned.refused.push(RefusedCell { cell, refusal }),
            }
        }
        Ok(planned)
    }

    fn refusal_of(&self, cell: &Cell) -> Result<Option<Refusal>, Fault> {
        let platform = platforms::named(&cell.platform)?;
        if self.boot_of(&cell.platform).is_some() {
            // What it is after another boot, it will say then.
            return Ok(None);
        }
        if let Err(refusal) = platform.can_run(&self.shape(&cell.platform, 0)) {
            return Ok(Some(refusal));
        }
        let (_, is_below) = tracers::arm(&cell.tracer);
        if is_below && platform.is_this_host() {
            let why = "there is no host below it to run on";
            return Ok(Some(Refusal::new(Kind::Senseless, format!("tracer {}", cell.tracer), why)));
        }
        if !platform.is_this_host() {
            return Ok(None);
        }
        let workload = workloads::named(&cell.group.workload)?;
        let role = if workload.about().is_distributed { Role::Server } else { Role::Whole };
        let job = Job { role, ..self.job(cell, String::new()) };
        let refused = workload
            .can_run(&job)
            .and_then(|()| tracers::named(&cell.tracer).map(|tracer| tracer.can_run(&job))?);
        Ok(refused.err())
    }

    /// The job of a cell, as far as the plan tells it: role, peers and seed are the procedure's.
    #[must_use]
    pub fn job(&self, cell: &Cell, id: String) -> Job {
        Job {
            id,
            workload: cell.group.workload.clone(),
            params: self.params_of(&cell.group.workload),
            cache: cell.group.cache,
            tracer: cell.tracer.clone(),
            tracer_params: self
                .tracers
                .get(tracers::arm(&cell.tracer).0)
                .cloned()
                .unwrap_or_default(),
            limit_s: self.procedure.limit_s,
            sample_every_ms: self.procedure.sample_every_ms,
            ..Job::default()
        }
    }

    /// A workload's parameters: its defaults, and in their place what the plan says.
    fn params_of(&self, workload: &str) -> Params {
        let mut params = Params::new();
        if let Ok(found) = workloads::named(workload) {
            let all = found.about().params;
            params.extend(all.into_iter().map(|(name, value, _)| (name.to_owned(), value)));
        }
        params.extend(self.workloads.get(workload).cloned().unwrap_or_default());
        params
    }

    fn wrong(&self, why: impl Into<String>) -> Refusal {
        Refusal::new(Kind::Plan, format!("plan {}", self.name), why)
    }

    fn check_numbers(&self) -> Result<(), Fault> {
        let looks = &self.procedure.looks;
        if looks.is_empty() || looks.contains(&0) || looks.windows(2).any(|two| two[0] >= two[1]) {
            let why = format!("looks = {looks:?}: block counts, each larger than the one before");
            return Err(self.wrong(why).into());
        }
        if self.machine.cpus == 0 || self.machine.memory_mib < 64 {
            return Err(self.wrong("a machine needs at least one CPU and 64 MiB").into());
        }
        if self.procedure.precision.is_some_and(|goal| !(goal > 0.0 && goal < 1.0)) {
            return Err(self.wrong("precision is a fraction between 0 and 1").into());
        }
        if self.platforms.values().any(|params| params.contains_key("boot"))
            && self.machine.boot.is_none()
        {
            let why = "a platform names a boot entry: [machine] boot must name the entry of the other platforms";
            return Err(self.wrong(why).into());
        }
        if self.procedure.tries == 0 || self.procedure.limit_s == 0 {
            return Err(self.wrong("tries and limit_s are at least 1").into());
        }
        Ok(())
    }

    /// Every table of parameters is of something that exists, and every parameter is one of its own, of its kind.
    fn check_parameters(&self) -> Result<(), Fault> {
        for (name, params) in &self.workloads {
            let about = workloads::named(name)?.about();
            for (key, value) in params {
                let Some((_, default, _)) = about.params.iter().find(|(name, ..)| name == key)
                else {
                    let known: Vec<&str> = about.params.iter().map(|(name, ..)| *name).collect();
                    let why =
                        format!("[workloads.\"{name}\"] has no {key}; it has {}", known.join(", "));
                    return Err(self.wrong(why).into());
                };
                if !is_of_the_kind(value, default) {
                    let why = format!(
                        "[workloads.\"{name}\"] {key} = {value}: it must have the type of {default}"
                    );
                    return Err(self.wrong(why).into());
                }
            }
        }
        self.tracers.keys().try_for_each(|name| tracers::named(name).map(drop))?;
        self.platforms.keys().try_for_each(|name| platforms::named(name).map(drop))?;
        Ok(())
    }

    fn cells_of(&self, matrix: &Matrix) -> Result<Vec<Cell>, Fault> {
        matrix.platforms.iter().try_for_each(|name| platforms::named(name).map(drop))?;
        matrix.tracers.iter().try_for_each(|name| tracers::named(name).map(drop))?;
        if matrix.tracers.len() > 1 && !matrix.tracers.contains(&self.reference.tracer) {
            let why = format!(
                "tracers {:?} have no reference run to compare with: the reference is {}",
                matrix.tracers, self.reference.tracer
            );
            return Err(Refusal::new(Kind::NoReference, format!("plan {}", self.name), why).into());
        }
        if matrix.guests.contains(&0) {
            return Err(self.wrong("guests = 0").into());
        }
        let mut cells = Vec::new();
        for workload in self.workloads_of(matrix)? {
            for cache in self.caches_of(matrix, &workload)? {
                for (platform, tracer, guests) in crossed(matrix) {
                    let group = Group { workload: workload.name.to_owned(), cache, guests };
                    cells.push(Cell { group, platform, tracer });
                }
            }
        }
        Ok(cells)
    }

    fn workloads_of(&self, matrix: &Matrix) -> Result<Vec<About>, Fault> {
        let mut found = Vec::new();
        for name in &matrix.workloads {
            let Some(folder) = name.strip_suffix('*') else {
                found.push(workloads::named(name)?.about());
                continue;
            };
            let all = workloads::registry().iter().map(|workload| workload.about());
            let before = found.len();
            found.extend(all.filter(|about| about.name.starts_with(folder)));
            if found.len() == before {
                return Err(self.wrong(format!("no workload is {name}")).into());
            }
        }
        Ok(found)
    }

    fn caches_of(&self, matrix: &Matrix, about: &About) -> Result<Vec<CacheState>, Fault> {
        if matrix.caches.is_empty() {
            return Ok(vec![about.caches.first().copied().unwrap_or_default()]);
        }
        for cache in &matrix.caches {
            if !about.caches.contains(cache) {
                let cache = cache.name();
                let what =
                    format!("plan {}: {} with a cache that is {cache}", self.name, about.name);
                let can_be: Vec<_> = about.caches.iter().map(|cache| cache.name()).collect();
                let why = format!("it can be {}", can_be.join(", "));
                return Err(Refusal::new(Kind::Senseless, what, why).into());
            }
        }
        Ok(matrix.caches.clone())
    }
}

fn crossed(matrix: &Matrix) -> impl Iterator<Item = (String, String, u32)> + '_ {
    matrix.platforms.iter().flat_map(move |platform| {
        matrix.tracers.iter().flat_map(move |tracer| {
            matrix.guests.iter().map(move |guests| (platform.clone(), tracer.clone(), *guests))
        })
    })
}

/// A whole number stands for a number, too.
fn is_of_the_kind(value: &Param, default: &Param) -> bool {
    matches!(
        (value, default),
        (Param::Int(_), Param::Int(_) | Param::Float(_))
            | (Param::Float(_), Param::Float(_))
            | (Param::Bool(_), Param::Bool(_))
            | (Param::Text(_), Param::Text(_))
    )
}
