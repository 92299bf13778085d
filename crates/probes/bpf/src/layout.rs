//! What `bpf/config.h` shares with the programs, field by field.
//!
//! [`Config`] is constant once the programs are loaded. [`Log`] and [`Control`] are memory that
//! the kernel and this process both write: every field is an atomic. A test compares the offset
//! of every field with those in the object's own BTF.

#![allow(unsafe_code, reason = "a structure as the bytes the programs have")]

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

/// `CHUNK_BYTES`: the unit of overwriting and of resynchronisation.
pub const CHUNK_BYTES: usize = 32768;
/// `MAX_CPUS`: more possible CPUs than this are refused.
pub(crate) const MAX_CPUS: usize = 1024;

/// `struct config`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Config {
    pub(crate) cgroup_id: u64,
    pub(crate) trigger_ns: u64,
    pub(crate) irq_min_ns: u64,
    pub(crate) softirq_min_ns: u64,
    pub(crate) syscall_min_ns: u64,
    pub(crate) exit_min_ns: u64,
    pub(crate) cgroup_level: u32,
    pub(crate) trigger_kind: u32,
    pub(crate) empty: u8,
    pub(crate) overwrite: u8,
    pub(crate) check_current: u8,
    pub(crate) fold: u8,
    pub(crate) filter: u8,
    pub(crate) filter_tids: u8,
    pub(crate) filter_tgids: u8,
    pub(crate) filter_cgroup: u8,
    pub(crate) switch_has_state: u8,
    pub(crate) fold_syscalls: u8,
    pub(crate) special: u8,
    pub(crate) count_is_known: u8,
    pub(crate) causes: u8,
    pub(crate) stacks: u8,
    pub(crate) spare: [u8; 2],
}

impl Config {
    /// Its bytes, as the programs have them.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: repr(C), only integers, no padding (the sizes of the fields add up to the whole).
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), size_of::<Self>()) }
    }
}

/// `struct log`: the header of one log.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) head: AtomicU64,
    pub(crate) last_ns: AtomicU64,
    pub(crate) current: AtomicU32,
    pub(crate) chunk: AtomicU32,
    pub(crate) busy: AtomicU16,
    pub(crate) side: AtomicU16,
    pub(crate) started: AtomicU16,
    pub(crate) flushing: AtomicU16,
    pub(crate) pending_w0: AtomicU64,
    pub(crate) pending_w1: AtomicU64,
    pub(crate) pending_w2: AtomicU64,
    pub(crate) pending_ns: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) lost_told: AtomicU64,
    pub(crate) lost_first_ns: AtomicU64,
    pub(crate) lost_last_ns: AtomicU64,
    pub(crate) saturated: AtomicU64,
    pub(crate) short_intervals: AtomicU64,
    pub(crate) rip_high: AtomicU32,
    pub(crate) has_rip: AtomicU32,
    pub(crate) first_chunk: AtomicU32,
    pub(crate) chunks: AtomicU32,
    pub(crate) tail: AtomicU64,
    pub(crate) events: AtomicU64,
    pub(crate) consumer_spare: [AtomicU64; 6],
    pub(crate) begin_ns: [AtomicU64; 4],
    pub(crate) lost_since_ns: AtomicU64,
    pub(crate) named: [AtomicU32; 4],
    pub(crate) named_next: AtomicU32,
    pub(crate) exits_set: AtomicU32,
    /// Pairs of `what` and `rip`.
    pub(crate) exits: [[AtomicU64; 2]; 16],
}

/// Side logs of a CPU (`SIDE_LOGS`).
pub(crate) const SIDE_LOGS: usize = 2;

/// `struct cpu_logs`: all logs of one CPU.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct CpuLogs {
    pub(crate) main: Log,
    pub(crate) side: [Log; SIDE_LOGS],
}

/// `struct control`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) paused: AtomicU64,
    pub(crate) trigger_ns: AtomicU64,
    pub(crate) trigger_cpu: AtomicU64,
    pub(crate) trigger_tid: AtomicU64,
    pub(crate) stacks_lost: AtomicU64,
    pub(crate) spare: [AtomicU64; 3],
}

const _: () =
    assert!(size_of::<Config>() == 72 && size_of::<Log>() == 512 && size_of::<Control>() == 64);

#[cfg(test)]
mod tests {
    use super::*;
    use libbpf_rs::btf::{
        Btf,
        types::{MemberAttr, Struct},
    };
    use std::{collections::BTreeMap, mem::offset_of};

    /// Offset of every member of a structure in the object, bytes.
    fn in_object(name: &str) -> BTreeMap<String, usize> {
        let btf = Btf::from_path(concat!(env!("OUT_DIR"), "/collector.bpf.o")).unwrap();
        let found = btf.type_by_name::<Struct<'_>>(name).unwrap();
        let bytes = |attr: MemberAttr| match attr {
            MemberAttr::Normal { offset } => offset as usize / 8,
            MemberAttr::BitField { .. } => panic!("no bit fields here"),
        };
        found
            .iter()
            .map(|m| (m.name.unwrap().to_string_lossy().into_owned(), bytes(m.attr)))
            .collect()
    }

    macro_rules! offsets {
        ($type:ty: $($field:ident)*) => {
            BTreeMap::from([$((stringify!($field).to_owned(), offset_of!($type, $field))),*])
        };
    }

    #[test]
    fn every_field_lies_where_the_programs_have_it() {
        assert_eq!(
            in_object("config"),
            offsets!(Config: cgroup_id trigger_ns irq_min_ns softirq_min_ns syscall_min_ns exit_min_ns
                cgroup_level trigger_kind empty overwrite check_current fold filter filter_tids
                filter_tgids filter_cgroup switch_has_state fold_syscalls special count_is_known causes
                stacks spare)
        );
        assert_eq!(
            in_object("log"),
            offsets!(Log: events head last_ns current chunk busy side started flushing pending_w0 pending_w1 pending_w2
                pending_ns lost lost_told lost_first_ns lost_last_ns saturated short_intervals rip_high
                has_rip first_chunk chunks tail consumer_spare begin_ns lost_since_ns named named_next
                exits_set exits)
        );
        assert_eq!(
            in_object("control"),
            offsets!(Control: paused trigger_ns trigger_cpu trigger_tid stacks_lost spare)
        );
        assert_eq!(in_object("cpu_logs"), offsets!(CpuLogs: main side));
    }
}
