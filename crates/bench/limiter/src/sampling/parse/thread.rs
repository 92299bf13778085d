//! What the kernel says of one thread.

use super::line::{column, lines, numbers};

/// `/proc/PID/task/TID/schedstat` (fs/proc/base.c `proc_pid_schedstat`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedStat {
    /// Time on a CPU, ns.
    pub cpu_ns: u64,
    /// Time runnable and not on a CPU, ns.
    pub wait_ns: u64,
    /// Times it got a CPU.
    pub slices: u64,
}

/// Reads `schedstat`; `None` if it is not three numbers.
#[must_use]
pub fn schedstat(text: &[u8]) -> Option<SchedStat> {
    let mut words = lines(text).next()?.split_ascii_whitespace().map(str::parse);
    let mut next = || words.next()?.ok();
    Some(SchedStat { cpu_ns: next()?, wait_ns: next()?, slices: next()? })
}

/// `/proc/PID/stat`, of a process or thread (fs/proc/array.c `do_task_stat`). Ticks are 1/`USER_HZ` s.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadStat {
    /// Its id.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// `R`, `S`, `D`, `Z`, …
    pub state: char,
    /// Its process's parent.
    pub parent: u32,
    /// Major faults.
    pub major_faults: u64,
    /// In user space, ticks.
    pub user: u64,
    /// In the kernel, ticks.
    pub system: u64,
    /// Of children that were waited for, user and kernel, ticks; of a process only.
    pub children: u64,
    /// When it started, ticks after boot: with the id it is unique.
    pub started: u64,
    /// The CPU it last ran on.
    pub cpu: u32,
    /// In a guest, ticks; also in `user`.
    pub guest: u64,
}

/// Reads `stat`. The name is between the first `(` and the last `)`: it may contain both and spaces.
#[must_use]
pub fn thread_stat(text: &[u8]) -> Option<ThreadStat> {
    let open = text.iter().position(|byte| *byte == b'(')?;
    let close = text.iter().rposition(|byte| *byte == b')')?;
    let pid = std::str::from_utf8(text.get(..open)?).ok()?.trim().parse().ok()?;
    let name = String::from_utf8_lossy(text.get(open + 1..close)?).into_owned();
    let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
    let state = rest.trim_start().chars().next()?;
    // `numbers` starts at the state: it is field 3 of proc(5), so field n is at n - 3.
    let fields = numbers(rest);
    let field = |number: usize| column(&fields, number - 3);
    Some(ThreadStat {
        pid,
        name,
        state,
        parent: u32::try_from(field(4)).unwrap_or(0),
        major_faults: field(12),
        user: field(14),
        system: field(15),
        children: field(16).saturating_add(field(17)),
        started: field(22),
        cpu: u32::try_from(field(39)).unwrap_or(0),
        guest: field(43),
    })
}

/// `Cpus_allowed_list` of `/proc/PID/status`.
#[must_use]
pub fn status_cpus(text: &[u8]) -> Vec<u32> {
    lines(text)
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .map(|list| cpu_list(list.trim()))
        .unwrap_or_default()
}

/// A list of CPUs as the kernel writes it: `0-2,5`. At most 65,536 of them; what is wrong is left out.
#[must_use]
pub fn cpu_list(list: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some((first.trim().parse::<u32>().ok()?, last.trim().parse::<u32>().ok()?))
    };
    list.split(',').filter_map(range).flat_map(|(first, last)| first..=last).take(65_536).collect()
}

/// Where a thread sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleep {
    /// It does not: running or runnable.
    Running,
    /// Block device, page, journal.
    Disk,
    /// Futex or a lock of the kernel.
    Lock,
    /// Socket.
    Network,
    /// A time.
    Timer,
    /// Pipe, eventfd.
    Pipe,
    /// poll, select, epoll.
    Poll,
    /// A child.
    Child,
    /// Unknown.
    Other,
}

/// Beginnings of kernel function names as `/proc/PID/wchan` shows them, and what they wait for.
///
/// From the sources of Linux 5.10, 6.1 and 6.18. `get_wchan` skips scheduler functions, so `io_schedule`, `mutex_lock`
/// and `wait_for_completion` never appear: their callers do.
const PLACES: &[(&str, Sleep)] = &[
    ("futex_", Sleep::Lock),
    ("__futex_", Sleep::Lock),
    ("rwsem_", Sleep::Lock),
    ("__mutex", Sleep::Lock),
    ("do_semtimedop", Sleep::Lock),
    ("hrtimer_nanosleep", Sleep::Timer),
    ("do_nanosleep", Sleep::Timer),
    ("common_nsleep", Sleep::Timer),
    ("msleep", Sleep::Timer),
    ("wait_woken", Sleep::Network),
    ("sk_", Sleep::Network),
    ("sock_", Sleep::Network),
    ("__skb_", Sleep::Network),
    ("inet_", Sleep::Network),
    ("tcp_", Sleep::Network),
    ("udp_", Sleep::Network),
    ("unix_", Sleep::Network),
    ("vsock_", Sleep::Network),
    ("pipe_", Sleep::Pipe),
    ("anon_pipe_", Sleep::Pipe),
    ("eventfd_", Sleep::Pipe),
    ("wait_for_partner", Sleep::Pipe),
    ("ep_poll", Sleep::Poll),
    ("do_epoll_wait", Sleep::Poll),
    ("poll_schedule", Sleep::Poll),
    ("do_poll", Sleep::Poll),
    ("do_sys_poll", Sleep::Poll),
    ("do_select", Sleep::Poll),
    ("do_wait", Sleep::Child),
    ("kernel_wait", Sleep::Child),
    // vfork: uninterruptible until the child executes something.
    ("kernel_clone", Sleep::Child),
    ("_do_fork", Sleep::Child),
    ("wait_for_vfork", Sleep::Child),
    ("folio_wait", Sleep::Disk),
    ("wait_on_page", Sleep::Disk),
    ("__wait_on_buffer", Sleep::Disk),
    ("jbd2_", Sleep::Disk),
    ("submit_bio", Sleep::Disk),
    ("blk", Sleep::Disk),
    ("__blk", Sleep::Disk),
    ("iomap_", Sleep::Disk),
    ("__iomap_", Sleep::Disk),
    ("ext4_", Sleep::Disk),
    ("xfs_", Sleep::Disk),
    ("btrfs_", Sleep::Disk),
    ("rq_qos_", Sleep::Disk),
    ("balance_dirty", Sleep::Disk),
    ("read_events", Sleep::Disk),
];

/// What a thread of this state waits for, by `/proc/PID/wchan`.
#[must_use]
pub fn name_of_sleep(wchan: &str, state: char) -> Sleep {
    if state == 'R' {
        return Sleep::Running;
    }
    let known = PLACES.iter().find(|(start, _)| wchan.starts_with(start)).map(|(_, sleep)| *sleep);
    match (known, state) {
        (Some(sleep), _) => sleep,
        // Uninterruptible: nearly always a device.
        (None, 'D') => Sleep::Disk,
        (None, _) => Sleep::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedstat_of_a_shell() {
        let expected = SchedStat { cpu_ns: 110_196, wait_ns: 3_623_495, slices: 2 };
        assert_eq!(schedstat(b"110196 3623495 2\n"), Some(expected));
        assert_eq!(schedstat(b"110196 3623495\n"), None);
    }

    #[test]
    fn a_name_with_brackets_and_spaces() {
        let text = b"19145 (a) (b c) S 19146 19146 10795 0 -1 4194304 129 0 7 0 11 22 3 4 20 0 1 0 119331 2990080 397 \
            18446744073709551615 1 1 1 0 0 0 0 6 0 1 0 0 17 5 0 0 9 8 0 1 1 1 1 1 1 1 0\n";
        let stat = thread_stat(text).unwrap();
        assert_eq!(stat.parent, 19146);
        assert_eq!((stat.pid, stat.name.as_str(), stat.state), (19145, "a) (b c", 'S'));
        assert_eq!((stat.major_faults, stat.user, stat.system, stat.children), (7, 11, 22, 7));
        assert_eq!((stat.started, stat.cpu, stat.guest), (119_331, 5, 8));
    }

    #[test]
    fn lists_of_cpus() {
        assert_eq!(cpu_list("0-2,5"), [0, 1, 2, 5]);
        assert_eq!(cpu_list(""), [0_u32; 0]);
        assert_eq!(cpu_list("3-1,x,7"), [7]);
        assert_eq!(cpu_list("0-4294967295").len(), 65_536);
        assert_eq!(status_cpus(b"Name:\tx\nCpus_allowed_list:\t0-1\n"), [0, 1]);
    }

    #[test]
    fn places_of_sleep() {
        assert_eq!(name_of_sleep("hrtimer_nanosleep", 'S'), Sleep::Timer);
        assert_eq!(name_of_sleep("futex_do_wait", 'S'), Sleep::Lock);
        assert_eq!(name_of_sleep("futex_do_wait", 'R'), Sleep::Running);
        assert_eq!(name_of_sleep("jbd2_log_wait_commit", 'D'), Sleep::Disk);
        assert_eq!(name_of_sleep("kernel_clone", 'D'), Sleep::Child);
        assert_eq!(name_of_sleep("0", 'D'), Sleep::Disk);
        assert_eq!(name_of_sleep("0", 'S'), Sleep::Other);
    }
}
