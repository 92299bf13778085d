//! # Transmit paths: the code that a packet passes on four platforms
//!
//! **What.** Brendan Gregg's *Virtualization Performance: Zones, KVM, Xen* (2013) lays the kernel stacks beside each other with
//! which a packet leaves a host, a zone and a KVM guest, and describes Xen's. This is the same with Linux: a process of the host, one in
//! a network of its own, guests with QEMU and with vhost-net, and a domain of Xen send a datagram to an address behind the same
//! kind of device.
//!
//! **Data flow.** [`plan`] (platforms and stages) → [`record`] (the testbed's hosts; `transect record --stacks`) → [`analysis`]
//! (`transect sql`, `transect flame`) → `stages.csv` and `stacks.html` → [`page`].
//!
//! **Design constraints.**
//! * All kernels are of one version, and the packet leaves by a device of one kind, `dummy`: what differs is the platform.
//! * Times are not compared: the hosts are emulated.

pub mod analysis;
pub mod page;
pub mod plan;
pub mod record;
