//! Paths as they are on real machines, and what they are.

use super::*;

const ID: &str = "3e4d2a1b0c9f8e7d6c5b4a392817160504f3e2d1c0b9a8978675645342312011";
const ID2: &str = "00ffee11dd22cc33bb44aa5599668877001122334455667788990aabbccddeef";
const UID: &str = "2f4c1a3e-8b7d-4c6e-9a01-b2c3d4e5f607";

type Wanted = (&'static str, &'static str, usize);

/// A path (with {id}, {id2}, {uid}, {u_id} for identifiers), and what it is from the outermost in: kind,
/// name, and its own group's number of parts.
const PATHS: &[(&str, &[Wanted])] = &[
    // docker: cgroupfs and systemd drivers, rootless, in docker, a parent of the user's own.
    ("/docker/{id}", &[("docker", "{short}", 2)]),
    ("/system.slice/docker-{id}.scope", &[("docker", "{short}", 2)]),
    ("/system.slice/docker-{id}.scope/init.scope", &[("docker", "{short}", 2)]),
    ("/system.slice/docker-{id}.scope/system.slice/nginx.service", &[("docker", "{short}", 2)]),
    (
        "/user.slice/user-1000.slice/user@1000.service/user.slice/docker-{id}.scope",
        &[("docker", "{short}", 5)],
    ),
    ("/docker/{id}/docker/{id2}", &[("docker", "{short}", 2), ("docker", "{short2}", 4)]),
    ("/ci-jobs/{id}", &[("container", "{short}", 2)]),
    ("/system.slice:docker:{id}", &[("docker", "{short}", 1)]),
    // podman: root, rootless, pods, cgroupfs, quadlets.
    ("/machine.slice/libpod-{id}.scope", &[("podman", "{short}", 2)]),
    ("/machine.slice/libpod-{id}.scope/container", &[("podman", "{short}", 2)]),
    (
        "/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{id}.scope/container",
        &[("podman", "{short}", 5)],
    ),
    (
        "/machine.slice/machine-libpod_pod_{id2}.slice/libpod-{id}.scope/container",
        &[("pod", "{short2}", 2), ("podman", "{short}", 3)],
    ),
    (
        "/user.slice/user-1000.slice/user@1000.service/user.slice/user-libpod_pod_{id2}.slice/libpod-{id}.scope",
        &[("pod", "{short2}", 5), ("podman", "{short}", 6)],
    ),
    ("/libpod_parent/libpod-{id}", &[("podman", "{short}", 2)]),
    ("/libpod_parent/{id2}/libpod-{id}", &[("pod", "{short2}", 2), ("podman", "{short}", 3)]),
    ("/system.slice/web.service/libpod-payload-{id}", &[("podman", "{short}", 3)]),
    ("/machine.slice/libpod-conmon-{id}.scope", &[("scope", "libpod-conmon-{id}.scope", 2)]),
    // Kubernetes: cgroupfs, systemd with containerd, cri-o, docker; guaranteed, static; misconfigured;
    // k3s below its service; kind.
    ("/kubepods/burstable/pod{uid}/{id}", &[("pod", "{uid}", 3), ("kubernetes", "{short}", 4)]),
    ("/kubepods/pod{uid}/{id}", &[("pod", "{uid}", 2), ("kubernetes", "{short}", 3)]),
    (
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{u_id}.slice/cri-containerd-{id}.scope",
        &[("pod", "{uid}", 3), ("kubernetes", "{short}", 4)],
    ),
    (
        "/kubepods.slice/kubepods-pod{u_id}.slice/crio-{id}.scope/container",
        &[("pod", "{uid}", 2), ("kubernetes", "{short}", 3)],
    ),
    (
        "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{u_id}.slice/docker-{id}.scope",
        &[("pod", "{uid}", 3), ("kubernetes", "{short}", 4)],
    ),
    (
        "/kubepods/besteffort/pod{uid}/crio-{id}",
        &[("pod", "{uid}", 3), ("kubernetes", "{short}", 4)],
    ),
    (
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0123456789abcdef0123456789abcdef.slice/crio-{id}.scope",
        &[("pod", "0123456789ab", 3), ("kubernetes", "{short}", 4)],
    ),
    (
        "/system.slice/containerd.service/kubepods-burstable-pod{u_id}.slice:cri-containerd:{id}",
        &[("pod", "{uid}", 3), ("kubernetes", "{short}", 3)],
    ),
    (
        "/docker/{id2}/kubelet/kubepods/besteffort/pod{uid}/{id}",
        &[("docker", "{short2}", 2), ("pod", "{uid}", 6), ("kubernetes", "{short}", 7)],
    ),
    (
        "/system.slice/docker-{id2}.scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/kubelet-kubepods-besteffort-pod{u_id}.slice/cri-containerd-{id}.scope",
        &[("docker", "{short2}", 2), ("pod", "{uid}", 6), ("kubernetes", "{short}", 7)],
    ),
    ("/kubepods.slice/kubepods-besteffort.slice", &[("slice", "kubepods-besteffort.slice", 2)]),
    ("/kubepods.slice/kubepods-pod{u_id}.slice/crio-conmon-{id}.scope", &[("pod", "{uid}", 2)]),
    // KubeVirt: the VM's threads have groups of their own in the launcher's container.
    (
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{u_id}.slice/crio-{id}.scope/housekeeping",
        &[("pod", "{uid}", 3), ("kubernetes", "{short}", 4)],
    ),
    (
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{u_id}.slice/cri-containerd-{id}.scope/machine/qemu-1-shop_db0.libvirt-qemu/vcpu0",
        &[("pod", "{uid}", 3), ("kubernetes", "{short}", 4), ("libvirt", "shop_db0", 6)],
    ),
    // containerd by itself, nerdctl.
    ("/default/{id}", &[("containerd", "{short}", 2)]),
    ("/system.slice/nerdctl-{id}.scope", &[("containerd", "{short}", 2)]),
    // ECS on EC2 and Fargate.
    ("/ecs/0123456789abcdef0123456789abcdef/{id}", &[("ecs", "{short}", 3)]),
    (
        "/ecs/0123456789abcdef0123456789abcdef/0123456789abcdef0123456789abcdef-1234567890",
        &[("ecs", "0123456789ab", 3)],
    ),
    // LXC, LXD and Incus, Proxmox; what watches them is no container.
    ("/lxc.payload.web", &[("lxc", "web", 1)]),
    ("/lxc.payload.web/system.slice/ssh.service", &[("lxc", "web", 1)]),
    ("/lxc.payload/web", &[("lxc", "web", 2)]),
    ("/lxc/101/ns/init.scope", &[("lxc", "101", 2)]),
    ("/lxc.monitor.web", &[("group", "lxc.monitor.web", 1)]),
    ("/lxc.payload.web/docker/{id}", &[("lxc", "web", 1), ("docker", "{short}", 3)]),
    // systemd-nspawn, as a service and by hand.
    (
        "/machine.slice/systemd-nspawn@debian.service/payload/system.slice/cron.service",
        &[("nspawn", "debian", 2)],
    ),
    ("/machine.slice/systemd-nspawn@web\\x2d1.service/supervisor", &[("nspawn", "web-1", 2)]),
    ("/machine.slice/machine-web\\x2d1.scope/payload", &[("nspawn", "web-1", 2)]),
    // libvirt with systemd and without; Proxmox; systemd-vmspawn.
    (
        "/machine.slice/machine-qemu\\x2d3\\x2ddb\\x2d01.scope/libvirt/vcpu2",
        &[("libvirt", "db-01", 2)],
    ),
    ("/machine.slice/machine-qemu\\x2d3\\x2ddb.scope/emulator", &[("libvirt", "db", 2)]),
    ("/machine/qemu-12-db.libvirt-qemu/vcpu0", &[("libvirt", "db", 2)]),
    ("/machine/old.libvirt-qemu", &[("libvirt", "old", 2)]),
    ("/machine.slice/machine-lxc\\x2d4\\x2dbox.scope", &[("lxc", "box", 2)]),
    ("/machine/lxc-1-box.libvirt-lxc", &[("lxc", "box", 2)]),
    ("/qemu.slice/100.scope", &[("machine", "100", 2)]),
    ("/machine.slice/systemd-vmspawn@arch.service", &[("machine", "arch", 2)]),
    // systemd's units; groups of anybody's; the root.
    ("/system.slice/ssh.service", &[("service", "ssh.service", 2)]),
    (
        "/system.slice/system-getty.slice/getty@tty1.service",
        &[("service", "getty@tty1.service", 3)],
    ),
    ("/system.slice/foo.service/workers/1", &[("service", "foo.service", 2)]),
    ("/user.slice/user-1000.slice/session-3.scope", &[("scope", "session-3.scope", 3)]),
    (
        "/user.slice/user-1000.slice/user@1000.service/app.slice/app-org.gnome.Terminal.slice/vte-spawn-1.scope",
        &[("scope", "vte-spawn-1.scope", 6)],
    ),
    (
        "/user.slice/user-1000.slice/user@1000.service/app.slice",
        &[("service", "user@1000.service", 3)],
    ),
    ("/init.scope", &[("scope", "init.scope", 1)]),
    ("/system.slice", &[("slice", "system.slice", 1)]),
    ("/batch/night", &[("group", "batch/night", 2)]),
    ("/", &[]),
    ("", &[]),
    // Names that only look like some.
    ("/system.slice/docker-abc.scope", &[("scope", "docker-abc.scope", 2)]),
    ("/podman/x", &[("group", "podman/x", 2)]),
    ("/pod{uid}", &[("group", "pod{uid}", 1)]),
    ("/kubepods/podracer/{id}", &[("container", "{short}", 3)]),
    ("/qemu.slice/mine.scope", &[("scope", "mine.scope", 2)]),
    ("/a:b:c", &[("group", "a:b:c", 1)]),
    ("/docker/ü{id}", &[("group", "docker/ü{id}", 2)]),
    ("/system.slice/bad\\xzz.service", &[("service", "bad\\xzz.service", 2)]),
];

fn filled(text: &str) -> String {
    text.replace("{id}", ID)
        .replace("{id2}", ID2)
        .replace("{uid}", UID)
        .replace("{u_id}", &UID.replace('-', "_"))
        .replace("{short}", &ID[..12])
        .replace("{short2}", &ID2[..12])
}

#[test]
fn paths_are_what_people_call_them() {
    for (path, wanted) in PATHS {
        let path = filled(path);
        let found = levels(&path);
        let told: Vec<(&str, String, usize)> = found
            .iter()
            .map(|level| {
                let depth = level.path.split('/').filter(|part| !part.is_empty()).count();
                (level.kind.as_str(), level.name.clone(), depth)
            })
            .collect();
        // A pod's name is the beginning of its UID, until somebody tells the real one.
        let name = |kind: &str, name: &str| {
            let full = filled(name);
            if kind == "pod" { full.chars().take(12).collect() } else { full }
        };
        let wanted: Vec<(&str, String, usize)> =
            wanted.iter().map(|(kind, n, depth)| (*kind, name(kind, n), *depth)).collect();
        assert_eq!(told, wanted, "{path}");
        for level in &found {
            assert!(path.starts_with(&level.path), "{path}: {level:?}");
        }
    }
}

#[test]
fn a_pods_containers_know_their_pod_and_runtime() {
    let found = levels(&filled(
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{u_id}.slice/cri-containerd-{id}.scope",
    ));
    assert_eq!((found[0].id.as_deref(), found[0].pod.as_deref()), (Some(UID), None));
    assert_eq!((found[1].id.as_deref(), found[1].pod.as_deref()), (Some(ID), Some(UID)));
    assert_eq!(found[1].runtime, Some(Kind::Containerd));
    let bare = levels(&filled("/kubepods/pod{uid}/{id}"));
    assert_eq!((bare[1].pod.as_deref(), bare[1].runtime), (Some(UID), None));
    let podman = levels(&filled("/libpod_parent/{id2}/libpod-{id}"));
    assert_eq!((podman[1].kind, podman[1].pod.as_deref()), (Kind::Podman, Some(ID2)));
}

#[test]
fn any_path_is_something_and_nothing_panics() {
    // Cut anywhere, doubled slashes, bytes that are no ASCII.
    for (path, _) in PATHS {
        let path = filled(path).replace('/', "//");
        for end in (0..=path.len()).filter(|end| path.is_char_boundary(*end)) {
            let cut = &path[..end];
            let found = levels(cut);
            assert_eq!(found.is_empty(), cut.bytes().all(|byte| byte == b'/'), "{cut}");
        }
    }
}
