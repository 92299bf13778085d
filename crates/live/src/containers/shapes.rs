//! The shapes that names of control groups have, manager by manager.

use super::{Kind, Level};

/// A [`Level`] without its place.
#[derive(Debug)]
pub(super) struct Shape {
    kind: Kind,
    name: String,
    id: Option<String>,
    pod: Option<String>,
    runtime: Option<Kind>,
}

impl Shape {
    fn named(kind: Kind, name: impl Into<String>) -> Self {
        Shape { kind, name: name.into(), id: None, pod: None, runtime: None }
    }

    fn with_id(kind: Kind, id: &str) -> Self {
        let short: String = id.chars().take(12).collect();
        Shape { id: Some(id.to_owned()), ..Shape::named(kind, short) }
    }

    /// A container in a pod is Kubernetes', whatever runs it; podman has pods, too.
    fn in_pod(mut self, pod: Option<&str>) -> Self {
        if let Some(pod) = pod {
            self.pod = Some(pod.to_owned());
            if self.kind != Kind::Podman {
                self.runtime = Some(self.kind).filter(|kind| *kind != Kind::Container);
                self.kind = Kind::Kubernetes;
            }
        }
        self
    }

    pub(super) fn at(self, path: &str) -> Level {
        let Shape { kind, name, id, pod, runtime } = self;
        Level { kind, name, id, pod, runtime, path: path.to_owned() }
    }
}

/// What managers put before an id, with and without systemd (`PREFIX-ID.scope`, `PREFIX-ID`; of runc
/// also `SLICE:PREFIX:ID`, where it was told to use systemd's names and does not use systemd).
const PREFIXES: &[(&str, Kind)] = &[
    ("docker", Kind::Docker),
    ("libpod", Kind::Podman),
    ("libpod-payload", Kind::Podman),
    ("cri-containerd", Kind::Containerd),
    ("containerd", Kind::Containerd),
    ("nerdctl", Kind::Containerd),
    ("crio", Kind::Crio),
];

/// Groups right below which a bare id is a container's.
const PARENTS: &[(&str, Kind)] = &[
    ("docker", Kind::Docker),
    ("moby", Kind::Docker),
    ("k8s.io", Kind::Containerd),
    ("default", Kind::Containerd),
    ("libpod_parent", Kind::Pod),
];

/// The containers that one part of a path is: none, one, or a pod and its container in one name.
/// `above` are the parts before it; `pod` is the pod that `part` lies in.
pub(super) fn of(above: &[&str], part: &str, pod: Option<&str>) -> Vec<Shape> {
    if let Some((slice, rest)) = part.split_once(':') {
        let pod = pod_uid(slice);
        let Some((prefix, id)) = rest.split_once(':') else { return Vec::new() };
        let Some(shape) = prefixed(prefix, id) else { return Vec::new() };
        let whole = pod.as_deref().map(|uid| Shape::with_id(Kind::Pod, uid));
        return whole.into_iter().chain([shape.in_pod(pod.as_deref())]).collect();
    }
    if let Some(uid) = pod_uid(part) {
        let is_kube =
            part.contains("kubepods") || above.iter().any(|name| name.contains("kubepods"));
        return is_kube.then(|| Shape::with_id(Kind::Pod, &uid)).into_iter().collect();
    }
    let parent = above.last().copied().unwrap_or("");
    let found = podman_pod(part)
        .or_else(|| dashed(part))
        .or_else(|| bare(above, parent, part, pod))
        .or_else(|| machine(parent, part))
        .or_else(|| lxc(parent, part));
    found.map(|shape| shape.in_pod(pod)).into_iter().collect()
}

/// The unit of systemd that a part is, if it is a better answer than the one before: of a path the
/// last service or scope, else the last slice.
pub(super) fn unit(part: &str, before: Option<&Level>) -> Option<Shape> {
    let (_, suffix) = part.rsplit_once('.')?;
    let kind = match suffix {
        "service" => Kind::Service,
        "scope" => Kind::Scope,
        "slice" => Kind::Slice,
        _ => return None,
    };
    // user@1000.service has slices of its own.
    let is_worse = kind == Kind::Slice && before.is_some_and(|before| before.kind != Kind::Slice);
    (!is_worse).then(|| Shape::named(kind, unescape(part)))
}

/// A group that is nobody's we know: its path is its name.
pub(super) fn group(parts: &[&str]) -> Option<Shape> {
    (!parts.is_empty()).then(|| Shape::named(Kind::Group, parts.join("/")))
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits
        && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

fn is_id(text: &str) -> bool {
    is_hex(text, 64)
}

fn prefixed(prefix: &str, id: &str) -> Option<Shape> {
    let (_, kind) = PREFIXES.iter().find(|(known, _)| *known == prefix)?;
    is_id(id).then(|| Shape::with_id(*kind, id))
}

/// `docker-ID.scope`, `libpod-ID`, …
fn dashed(part: &str) -> Option<Shape> {
    let (prefix, id) = part.strip_suffix(".scope").unwrap_or(part).rsplit_once('-')?;
    prefixed(prefix, id)
}

/// The UID in `podUID`, `kubepods-burstable-podUID.slice`: a UUID, with underscores where systemd
/// would take dashes for levels, or the 32 digits of a static pod.
fn pod_uid(part: &str) -> Option<String> {
    let stem = part.strip_suffix(".slice").unwrap_or(part);
    let (before, uid) = match stem.rsplit_once("-pod") {
        Some((before, uid)) if before.contains("kubepods") => (before, uid),
        _ => ("", stem.strip_prefix("pod")?),
    };
    if before.is_empty() != stem.starts_with("pod") {
        return None;
    }
    let uid = uid.replace('_', "-");
    let groups: Vec<&str> = uid.split('-').collect();
    let lengths = [8, 4, 4, 4, 12];
    let is_uuid = groups.len() == lengths.len()
        && groups.iter().zip(lengths).all(|(group, n)| is_hex(group, n));
    (is_uuid || is_hex(&uid, 32)).then_some(uid)
}

/// `machine-libpod_pod_ID.slice`, `user-libpod_pod_ID.slice`.
fn podman_pod(part: &str) -> Option<Shape> {
    let (_, id) = part.strip_suffix(".slice")?.split_once("-libpod_pod_")?;
    is_id(id).then(|| Shape::with_id(Kind::Pod, id))
}

/// An id and nothing else: whose it is the groups above tell.
fn bare(above: &[&str], parent: &str, part: &str, pod: Option<&str>) -> Option<Shape> {
    if above.len() >= 2 && above.get(above.len() - 2) == Some(&"ecs") {
        let fargate = part.split_once('-').is_some_and(|(id, number)| {
            is_hex(id, 32) && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        });
        return (fargate || is_id(part)).then(|| Shape::with_id(Kind::Ecs, part));
    }
    if !is_id(part) {
        return None;
    }
    let known = PARENTS.iter().find(|(name, _)| *name == parent).map(|(_, kind)| *kind);
    let kind = if pod.is_some() { Kind::Container } else { known.unwrap_or(Kind::Container) };
    Some(Shape::with_id(kind, part))
}

/// Machines: of systemd-machined, libvirt, Proxmox.
fn machine(parent: &str, part: &str) -> Option<Shape> {
    let instance = |service: &str| {
        let name = part.strip_prefix(service)?.strip_suffix(".service")?;
        Some(unescape(name))
    };
    if let Some(name) = instance("systemd-nspawn@") {
        return Some(Shape::named(Kind::Nspawn, name));
    }
    if let Some(name) = instance("systemd-vmspawn@") {
        return Some(Shape::named(Kind::Machine, name));
    }
    if let Some(name) = part.strip_prefix("machine-").and_then(|rest| rest.strip_suffix(".scope")) {
        let name = unescape(name);
        return Some(libvirt(&name).unwrap_or_else(|| Shape::named(Kind::Nspawn, name)));
    }
    if let Some(stem) = part.strip_suffix(".libvirt-qemu") {
        return Some(libvirt(stem).unwrap_or_else(|| Shape::named(Kind::Libvirt, stem)));
    }
    if let Some(stem) = part.strip_suffix(".libvirt-lxc") {
        return Some(libvirt(stem).unwrap_or_else(|| Shape::named(Kind::Lxc, stem)));
    }
    let number = part.strip_suffix(".scope").filter(|_| parent == "qemu.slice")?;
    number.bytes().all(|byte| byte.is_ascii_digit()).then(|| Shape::named(Kind::Machine, number))
}

/// `qemu-3-NAME`: libvirt's driver, number and name of a domain.
fn libvirt(machine: &str) -> Option<Shape> {
    let (driver, rest) = machine.split_once('-')?;
    let (number, name) = rest.split_once('-')?;
    let kind = match driver {
        "qemu" | "ch" => Kind::Libvirt,
        "lxc" => Kind::Lxc,
        _ => return None,
    };
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && !name.is_empty()).then(|| Shape::named(kind, name))
}

/// `lxc.payload.NAME` since LXC 4, `lxc.payload/NAME` in 3, `lxc/NAME` before and with Proxmox.
fn lxc(parent: &str, part: &str) -> Option<Shape> {
    let name = match (part.strip_prefix("lxc.payload."), parent) {
        (Some(name), _) => name,
        (None, "lxc" | "lxc.payload") => part,
        _ => return None,
    };
    (!name.is_empty()).then(|| Shape::named(Kind::Lxc, name))
}

/// Undoes systemd's `\xNN`.
fn unescape(name: &str) -> String {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = after.get(..3).filter(|code| *first == b'\\' && code[0] == b'x');
        let byte = escaped.and_then(|code| {
            let digits = std::str::from_utf8(code.get(1..)?).ok()?;
            u8::from_str_radix(digits, 16).ok()
        });
        match byte {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
