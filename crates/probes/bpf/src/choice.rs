//! Which programs this kernel can have: events it lacks, and alternatives for one event.

use std::path::Path;

use transect_model::exit::Isa;

use crate::{
    kernel::{Names, Version},
    program::{Family, KVM_EXIT_CLASSIC, KVM_EXIT_SVM, PROGRAMS, Program, THROTTLE, UNTHROTTLE},
};

/// `kvm_exit` hands over (vcpu, isa) since 5.18; before, the reason was an argument.
const KVM_EXIT_WITH_VCPU: Version = Version(5, 18);

/// How VM exits are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvmExitMethod {
    /// From the VMCB, by a BTF program: cheapest.
    Svm,
    /// By a program on the classic tracepoint: works everywhere, at the price of the copy perf makes.
    Classic,
    /// There is no such event (KVM is not loaded).
    None,
}

impl KvmExitMethod {
    /// Words for messages and metadata.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Svm => "vmcb",
            Self::Classic => "classic tracepoint",
            Self::None => "none",
        }
    }
}

pub(crate) fn kvm_exit_method(names: &Names) -> KvmExitMethod {
    if !names.has_tracepoint("kvm_exit") {
        return KvmExitMethod::None;
    }
    let svm = names.has("vcpu_svm") && Version::running() >= KVM_EXIT_WITH_VCPU;
    if svm && Path::new("/sys/module/kvm_amd").exists() {
        return KvmExitMethod::Svm;
    }
    if names.has("trace_event_raw_kvm_exit") { KvmExitMethod::Classic } else { KvmExitMethod::None }
}

/// Whose exit reasons KVM reports here.
pub fn exit_isa() -> Isa {
    match () {
        () if cfg!(target_arch = "aarch64") => Isa::Arm64,
        () if Path::new("/sys/module/kvm_amd").exists() => Isa::Svm,
        () => Isa::Vmx,
    }
}

/// Can this program be loaded here, as far as the kernel's names tell?
pub(crate) fn is_possible(program: &Program, names: &Names) -> bool {
    // Other architectures' KVM events have the same names and other arguments; vectors are x86's own.
    if matches!(program.family, Family::Kvm | Family::Vectors) && !cfg!(target_arch = "x86_64") {
        return false;
    }
    match program.name {
        KVM_EXIT_SVM => kvm_exit_method(names) == KvmExitMethod::Svm,
        KVM_EXIT_CLASSIC => kvm_exit_method(names) == KvmExitMethod::Classic,
        THROTTLE | UNTHROTTLE => names.has(program.name),
        _ => names.has_tracepoint(program.tracepoint()),
    }
}

/// Interrupts that only the kernels of some machines have: nothing is missing where they are not.
fn is_of_some_machines(program: &Program) -> bool {
    program.family == Family::Vectors && !program.name.starts_with("local_timer")
}

/// Events that no program can record here.
pub(crate) fn absent(names: &Names) -> Vec<String> {
    absent_of(&PROGRAMS.iter().collect::<Vec<_>>(), names)
}

/// Of the programs' events, those that none of them can record here.
pub(crate) fn absent_of(programs: &[&'static Program], names: &Names) -> Vec<String> {
    let mut absent: Vec<String> = Vec::new();
    for program in programs {
        let has_one =
            programs.iter().any(|other| other.event == program.event && is_possible(other, names));
        if !has_one
            && !is_of_some_machines(program)
            && absent.iter().all(|event| event != program.event)
        {
            absent.push(program.event.to_owned());
        }
    }
    absent
}
