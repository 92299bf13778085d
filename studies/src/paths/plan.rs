//! The platforms, and the stages that are compared.

/// Where a packet is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Platform {
    /// As in files: `NAME.transect`, and the first column of `stages.csv`.
    pub name: &'static str,
    /// As on the page.
    pub title: &'static str,
    /// The machine of the sender, as recordings name it.
    pub sender: &'static str,
}

/// All, in the order of the page.
pub const PLATFORMS: [Platform; 5] = [
    Platform { name: "native", title: "native", sender: "kvmhost" },
    Platform { name: "container", title: "container", sender: "kvmhost" },
    Platform { name: "kvm-qemu", title: "KVM, QEMU's back end", sender: "client" },
    Platform { name: "kvm-vhost", title: "KVM, vhost-net", sender: "client" },
    Platform { name: "xen", title: "Xen, netback", sender: "client" },
];

/// An event on a packet's way, and its stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// As in `packets`, without `_ts`.
    pub name: &'static str,
    /// `point` of its rows of `stack_samples`.
    pub point: &'static str,
    /// As on the page.
    pub title: &'static str,
}

/// All that have a stack on the way out, in order.
pub const STAGES: [Stage; 4] = [
    Stage { name: "send", point: "transmit", title: "the sender's driver gets the packet" },
    Stage { name: "kick", point: "wake", title: "the doorbell wakes the back end" },
    Stage { name: "host_receive", point: "receive", title: "the host takes the packet" },
    Stage { name: "host_send", point: "transmit", title: "the host's driver gets the packet" },
];
