//! What platforms are made of: fences (control groups), workers as processes of this host, workers behind a port,
//! machines of the testbed, and the check that every machine has to pass.
//!
//! ```text
//! platform ─▶ Own (processes of this host in a Fence) ─┐
//!          ─▶ Guest (a machine of the testbed, a Port) ─┼─▶ checked() ─▶ Machine
//!          ─▶ Hosted (a guest of a World, a Port)      ─┤
//!          ─▶ … its own                                ─┘
//! ```

mod checked;
mod fence;
mod guest;
mod hosted;
mod own;
mod params;
mod port;
mod world;

pub(super) use checked::{Expected, checked};
pub(super) use fence::{Fence, memory_of_this_host_bytes};
pub(super) use guest::{
    Guest, GuestPlan, carry, carry_worker, disk_image, options_of, port_over, taken_by_kernel_mib,
};
pub(super) use hosted::{Console, Hosted, Running, address_of_guest, folder_of_guest};
pub(super) use own::{LIFETIME, Own, OwnPlan, Roots};
pub(super) use params::{cpu_list, own_cpus, text, truth, whole};
pub(super) use port::Port;
pub(super) use world::{Shared, Sizes, World};

use transect_bench_core::{Fault, Kind, Refusal};

/// An error of the testbed, with its causes.
pub(super) fn failed(error: &anyhow::Error) -> Fault {
    Fault::Failed(format!("{error:#}"))
}

/// Refuses unless the program is in `PATH` or a folder of administration.
pub(super) fn need_program(platform: &str, program: &str, package: &str) -> Result<(), Refusal> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/sbin"].map(std::path::PathBuf::from);
    if std::env::split_paths(&path).chain(more).any(|folder| folder.join(program).is_file()) {
        return Ok(());
    }
    let why = format!("{program} is not installed");
    let refusal = Refusal::new(Kind::Missing, format!("platform {platform}"), why);
    Err(refusal.mend(format!("apt-get install {package}")))
}

/// Refuses unless this process is root.
pub(super) fn need_root(platform: &str) -> Result<(), Refusal> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let what = format!("platform {platform}");
    Err(Refusal::new(Kind::NotHere, what, "root is required for control groups and mounts")
        .mend("sudo"))
}
