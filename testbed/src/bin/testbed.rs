//! `testbed`: the guests of transect's tests, for people and the Makefile.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program talks")]

use std::net::TcpListener;
use std::process::ExitCode;
use std::sync::{Arc, atomic::AtomicBool};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use transect_testbed::hostile::{self, Mode};
use transect_testbed::kernel::{Flavour, Kernel};
use transect_testbed::{KvmHost, Output, TcgGuest, XenHost, cache, initramfs, probe};

const USAGE: &str =
    "usage: testbed images            fetch kernels, build images (nothing to do the second time)
       testbed probe-kvm         say whether this machine's KVM boots a stock kernel
       testbed tcg [WORKLOAD]    boot a guest under TCG, show its first marks
       testbed nested [-- CMD]   boot a nested host, run CMD on it (default: uname -a)
       testbed xen [-- CMD]      boot a Xen host, run CMD in its dom0 (default: xl info)
       testbed hostile MODE [ADDRESS:PORT]
                                 serve recorders as a hostile agent (testbed hostile list: the modes)
       testbed host [-- CMD]     the same as `nested` on this machine itself where it has usable KVM";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("testbed: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<ExitCode> {
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["images"] => images(),
        ["probe-kvm"] => probe_kvm(),
        ["tcg"] => tcg("mix"),
        ["tcg", workload] => tcg(workload),
        ["nested", rest @ ..] => on_host(KvmHost::nested, rest),
        ["xen", rest @ ..] => on_xen(rest),
        ["hostile", "list"] => {
            Mode::ALL.iter().for_each(|mode| println!("{}", mode.name()));
            Ok(ExitCode::SUCCESS)
        }
        ["hostile", mode] => hostile_agent(mode, "127.0.0.1:2718"),
        ["hostile", mode, address] => hostile_agent(mode, address),
        ["host", rest @ ..] => on_host(KvmHost::boot, rest),
        ["--help" | "-h"] => {
            println!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        _ => bail!("{USAGE}"),
    }
}

fn images() -> Result<ExitCode> {
    for flavour in [Flavour::Full, Flavour::Cloud] {
        let kernel = Kernel::get(flavour)?;
        println!("{}", kernel.vmlinux().display());
        let image = if flavour == Flavour::Full { initramfs::of_host } else { initramfs::of_guest };
        println!("{}", image(&kernel)?.display());
    }
    println!("all in {}", cache::folder()?.display());
    Ok(ExitCode::SUCCESS)
}

fn hostile_agent(name: &str, address: &str) -> Result<ExitCode> {
    let mode = Mode::ALL.into_iter().find(|mode| mode.name() == name);
    let mode = mode.with_context(|| format!("no mode {name}; see testbed hostile list"))?;
    let listener =
        TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
    hostile::serve(&listener, mode, &Arc::new(AtomicBool::new(false)));
    Ok(ExitCode::SUCCESS)
}

fn probe_kvm() -> Result<ExitCode> {
    let verdict = probe::kvm()?;
    println!("{}", probe::sentence(&verdict));
    Ok(if verdict.is_usable() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn tcg(workload: &str) -> Result<ExitCode> {
    let start = Instant::now();
    let guest = TcgGuest::plan("guest")?.workload(workload).disk_mib(16).boot()?;
    eprintln!("testbed: ready after {:.1} s", start.elapsed().as_secs_f64());
    guest.wait_for("workload ended").within(60)?;
    print!("{}", guest.marks()?);
    Ok(ExitCode::SUCCESS)
}

fn on_host(boot: fn() -> Result<KvmHost>, rest: &[&str]) -> Result<ExitCode> {
    let command = command(rest, "uname -a")?;
    let start = Instant::now();
    let host = boot()?;
    ready(if host.is_nested() { "nested host" } else { "this machine" }, start);
    show(&host.run(&command).within(500)?)
}

fn on_xen(rest: &[&str]) -> Result<ExitCode> {
    let command = command(rest, "xl info")?;
    let start = Instant::now();
    let host = XenHost::boot()?;
    ready("Xen host", start);
    show(&host.run(&command).within(500)?)
}

fn command(rest: &[&str], otherwise: &str) -> Result<String> {
    match rest {
        [] => Ok(otherwise.to_owned()),
        ["--", words @ ..] => Ok(words.join(" ")),
        _ => bail!("{USAGE}"),
    }
}

fn ready(what: &str, start: Instant) {
    eprintln!("testbed: {what} ready after {:.1} s", start.elapsed().as_secs_f64());
}

fn show(out: &Output) -> Result<ExitCode> {
    print!("{}", out.stdout);
    eprint!("{}", out.stderr);
    Ok(ExitCode::from(u8::try_from(out.code).context("odd exit code")?))
}
