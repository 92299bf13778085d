//! Single operations of the kernel: an LMbench-style set of our own. See README.md for each.

mod context_switch;
mod memory;
mod page_fault;
mod pipe;
mod processes;
mod reread;
mod syscall;

pub(crate) use syscall::Getppid;

use super::{
    looped::{Counts, Looped, everywhere, no_params},
    workload::Workload,
};
use transect_bench_core::CacheState::{Any, Hot};

const TABLE_8: &str = "LTTng-Xen Tables 8–12 (LMbench, local communication)";
const TEXT: &str = "LTTng-Xen section 5.6 (LMbench, process)";
const LMBENCH: &str =
    "McVoy and Staelin, lmbench: Portable Tools for Performance Analysis, USENIX 1996";

/// All of them.
pub(crate) const ALL: [&dyn Workload; 11] = [
    &Looped {
        name: "micro/pipe",
        text: "bytes through a pipe, 64 KiB at a time, from one process to another",
        source: TABLE_8,
        counts: Counts::Bytes,
        caches: &[Any],
        params: no_params,
        can_run: everywhere,
        make: pipe::make,
    },
    &Looped {
        name: "micro/file-reread",
        text: "reading a file that is in the page cache, 64 KiB at a time",
        source: TABLE_8,
        counts: Counts::Bytes,
        caches: &[Hot, Any],
        params: reread::params,
        can_run: everywhere,
        make: reread::make_read,
    },
    &Looped {
        name: "micro/mmap-reread",
        text: "summing a mapped file that is in the page cache",
        source: TABLE_8,
        counts: Counts::Bytes,
        caches: &[Hot, Any],
        params: reread::params,
        can_run: everywhere,
        make: reread::make_mapped,
    },
    &Looped {
        name: "micro/memory-read",
        text: "summing memory",
        source: TABLE_8,
        counts: Counts::Bytes,
        caches: &[Any],
        params: memory::params,
        can_run: everywhere,
        make: memory::make_read,
    },
    &Looped {
        name: "micro/memory-write",
        text: "filling memory",
        source: TABLE_8,
        counts: Counts::Bytes,
        caches: &[Any],
        params: memory::params,
        can_run: everywhere,
        make: memory::make_write,
    },
    &Looped {
        name: "micro/fork",
        text: "fork, and wait for the child to exit",
        source: TEXT,
        counts: Counts::Operations,
        caches: &[Any],
        params: no_params,
        can_run: everywhere,
        make: processes::make_fork,
    },
    &Looped {
        name: "micro/exec",
        text: "fork, execute a small program, and wait for it to exit",
        source: TEXT,
        counts: Counts::Operations,
        caches: &[Any],
        params: processes::params,
        can_run: processes::can_exec,
        make: processes::make_exec,
    },
    &Looped {
        name: "micro/sh",
        text: "fork, execute a small program through a shell, and wait for it to exit",
        source: TEXT,
        counts: Counts::Operations,
        caches: &[Any],
        params: processes::params,
        can_run: processes::can_exec,
        make: processes::make_sh,
    },
    &Looped {
        name: "micro/context-switch",
        text: "a token passed around a ring of processes that each read memory: time for one hop",
        source: LMBENCH,
        counts: Counts::Operations,
        caches: &[Any],
        params: context_switch::params,
        can_run: everywhere,
        make: context_switch::make,
    },
    &Looped {
        name: "micro/syscall",
        text: "the cheapest system call, getppid",
        source: LMBENCH,
        counts: Counts::Operations,
        caches: &[Any],
        params: no_params,
        can_run: everywhere,
        make: syscall::make,
    },
    &Looped {
        name: "micro/page-fault",
        text: "the first touch of an anonymous page",
        source: LMBENCH,
        counts: Counts::Operations,
        caches: &[Any],
        params: no_params,
        can_run: everywhere,
        make: page_fault::make,
    },
];
