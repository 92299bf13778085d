//! Makes the texts of `crates/probes/xen/testdata` anew: what Xen's tools say in a dom0 with a PV and a PVH domU.
//!
//! `cargo run -p transect-testbed --example xen_texts -- FOLDER`

use std::path::Path;

use anyhow::{Context, Result};
use transect_testbed::XenHost;
use transect_testbed::xen::{TscMode, XenOptions};

const TEXTS: &[(&str, &str)] = &[
    ("xl-info.txt", "xl info"),
    ("xl-list-l.txt", "xl list -l"),
    ("xl-sched-credit2.txt", "xl sched-credit2"),
    ("xl-dmesg.txt", "xl debug-keys s; xl dmesg | tail -n 12"),
    ("xenstore-ls.txt", "xenstore-ls /local/domain/1 | head -n 60; xenstore-ls /vm | head -n 20"),
    (
        "capabilities.txt",
        "head /proc/xen/capabilities /sys/hypervisor/properties/features /sys/hypervisor/uuid; ls /dev/xen",
    ),
];

fn main() -> Result<()> {
    let folder = std::env::args().nth(1).context("usage: xen_texts FOLDER")?;
    // One pCPU for the PVH domU's sake: see the traps in testbed/README.md.
    let host = XenHost::boot_with(&XenOptions { cpus: 1, ..XenOptions::default() })?;
    let _duty = host.domu("duty").pv().vcpus(2).weight(512).boot()?;
    let hog = host.domu("hog").pvh().tsc_mode(TscMode::Native);
    let _hog = hog.cap(30).boot()?;
    for (name, command) in TEXTS {
        let said = host.run(command).within(60)?.ok()?.stdout;
        std::fs::write(Path::new(&folder).join(name), said).with_context(|| (*name).to_owned())?;
    }
    Ok(())
}
