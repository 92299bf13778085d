//! One guest of a nested host.

use super::world::world_of;
use crate::platforms::kit::{Port, World, carry_worker, failed, port_over, taken_by_kernel_mib};
use crate::platforms::{Bed, Facts, Machine, Pipes, Shape, log_of};
use crate::{Fault, Kind, Refusal};
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use transect_testbed::Job;
use transect_testbed::fitted::{SCRATCH, SHARE, inner_images};

/// A booting guest of an emulated host takes some 10 s when nothing else runs.
const BOOT: Duration = Duration::from_secs(180);

pub(super) struct Nested {
    facts: Facts,
    port: Port,
    arguments: Vec<String>,
    address: Ipv4Addr,
    console: PathBuf,
    log: PathBuf,
    job: Option<Job>,
    world: Arc<World>,
    place: u32,
}

impl Nested {
    pub(super) fn boot(shape: &Shape, bed: &Bed) -> Result<Self, Fault> {
        let world = world_of(shape, bed)?;
        let place = world.take_place("nested-kvm")?;
        let name = format!("l2-{place}");
        let folder = world.fitted.share().join(&name);
        fs::create_dir_all(&folder).map_err(Fault::failed)?;
        carry_worker(&bed.worker, &folder)?;
        let last_number = 20 + u8::try_from(place).map_err(Fault::failed)?;
        let address = Ipv4Addr::new(10, 0, 2, last_number);
        // Connected before the guest's QEMU opens the other end, which it would find closed otherwise. A pipe can be used
        // once only, since QEMU's other end does not notice that a guest has gone: the place is not given back later.
        let pipe = world.fitted.pipe(1 + place);
        let pipe = pipe.map_err(|error| failed(&error)).inspect_err(|_| world.give_back(place))?;
        let script = script(&name, place, address, shape)?;
        let job = world.fitted.run(&script).spawn().map_err(|error| failed(&error))?;
        let console = folder.join("console.log");
        let ready = port_over(pipe, BOOT, || job.ended().ok().flatten().is_some());
        let port = ready.map_err(|error| {
            let text = fs::read(&console).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let qemu = job.stderr().unwrap_or_default();
            let qemu: Vec<_> = qemu.lines().filter(|line| !line.contains("TCG doesn't")).collect();
            let lines: Vec<_> = text.lines().collect();
            let last = lines[lines.len().saturating_sub(10)..].join("\n");
            Fault::failed(format!("nested-kvm: {error}\n{last}\n{}", qemu.join("\n")))
        })?;
        let mut facts = world.host().facts_of_a_guest();
        facts.accelerator = "kvm under tcg".into();
        let log = log_of(&bed.logs, "nested-kvm", shape.index);
        let arguments = bed.worker_arguments.clone();
        Ok(Self { facts, port, arguments, address, console, log, job: Some(job), world, place })
    }
}

/// What starts it in its host: a disk in the host's own, a card on the host's bridge with vhost-net, the host's root.
fn script(name: &str, place: u32, address: Ipv4Addr, shape: &Shape) -> Result<String, Fault> {
    let (kernel, initrd) = inner_images().map_err(|error| failed(&error))?;
    let (kernel, initrd) = (kernel.display(), initrd.display());
    let memory = shape.memory_mib + taken_by_kernel_mib(shape.memory_mib);
    let (cpus, disk_mib) = (shape.cpus, shape.disk_mib.max(16));
    let own = Path::new(SHARE).join(name);
    let own = own.display();
    let port = 1 + place;
    let virtfs = "security_model=none,multidevs=remap";
    let words = "quiet panic=-1 no_timer_check tsc=reliable testbed.leaf testbed.unlistened";
    Ok(format!(
        "set -e
        disk={SCRATCH}/{name}.img
        truncate -s {disk_mib}M $disk
        mkfs.ext4 -q -F -m 0 -E lazy_itable_init=0,lazy_journal_init=0 $disk
        printf '#!/bin/sh\\nbusybox ifconfig $1 up; busybox brctl addif xenbr0 $1\\n' >/tmp/up-{name}
        chmod 755 /tmp/up-{name}
        for port in /sys/class/virtio-ports/*; do
            [ \"$(cat $port/name)\" = testbed.pipe.{port} ] && pipe=/dev/${{port##*/}} || :
        done
        exec qemu-system-x86_64 -display none -nodefaults -no-reboot -accel kvm -cpu host \\
            -name {name},debug-threads=on -smp {cpus} -m {memory} -kernel {kernel} -initrd {initrd} \\
            -append 'console=ttyS0 {words} testbed.address={address}' \\
            -serial file:{own}/console.log -device virtio-serial-pci \\
            -chardev pipe,id=pipe,path=$pipe \\
            -device virtserialport,chardev=pipe,name=testbed.pipe.0 \\
            -virtfs local,path=/,mount_tag=root,readonly=on,{virtfs} \\
            -virtfs local,path={own},mount_tag=share,{virtfs} \\
            -drive file=$disk,format=raw,if=virtio,cache=none,aio=threads \\
            -netdev tap,id=net,ifname=tap{place},script=/tmp/up-{name},downscript=no,vhost=on \\
            -device virtio-net-pci,netdev=net,romfile=,mac=52:54:00:12:35:{place:02x}\n"
    ))
}

impl Machine for Nested {
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
        let ended =
            self.job.as_ref().map(Job::ended).transpose().map_err(|error| failed(&error))?;
        match ended.flatten() {
            None => Ok(()),
            Some(code) => {
                let text = fs::read(&self.console).unwrap_or_default();
                let text = String::from_utf8_lossy(&text).into_owned();
                Err(Fault::failed(format!("nested-kvm: its QEMU ended with {code}\n{text}")))
            }
        }
    }

    fn close(mut self: Box<Self>) -> Result<(), Fault> {
        let Some(job) = self.job.take() else { return Ok(()) };
        job.kill().map_err(|error| failed(&error))?;
        let deadline = Instant::now() + Duration::from_secs(30);
        while job.ended().map_err(|error| failed(&error))?.is_none() {
            if Instant::now() > deadline {
                let why = format!("guest {} did not end", self.place);
                return Err(Refusal::new(Kind::NotHere, "platform nested-kvm", why).into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        // Its console is worth keeping; whether it can be is not worth another failure.
        drop(fs::copy(&self.console, &self.log));
        drop(self.job.take());
    }
}
