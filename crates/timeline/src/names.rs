//! Names of machines and threads, from their tables.

use crate::column::{Words, get, i32s, u32s};
use crate::error::{TimelineError, reader_error};
use crate::rows::{self, Files};
use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use transect_integrity::Folder;

/// One machine of the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its number in every table.
    pub machine_id: u32,
    /// The machine it runs on.
    pub parent_id: Option<u32>,
    /// host, hypervisor, guest or container.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// Names of everything that has one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    /// In the order in which a person reads them: a machine, then those that run on it.
    pub(crate) machines: Vec<Machine>,
    threads: FxHashMap<(u32, i32), String>,
    /// Control groups of each machine's threads, those at the root left out.
    cgroups: BTreeSet<(u32, String)>,
    cgroup_of: FxHashMap<(u32, i32), String>,
    /// Of each VM, which vCPU a thread of its host runs.
    vcpus: FxHashMap<(u32, i32), u32>,
}

impl Names {
    pub(crate) fn read(tables: &Folder) -> Result<Self, TimelineError> {
        let mut names = Names::default();
        let columns = &["machine_id", "parent_id", "kind", "name"];
        each(tables, "machines", columns, |batch| {
            let (id, parent) = (u32s(batch, "machine_id")?, u32s(batch, "parent_id")?);
            let (kind, name) = (Words::new(batch, "kind")?, Words::new(batch, "name")?);
            names.machines.extend((0..batch.num_rows()).map(|row| Machine {
                machine_id: id.value(row),
                parent_id: get(parent, row),
                kind: kind.text(row).to_owned(),
                name: name.text(row).to_owned(),
            }));
            Ok(())
        })?;
        each(tables, "threads", &["machine_id", "tid", "name", "cgroup"], |batch| {
            let (machine, tid) = (u32s(batch, "machine_id")?, i32s(batch, "tid")?);
            let (name, cgroup) = (Words::new(batch, "name")?, Words::new(batch, "cgroup")?);
            for row in 0..batch.num_rows() {
                let cgroup = cgroup.text(row);
                if !matches!(cgroup, "" | "/") {
                    let machine = machine.value(row);
                    names.cgroups.insert((machine, cgroup.to_owned()));
                    names.cgroup_of.insert((machine, tid.value(row)), cgroup.to_owned());
                }
            }
            names.threads.extend(
                (0..batch.num_rows())
                    .map(|row| ((machine.value(row), tid.value(row)), name.text(row).to_owned())),
            );
            Ok(())
        })?;
        each(tables, "vcpus", &["machine_id", "vcpu", "vmm_tid"], |batch| {
            let (machine, vcpu) = (u32s(batch, "machine_id")?, u32s(batch, "vcpu")?);
            let tid = i32s(batch, "vmm_tid")?;
            names.vcpus.extend(
                (0..batch.num_rows()).filter_map(|row| {
                    Some(((machine.value(row), get(tid, row)?), vcpu.value(row)))
                }),
            );
            Ok(())
        })?;
        names.machines.sort_by_key(|machine| machine.machine_id);
        Ok(names)
    }

    pub(crate) fn machine(&self, id: u32) -> Option<&Machine> {
        self.machines.iter().find(|machine| machine.machine_id == id)
    }

    pub(crate) fn machine_name(&self, id: u32) -> String {
        self.machine(id).map_or_else(|| format!("machine {id}"), |machine| machine.name.clone())
    }

    /// The vCPU of a VM that a thread of its host runs.
    pub(crate) fn vcpu_of(&self, machine: u32, tid: i32) -> Option<u32> {
        self.vcpus.get(&(machine, tid)).copied()
    }

    /// Machines and their control groups, in order.
    pub(crate) fn cgroups(&self) -> impl Iterator<Item = (u32, &str)> {
        self.cgroups.iter().map(|(machine, cgroup)| (*machine, cgroup.as_str()))
    }

    /// The control group of a thread, unless it is at the root or not known.
    pub(crate) fn cgroup_of(&self, machine: u32, tid: i32) -> Option<&str> {
        self.cgroup_of.get(&(machine, tid)).map(String::as_str)
    }

    /// The VM and the vCPU that a thread of a host runs.
    pub(crate) fn runs(&self, host: u32, tid: i32) -> Option<(&Machine, u32)> {
        let of_host = self.machines.iter().filter(|machine| machine.parent_id == Some(host));
        of_host.filter_map(|vm| Some((vm, self.vcpu_of(vm.machine_id, tid)?))).next()
    }

    /// A thread as people call it.
    pub(crate) fn thread(&self, machine: u32, tid: i32) -> String {
        match self.threads.get(&(machine, tid)) {
            Some(name) if !name.is_empty() => format!("{name} ({tid})"),
            _ if tid == 0 => "idle".to_owned(),
            _ => format!("thread {tid}"),
        }
    }
}

/// Are the recording's times in ticks of unknown length?
pub(crate) fn is_in_ticks(tables: &Folder) -> Result<bool, TimelineError> {
    let mut is_in_ticks = false;
    each(tables, "machines", &["time_unit"], |batch| {
        let unit = Words::new(batch, "time_unit")?;
        is_in_ticks |= (0..batch.num_rows()).any(|row| unit.text(row) == "ticks");
        Ok(())
    })?;
    Ok(is_in_ticks)
}

fn each(
    tables: &Folder,
    table: &str,
    columns: &[&str],
    mut take: impl FnMut(&RecordBatch) -> Result<(), TimelineError>,
) -> Result<(), TimelineError> {
    for file in Files::in_dir(tables, &tables.dir().join(table))?.all() {
        for batch in rows::open(file, columns)? {
            let failed = |error: ArrowError| reader_error(file, &error);
            take(&batch.map_err(failed)?)?;
        }
    }
    Ok(())
}
