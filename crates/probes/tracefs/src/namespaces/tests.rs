use super::*;
use procfs::{FromRead, process::MountInfos};
use std::os::unix::fs::symlink;

const CHILD: &str = "pid:[4026532178]";
const SIBLING: &str = "pid:[4026532200]";

/// A made-up procfs.
struct Procfs(tempfile::TempDir);

impl Procfs {
    fn new() -> Self {
        Procfs(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// The procfs of the initial namespace, with kthreadd.
    fn initial() -> Self {
        let procfs = Procfs::new();
        procfs.add_process(2, "pid:[4026531836]", &[2]);
        procfs.set_kthreadd("0 0 0 0 -1 2129984");
        procfs
    }

    /// Sets `stat` of process 2; given are the fields from its parent to its flags.
    fn set_kthreadd(&self, fields: &str) {
        let rest = "0 0 0 0 0 0 0 0 20 0 1 0 23 0 0 18446744073709551615 0 0 0 0 0 0 0 2147483647 0 0 0 0 0 0 0 0 0";
        let stat = format!("2 (kthreadd) S {fields} {rest}\n");
        fs::write(self.path().join("2/stat"), stat).unwrap();
    }

    fn add_process(&self, pid: u32, namespace: &str, ids: &[u32]) {
        let dir = self.path().join(pid.to_string());
        fs::create_dir_all(dir.join("ns")).unwrap();
        symlink(namespace, dir.join("ns/pid")).unwrap();
        symlink(INITIAL_CGROUP, dir.join("ns/cgroup")).unwrap();
        self.add_thread(pid, pid, ids);
        fs::copy(dir.join("task").join(pid.to_string()).join("status"), dir.join("status"))
            .unwrap();
    }

    fn add_thread(&self, pid: u32, tid: u32, ids: &[u32]) {
        let dir = self.path().join(format!("{pid}/task/{tid}"));
        fs::create_dir_all(&dir).unwrap();
        let ids: Vec<_> = ids.iter().map(u32::to_string).collect();
        let text = format!("Name:\tx\nTgid:\t{pid}\nNSpid:\t{}\n", ids.join("\t"));
        fs::write(dir.join("status"), text).unwrap();
    }

    fn set_self(&self, pid: u32) {
        symlink(pid.to_string(), self.path().join("self")).unwrap();
    }

    /// A procfs of the initial namespace, in which this process, of a child namespace, is 100.
    fn initial_seen_by_child() -> Self {
        let procfs = Procfs::initial();
        procfs.add_process(100, CHILD, &[100, 5]);
        procfs.set_self(100);
        procfs
    }

    /// A procfs of a child namespace, in which this process is 5.
    fn child() -> Self {
        let procfs = Procfs::new();
        procfs.add_process(2, CHILD, &[2]);
        procfs.add_process(5, CHILD, &[5]);
        procfs.set_kthreadd("1 1 1 0 -1 4194560");
        procfs.set_self(5);
        procfs
    }
}

#[test]
fn initial_namespace_accepts_existing_ids_only() {
    let procfs = Procfs::initial();
    procfs.add_process(100, INITIAL_PID, &[100]);
    procfs.set_self(100);
    let found = Namespaces::find(procfs.path(), Vec::new());
    assert_eq!(found.procfs(), Some(procfs.path()));
    assert_eq!((found.note(), found.fix(), found.why_no_cgroups()), (None, None, None));
    assert_eq!(found.initial_id(IdKind::Process, 2), Ok(2));
    let absent = found.initial_id(IdKind::Process, 4711).unwrap_err();
    assert_eq!(absent.to_string(), "no process 4711");
    let absent = found.initial_id(IdKind::Thread, 4711).unwrap_err();
    assert_eq!(absent.to_string(), "no thread 4711");
}

#[test]
fn thread_given_as_process_is_refused_with_its_process() {
    let procfs = Procfs::initial();
    procfs.add_process(100, INITIAL_PID, &[100]);
    procfs.set_self(100);
    // procfs has an entry for every thread, although it lists processes only.
    let hidden = procfs.path().join("101");
    fs::create_dir(&hidden).unwrap();
    fs::write(hidden.join("status"), "Tgid:\t100\nNSpid:\t101\n").unwrap();
    let found = Namespaces::find(procfs.path(), Vec::new());
    let refused = found.initial_id(IdKind::Process, 101);
    assert_eq!(refused, Err(IdError::NotProcess { number: 101, process: 100 }));
    assert_eq!(found.initial_id(IdKind::Thread, 101), Ok(101));
}

#[test]
fn child_namespace_without_initial_procfs_refuses_every_id() {
    let procfs = Procfs::child();
    let found = Namespaces::find(procfs.path(), Vec::new());
    assert_eq!(found.procfs(), None);
    assert!(found.note().unwrap().starts_with("recorded inside a pid namespace"));
    let refused = found.initial_id(IdKind::Process, 2).unwrap_err();
    assert_eq!(refused, IdError::Untranslatable { kind: IdKind::Process, number: 2 });
    assert!(refused.to_string().contains("--pid=host"), "{refused}");
    assert_eq!(found.initial_id(IdKind::Thread, 0), Ok(0));
}

#[test]
fn initial_procfs_mounted_elsewhere_translates_ids_of_child() {
    let (own, host) = (Procfs::child(), Procfs::initial_seen_by_child());
    host.add_process(300, SIBLING, &[300, 7]);
    host.add_process(200, CHILD, &[200, 7]);
    host.add_thread(200, 201, &[201, 8]);
    let found = Namespaces::find(own.path(), vec![host.path().to_owned()]);
    assert_eq!(found.procfs(), Some(host.path()));
    assert_eq!(found.initial_id(IdKind::Process, 7), Ok(200));
    assert_eq!(found.initial_id(IdKind::Thread, 8), Ok(201));
    // It exists on the host only.
    assert!(matches!(found.initial_id(IdKind::Process, 300), Err(IdError::Absent { .. })));
    assert!(matches!(found.initial_id(IdKind::Process, 8), Err(IdError::Absent { .. })));
}

#[test]
fn number_of_a_nested_namespace_is_unproven() {
    let (own, host) = (Procfs::child(), Procfs::initial_seen_by_child());
    host.add_process(200, "pid:[4026532300]", &[200, 7, 1]);
    let found = Namespaces::find(own.path(), vec![host.path().to_owned()]);
    assert!(matches!(found.initial_id(IdKind::Process, 7), Err(IdError::Unproven { .. })));
}

#[test]
fn number_with_two_meanings_is_refused() {
    let host = Procfs::initial_seen_by_child();
    host.add_process(7, INITIAL_PID, &[7]);
    host.add_process(200, CHILD, &[200, 7]);
    host.add_process(201, CHILD, &[201, 9]);
    let found = Namespaces::find(host.path(), Vec::new());
    let refused = found.initial_id(IdKind::Process, 7);
    assert_eq!(refused, Err(IdError::Ambiguous { kind: IdKind::Process, number: 7, initial: 200 }));
    assert_eq!(found.initial_id(IdKind::Process, 9), Ok(201));
    // Only /proc has it.
    assert_eq!(found.initial_id(IdKind::Process, 200), Ok(200));
}

#[test]
fn cgroup_namespace_hides_control_groups_only() {
    let procfs = Procfs::initial();
    procfs.add_process(100, INITIAL_PID, &[100]);
    let link = procfs.path().join("100/ns/cgroup");
    fs::remove_file(&link).unwrap();
    symlink("cgroup:[4026532178]", &link).unwrap();
    procfs.set_self(100);
    let found = Namespaces::find(procfs.path(), Vec::new());
    assert_eq!((found.procfs(), found.procfs_of_cgroups()), (Some(procfs.path()), None));
    assert_eq!(found.why_no_processes(), None);
    assert!(found.why_no_cgroups().unwrap().contains("cgroup namespace"));
    assert!(found.note().unwrap().contains("cgroup namespace"));
    assert!(found.fix().unwrap().contains("--cgroupns=host"));
}

#[test]
fn kernel_without_namespaces_has_the_initial_one() {
    let procfs = Procfs::new();
    fs::create_dir_all(procfs.path().join("100/ns")).unwrap();
    procfs.set_self(100);
    let found = Namespaces::find(procfs.path(), Vec::new());
    assert_eq!((found.procfs(), found.fix()), (Some(procfs.path()), None));
}

#[test]
fn missing_procfs_is_not_taken_for_the_initial_one() {
    let procfs = Procfs::new();
    let found = Namespaces::find(procfs.path(), Vec::new());
    assert_eq!(found.procfs(), None);
    assert!(found.note().unwrap().contains("without a procfs"));
}

#[test]
fn complete_procfs_mounts_are_found() {
    let text = "22 27 0:21 / /proc rw,relatime shared:1 - proc proc rw\n\
                23 27 0:22 /sys /proc/sys ro - proc proc rw\n\
                24 27 0:23 / /sys rw - sysfs sysfs rw\n\
                25 27 0:24 / /host/proc ro - proc proc rw\n";
    let mounts = MountInfos::from_read(text.as_bytes()).unwrap().0;
    assert_eq!(procfs_mounts(mounts), [PathBuf::from("/proc"), PathBuf::from("/host/proc")]);
}
