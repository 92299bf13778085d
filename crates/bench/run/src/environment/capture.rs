//! Looking at this machine.

use super::{
    Environment,
    hash::{sha256_of, short_hash},
};
use procfs::{CpuInfo, Current, CurrentSI, KernelStats, Meminfo};
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

/// What beside the machine is to be captured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// The folder that workloads write in: its file system and disk are captured.
    pub scratch: PathBuf,
    /// The accelerator really used ([`transect_bench_platforms::Facts::accelerator`]).
    pub accelerator: String,
    /// Programs that run, to be told apart by their hashes.
    pub programs: Vec<PathBuf>,
    /// Debian packages whose versions matter.
    pub packages: Vec<String>,
}

impl Environment {
    /// Everything. Takes as long as hashing the programs does.
    #[must_use]
    pub fn capture(subject: &Subject) -> Self {
        let mut facts = Facts::default();
        cpus(&mut facts);
        kernel(&mut facts);
        memory(&mut facts);
        storage(&mut facts, &subject.scratch);
        machine(&mut facts, &subject.accelerator);
        programs(&mut facts, subject);
        moving(&mut facts);
        facts.done()
    }
}

/// Facts that are being gathered.
#[derive(Debug, Default)]
struct Facts(BTreeMap<String, String>);

impl Facts {
    fn put(&mut self, name: &str, value: impl Into<String>) {
        self.0.insert(name.to_owned(), value.into());
    }

    fn put_result(&mut self, name: &str, value: io::Result<String>) {
        let value = value.map(|text| text.trim().to_owned());
        self.put(name, value.unwrap_or_else(|error| format!("absent: {error}")));
    }

    /// The text of a file.
    fn file(&mut self, name: &str, path: impl AsRef<Path>) {
        self.put_result(name, fs::read_to_string(path));
    }

    fn done(self) -> Environment {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let captured_realtime_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        Environment { captured_realtime_ns, facts: self.0 }
    }
}

const CPU: &str = "/sys/devices/system/cpu";

fn cpus(facts: &mut Facts) {
    facts.file("cpu.online", format!("{CPU}/online"));
    let info = CpuInfo::current().ok();
    let field = |key: &str| {
        let value = info.as_ref().and_then(|info| info.get_field(0, key));
        value.unwrap_or("absent: not in /proc/cpuinfo").to_owned()
    };
    facts.put("cpu.model", field("model name"));
    facts.put("cpu.microcode", field("microcode"));
    facts.put("cpu.flags_hash", short_hash(&field("flags")));
    let has_hypervisor = field("flags").split(' ').any(|flag| flag == "hypervisor");
    facts.put("cpu.hypervisor_flag", has_hypervisor.to_string());
    facts.file("cpu.smt", format!("{CPU}/smt/control"));
    facts.file("cpu.governor", format!("{CPU}/cpu0/cpufreq/scaling_governor"));
    facts.file("cpu.frequency_driver", format!("{CPU}/cpu0/cpufreq/scaling_driver"));
    facts.file("cpu.no_turbo", format!("{CPU}/intel_pstate/no_turbo"));
    facts.file("cpu.boost", format!("{CPU}/cpufreq/boost"));
    facts.file("cpu.idle_driver", format!("{CPU}/cpuidle/current_driver"));
    let Ok(entries) = fs::read_dir(format!("{CPU}/vulnerabilities")) else {
        facts.put("mitigation", format!("absent: no {CPU}/vulnerabilities"));
        return;
    };
    for entry in entries.flatten() {
        let name = format!("mitigation.{}", entry.file_name().to_string_lossy());
        facts.file(&name, entry.path());
    }
}

fn kernel(facts: &mut Facts) {
    let name = rustix::system::uname();
    let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    facts.put("kernel.release", text(name.release()));
    facts.put("kernel.version", text(name.version()));
    facts.put("kernel.machine", text(name.machine()));
    // SMP or not is what Barham's paper mixed: it is in the version.
    facts.put("kernel.smp", text(name.version()).contains(" SMP").to_string());
    facts.put("kernel.config_hash", config_hash(&text(name.release())));
    facts.file("kernel.cmdline", "/proc/cmdline");
    let clock = "/sys/devices/system/clocksource/clocksource0";
    facts.file("kernel.clocksource", format!("{clock}/current_clocksource"));
    let timer = "/sys/devices/system/clockevents/clockevent0/current_device";
    facts.file("kernel.clockevent", timer);
    for (name, file) in [
        ("kernel.autogroup", "kernel/sched_autogroup_enabled"),
        ("kernel.perf_paranoid", "kernel/perf_event_paranoid"),
        ("kernel.numa_balancing", "kernel/numa_balancing"),
        ("kernel.nmi_watchdog", "kernel/nmi_watchdog"),
        ("kernel.aslr", "kernel/randomize_va_space"),
        ("kernel.tcp_congestion", "net/ipv4/tcp_congestion_control"),
        ("kernel.default_qdisc", "net/core/default_qdisc"),
    ] {
        facts.file(name, Path::new("/proc/sys").join(file));
    }
    facts.put_result("kernel.preemption", preemption());
}

/// The model in use stands in brackets, where debugfs is mounted; else what the kernel was built with.
fn preemption() -> io::Result<String> {
    let file = "/sys/kernel/debug/sched/preempt";
    fs::read_to_string(file).map(|text| chosen(&text))
}

/// `/proc/config.gz` as it is (compressed: the same configuration has the same bytes), or Debian's file.
fn config_hash(release: &str) -> String {
    let paths = ["/proc/config.gz".to_owned(), format!("/boot/config-{release}")];
    let found = paths.iter().find_map(|path| sha256_of(Path::new(path)).ok());
    found.unwrap_or_else(|| "absent: neither /proc/config.gz nor /boot/config-RELEASE".into())
}

fn memory(facts: &mut Facts) {
    let total = Meminfo::current().map_or(0, |memory| memory.mem_total);
    facts.put("memory.total_bytes", total.to_string());
    let thp = "/sys/kernel/mm/transparent_hugepage";
    facts.put_result(
        "memory.thp",
        fs::read_to_string(format!("{thp}/enabled")).map(|text| chosen(&text)),
    );
    facts.put_result(
        "memory.thp_defrag",
        fs::read_to_string(format!("{thp}/defrag")).map(|text| chosen(&text)),
    );
    for name in [
        "swappiness",
        "dirty_ratio",
        "dirty_background_ratio",
        "dirty_expire_centisecs",
        "overcommit_memory",
        "nr_hugepages",
        "zone_reclaim_mode",
    ] {
        facts.file(&format!("memory.{name}"), format!("/proc/sys/vm/{name}"));
    }
    facts.file("memory.numa_nodes", "/sys/devices/system/node/online");
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let swaps: Vec<_> =
        swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    facts.put("memory.swap", if swaps.is_empty() { "none".to_owned() } else { swaps.join(" ") });
    facts.file("memory.ksm", "/sys/kernel/mm/ksm/run");
}

/// The word in brackets: `always [madvise] never`.
fn chosen(text: &str) -> String {
    let found = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    found.map_or_else(|| text.trim().to_owned(), |(word, _)| word.to_owned())
}

fn storage(facts: &mut Facts, scratch: &Path) {
    // Not by `procfs`, which does not keep the order of the options.
    let mount = fs::read_to_string("/proc/self/mountinfo").and_then(|text| {
        let scratch = fs::canonicalize(scratch)?;
        mount_of(&text, &scratch).ok_or_else(|| io::Error::other("no mount contains it"))
    });
    match mount {
        Ok((kind, options)) => {
            facts.put("storage.filesystem", kind);
            facts.put("storage.options", options);
        }
        Err(error) => facts.put("storage.filesystem", format!("absent: {error}")),
    }
    match disk_below(scratch) {
        Ok(disk) => {
            let queue = disk.join("queue");
            let scheduler = fs::read_to_string(queue.join("scheduler")).map(|text| chosen(&text));
            facts.put_result("storage.scheduler", scheduler);
            for name in
                ["rotational", "read_ahead_kb", "nr_requests", "write_cache", "wbt_lat_usec"]
            {
                facts.file(&format!("storage.{name}"), queue.join(name));
            }
            let name = disk.file_name().map(|name| name.to_string_lossy().into_owned());
            facts.put("storage.disk", name.unwrap_or_default());
        }
        Err(error) => facts.put("storage.disk", format!("absent: {error}")),
    }
}

/// File system and options of the deepest mount that holds a folder; of several at one place the last is on top.
fn mount_of(mountinfo: &str, folder: &Path) -> Option<(String, String)> {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(4);
        let (point, options) = (Path::new(before.next()?), before.next()?);
        let mut after = after.split(' ');
        let (kind, super_options) = (after.next()?, after.nth(1)?);
        let depth = point.components().count();
        folder
            .starts_with(point)
            .then(|| (depth, kind.to_owned(), format!("{options} {super_options}")))
    });
    mounts.max_by_key(|(depth, _, _)| *depth).map(|(_, kind, options)| (kind, options))
}

/// The disk below a folder, in sysfs.
fn disk_below(folder: &Path) -> io::Result<PathBuf> {
    use std::os::unix::fs::MetadataExt;
    let device = fs::metadata(folder)?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let path = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}"))?;
    match path.parent() {
        Some(disk) if path.join("partition").exists() => Ok(disk.to_owned()),
        _ => Ok(path),
    }
}

fn machine(facts: &mut Facts, accelerator: &str) {
    facts.put("machine.accelerator", accelerator);
    facts.put_result("machine.name_hash", host_name().map(|name| short_hash(&name)));
    facts.file("machine.vendor", "/sys/class/dmi/id/sys_vendor");
    facts.file("machine.product", "/sys/class/dmi/id/product_name");
    facts.file("machine.bios", "/sys/class/dmi/id/bios_version");
    facts.file("machine.hypervisor", "/sys/hypervisor/type");
    facts.put_result("machine.system", system_name());
}

fn host_name() -> io::Result<String> {
    fs::read_to_string("/proc/sys/kernel/hostname")
}

fn system_name() -> io::Result<String> {
    let text = fs::read_to_string("/etc/os-release")?;
    let line = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    Ok(line.unwrap_or("unnamed").trim_matches('"').to_owned())
}

fn programs(facts: &mut Facts, subject: &Subject) {
    for program in &subject.programs {
        let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy();
        facts.put_result(&format!("program.{name}"), sha256_of(program));
    }
    if subject.packages.is_empty() {
        return;
    }
    let versions = packages(&subject.packages);
    for package in &subject.packages {
        let version = match &versions {
            Ok(versions) => versions.get(package).cloned(),
            Err(error) => Some(format!("absent: dpkg-query: {error}")),
        };
        let version = version.unwrap_or_else(|| "absent: not installed".into());
        facts.put(&format!("package.{package}"), version);
    }
}

/// Versions of those that are installed. `dpkg-query` fails if one of them is not, and still prints the others.
fn packages(names: &[String]) -> io::Result<BTreeMap<String, String>> {
    let output = Command::new("dpkg-query")
        .args(["-W", "-f", "${Package} ${Version} ${db:Status-Status}\\n"])
        .args(names)
        .output()?;
    Ok(versions(&String::from_utf8_lossy(&output.stdout)))
}

fn versions(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            let (name, version) = (words.next()?, words.next()?);
            (words.next() == Some("installed")).then(|| (name.to_owned(), version.to_owned()))
        })
        .collect()
}

/// What is another one at each moment.
fn moving(facts: &mut Facts) {
    facts.file("moving.load", "/proc/loadavg");
    facts.file("moving.uptime", "/proc/uptime");
    let available = Meminfo::current().ok().and_then(|memory| memory.mem_available).unwrap_or(0);
    facts.put("moving.memory_available_bytes", available.to_string());
    let runnable = KernelStats::current().ok().and_then(|stats| stats.procs_running).unwrap_or(0);
    facts.put("moving.runnable", runnable.to_string());
    facts.put_result("moving.processes", processes());
    facts.file("moving.frequency_khz", format!("{CPU}/cpu0/cpufreq/scaling_cur_freq"));
    facts.file("moving.throttled", format!("{CPU}/cpu0/thermal_throttle/package_throttle_count"));
    facts.put("moving.timers", timers());
}

fn processes() -> io::Result<String> {
    let all = procfs::process::all_processes().map_err(io::Error::other)?;
    Ok(all.count().to_string())
}

/// What may start by itself in the middle of a run: systemd's timers that are active, and cron's files.
fn timers() -> String {
    let names = |folder: &str| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name != ".placeholder").collect::<Vec<_>>()
    };
    // A started timer unit has an invocation link here (systemd.exec(5), $INVOCATION_ID).
    let systemd = names("/run/systemd/units");
    let systemd = systemd.iter().filter_map(|name| name.strip_prefix("invocation:"));
    let systemd = systemd.filter(|name| name.ends_with(".timer")).map(str::to_owned);
    let cron = names("/etc/cron.d").into_iter().map(|name| format!("cron.d/{name}"));
    let mut timers: Vec<_> = systemd.chain(cron).collect();
    timers.sort();
    if timers.is_empty() { "none".into() } else { timers.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_brackets() {
        assert_eq!(chosen("none [mq-deadline] kyber bfq\n"), "mq-deadline");
        assert_eq!(chosen("none\n"), "none");
    }

    #[test]
    fn the_deepest_mount_holds_a_folder() {
        let text = "23 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n\
            30 23 0:5 / /dev rw - devtmpfs devtmpfs rw\n\
            31 23 0:9 / /tmp rw,nosuid - tmpfs tmpfs rw,size=4k\n";
        let of = |folder: &str| mount_of(text, Path::new(folder)).unwrap().0;
        assert_eq!(of("/home/x"), "ext4");
        assert_eq!(of("/tmp/y"), "tmpfs");
        assert_eq!(of("/tmpfile"), "ext4");
    }

    #[test]
    fn packages_that_are_removed_are_not_installed() {
        let found = versions("fio 3.33-3 installed\ngone 1.0 config-files\n");
        assert_eq!(found.get("fio").map(String::as_str), Some("3.33-3"));
        assert_eq!(found.len(), 1);
    }

    #[test]
    fn this_machine() {
        let program = std::env::current_exe().unwrap();
        let subject = Subject {
            scratch: std::env::temp_dir(),
            accelerator: "none".into(),
            programs: vec![program.clone(), "/no/such/program".into()],
            packages: vec!["libc6".into(), "no-such-package".into()],
        };
        let found = Environment::capture(&subject);
        let of = |name: &str| found.get(name).unwrap_or("not captured").to_owned();
        assert!(of("memory.total_bytes").parse::<u64>().unwrap() > 1 << 20);
        assert!(!of("cpu.online").starts_with("absent"));
        let name = program.file_name().unwrap().to_str().unwrap();
        assert_eq!(of(&format!("program.{name}")).len(), 64);
        assert!(of("program.program").starts_with("absent: "));
        assert!(of("package.no-such-package").starts_with("absent: "));
        assert!(!of("kernel.clocksource").is_empty());
        let host = host_name().unwrap();
        let is_told = |text: &String| host.trim().len() > 4 && text == host.trim();
        assert!(!found.facts.values().any(is_told), "the host's name is not published");
        // Two captures of one machine are the same machine.
        let again = Environment::capture(&subject);
        let differences = super::super::difference(&found, &again, super::super::Scope::OneMachine);
        assert!(differences.is_empty(), "{differences:?}");
    }
}
