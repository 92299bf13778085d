//! System calls that a query may make.
//!
//! A list of what is allowed: private memory, threads, locks, time, and reading and writing descriptors that are open already.
//! Everything else fails with EPERM. `clone` makes threads and no processes, and nothing becomes executable.

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};
use std::collections::BTreeMap;

/// Allowed with any arguments.
const ALLOWED: &[c_long] = &[
    // Open descriptors: pipes and the files of the tables.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_ppoll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    // Memory.
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    // Threads and locks. An answer of ENOSYS to clone3 is below.
    libc::SYS_clone3,
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_membarrier,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // Signals, as a thread of Rust and an abort need them.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    // Time and random numbers.
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
];

/// Bits of mmap's flags that choose between private and shared (`MAP_TYPE`, linux/mman.h).
const MAP_TYPE: i32 = 0x0f;

/// Denies the calling thread, and those that it starts, all other system calls.
pub(super) fn restrict_calls() -> Result<(), String> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH)
        .map_err(|_| format!("no list of allowed system calls for {}", std::env::consts::ARCH))?;
    // glibc passes the flags of clone3 in memory, where no filter can judge them. Without clone3 it uses clone.
    let clone3 = Rules::from([(libc::SYS_clone3, Vec::new())]);
    let absent = (clone3, SeccompAction::Allow, errno_action(libc::ENOSYS));
    let rules = allowed_rules().map_err(|error| error.to_string())?;
    let denied = errno_action(libc::EPERM);
    for (rules, otherwise, matched) in [absent, (rules, denied, SeccompAction::Allow)] {
        let filter = SeccompFilter::new(rules, otherwise, matched, architecture);
        let program = filter.and_then(BpfProgram::try_from).map_err(|error| error.to_string())?;
        apply_filter(&program).map_err(|error| {
            format!(
                "{error} (a kernel without CONFIG_SECCOMP_FILTER, or a container that forbids it)"
            )
        })?;
    }
    Ok(())
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn errno_action(errno: i32) -> SeccompAction {
    SeccompAction::Errno(errno.unsigned_abs())
}

fn allowed_rules() -> Result<Rules, seccompiler::BackendError> {
    use SeccompCmpOp::{Eq, MaskedEq};
    let one = |argument, operator, value| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
    };
    let is_null = |argument| SeccompCondition::new(argument, SeccompCmpArgLen::Qword, Eq, 0);
    let (thread, executable) = (flag_bits(libc::CLONE_THREAD), flag_bits(libc::PROT_EXEC));
    let own = u64::from(std::process::id());
    let mut rules: Rules = ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    let mut allow = |call, alternatives: Vec<Vec<SeccompCondition>>| {
        let alternatives: Result<Vec<_>, _> =
            alternatives.into_iter().map(SeccompRule::new).collect();
        alternatives.map(|alternatives| rules.insert(call, alternatives)).map(drop)
    };
    allow(libc::SYS_clone, vec![vec![one(0, MaskedEq(thread), thread)?]])?;
    // RLIMIT_DATA does not count other mappings.
    let kinds = flag_bits(MAP_TYPE | libc::MAP_GROWSDOWN | libc::MAP_HUGETLB);
    let is_private = one(3, MaskedEq(kinds), flag_bits(libc::MAP_PRIVATE))?;
    allow(libc::SYS_mmap, vec![vec![one(2, MaskedEq(executable), 0)?, is_private]])?;
    allow(libc::SYS_mprotect, vec![vec![one(2, MaskedEq(executable), 0)?]])?;
    allow(libc::SYS_prctl, vec![vec![one(0, Eq, flag_bits(libc::PR_SET_NAME))?]])?;
    allow(libc::SYS_tgkill, vec![vec![one(0, Eq, own)?]])?;
    // Reading its own limits, and setting the CPU time of a query.
    let cpu_time = one(1, Eq, u64::from(libc::RLIMIT_CPU))?;
    allow(
        libc::SYS_prlimit64,
        vec![vec![one(0, Eq, 0)?, is_null(2)?], vec![one(0, Eq, 0)?, cpu_time]],
    )?;
    Ok(rules)
}

/// A flag of C as an argument of a system call.
fn flag_bits(value: i32) -> u64 {
    u64::from(value.unsigned_abs())
}
