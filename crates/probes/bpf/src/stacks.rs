//! The frames of the stacks that events name: read from the kernel when recording ends, and named.

use crate::{BpfError, Plan, maps::map_named, program::Family};
use blazesym::{
    MaybeDefault, Pid,
    symbolize::{
        Input, Reason, Symbolized, Symbolizer,
        source::{Kernel, Process, Source},
    },
};
use libbpf_rs::{MapCore as _, MapFlags, Object, OpenMapMut};
use std::{
    collections::{BTreeMap, HashMap},
    fs,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};
use transect_model::stack::{Frame, MAX_FRAMES, MAX_STACKS, Stacks};

/// The maps of `bpf/stack.bpf.h`.
const STACKS: &str = "stacks";
const OWNERS: &str = "stack_owners";
/// Addresses from here on are the kernel's.
const KERNEL_FROM: u64 = 1 << 63;
/// Frames of the program that takes the stack, and of what calls it: innermost, before those of the event.
const OWN: [&str; 5] = ["bpf_", "__bpf_", "__traceiter_", "__probestub_", "perf_trace_"];

/// How long naming the frames of programs may take: a guest's agent has to answer within three seconds.
const PROGRAMS_WITHIN: Duration = Duration::from_secs(2);

/// Numbers and addresses, by the process that the program is of; none: the kernel's.
type RawStacks = BTreeMap<Option<u32>, Vec<(u32, Vec<u64>)>>;

/// Makes the map as large as it has to be; without stacks there is none.
pub(crate) fn fit(map: &mut OpenMapMut<'_>, plan: &Plan) -> libbpf_rs::Result<()> {
    if !plan.families.contains(&Family::Stacks) {
        return map.set_autocreate(false);
    }
    if map.name() == STACKS {
        map.set_value_size(8 * frames_allowed())?;
    }
    map.set_max_entries(MAX_STACKS)
}

/// The kernel refuses a map with more frames than an administrator allows.
fn frames_allowed() -> u32 {
    let limit = fs::read_to_string("/proc/sys/kernel/perf_event_max_stack").unwrap_or_default();
    let most = u32::try_from(MAX_FRAMES).unwrap_or(u32::MAX);
    limit.trim().parse().unwrap_or(most).clamp(1, most)
}

/// Is this map one of the stacks'?
pub(crate) fn has(map: &str) -> bool {
    map == STACKS || map == OWNERS
}

/// Reads and names all stacks. Of a process that has ended, and where the kernel hides its names, frames are
/// addresses.
pub(crate) fn read(object: &Object) -> Result<Stacks, BpfError> {
    let (map, owners) = (map_named(object, STACKS)?, map_named(object, OWNERS)?);
    let mut raw = RawStacks::new();
    for key in map.keys() {
        let Ok(Some(value)) = map.lookup(&key, MapFlags::ANY) else { continue };
        let Ok(id) = key.as_slice().try_into().map(u32::from_ne_bytes) else { continue };
        let addresses = value.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word));
        let addresses: Vec<u64> = addresses.take_while(|address| *address != 0).collect();
        let owner = owners.lookup(&key, MapFlags::ANY).ok().flatten();
        let owner = owner.and_then(|owner| Some(u32::from_ne_bytes(owner.try_into().ok()?)));
        let is_kernels = addresses.first().is_some_and(|address| *address >= KERNEL_FROM);
        let owner = owner.filter(|_| !is_kernels);
        raw.entry(owner).or_default().push((id, addresses));
    }
    let mut names = names_in_programs(&raw);
    if let Some(stacks) = raw.get(&None) {
        names.insert(None, named(&Symbolizer::new(), None, &addresses_of(stacks)));
    }
    let mut frames = Stacks::new();
    for (owner, stacks) in raw {
        let names = names.remove(&owner);
        for (id, addresses) in stacks {
            // Without frame pointers, what is found beyond the first frames is what happened to be on the stack.
            let frame = |address: &u64| match &names {
                Some(names) => names.get(address).cloned().flatten(),
                None => Some(nameless(*address)),
            };
            let all: Vec<Frame> = addresses.iter().map_while(frame).collect();
            let own = if owner.is_none() { own_frames(&all) } else { 0 };
            if own < all.len() {
                frames.insert(id, all[own..].to_vec());
            }
        }
    }
    Ok(frames)
}

/// The names of addresses; none where no code can be.
type Names = HashMap<u64, Option<Frame>>;

/// The names in programs, by process. Their files are not trusted: who reads one may wait for its owner, or fail. So a
/// thread reads them, and those that it has not named in time have no names.
fn names_in_programs(raw: &RawStacks) -> HashMap<Option<u32>, Names> {
    let programs = raw.iter().filter(|(owner, _)| owner.is_some());
    let programs: Vec<_> = programs.map(|(owner, stacks)| (*owner, addresses_of(stacks))).collect();
    let (tell, told) = mpsc::channel();
    let read = move || {
        let symbolizer = Symbolizer::new();
        for (owner, addresses) in programs {
            if tell.send((owner, named(&symbolizer, owner, &addresses))).is_err() {
                return;
            }
        }
    };
    let mut names = HashMap::new();
    if thread::Builder::new().name("stacks".to_owned()).spawn(read).is_err() {
        return names;
    }
    let end = Instant::now() + PROGRAMS_WITHIN;
    while let Ok((owner, of)) = told.recv_timeout(end.saturating_duration_since(Instant::now())) {
        names.insert(owner, of);
    }
    names
}

/// The addresses of these stacks, each once.
fn addresses_of(stacks: &[(u32, Vec<u64>)]) -> Vec<u64> {
    let mut addresses: Vec<u64> = stacks.iter().flat_map(|(_, stack)| stack).copied().collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

/// The name of each of these addresses, which are the kernel's or a process's.
fn named(symbolizer: &Symbolizer, owner: Option<u32>, addresses: &[u64]) -> Names {
    let source = match owner {
        Some(pid) => Source::Process(Process {
            // Anybody can write that file.
            perf_map: false,
            ..Process::new(Pid::from(pid))
        }),
        // What is in memory, and no file that may be another kernel's.
        None => Source::Kernel(Kernel { vmlinux: MaybeDefault::None, ..Kernel::default() }),
    };
    let told = symbolizer.symbolize(&source, Input::AbsAddr(addresses)).unwrap_or_default();
    let frame = |(at, address): (usize, &u64)| match told.get(at) {
        Some(Symbolized::Sym(sym)) => Some(Frame {
            symbol: sym.name.clone().into_owned(),
            module: sym.module.as_ref().map(|module| module.to_string_lossy().into_owned()),
        }),
        Some(Symbolized::Unknown(Reason::Unmapped)) => None,
        _ => Some(nameless(*address)),
    };
    addresses.iter().enumerate().map(|at| (*at.1, frame(at))).collect()
}

fn nameless(address: u64) -> Frame {
    Frame { symbol: format!("{address:#x}"), module: None }
}

/// How many of the innermost frames are the program's own and of what calls it.
fn own_frames(frames: &[Frame]) -> usize {
    let is_own = |frame: &Frame| OWN.iter().any(|own| frame.symbol.starts_with(own));
    // A program has no name in kallsyms unless the kernel puts it there: an address before its caller.
    let last = frames.iter().take(8).rposition(is_own);
    last.map_or(0, |last| last + 1)
}
