//! A guest of a [`World`]: what is alike whichever hypervisor runs it.

use super::{Port, World, carry};
use crate::platform::{Bed, Facts, Machine, Pipes};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use transect_bench_core::Fault;

/// What only its hypervisor knows of it. Dropping it ends it.
pub(crate) trait Running: Send {
    /// Why it does not run any more.
    fn check_alive(&self, console: &Console) -> Result<(), Fault>;
    /// Ends it, and returns when it has ended.
    fn end(&mut self) -> Result<(), Fault>;
}

/// A guest that runs a worker port.
pub(crate) struct Hosted<R> {
    pub facts: Facts,
    pub port: Port,
    pub arguments: Vec<String>,
    /// On its host's network.
    pub address: Ipv4Addr,
    pub console: Console,
    /// Where its console's text is kept.
    pub log: PathBuf,
    pub running: R,
    pub world: Arc<World>,
}

/// The file that a guest's console is written to.
pub(crate) struct Console(pub PathBuf);

impl Console {
    /// What there is not yet has said nothing.
    fn text(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.0).unwrap_or_default()).into_owned()
    }

    pub(crate) fn has_panicked(&self) -> bool {
        self.text().contains("Kernel panic")
    }

    pub(crate) fn last_lines(&self) -> String {
        let text = self.text();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(10)..].join("\n")
    }
}

/// The folder that a guest of this name shares with its host and with this one, with what it is to have in it; and what is
/// true of it because it is so of its host.
pub(crate) fn folder_of_guest(
    world: &World,
    name: &str,
    bed: &Bed,
) -> Result<(PathBuf, Facts), Fault> {
    let folder = world.fitted.share().join(name);
    fs::create_dir_all(&folder).map_err(Fault::failed)?;
    let mut facts = world.host().facts_of_a_guest();
    carry(bed, &folder, &mut facts)?;
    Ok((folder, facts))
}

/// The address of the guest in this place; QEMU's user-mode network has its own below 20.
pub(crate) fn address_of_guest(place: u32) -> Result<Ipv4Addr, Fault> {
    Ok(Ipv4Addr::new(10, 0, 2, 20 + u8::try_from(place).map_err(Fault::failed)?))
}

impl<R: Running> Machine for Hosted<R> {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn worker(&mut self) -> Result<Pipes, Fault> {
        self.port.worker(&self.arguments)
    }

    fn worker_below(&mut self) -> Result<Pipes, Fault> {
        self.world.host().worker()
    }

    fn reach(&mut self, port: u16) -> Result<SocketAddr, Fault> {
        self.world.host().forward(self.address, port)
    }

    fn gateway(&self) -> Option<IpAddr> {
        self.world.host().gateway()
    }

    fn host_tids(&self) -> Vec<u32> {
        self.world.host().host_tids()
    }

    fn check_alive(&mut self) -> Result<(), Fault> {
        self.world.host().check_alive()?;
        self.running.check_alive(&self.console)
    }

    fn close(mut self: Box<Self>) -> Result<(), Fault> {
        self.running.end()
    }
}

impl<R> Drop for Hosted<R> {
    fn drop(&mut self) {
        // Its console is worth keeping; whether it can be is not worth another failure.
        drop(fs::copy(&self.console.0, &self.log));
    }
}
