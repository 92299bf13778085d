//! Records each platform on hosts of the testbed: `DIR/NAME.transect`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use transect_testbed::xen::{TscMode, XenOptions};
use transect_testbed::{Guest, HostOptions, KvmHost, XenHost};

use super::plan::PLATFORMS;

/// Seconds of each recording.
const SECONDS: u32 = 4;
/// Milliseconds from one datagram to the next: nobody answers.
const EVERY_MS: u32 = 20;
/// The network of the KVM host's guests, and that of Xen's; `.99` is outside.
const KVM_NETWORK: &str = "10.78.0";
const XEN_NETWORK: &str = "10.0.0";

/// The programs that are carried in.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The built `transect`.
    pub transect: PathBuf,
    /// The built agent.
    pub agent: PathBuf,
}

/// Records all platforms; `say` gets a line about each. Recordings of these names are replaced.
///
/// # Errors
/// If a host does not boot, or does not record.
pub fn record(programs: &Programs, to: &Path, say: &mut dyn FnMut(&str)) -> Result<()> {
    fs::create_dir_all(to).with_context(|| to.display().to_string())?;
    for platform in PLATFORMS {
        let old = recording(to, platform.name);
        if old.join("manifest.json").exists() {
            fs::remove_dir_all(&old).with_context(|| old.display().to_string())?;
        }
    }
    on_kvm_host(programs, to, say)?;
    on_xen_host(programs, to, say)
}

/// The recording of a platform.
pub fn recording(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.transect"))
}

/// A workload that sends; as a command's arguments if `space` is one, as a guest's if it is a colon.
fn sends(network: &str, space: &str) -> String {
    [
        "ask",
        &format!("to={network}.99"),
        "port=7777",
        "seconds=100000",
        &format!("wait_ms={EVERY_MS}"),
    ]
    .join(space)
}

/// Behind it is the address that packets are sent to. It takes all and gives nothing.
fn way_out(network: &str) -> String {
    format!(
        "ip link add outside type dummy && ip address add 10.79.0.1/24 dev outside && ip link set outside up && \
         ip route add {network}.99/32 dev outside && echo 1 >/proc/sys/net/ipv4/ip_forward"
    )
}

/// The host answers in this device's network for all that it has a route to, and forwards.
fn forward(device: &str) -> String {
    format!(
        "echo 1 >/proc/sys/net/ipv4/conf/{device}/proxy_arp; echo 0 >/proc/sys/net/ipv4/neigh/{device}/proxy_delay; \
         echo 1 >/proc/sys/net/ipv4/conf/{device}/forwarding"
    )
}

fn on_kvm_host(programs: &Programs, to: &Path, say: &mut dyn FnMut(&str)) -> Result<()> {
    say("booting a KVM host");
    let lifetime = Duration::from_secs(3000);
    let host = KvmHost::nested_with(&HostOptions { lifetime, ..HostOptions::default() })?;
    let take = |name: &str, guest: &str| {
        let take = format!("{}; mv {name}.transect taken", recorder(name, guest));
        host.run(&take).within(900)?.ok()?;
        host.get("taken", recording(to, name))?;
        host.run("rm -rf taken").within(60)?.ok().map(drop)
    };
    let run = |command: &str| host.run(command).within(120)?.ok().map(drop);
    host.put(&programs.transect, "transect")?;
    run(&way_out(KVM_NETWORK))?;
    let workload = format!("{} {}", host.workload()?.display(), sends(KVM_NETWORK, " "));

    say("native: a process of the host");
    let sender = host.run(&format!("exec {workload}")).spawn()?;
    take("native", "")?;
    sender.kill()?;

    say("container: a process with a network of its own");
    run(&format!(
        "ip netns add box && ip link add box type veth peer name eth0 netns box && \
         ip -n box address add {KVM_NETWORK}.50/24 dev eth0 && ip -n box link set eth0 up && ip link set box up && \
         ip route add {KVM_NETWORK}.50/32 dev box && {}",
        forward("box")
    ))?;
    let sender = host.run(&format!("exec ip netns exec box {workload}")).spawn()?;
    take("container", "")?;
    sender.kill()?;

    for (name, vhost) in [("kvm-qemu", false), ("kvm-vhost", true)] {
        say(&format!("{name}: a guest"));
        let guest = kvm_guest(&host, programs, vhost)?;
        let cid = guest.cid().context("the guest has no vsock")?;
        take(name, &format!("--guest name=client,vsock:{cid}"))?;
        guest.kill()?;
    }
    Ok(())
}

fn kvm_guest(host: &KvmHost, programs: &Programs, vhost: bool) -> Result<Guest> {
    let address = format!("{KVM_NETWORK}.3");
    let plan = host.guest("client").tap("tap-client", &address).workload(&sends(KVM_NETWORK, ":"));
    let plan = plan.kernel_arguments("ipv6.disable=1");
    let plan = if vhost { plan.vhost_net() } else { plan };
    let guest = plan.agent(&programs.agent, &["--vsock"]).boot()?;
    let connect = format!(
        "ip link set tap-client up; ip route replace {address}/32 dev tap-client; {}",
        forward("tap-client")
    );
    host.run(&connect).within(120)?.ok()?;
    Ok(guest)
}

fn on_xen_host(programs: &Programs, to: &Path, say: &mut dyn FnMut(&str)) -> Result<()> {
    say("booting a Xen host");
    let lifetime = Duration::from_secs(3000);
    let host = XenHost::boot_with(&XenOptions { lifetime, ..XenOptions::default() })?;
    host.put(&programs.transect, "transect")?;
    let setup = format!("{}; {}", way_out(XEN_NETWORK), forward("xenbr0"));
    host.run(&setup).within(240)?.ok()?;
    say("xen: a domain");
    let client = host.domu("client").pv().tsc_mode(TscMode::Native).network();
    let client = client.workload(&sends(XEN_NETWORK, ":"));
    let client = client.agent(&programs.agent, &["--tcp", "0.0.0.0"]).boot()?;
    let address = client.address().context("the domain has no card")?;
    let record = recorder("xen", &format!("--guest name=client,tcp:{address}"));
    host.run(&record).within(1200)?.ok()?;
    host.get("xen.transect", recording(to, "xen"))
}

/// The command that records.
fn recorder(name: &str, guest: &str) -> String {
    format!(
        "./transect record -q --stacks --profile explain --duration {SECONDS}s -o {name}.transect {guest}"
    )
}
