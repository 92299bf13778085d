//! Real control groups of this machine: held back, and under pressure.

#![allow(clippy::print_stdout, reason = "a skipped test says why")]

use super::*;
use std::{
    fs,
    process::{Child, Command},
    thread::sleep,
};

/// A control group of the test's own with processes that spin, on one CPU; gone with it.
struct Spinning {
    dir: PathBuf,
    name: String,
    children: Vec<Child>,
}

impl Spinning {
    fn start(mount: &Path, tag: &str, bounds: &[(&str, &str)]) -> io::Result<Self> {
        let name = format!("/transect-{tag}-{}", std::process::id());
        let dir = mount.join(name.trim_start_matches('/'));
        fs::create_dir(&dir)?;
        let mut group = Spinning { dir, name, children: Vec::new() };
        for (file, value) in bounds {
            fs::write(group.dir.join(file), value)?;
        }
        for _ in 0..2 {
            let spin = ["-c", "0", "sh", "-c", "while :; do :; done"];
            let child = Command::new("taskset").args(spin).spawn()?;
            let pid = child.id();
            group.children.push(child);
            fs::write(group.dir.join("cgroup.procs"), pid.to_string())?;
        }
        Ok(group)
    }
}

impl Drop for Spinning {
    fn drop(&mut self) {
        for child in &mut self.children {
            drop(child.kill());
            drop(child.wait());
        }
        // Empty only once the kernel has put its dead away.
        for _ in 0..100 {
            if fs::remove_dir(&self.dir).is_ok() {
                return;
            }
            sleep(Duration::from_millis(10));
        }
    }
}

/// The rows of a group over some time.
fn watched(group: &Spinning) -> (Pressure, Vec<PressureWindow>) {
    let mut pressure = Pressure::start(1_000);
    let look =
        |pressure: &mut Pressure, at_ns| pressure.look(at_ns, [group.name.as_str()].into_iter());
    let first = look(&mut pressure, 2_000);
    let own: Vec<_> = first.iter().filter(|row| row.cgroup.is_some()).collect();
    let begins =
        |row: &&PressureWindow| row.dur == 0 && row.quota_ns.is_some() && row.periods.is_none();
    assert!(own.iter().all(begins), "a first look only begins: {first:?}");
    sleep(Duration::from_millis(700));
    let rows = look(&mut pressure, 5_000);
    (pressure, rows)
}

#[test]
fn what_counters_cannot_tell_is_not_told() {
    assert_eq!(grown(Some(5), Some(7)), Some(2));
    assert_eq!(grown(Some(7), Some(5)), None, "begun anew");
    assert_eq!(grown(None, Some(5)), None);
    let mut pressure = Pressure::start(0);
    // Gone meanwhile, and outside of our namespace.
    let names = ["/transect-never-there", "/../../elsewhere"];
    for at_ns in [10, 20] {
        let rows = pressure.look(at_ns, names.into_iter());
        assert!(rows.iter().all(|row| row.cgroup.is_none()), "{rows:?}");
    }
    assert_eq!(pressure.left_out, 1);
    assert_eq!(pressure.groups.len(), 1);
    pressure.forget_the_gone();
    pressure.forget_the_gone();
    assert_eq!(pressure.groups.len(), 0);
}

/// Tier `make test`: control groups need root.
mod host {
    use super::*;

    #[test]
    fn a_group_that_uses_up_its_bound_is_held_back() {
        let mounts = mounts::here();
        let (mount, bounds) = match (&mounts.cpu, &mounts.unified) {
            (Some(cpu), _) => {
                (cpu, [("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "20000")].as_slice())
            }
            (None, Some(unified)) => (unified, [("cpu.max", "20000 100000")].as_slice()),
            (None, None) => return println!("skipped: no control groups are mounted"),
        };
        let group = match Spinning::start(mount, "bound", bounds) {
            Ok(group) => group,
            Err(error) => {
                return println!(
                    "skipped: no control group with a bound can be made here: {error}"
                );
            }
        };
        let (pressure, rows) = watched(&group);
        assert!(
            pressure.missing().iter().all(|missing| missing.metric != Metric::Throttling.as_str())
        );
        let row =
            rows.iter().find(|row| row.cgroup.as_deref() == Some(group.name.as_str())).unwrap();
        assert_eq!((row.quota_ns, row.period_ns), (Some(20_000_000), Some(100_000_000)));
        assert_eq!((row.ts, row.dur), (2_000, 3_000));
        let (periods, throttled) = (row.periods.unwrap(), row.periods_throttled.unwrap());
        assert!(throttled >= 2 && throttled <= periods, "{row:?}");
        assert!(row.throttled_ns.unwrap() > 50_000_000, "{row:?}");
    }

    #[test]
    fn two_that_want_one_cpu_are_under_pressure() {
        let mounts = mounts::here();
        let Some(mount) = &mounts.unified else {
            return println!("skipped: no cgroup v2 is mounted");
        };
        if fs::read("/proc/pressure/cpu").is_err() {
            return println!("skipped: the kernel has no PSI");
        }
        let group = match Spinning::start(mount, "pressed", &[]) {
            Ok(group) => group,
            Err(error) => return println!("skipped: no control group can be made here: {error}"),
        };
        let (pressure, rows) = watched(&group);
        assert!(
            pressure
                .missing()
                .iter()
                .all(|missing| missing.metric != Metric::GroupPressure.as_str())
        );
        let host = rows.iter().find(|row| row.cgroup.is_none()).unwrap();
        assert!(host.cpu_some_ns.is_some() && host.memory_some_ns.is_some(), "{host:?}");
        let row =
            rows.iter().find(|row| row.cgroup.as_deref() == Some(group.name.as_str())).unwrap();
        assert!(row.cpu_some_ns.unwrap() > 100_000_000, "{row:?}");
        assert_eq!((row.quota_ns, row.throttled_ns), (None, None), "it has no bound");
    }
}
