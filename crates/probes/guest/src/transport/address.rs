//! AF_VSOCK addresses, which neither std nor rustix know (linux/vm_sockets.h, kernel 6.18).
#![allow(unsafe_code)] // A foreign sockaddr and one ioctl.

use rustix::{
    fs::{Mode, OFlags},
    ioctl::{Getter, ioctl, opcode},
    net::addr::{SocketAddrArg, SocketAddrLen, SocketAddrOpaque},
};

/// Any address of this machine (VMADDR_CID_ANY).
const ANY_CID: u32 = u32::MAX;

/// `sizeof(struct sockaddr_vm)`.
const SOCKADDR_VM_BYTES: SocketAddrLen = 16;

/// `struct sockaddr_vm`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct VsockAddress {
    family: u16,
    reserved1: u16,
    port: u32,
    cid: u32,
    flags: u8,
    zero: [u8; 3],
}

impl VsockAddress {
    pub(super) fn new(cid: u32, port: u32) -> Self {
        let family = rustix::net::AddressFamily::VSOCK.as_raw();
        VsockAddress { family, reserved1: 0, port, cid, flags: 0, zero: [0; 3] }
    }

    pub(super) fn any(port: u32) -> Self {
        Self::new(ANY_CID, port)
    }
}

// SAFETY: the pointer handed to `f` is to `self`, which outlives the call, is `repr(C)` with the
// layout of `struct sockaddr_vm` (16 bytes, no padding), and the length is its size.
unsafe impl SocketAddrArg for VsockAddress {
    unsafe fn with_sockaddr<R>(
        &self,
        f: impl FnOnce(*const SocketAddrOpaque, SocketAddrLen) -> R,
    ) -> R {
        const { assert!(size_of::<VsockAddress>() == SOCKADDR_VM_BYTES as usize) };
        f(std::ptr::from_ref(self).cast(), SOCKADDR_VM_BYTES)
    }
}

/// This machine's own vsock address, `None` if it has none (no device, or not a guest).
pub fn local_cid() -> Option<u32> {
    const GET_LOCAL_CID: u32 = opcode::none(7, 0xb9);
    let device = rustix::fs::open("/dev/vsock", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let device = device.ok()?;
    // SAFETY: IOCTL_VM_SOCKETS_GET_LOCAL_CID writes one unsigned int (af_vsock.c,
    // vsock_dev_do_ioctl), which is what the getter makes room for.
    let cid = unsafe { ioctl(device, Getter::<GET_LOCAL_CID, u32>::new()) }.ok()?;
    // 0 and the host's 2 say that no guest device is behind it.
    (cid > 2 && cid != ANY_CID).then_some(cid)
}
