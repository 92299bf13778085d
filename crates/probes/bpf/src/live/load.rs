//! Fitting the counting programs to this kernel.

use std::os::fd::AsFd;

use libbpf_rs::{Object, ObjectBuilder, OpenObject};
use procfs::{Current, LoadAverage};

use super::{
    LivePlan,
    layout::{Config, to_bytes},
    memory::{Maps, Memory},
    programs::{self, LiveProgram, NotCounted, SWITCH, TASKS},
};
use crate::{
    BpfError, can_run,
    kernel::{Version, possible_cpus},
    load::SWITCH_WITH_STATE,
    maps::map_named,
    said,
};

/// All counting programs, compiled from `bpf/live.bpf.c` when this crate was built.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/live.bpf.o"));
/// Slots at least: of about 1.5 KiB each.
const SLOTS_AT_LEAST: u32 = 8192;
/// So many times the threads there are now: others come, and dead ones keep theirs for a window.
const SLOTS_PER_THREAD: u32 = 4;
/// Kinds of exits of all vCPUs in a window or two, and kinds of I/O of all processes and devices.
const EXIT_KEYS: u32 = 8192;
const IO_KEYS: u32 = 4096;
/// Block requests on their way; the oldest is forgotten beyond.
const REQUESTS: u32 = 8192;

/// The object in the kernel, not attached.
pub(crate) struct Loaded {
    pub(crate) object: Object,
    pub(crate) memory: Memory,
    pub(crate) programs: Vec<&'static LiveProgram>,
    pub(crate) not_counted: Vec<NotCounted>,
    pub(crate) cpus: u32,
}

pub(crate) fn load(plan: &LivePlan) -> Result<Loaded, BpfError> {
    plan.check()?;
    let names = can_run::check()?;
    let wanted = |program: &LiveProgram| plan.wants(program.event);
    let (mut programs, mut not_counted) = programs::choose(&names, wanted);
    let sizes = Sizes::of_this_machine()?;
    let object = match load_these(plan, &sizes, &programs) {
        Ok(object) => object,
        Err(first) => {
            not_counted.extend(drop_refused(plan, &sizes, &mut programs));
            if !programs.iter().any(|program| program.name == SWITCH) {
                return Err(first);
            }
            load_these(plan, &sizes, &programs)?
        }
    };
    let memory = map(&object, &sizes)?;
    Ok(Loaded { object, memory, programs, not_counted, cpus: sizes.cpus })
}

/// How many of what.
struct Sizes {
    slots: u32,
    cpus: u32,
    /// The largest thread number there can be, and one.
    tids: u32,
}

impl Sizes {
    fn of_this_machine() -> Result<Self, BpfError> {
        let (cpus, _) = possible_cpus()?;
        let cpus = u32::try_from(cpus).unwrap_or(u32::MAX);
        let wanted = threads_now().saturating_mul(SLOTS_PER_THREAD).saturating_add(cpus);
        let slots = wanted.clamp(SLOTS_AT_LEAST, 1 << 20).next_power_of_two();
        Ok(Self { slots, cpus, tids: pid_max() })
    }
}

/// All threads, sleeping ones included.
fn threads_now() -> u32 {
    LoadAverage::current().map_or(0, |load| load.max)
}

/// Numbers are below it. It may be raised later: threads beyond are then not tracked, and counted so.
fn pid_max() -> u32 {
    const LARGEST: u32 = 4 << 20;
    let max = procfs::sys::kernel::pid_max().ok().and_then(|max| u32::try_from(max).ok());
    max.unwrap_or(LARGEST).clamp(1024, LARGEST)
}

/// Reasons with which a guest halts: HLT, and on SVM also the idle variant of it.
fn halts() -> [u32; 2] {
    let has_svm = std::path::Path::new("/sys/module/kvm_amd").exists();
    if has_svm { [0x78, 0xa6] } else { [12, 12] }
}

fn load_these(
    plan: &LivePlan,
    sizes: &Sizes,
    programs: &[&'static LiveProgram],
) -> Result<Object, BpfError> {
    said::listen();
    let config = Config {
        window_ns: plan.window_ns,
        slots: sizes.slots,
        cpus: sizes.cpus,
        halts: halts(),
        switch_has_state: (Version::running() >= SWITCH_WITH_STATE).into(),
        empty: plan.empty_programs.into(),
        ..Config::default()
    };
    let has = |start: &str| programs.iter().any(|program| program.event.starts_with(start));
    let mut open = open()?;
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        let entries = match &*name {
            "live_actors" | "live_waits" | "live_free" => sizes.slots,
            "live_slots" => sizes.tids,
            "live_exits" if has("kvm:") => EXIT_KEYS,
            "live_ios" if has("block:") || has("net:") => IO_KEYS,
            "live_requests" | "live_bios" if has("block:") => REQUESTS,
            ".rodata.config" => {
                let set = map.set_initial_value(to_bytes(&config));
                set.map_err(BpfError::bpf(format!("map {name}")))?;
                continue;
            }
            _ => continue,
        };
        map.set_max_entries(entries).map_err(BpfError::bpf(format!("map {name}")))?;
    }
    for mut program in open.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        program.set_autoload(name == TASKS || programs.iter().any(|p| p.name == name));
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

/// Finds the programs that the kernel refuses by loading each alone, and takes them out.
fn drop_refused(
    plan: &LivePlan,
    sizes: &Sizes,
    programs: &mut Vec<&'static LiveProgram>,
) -> Vec<NotCounted> {
    let mut refused = Vec::new();
    programs.retain(|program| match load_these(plan, sizes, &[program]) {
        Ok(_) => true,
        Err(error) => {
            let why = said::verdict().unwrap_or_else(|| error.to_string());
            let why = format!("the kernel refused the BPF program: {why}");
            refused.push(NotCounted { event: program.event, why });
            false
        }
    });
    refused
}

fn map(object: &Object, sizes: &Sizes) -> Result<Memory, BpfError> {
    let [actors, waits, free, shared, cpus] =
        ["live_actors", "live_waits", "live_free", ".bss.shared", ".bss.cpus"]
            .map(|name| map_named(object, name));
    let (actors, waits, free, shared, cpus) = (actors?, waits?, free?, shared?, cpus?);
    let maps = Maps {
        actors: actors.as_fd(),
        waits: waits.as_fd(),
        free: free.as_fd(),
        shared: shared.as_fd(),
        cpus: cpus.as_fd(),
    };
    Memory::map(&maps, sizes.slots, sizes.cpus).map_err(BpfError::system("cannot map the counters"))
}
