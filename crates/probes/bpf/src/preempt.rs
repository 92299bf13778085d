//! Where x86 has the preemption count: how far from the run queue of the same CPU.
//!
//! Both are per-CPU variables, in the same section of the kernel's image, and BTF has the place of each
//! in it: no symbols are needed (`bpf/context.bpf.h` says why). The count is `__preempt_count`, but from
//! 6.2 to 6.14, where it is `pcpu_hot.preempt_count`.

use libbpf_rs::btf::{
    Btf, BtfType,
    types::{Composite, DataSec, MemberAttr, Var},
};

/// The section of the variables that each CPU has its own of.
const PER_CPU: &str = ".data..percpu";

/// From a CPU's run queue to its preemption count, bytes. `None`: this kernel's BTF has no such variables,
/// or it is arm64, where the count is the task's.
pub(crate) fn distance() -> Option<i64> {
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    distance_in(&Btf::from_vmlinux().ok()?)
}

fn distance_in(btf: &Btf<'_>) -> Option<i64> {
    let section = btf.type_by_name::<DataSec<'_>>(PER_CPU)?;
    let variable = |name: &str| {
        section.iter().find_map(|info| {
            let var = btf.type_by_id::<Var<'_>>(info.ty)?;
            (var.name()? == name).then_some((i64::from(info.offset), var))
        })
    };
    let (queue, _) = variable("runqueues")?;
    let count = match variable("__preempt_count") {
        Some((count, _)) => count,
        None => {
            let (hot, var) = variable("pcpu_hot")?;
            hot + member(btf, var.next_type()?.skip_mods_and_typedefs(), "preempt_count")?
        }
    };
    Some(count - queue)
}

/// Where a structure has a member, nameless structures and unions in it included; bytes.
fn member(btf: &Btf<'_>, of: BtfType<'_>, name: &str) -> Option<i64> {
    let composite = Composite::try_from(of).ok()?;
    composite.iter().find_map(|inner| {
        let MemberAttr::Normal { offset } = inner.attr else { return None };
        let place = match inner.name.filter(|its| !its.is_empty()) {
            Some(its) => (its == name).then_some(0),
            None => member(btf, btf.type_by_id(inner.ty)?, name),
        };
        Some(i64::from(offset / 8) + place?)
    })
}
