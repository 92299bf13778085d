//! One domain of a Xen host.

use super::kinds::{Disk, XenDomu};
use super::world::world_of;
use crate::{
    kit::{
        Console, Hosted, Running, World, address_of_guest, failed, folder_of_guest, port_over,
        taken_by_kernel_mib,
    },
    platform::{Bed, Shape, log_of},
};
use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use transect_bench_core::{Fault, Kind, Refusal};
use transect_testbed::fitted::{SCRATCH, SHARE, domain_images};

/// A booting domain of an emulated host takes some 20 s when nothing else runs.
const BOOT: Duration = Duration::from_secs(240);
/// What `xl` may take.
const XL_WITHIN_S: u64 = 120;

/// What `xl` knows by this name.
pub(super) struct Domain {
    platform: &'static str,
    name: String,
    is_there: bool,
    world: Arc<World>,
}

/// A domain that has booted.
pub(super) fn boot(platform: &XenDomu, shape: &Shape, bed: &Bed) -> Result<Hosted<Domain>, Fault> {
    let world = world_of(platform, shape, bed)?;
    let place = world.take_place(platform.name)?;
    let name = format!("domu-{place}");
    let (folder, mut facts) = folder_of_guest(&world, &name, bed)?;
    let address = address_of_guest(place)?;
    // The domain connects to 10.0.2.2, which QEMU makes this host's loopback.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(Fault::failed)?;
    let port = listener.local_addr().map_err(Fault::failed)?.port();
    let target = match platform.disk {
        Disk::Device => device(place),
        Disk::File => format!("{SCRATCH}/{name}.img"),
    };
    let configuration = configuration(&name, &target, address, port, shape)?;
    fs::write(folder.join("xl.cfg"), configuration).map_err(Fault::failed)?;
    let create = script(&name, &target, platform.disk, shape.disk_mib);
    let created = world.fitted.run(&create).within(XL_WITHIN_S).and_then(|out| out.ok());
    created.map_err(|error| failed(&error))?;
    let console = Console(world.fitted.share().join(format!("console/guest-{name}.log")));
    let running =
        Domain { platform: platform.name, name, is_there: true, world: Arc::clone(&world) };
    let ready = connected(&listener, &world, &console)
        .and_then(|stream| port_over(stream, BOOT, || console.has_panicked()));
    let port = ready.map_err(|error| {
        Fault::failed(format!("{}: {error}\n{}", platform.name, console.last_lines()))
    })?;
    facts.notes.insert("disk".into(), target);
    // A loop device reads through dom0's page cache.
    facts.storage_is_below |= platform.disk == Disk::File;
    let log = log_of(&bed.logs, platform.name, shape.index);
    let arguments = bed.worker_arguments.clone();
    Ok(Hosted { facts, port, arguments, address, console, log, running, world })
}

/// dom0's own disk is `/dev/vda`.
fn device(place: u32) -> String {
    let letter = char::from_u32('b' as u32 + place).unwrap_or('b');
    format!("/dev/vd{letter}")
}

fn configuration(
    name: &str,
    target: &str,
    address: Ipv4Addr,
    port: u16,
    shape: &Shape,
) -> Result<String, Fault> {
    let (kernel, initrd) = domain_images().map_err(|error| failed(&error))?;
    let (kernel, initrd) = (kernel.display(), initrd.display());
    let memory = shape.memory_mib + taken_by_kernel_mib(shape.memory_mib);
    let words = format!(
        "console=hvc0 quiet panic=-1 testbed.name={name} testbed.address={address} \
         testbed.worker=10.0.2.2:{port}"
    );
    let disk = "format=raw,vdev=xvda,access=w,backendtype=phy,script=testbed-block";
    let cpus = shape.cpus;
    Ok(format!(
        "name=\"{name}\"\ntype=\"pv\"\nkernel=\"{kernel}\"\nramdisk=\"{initrd}\"\nextra=\"{words}\"\n\
         vcpus={cpus}\nmemory={memory}\nmaxmem={memory}\non_crash=\"destroy\"\non_reboot=\"destroy\"\n\
         vif=[\"bridge=xenbr0,script=testbed-vif\"]\ndisk=[\"{disk},target={target}\"]\n"
    ))
}

fn script(name: &str, target: &str, disk: Disk, disk_mib: u32) -> String {
    let create = format!("xl create -q {}", Path::new(SHARE).join(name).join("xl.cfg").display());
    match disk {
        Disk::Device => create,
        Disk::File => {
            let size = disk_mib.max(16);
            let options = "-q -F -m 0 -E lazy_itable_init=0,lazy_journal_init=0";
            format!("set -e; truncate -s {size}M {target}; mkfs.ext4 {options} {target}; {create}")
        }
    }
}

/// The connection that the domain opens when it is up.
fn connected(listener: &TcpListener, world: &World, console: &Console) -> io::Result<TcpStream> {
    listener.set_nonblocking(true)?;
    let deadline = Instant::now() + BOOT;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            Err(_) => {}
        }
        if Instant::now() > deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if console.has_panicked() || world.fitted.check_alive().is_err() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

impl Running for Domain {
    fn check_alive(&self, console: &Console) -> Result<(), Fault> {
        // Asking `xl` would be work for dom0 while something is measured.
        if console.has_panicked() {
            let last = console.last_lines();
            return Err(Fault::failed(format!("{}: its kernel panicked\n{last}", self.platform)));
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Fault> {
        self.is_there = false;
        let destroy = self.world.fitted.run(&format!("xl destroy {}", self.name));
        let ended = destroy.within(XL_WITHIN_S).and_then(|out| out.ok());
        ended.map(drop).map_err(|error| {
            let why = format!("domain {} did not end: {error:#}", self.name);
            Refusal::new(Kind::NotHere, format!("platform {}", self.platform), why).into()
        })
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        if self.is_there && self.world.fitted.check_alive().is_ok() {
            drop(self.world.fitted.run(&format!("xl destroy {}", self.name)).spawn());
        }
    }
}
