//! Random tables, and folders to put them in.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "helpers of tests: a failure is what they are for; numbers are small"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use transect_model::exit::{ExitReason, Isa};
use transect_model::ids::{CpuId, MachineId, MachineKind, Tid, VcpuId};
use transect_model::state::VcpuState;
use transect_model::table::{CpuSlice, Exit, Machine, Row, TableSink, VcpuStateRow, Window};
use transect_store::tables::{Basis, TablesWriter, ensure};
use transect_timeline::{Build, TimelineError, View};

/// Numbers that are random and the same in every run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    /// Many short, few long: over six orders of magnitude.
    pub(crate) fn length(&mut self) -> i64 {
        let bits = self.below(20);
        1 + i64::try_from(self.below(1 << bits)).unwrap()
    }
}

/// A recording's folder with tables and, when they are made, tiles.
pub(crate) struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    /// Tables of these rows.
    pub(crate) fn new(rows: impl IntoIterator<Item = Row>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = TablesWriter::create(&dir.path().join("tables"), 3).unwrap();
        rows.into_iter().for_each(|row| writer.row(row));
        writer.finish().unwrap();
        Place { dir }
    }

    /// The same as a recording has them, with a stamp and checksums; `options` are another basis.
    pub(crate) fn stamped(options: &str, rows: &[Row]) -> Self {
        let place = Place { dir: tempfile::tempdir().unwrap() };
        place.stamp(options, rows);
        place
    }

    /// Makes the tables again on that basis, unless they are those already.
    pub(crate) fn stamp(&self, options: &str, rows: &[Row]) {
        let basis = Basis::new("test", options, []).unwrap();
        let made = ensure(self.parent(), self.parent(), &basis, |tables, _| {
            let mut writer = TablesWriter::create(tables, 3)?;
            rows.iter().for_each(|row| writer.row(row.clone()));
            writer.finish()
        });
        made.unwrap();
    }

    pub(crate) fn parent(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn tables(&self) -> PathBuf {
        self.dir.path().join("tables")
    }

    /// What is there, or made if it is not.
    pub(crate) fn ensure(&self, threads: usize) -> Result<View, TimelineError> {
        let (tables, stop) = (self.tables(), AtomicBool::new(false));
        let build = Build {
            tables: &tables,
            parent: self.parent(),
            threads,
            progress: &|_| (),
            partial: &|_| (),
            stop: &stop,
        };
        build.ensure()
    }

    /// Name and bytes of every file of tiles.
    pub(crate) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = std::fs::read_dir(self.dir.path().join("view")).unwrap();
        let files = entries.map(|entry| entry.unwrap().path());
        let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
        files.map(|path| (name(&path), std::fs::read(&path).unwrap())).collect()
    }

    pub(crate) fn path_of(&self, file: &str) -> PathBuf {
        self.dir.path().join("view").join(file)
    }
}

pub(crate) const HOST: MachineId = MachineId(0);
pub(crate) const VM: MachineId = MachineId(1);

pub(crate) fn machines() -> Vec<Row> {
    let machine = |machine_id, parent_id, kind, name: &str| {
        Row::from(Machine {
            machine_id,
            parent_id,
            kind,
            name: name.to_owned(),
            domid: None,
            vmm_pid: None,
            cgroup: None,
            clock: None,
            error_bound_ns: None,
            time_unit: Some("ns".to_owned()),
        })
    };
    vec![
        machine(HOST, None, MachineKind::Host, "host"),
        machine(VM, Some(HOST), MachineKind::Guest, "web1"),
    ]
}

/// States of one vCPU that tile time from `start` on, as the engine gives them.
pub(crate) fn vcpu_states(
    random: &mut Random,
    vcpu: u32,
    start: i64,
    count: usize,
) -> Vec<VcpuStateRow> {
    let mut ts = start;
    let mut row = |random: &mut Random| {
        let (state, reason, by) = match random.below(5) {
            0 | 1 => (VcpuState::Guest, None, None),
            2 => (VcpuState::Exit, Some(reason(random)), None),
            3 => (VcpuState::Preempted, None, Some(Tid(i32::try_from(random.below(4)).unwrap()))),
            _ => (VcpuState::Halted, Some(reason(random)), None),
        };
        let dur = random.length();
        let row = VcpuStateRow {
            ts,
            dur,
            machine_id: VM,
            vcpu: VcpuId(vcpu),
            cpu: Some(CpuId(0)),
            state,
            reason,
            by_machine_id: by.map(|_| HOST),
            by_tid: by,
        };
        ts += dur;
        row
    };
    (0..count).map(|_| row(random)).collect()
}

fn reason(random: &mut Random) -> ExitReason {
    ExitReason { isa: Isa::Svm, code: u32::try_from(0x60 + random.below(4)).unwrap() }
}

/// Slices of one CPU that tile time, by many threads.
pub(crate) fn cpu_slices(random: &mut Random, threads: u64, count: usize) -> Vec<CpuSlice> {
    let mut ts = 1000;
    let mut slice = |random: &mut Random| {
        let dur = random.length();
        let tid = Some(Tid(i32::try_from(random.below(threads)).unwrap()));
        let (machine_id, cpu) = (HOST, CpuId(0));
        let row = CpuSlice { ts, dur, machine_id, cpu, tid, vcpu_machine_id: None, vcpu: None };
        ts += dur;
        row
    };
    (0..count).map(|_| slice(random)).collect()
}

/// Exits of one vCPU that overlap each other, some without an end.
pub(crate) fn exits(random: &mut Random, count: usize) -> Vec<Exit> {
    let mut ts = 1000;
    let mut exit = |random: &mut Random| {
        ts += random.length();
        let dur = (random.below(50) > 0).then(|| 3 * random.length());
        Exit {
            ts,
            dur,
            handling_ns: dur,
            machine_id: VM,
            vcpu: VcpuId(0),
            reason: reason(random),
            rip: 0,
            to_user: false,
            detail: None,
        }
    };
    (0..count).map(|_| exit(random)).collect()
}

/// A window in which nothing happened.
pub(crate) fn window(machine_id: MachineId, ts: i64, dur: i64) -> Window {
    Window {
        ts,
        dur,
        machine_id,
        vcpu: None,
        cpu: None,
        cgroup: None,
        executions: 0,
        gotten_ns: 0,
        waited_ns: 0,
        blocked_ns: 0,
        offline_ns: 0,
        unknown_ns: 0,
        guest_ns: 0,
        halted_ns: 0,
        allocations: 0,
        allocated_avg_ns: None,
        allocated_min_ns: None,
        allocated_max_ns: None,
        io_count: 0,
        exits: 0,
        steal_ns: 0,
    }
}
