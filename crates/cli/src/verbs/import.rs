//! `transect import`: files of other recorders become a recording: trace.dat files, or xentrace's.

use super::load::{Terminal, XenArgs};
use crate::terminal::say;
use std::path::PathBuf;
use std::process::ExitCode;
use transect_access::{Group, Readers};
use transect_recording::import::Import;

/// Arguments of `transect import`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    transect import trace.dat -o mine.transect\n  \
    transect import host.dat host-web1.dat -o pair.transect   (trace-cmd record -A pairs)\n  \
    transect import xen.bin -o xen.transect --cpu-hz 2596139000 --domain 1=web   (xentrace)\n  \
    transect import xen.bin -o xen.transect --xen-tsc xl-info.txt   (saved output of 'xl info')\n  \
    transect import xen.bin 0=dom0.dat 1=web.dat 2=trace.txt -o all.transect --cpu-hz 2596139000\n\n\
    trace.dat versions 6 and 7 are read (plain, zlib, zstd). The host's file names its guests, so \
    the order of files does not matter. xentrace files of Xen 4.14 to 4.20 are read; they contain \
    neither the TSC frequency nor the domain names. You can add files recorded at the same time by the kernels of dom0 and \
    the domUs, as DOMID=FILE or, if only one domain fits, as FILE: trace.dat, or the text of tracefs's 'trace'. Their \
    clocks are aligned to Xen's by the intervals in which Xen had their vCPUs running.\n\
    Exit code: 0; 1 if a file could not be read completely (the recording then holds the readable \
    part, and its notes list the missing parts).")]
pub(crate) struct Args {
    /// trace.dat files of one host and any of its guests; or an xentrace file and the files of its
    /// domains' kernels, as DOMID=FILE
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Recording to create
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Also let this group (name or number) read the recording: mode 0750 and 0640 instead of 0700 and 0600
    #[arg(long, value_name = "GROUP", value_parser = Group::from_name)]
    group: Option<Group>,
    /// TSC frequency of the host in Hz, for x86-tsc files that lack it; without it, times of such
    /// files are in ticks (for Xen, 'xl info' in dom0 prints it as cpu_mhz)
    #[arg(long, visible_alias = "cpu-hz", value_name = "HZ")]
    tsc_hz: Option<u64>,
    /// Saved output of 'xl info', or of 'xl dmesg' after 'xl debug-keys s': the TSC frequency that Xen
    /// prints, used without --cpu-hz and without a frequency in dom0's file. With the latter, the offsets
    /// that Xen prints for emulated TSCs are also compared with the measured ones
    #[arg(long, value_name = "FILE")]
    xen_tsc: Option<PathBuf>,
    #[command(flatten)]
    xen: XenArgs,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let import = Import {
        files: args.files,
        output: args.output,
        readers: args.group.map_or(Readers::Owner, Readers::Group),
        tsc_hz: args.tsc_hz,
        xen_tsc: args.xen_tsc,
        xen: args.xen.options(),
        command_line: std::env::args().collect(),
    };
    let is_whole = import.run(&Terminal::new(None))?;
    say!("next: transect report {}", import.output.display());
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
