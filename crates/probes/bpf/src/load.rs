//! Fitting the embedded object to this kernel.

use std::{os::fd::AsFd, sync::Arc};

use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder, OpenObject, ProgramInput};

use crate::{
    BpfError, Mode, Plan, SyscallMode, Trigger, TriggerEvent, can_run, choice, filter,
    kernel::{Names, Version, possible_cpus},
    layout::{CHUNK_BYTES, Config},
    maps::map_named,
    memory::{Memory, Which},
    plan::SIDE_CHUNKS,
    preempt,
    program::{Family, PROGRAMS, Program},
    said, stacks,
};

/// The program that notes threads which change their cgroup, and how many it can (`MAX_MOVED`).
pub(crate) const MOVES: &str = "cgroup_attach_task";
pub(crate) const MAX_MOVED: usize = 8192;

/// All programs, compiled from `bpf/collector.bpf.c` when this crate was built.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/collector.bpf.o"));
/// Writes out a pending BEGIN; not a recording program.
pub(crate) const FLUSH: &str = "flush_pending";
/// Looks up where a CPU has its preemption count; not a recording program.
const FIND: &str = "find_count";
/// The program that reads it.
const READS_COUNT: &str = "sched_waking";
/// What the bios of devices without requests were, and the programs that use that.
const BIOS: &str = "block_bios";
const USE_BIOS: [&str; 2] = ["block_bio_queue", "block_bio_complete"];
/// Chunks of a CPU that is not online: enough until it has been noticed.
const OFFLINE_CHUNKS: u32 = 4;
/// `sched_switch` has prev_state as fourth argument since 5.18.
pub(crate) const SWITCH_WITH_STATE: Version = Version(5, 18);

/// The object in the kernel, not attached.
pub(crate) struct Loaded {
    pub(crate) object: Object,
    pub(crate) memory: Arc<Memory>,
    pub(crate) programs: Vec<&'static Program>,
    pub(crate) extra: Vec<&'static str>,
    pub(crate) absent: Vec<String>,
    pub(crate) names: Names,
}

pub(crate) fn load(plan: &Plan) -> Result<Loaded, BpfError> {
    plan.check()?;
    let names = can_run::check()?;
    let wanted = plan.programs()?;
    let mut absent = choice::absent_of(&wanted, &names);
    let possible = wanted.iter().copied().filter(|program| choice::is_possible(program, &names));
    let mut programs: Vec<_> = possible.collect();
    let mut extra = Vec::new();
    if plan.filters.cgroup.is_some() && names.has_tracepoint(MOVES) {
        extra.push(MOVES);
    } else if plan.filters.cgroup.is_some() {
        absent.push(format!(
            "{MOVES} (no such tracepoint: states of the threads of the cgroup are unknown)"
        ));
    }
    let layout = Layout::of(plan)?;
    let reads_count = plan.contexts && programs.iter().any(|program| program.name == READS_COUNT);
    let mut distance = if reads_count { preempt::distance() } else { None };
    let object = match load_these(plan, &layout, &programs, &extra, distance) {
        Ok(object) => object,
        Err(first) => {
            // Without the context of a waking, before without the waking.
            if load_alone(plan, READS_COUNT, distance).is_err() {
                distance = None;
            }
            absent.extend(drop_refused(plan, &mut programs, distance));
            if programs.is_empty() && extra.is_empty() {
                return Err(first);
            }
            load_these(plan, &layout, &programs, &extra, distance)?
        }
    };
    if let Some(distance) = distance {
        find_counts(&object, distance, layout.main.len())?;
    }
    let memory = Arc::new(layout.map(&object)?);
    fill_filters(&object, plan)?;
    Ok(Loaded { object, memory, programs, extra, absent, names })
}

/// Which chunks belong to which log.
struct Layout {
    /// Chunks of the main log of each possible CPU.
    main: Vec<u32>,
}

impl Layout {
    fn of(plan: &Plan) -> Result<Self, BpfError> {
        let (cpus, online) = possible_cpus()?;
        let full = u32::try_from(plan.log_bytes_per_cpu / CHUNK_BYTES).unwrap_or(u32::MAX);
        let is_online = |cpu: usize| u32::try_from(cpu).is_ok_and(|cpu| online.contains(&cpu));
        let of_cpu = |cpu| if is_online(cpu) { full } else { full.min(OFFLINE_CHUNKS) };
        Ok(Self { main: (0..cpus).map(of_cpu).collect() })
    }

    fn chunks(&self) -> u32 {
        self.main.iter().flat_map(|main| Which::ALL.map(|which| Self::of_log(which, *main))).sum()
    }

    fn of_log(which: Which, main: u32) -> u32 {
        if which == Which::Main { main } else { SIDE_CHUNKS }
    }

    fn map(&self, object: &Object) -> Result<Memory, BpfError> {
        let fd_of = |name: &str| map_named(object, name);
        let (logs, chunks, control) =
            (fd_of(".bss.logs")?, fd_of("chunks")?, fd_of(".bss.control")?);
        let memory = Memory::map(
            logs.as_fd(),
            (chunks.as_fd(), self.chunks() as usize),
            control.as_fd(),
            self.main.len(),
        )
        .map_err(BpfError::system("cannot map the logs"))?;
        let mut first = 0;
        for (cpu, chunks) in self.main.iter().enumerate() {
            for which in Which::ALL {
                let chunks = Self::of_log(which, *chunks);
                memory.grant(cpu, which, first, chunks);
                first += chunks;
            }
        }
        Ok(memory)
    }
}

fn load_these(
    plan: &Plan,
    layout: &Layout,
    programs: &[&'static Program],
    extra: &[&'static str],
    distance: Option<i64>,
) -> Result<Object, BpfError> {
    let mut config = config_of(plan, programs)?;
    config.count_is_known = distance.is_some().into();
    said::listen();
    let mut open = open()?;
    for mut map in open.maps_mut() {
        let doing = format!("map {}", map.name().to_string_lossy());
        match &*map.name().to_string_lossy() {
            "chunks" => map.set_max_entries(layout.chunks()).map_err(BpfError::bpf(doing))?,
            name if stacks::has(name) => {
                stacks::fit(&mut map, plan).map_err(BpfError::bpf(doing))?
            }
            BIOS => {
                let wanted = programs.iter().any(|program| USE_BIOS.contains(&program.name));
                map.set_autocreate(wanted).map_err(BpfError::bpf(doing))?
            }
            ".rodata.config" => {
                map.set_initial_value(config.bytes()).map_err(BpfError::bpf(doing))?
            }
            _ => {}
        }
    }
    for mut program in open.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        let wanted = name == FLUSH
            || (name == FIND && distance.is_some())
            || programs.iter().any(|p| p.name == name)
            || extra.contains(&&*name);
        program.set_autoload(wanted);
    }
    open.load().map_err(|error| BpfError::Load { error, log: said::lines() })
}

fn open() -> Result<OpenObject, BpfError> {
    // libelf wants it aligned, which bytes of the binary need not be.
    let aligned = OBJECT.to_vec();
    ObjectBuilder::default()
        .open_memory(&aligned)
        .map_err(BpfError::bpf("cannot read the embedded BPF object"))
}

/// Has every CPU's preemption count found. Where one is not, the CPU's wakings are without their context.
fn find_counts(object: &Object, distance: i64, cpus: usize) -> Result<(), BpfError> {
    let Some(program) = object.progs_mut().find(|program| program.name() == FIND) else {
        return Ok(());
    };
    for cpu in 0..cpus {
        let mut context = [0; 16];
        context[..8].copy_from_slice(&distance.to_ne_bytes());
        context[8..12].copy_from_slice(&u32::try_from(cpu).unwrap_or(u32::MAX).to_ne_bytes());
        let input = ProgramInput { context_in: Some(&mut context), ..Default::default() };
        program.test_run(input).map_err(BpfError::bpf("cannot find the preemption counts"))?;
    }
    Ok(())
}

/// Loads one program with the least memory, and lets go of it.
fn load_alone(plan: &Plan, name: &str, distance: Option<i64>) -> Result<(), BpfError> {
    let tiny = Layout { main: vec![2] };
    let distance = distance.filter(|_| name == READS_COUNT);
    let programs: Vec<_> = PROGRAMS.iter().filter(|program| program.name == name).collect();
    load_these(plan, &tiny, &programs, &[], distance).map(drop)
}

/// Finds the programs that the kernel refuses by loading each alone, and takes them out.
fn drop_refused(
    plan: &Plan,
    programs: &mut Vec<&'static Program>,
    distance: Option<i64>,
) -> Vec<String> {
    let mut refused = Vec::new();
    programs.retain(|program| match load_alone(plan, program.name, distance) {
        Ok(()) => true,
        Err(error) => {
            let why = said::verdict().unwrap_or_else(|| error.to_string());
            refused.push(format!("{} (refused: {why})", program.event));
            false
        }
    });
    refused
}

fn config_of(plan: &Plan, programs: &[&'static Program]) -> Result<Config, BpfError> {
    let has = |name: &str| programs.iter().any(|program| program.name == name);
    let has_switch = has("sched_switch");
    let cgroup = plan.filters.cgroup.as_deref().map(filter::cgroup).transpose()?;
    let mut config = Config {
        empty: if plan.empty_stamps { 2 } else { plan.empty_programs.into() },
        overwrite: (plan.mode == Mode::FlightRecorder).into(),
        check_current: (!has_switch || plan.filters.by_thread()).into(),
        fold: plan.fold.into(),
        causes: plan.families.contains(&Family::Causes).into(),
        stacks: plan.families.contains(&Family::Stacks).into(),
        // Without entries an exit is a record of its own: nothing to look up for it.
        fold_syscalls: (plan.syscalls == SyscallMode::Folded && has("sys_enter")).into(),
        filter: plan.filters.by_thread().into(),
        filter_tids: (!plan.filters.tids.is_empty()).into(),
        filter_tgids: (!plan.filters.tgids.is_empty()).into(),
        filter_cgroup: cgroup.is_some().into(),
        cgroup_id: cgroup.as_ref().map_or(0, |cgroup| cgroup.id),
        cgroup_level: cgroup.as_ref().map_or(0, |cgroup| cgroup.level),
        switch_has_state: (Version::running() >= SWITCH_WITH_STATE).into(),
        irq_min_ns: plan.filters.min_irq_ns,
        softirq_min_ns: plan.filters.min_softirq_ns,
        syscall_min_ns: plan.filters.min_syscall_ns,
        exit_min_ns: plan.filters.min_exit_ns,
        ..Config::default()
    };
    if let Some(trigger) = plan.trigger {
        (config.trigger_kind, config.trigger_ns) = trigger_of(trigger);
    }
    let rare = [config.empty, config.overwrite, config.check_current, config.filter];
    config.special = (rare != [0; 4] || config.trigger_kind != 0).into();
    Ok(config)
}

/// Kinds of `bpf/kinds.h` under which pairs report to the trigger.
fn trigger_of(trigger: Trigger) -> (u32, u64) {
    let kind = match trigger.on {
        TriggerEvent::KvmExit => 16,
        TriggerEvent::Irq => 35,
        TriggerEvent::Softirq => 39,
        TriggerEvent::Syscall => 43,
        TriggerEvent::Kind(kind) => kind.into(),
    };
    (kind, trigger.min_ns)
}

fn fill_filters(object: &Object, plan: &Plan) -> Result<(), BpfError> {
    for (name, ids) in [("tids", &plan.filters.tids), ("tgids", &plan.filters.tgids)] {
        let map = map_named(object, name)?;
        for id in ids {
            map.update(&id.to_ne_bytes(), &[1], MapFlags::ANY).map_err(BpfError::bpf(format!(
                "filter {name}: cannot add {id} (limit: 4096 entries)"
            )))?;
        }
    }
    Ok(())
}
