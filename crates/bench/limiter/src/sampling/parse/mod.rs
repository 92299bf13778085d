//! Texts of `/proc`, `/sys` and control groups, without I/O: any bytes go in, a line that is no such line is left out.

mod cpu;
mod disk;
mod group;
mod line;
mod memory;
mod net;
mod thread;

pub use cpu::{Stat, pressure, stat};
pub use disk::{DiskLine, diskstats};
pub use group::{Mount, group_paths, io_service, io_stat_v2, keyed, mounts, quota_v2, value};
pub use memory::{meminfo, vmstat};
pub use net::{net_dev, netstat, softnet};
pub use thread::{
    SchedStat, Sleep, ThreadStat, cpu_list, name_of_sleep, schedstat, status_cpus, thread_stat,
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Runs every parser over the text.
    fn all(text: &[u8]) {
        let _ = (stat(text, 100), pressure(text), diskstats(text), keyed(text), mounts(text));
        let _ = (io_service(text), io_stat_v2(text));
        let _ = (group_paths(text), quota_v2(text), value(text), meminfo(text), vmstat(text));
        let _ = (net_dev(text), netstat(text), softnet(text), thread_stat(text), schedstat(text));
        let _ = (status_cpus(text), cpu_list(&String::from_utf8_lossy(text)));
        let _ = name_of_sleep(&String::from_utf8_lossy(text), 'D');
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(text in proptest::collection::vec(any::<u8>(), 0..400)) {
            all(&text);
        }

        #[test]
        fn nearly_right_texts_are_survived(
            words in proptest::collection::vec(
                prop_oneof![
                    Just("cpu0".to_owned()), Just("some".to_owned()), Just("total=".to_owned()),
                    Just("Tcp:".to_owned()), Just("\n".to_owned()), Just(")".to_owned()),
                    Just("(".to_owned()), Just("max".to_owned()), Just("0-".to_owned()),
                    Just("18446744073709551615".to_owned()), Just("-1".to_owned()), Just("eth0:".to_owned()),
                    "[0-9]{1,22}", "[a-z:=,-]{1,6}",
                ],
                0..80,
            ),
        ) {
            all(words.join(" ").as_bytes());
        }
    }

    #[test]
    fn this_kernels_own_texts_are_read() {
        let read = |path: &str| std::fs::read(path).unwrap_or_default();
        let now = stat(&read("/proc/stat"), 100);
        assert!(!now.cpus.is_empty() && now.counts.switches > 0, "{now:?}");
        let me = thread_stat(&read("/proc/thread-self/stat")).unwrap();
        assert_eq!((me.state, me.cpu < 1 << 16), ('R', true));
        let process = thread_stat(&read("/proc/self/stat")).unwrap();
        assert_eq!(process.pid, std::process::id());
        assert!(meminfo(&read("/proc/meminfo")).0 > 1 << 20);
        assert!(!mounts(&read("/proc/self/mountinfo")).is_empty());
        assert!(net_dev(&read("/proc/net/dev")).iter().any(|(name, _)| name == "lo"));
        assert!(!status_cpus(&read("/proc/self/status")).is_empty());
    }
}
