//! One guest of a nested host.

use super::world::world_of;
use crate::{
    kit::{
        Console, Hosted, Running, address_of_guest, failed, folder_of_guest, port_over,
        taken_by_kernel_mib,
    },
    platform::{Bed, Shape, log_of},
};
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};
use transect_bench_core::{Fault, Kind, Refusal};
use transect_testbed::Job;
use transect_testbed::fitted::{SCRATCH, SHARE, inner_images};

/// A booting guest of an emulated host takes some 10 s when nothing else runs.
const BOOT: Duration = Duration::from_secs(180);

/// The QEMU of a guest.
pub(super) struct Qemu {
    job: Option<Job>,
    place: u32,
}

/// A guest that has booted.
pub(super) fn boot(shape: &Shape, bed: &Bed) -> Result<Hosted<Qemu>, Fault> {
    let world = world_of(shape, bed)?;
    let place = world.take_place("nested-kvm")?;
    let name = format!("l2-{place}");
    let (folder, mut facts) = folder_of_guest(&world, &name, bed)?;
    let address = address_of_guest(place)?;
    // Connected before the guest's QEMU opens the other end, which it would find closed otherwise. A pipe can be used
    // once only, since QEMU's other end does not notice that a guest has gone: the place is not given back later.
    let pipe = world.fitted.pipe(1 + place);
    let pipe = pipe.map_err(|error| failed(&error)).inspect_err(|_| world.give_back(place))?;
    let script = script(&name, place, address, shape)?;
    let job = world.fitted.run(&script).spawn().map_err(|error| failed(&error))?;
    let console = Console(folder.join("console.log"));
    let ready = port_over(pipe, BOOT, || job.ended().ok().flatten().is_some());
    let port = ready.map_err(|error| {
        let qemu = job.stderr().unwrap_or_default();
        let qemu: Vec<_> = qemu.lines().filter(|line| !line.contains("TCG doesn't")).collect();
        let last = console.last_lines();
        Fault::failed(format!("nested-kvm: {error}\n{last}\n{}", qemu.join("\n")))
    })?;
    facts.accelerator = "kvm under tcg".into();
    let log = log_of(&bed.logs, "nested-kvm", shape.index);
    let arguments = bed.worker_arguments.clone();
    let running = Qemu { job: Some(job), place };
    Ok(Hosted { facts, port, arguments, address, console, log, running, world })
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

impl Running for Qemu {
    fn check_alive(&self, console: &Console) -> Result<(), Fault> {
        let ended =
            self.job.as_ref().map(Job::ended).transpose().map_err(|error| failed(&error))?;
        ended.flatten().map_or(Ok(()), |code| {
            let last = console.last_lines();
            Err(Fault::failed(format!("nested-kvm: its QEMU ended with {code}\n{last}")))
        })
    }

    fn end(&mut self) -> Result<(), Fault> {
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
