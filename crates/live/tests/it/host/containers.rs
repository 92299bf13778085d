//! A real control group, named as docker names its, with a bound on its CPU time: as the live rows have it.
//!
//! Where no such group can be made, or nothing can be counted, the test says why and passes.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Child, Command},
    thread::sleep,
    time::Duration,
};
use transect_live::{HostSource, LivePlan, Source as _};

struct Bounded {
    dir: PathBuf,
    path: String,
    child: Child,
}

impl Bounded {
    fn start() -> io::Result<Self> {
        let of_version_1 = Path::new("/sys/fs/cgroup/cpu");
        let is_1 = of_version_1.join("cgroup.procs").exists();
        let mount = if is_1 { of_version_1 } else { Path::new("/sys/fs/cgroup") };
        let id = format!("{:064x}", std::process::id());
        let (parent, path) = (mount.join("docker"), format!("/docker/{id}"));
        let dir = parent.join(&id);
        fs::create_dir_all(&dir)?;
        if is_1 {
            fs::write(dir.join("cpu.cfs_period_us"), "50000")?;
            fs::write(dir.join("cpu.cfs_quota_us"), "10000")?;
        } else {
            fs::write(parent.join("cgroup.subtree_control"), "+cpu")?;
            fs::write(dir.join("cpu.max"), "10000 50000")?;
        }
        let child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn()?;
        let group = Bounded { dir, path, child };
        fs::write(group.dir.join("cgroup.procs"), group.child.id().to_string())?;
        Ok(group)
    }
}

impl Drop for Bounded {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        for _ in 0..100 {
            if fs::remove_dir(&self.dir).is_ok() {
                break;
            }
            sleep(Duration::from_millis(10));
        }
        // Not if somebody else has groups in it.
        drop(self.dir.parent().map(fs::remove_dir));
    }
}

#[test]
fn a_container_with_a_bound_is_named_and_held_back() {
    let group = match Bounded::start() {
        Ok(group) => group,
        Err(error) => {
            return println!("skipped: no control group with a bound can be made: {error}");
        }
    };
    let plan = LivePlan { window_ns: 500_000_000, ..LivePlan::default() };
    let mut source = match HostSource::start(&plan) {
        Ok(source) => source,
        Err(error) => return println!("skipped: {error}"),
    };
    let mut sum = source.take().unwrap();
    for _ in 0..3 {
        sum.extend(&source.take().unwrap());
    }
    let (row, _) = sum.containers.iter().find(|(row, _)| row.cgroup == group.path).unwrap();
    assert_eq!((row.kind.as_str(), row.name.as_str()), ("docker", "000000000000"));
    assert_eq!((row.threads, &row.parent, row.vm_machine_id), (1, &None, None));
    assert!(row.gotten_ns > 0 && row.executions > 0, "{row:?}");
    let of_group = |cgroup: &Option<String>| cgroup.as_deref() == Some(group.path.as_str());
    let pressure = sum.pressure.iter().find(|row| of_group(&row.cgroup)).unwrap();
    assert_eq!((pressure.quota_ns, pressure.period_ns), (Some(10_000_000), Some(50_000_000)));
    let throttled = pressure.periods_throttled.unwrap();
    assert!(throttled > 2 && throttled <= pressure.periods.unwrap(), "{pressure:?}");
    // At most a fifth of a CPU, whatever the kernel had in store for it when it began.
    assert!(row.gotten_ns < row.dur / 2, "{row:?}");
}
