//! A QEMU guest under this host's KVM. See README.md.

use super::kit::need_program;
use super::{
    platform::{Bed, Facts, Machine, Platform, Shape},
    tcg,
};
use transect_bench_core::{Fault, Kind, Refusal};
use transect_testbed::probe::{self, Verdict};
use transect_testbed::qemu::Accelerator;

/// KVM.
pub(super) struct Kvm;

impl Platform for Kvm {
    fn name(&self) -> &'static str {
        "kvm"
    }

    fn about(&self) -> &'static str {
        "a QEMU guest with Debian's kernel under this host's KVM"
    }

    /// The device's existence proves nothing: a kernel is booted, once per boot of this host.
    fn can_run(&self, _: &Shape) -> Result<(), Refusal> {
        need_program(self.name(), "qemu-system-x86_64", "qemu-system-x86")?;
        let refuse = |why: String| Refusal::new(Kind::NotHere, "platform kvm", why);
        match probe::kvm() {
            Ok(Verdict::Usable) => Ok(()),
            Ok(Verdict::Unusable(why)) => {
                Err(refuse(why).mend("use the platform nested-kvm or tcg"))
            }
            Err(error) => Err(refuse(format!("it cannot be probed: {error:#}"))),
        }
    }

    fn open(&self, shape: &Shape, bed: &Bed) -> Result<Box<dyn Machine>, Fault> {
        self.can_run(shape)?;
        let facts = Facts { accelerator: "kvm".into(), ..Facts::default() };
        tcg::open(self.name(), Accelerator::Kvm, facts, shape, bed)
    }
}
