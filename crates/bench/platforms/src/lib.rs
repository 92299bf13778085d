//! Machines to run workloads on: one folder each, one line in [`registry`].

mod container;
mod kit;
mod kvm;
mod native;
mod nested_kvm;
mod nested_l1;
mod nspawn;
mod platform;
mod remote;
mod tcg;
mod uml;
mod xen_dom0;
mod xen_domu;

pub use platform::{Bed, Facts, Machine, Pipes, Platform, Shape, log_of};

use transect_bench_core::Refusal;

/// Every platform there is.
#[must_use]
pub fn registry() -> &'static [&'static dyn Platform] {
    &[
        &native::Native,
        &container::Container,
        &nspawn::Nspawn,
        &uml::Uml,
        &tcg::Tcg,
        &kvm::Kvm,
        &nested_l1::NestedL1,
        &nested_kvm::NestedKvm,
        &xen_dom0::XenDom0,
        &xen_domu::PHYS,
        &xen_domu::LOOP,
        &remote::Remote,
    ]
}

/// The platform of this name.
///
/// # Errors
/// There is none.
pub fn named(name: &str) -> Result<&'static dyn Platform, Refusal> {
    let all = registry();
    let found = all.iter().find(|platform| platform.name() == name);
    found.copied().ok_or_else(|| {
        Refusal::unknown("platform", name, all.iter().map(|platform| platform.name()))
    })
}
