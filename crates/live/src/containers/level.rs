//! One container, or what takes its place.

/// What a control group is to people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Docker,
    Podman,
    Containerd,
    Crio,
    /// A container of a pod.
    Kubernetes,
    /// All containers of a pod: Kubernetes', or podman's.
    Pod,
    Lxc,
    Nspawn,
    Libvirt,
    /// A machine of another manager of VMs.
    Machine,
    Ecs,
    /// A container whose runtime the path does not tell.
    Container,
    Service,
    Scope,
    Slice,
    Group,
}

impl Kind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Kind::Docker => "docker",
            Kind::Podman => "podman",
            Kind::Containerd => "containerd",
            Kind::Crio => "cri-o",
            Kind::Kubernetes => "kubernetes",
            Kind::Pod => "pod",
            Kind::Lxc => "lxc",
            Kind::Nspawn => "nspawn",
            Kind::Libvirt => "libvirt",
            Kind::Machine => "machine",
            Kind::Ecs => "ecs",
            Kind::Container => "container",
            Kind::Service => "service",
            Kind::Scope => "scope",
            Kind::Slice => "slice",
            Kind::Group => "group",
        }
    }

    /// Does systemd know it, and not a manager of containers?
    pub(crate) fn is_unit(self) -> bool {
        matches!(self, Kind::Service | Kind::Scope | Kind::Slice | Kind::Group)
    }
}

/// A container, or what takes its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) kind: Kind,
    /// As far as the path tells: the name, or the first digits of the id.
    pub(crate) name: String,
    pub(crate) id: Option<String>,
    /// The pod it belongs to: its UID.
    pub(crate) pod: Option<String>,
    /// The runtime that a path of Kubernetes tells.
    pub(crate) runtime: Option<Kind>,
    /// Its own control group: the path up to it.
    pub(crate) path: String,
}
