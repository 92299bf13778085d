//! Discovery of VMs: from made-up process tables of the VMMs there are, and of a real QEMU.
#![allow(clippy::unwrap_used, clippy::print_stderr)] // A failed expectation is the report.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};
use transect_guest::{
    discover::{self, FoundBy, VcpuThread, VmmKind, vms_below},
    proto::MachineFacts,
    transport::{Endpoint, GuestSpec},
};

/// A procfs and debugfs made of files.
struct Machine {
    root: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        fs::write(root.path().join("proc/self/mounts"), "debug /d debugfs rw 0 0\n").unwrap();
        Machine { root }
    }

    fn proc(&self) -> PathBuf {
        self.root.path().join("proc")
    }

    fn debug(&self) -> PathBuf {
        self.root.path().join("debug")
    }

    fn process(&self, pid: i32, exe: &str, args: &[&str], threads: &[(i32, &str)], fds: &[&str]) {
        let dir = self.proc().join(pid.to_string());
        fs::create_dir_all(dir.join("fd")).unwrap();
        let comm: String = exe.rsplit('/').next().unwrap().chars().take(15).collect();
        let (before, after) = ("0 ".repeat(18), " 0".repeat(15));
        fs::write(dir.join("stat"), format!("{pid} ({comm}) S {before}4242{after}\n")).unwrap();
        fs::write(dir.join("comm"), format!("{comm}\n")).unwrap();
        let line: String = args.iter().map(|arg| format!("{arg}\0")).collect();
        fs::write(dir.join("cmdline"), line).unwrap();
        fs::write(dir.join("cgroup"), "0::/machine.slice/vm\n").unwrap();
        if !args.is_empty() {
            symlink(exe, dir.join("exe")).unwrap();
        }
        for (tid, comm) in threads {
            let task = dir.join("task").join(tid.to_string());
            fs::create_dir_all(&task).unwrap();
            fs::write(task.join("comm"), format!("{comm}\n")).unwrap();
        }
        for (number, target) in fds.iter().enumerate() {
            symlink(target, dir.join("fd").join(number.to_string())).unwrap();
        }
    }

    fn kvm(&self, path: &str, text: &str) {
        let file = self.debug().join("kvm").join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    fn vms(&self) -> discover::Discovery {
        vms_below(&self.proc(), &self.debug())
    }
}

const KVM_FDS: &[&str] =
    &["/dev/kvm", "anon_inode:kvm-vm", "anon_inode:kvm-vcpu:0", "anon_inode:kvm-vcpu:1"];

fn named(vcpu: u32, tid: i32) -> VcpuThread {
    VcpuThread { vcpu, tid: Some(tid), found_by: FoundBy::ThreadName }
}

#[test]
fn qemu_with_named_threads_and_a_vhost_kernel_thread() {
    let machine = Machine::new();
    machine.kvm("10-9/vcpu0/tsc-offset", "-5\n");
    machine.process(
        10,
        "/usr/bin/qemu-system-x86_64",
        &[
            "qemu-system-x86_64",
            "-name",
            "guest=web1,debug-threads=on",
            "-device",
            "vhost-vsock-pci,guest-cid=3",
        ],
        &[(10, "qemu-system-x86"), (13, "CPU 0/KVM"), (14, "CPU 1/KVM"), (15, "worker")],
        KVM_FDS,
    );
    machine.process(11, "vhost-10", &[], &[(11, "vhost-10")], &[]);
    machine.process(12, "/usr/bin/bash", &["kvm"], &[(12, "bash")], &[]);
    let found = machine.vms();
    assert_eq!(found.vms.len(), 1, "{found:?}");
    let vm = &found.vms[0];
    assert_eq!(
        (vm.name.as_str(), vm.vmm, vm.pid, vm.start_ticks),
        ("web1", VmmKind::Qemu, 10, 4242)
    );
    assert_eq!(vm.vcpus, [named(0, 13), named(1, 14)]);
    assert_eq!(vm.vhost_workers, [11]);
    assert_eq!(vm.cgroup.as_deref(), Some("/machine.slice/vm"));
    assert!(found.notes.is_empty(), "{:?}", found.notes);

    let spec: GuestSpec = "vsock:3".parse().unwrap();
    assert_eq!(found.find(&spec.endpoint, None).map(|vm| vm.pid), Some(10));
    let other: GuestSpec = "vsock:4".parse().unwrap();
    assert_eq!(found.find(&other.endpoint, None), None);
}

#[test]
fn kvm_itself_is_believed_before_thread_names() {
    let machine = Machine::new();
    let args = ["/usr/libexec/qemu-kvm", "-uuid", "AA-BB"];
    machine.process(20, "/usr/libexec/qemu-kvm", &args, &[(20, "qemu-kvm"), (21, "x")], KVM_FDS);
    machine.kvm("20-12/vcpu0/pid", "21\n");
    machine.kvm("20-12/vcpu1/pid", "0\n");
    let found = machine.vms();
    let vm = &found.vms[0];
    assert_eq!(vm.name, "qemu-20");
    let by_kvm = VcpuThread { vcpu: 0, tid: Some(21), found_by: FoundBy::Kvm };
    let unknown = VcpuThread { vcpu: 1, tid: None, found_by: FoundBy::Unknown };
    assert_eq!(vm.vcpus, [by_kvm, unknown]);
    assert!(found.notes[0].contains("debug-threads=on"), "{:?}", found.notes);

    let endpoint = Endpoint::VirtioSerial("/nowhere".into());
    let facts = MachineFacts { uuid: "aa-bb".into(), ..MachineFacts::default() };
    assert_eq!(found.find(&endpoint, Some(&facts)).map(|vm| vm.pid), Some(20));
    assert_eq!(found.find(&endpoint, Some(&MachineFacts::default())), None);
}

#[test]
fn other_vmms_and_twins_get_names() {
    let machine = Machine::new();
    machine.process(
        30,
        "/usr/bin/firecracker",
        &["firecracker", "--id", "fn-7"],
        &[(30, "firecracker"), (31, "fc_vcpu 0")],
        &["anon_inode:kvm-vm"],
    );
    machine.process(
        40,
        "/opt/cloud-hypervisor",
        &["cloud-hypervisor", "--vsock", "cid=9,socket=/s"],
        &[(40, "cloud-hyperviso"), (41, "vcpu0")],
        &["anon_inode:kvm-vm"],
    );
    machine.process(50, "/home/me/myvmm", &["myvmm"], &[(50, "myvmm")], &KVM_FDS[1..3]);
    for pid in [60, 61] {
        let args = ["qemu-system-aarch64", "-name", "twin"];
        machine.process(pid, "/usr/bin/qemu-system-aarch64", &args, &[(pid, "q")], &[]);
    }
    let found = machine.vms();
    let names: Vec<&str> = found.vms.iter().map(|vm| vm.name.as_str()).collect();
    assert_eq!(names, ["fn-7", "cloud-hypervisor-40", "myvmm-50", "twin", "twin-61"]);
    assert_eq!(found.vms[0].vcpus, [named(0, 31)]);
    assert_eq!(found.vms[1].vsock_cid, Some(9));
    assert_eq!(found.vms[2].vcpus.len(), 1);
    assert!(found.vms[2].uses_kvm && !found.vms[3].uses_kvm);
}

#[test]
fn missing_debugfs_is_said_with_its_mend() {
    let machine = Machine::new();
    machine.process(70, "/usr/bin/qemu-kvm", &["qemu-kvm"], &[(71, "CPU 0/KVM")], KVM_FDS);
    let notes = machine.vms().notes.join("\n");
    assert!(notes.contains("no debugfs"), "{notes}");
    fs::write(machine.proc().join("self/mounts"), "proc /proc proc rw 0 0\n").unwrap();
    let notes = machine.vms().notes.join("\n");
    assert!(notes.contains("mount -t debugfs"), "{notes}");
}

/// A real QEMU, halted before its first instruction.
#[test]
fn a_real_emulator_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("agent.sock");
    let chardev = format!("socket,id=c0,path={},server=on,wait=off", socket.display());
    let started = Command::new("qemu-system-x86_64")
        .args(["-name", "guest=found-me,debug-threads=on", "-S", "-display", "none"])
        .args(["-nodefaults", "-accel", "tcg,thread=multi", "-smp", "2", "-m", "16"])
        .args(["-device", "virtio-serial-pci", "-chardev", &chardev])
        .args(["-device", "virtserialport,chardev=c0,name=org.transect.0"])
        .stdin(Stdio::null())
        .spawn();
    let Ok(mut qemu) = started else {
        eprintln!("skipped: qemu-system-x86_64 is not installed");
        return;
    };
    let pid = i32::try_from(qemu.id()).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    let vm = loop {
        let found = discover::vms();
        let vm = found.find(&Endpoint::VirtioSerial(socket.clone()), None);
        let vm = vm.filter(|vm| vm.pid == pid && vm.vcpus.len() == 2).cloned();
        if vm.is_some() || Instant::now() > deadline {
            break vm;
        }
        thread::sleep(Duration::from_millis(50));
    };
    qemu.kill().unwrap();
    qemu.wait().unwrap();
    let vm = vm.unwrap();
    assert_eq!((vm.name.as_str(), vm.vmm, vm.uses_kvm), ("found-me", VmmKind::Qemu, false));
    assert!(vm.vcpus.iter().all(|vcpu| vcpu.tid.is_some()), "{vm:?}");
    assert_eq!(vm.serial_ports[0].name.as_deref(), Some("org.transect.0"));
}

#[test]
fn a_machine_without_vms_is_quiet() {
    let machine = Machine::new();
    assert_eq!(machine.vms(), discover::Discovery::default());
    assert_eq!(vms_below(Path::new("/nowhere"), Path::new("/nowhere")), machine.vms());
}
