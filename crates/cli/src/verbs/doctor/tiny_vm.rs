//! The tiny VM of the KVM check: a 16-bit guest that writes to a port a few times and halts.

use anyhow::{Context as _, bail};
use kvm_bindings::kvm_userspace_memory_region;
use kvm_ioctls::{Kvm, VcpuExit};
use std::process::ExitCode;

/// Port writes the tiny guest makes before it halts.
pub(super) const PORT_WRITES: u8 = 50;
const MEMORY_BYTES: usize = 0x1000;
/// 16-bit code at address 0: `mov cx, N; again: out 0x10, al; loop again; hlt`.
const CODE: [u8; 8] = [0xb9, PORT_WRITES, 0x00, 0xe6, 0x10, 0xe2, 0xfc, 0xf4];

/// The body of the child: makes the VM, runs it to its halt.
pub(super) fn run() -> anyhow::Result<ExitCode> {
    let kvm = Kvm::new().context("cannot open /dev/kvm")?;
    let vm = kvm.create_vm().context("cannot create a VM")?;
    let mut memory = GuestMemory::new(&CODE)?;
    memory.give_to(&vm)?;
    let mut vcpu = vm.create_vcpu(0).context("cannot create a vCPU")?;
    let mut sregs = vcpu.get_sregs()?;
    sregs.cs.base = 0;
    sregs.cs.selector = 0;
    vcpu.set_sregs(&sregs)?;
    let mut regs = vcpu.get_regs()?;
    regs.rip = 0;
    regs.rflags = 2;
    vcpu.set_regs(&regs)?;
    let mut writes = 0;
    loop {
        match vcpu.run().context("cannot run the vCPU")? {
            VcpuExit::IoOut(_, _) => writes += 1,
            VcpuExit::Hlt if writes == u32::from(PORT_WRITES) => return Ok(ExitCode::SUCCESS),
            other => bail!("the tiny VM stopped after {writes} port writes with {other:?}"),
        }
    }
}

/// One page-aligned page of guest memory that outlives the VM it is given to.
struct GuestMemory(Box<AlignedPage>);

#[repr(align(4096))]
struct AlignedPage([u8; MEMORY_BYTES]);

impl GuestMemory {
    fn new(code: &[u8]) -> anyhow::Result<Self> {
        let mut page = Box::new(AlignedPage([0; MEMORY_BYTES]));
        page.0
            .get_mut(..code.len())
            .context("the code exceeds the guest memory")?
            .copy_from_slice(code);
        Ok(GuestMemory(page))
    }

    #[allow(unsafe_code, reason = "KVM maps memory of this process into the VM")]
    fn give_to(&mut self, vm: &kvm_ioctls::VmFd) -> anyhow::Result<()> {
        let region = kvm_userspace_memory_region {
            slot: 0,
            guest_phys_addr: 0,
            memory_size: MEMORY_BYTES as u64,
            userspace_addr: self.0.0.as_mut_ptr() as u64,
            flags: 0,
        };
        // SAFETY: the page is owned by `self`, which the caller keeps until its VM is gone, and
        // nothing else reads or writes it meanwhile.
        unsafe { vm.set_user_memory_region(region) }.context("cannot map memory into the VM")
    }
}
