//! The Xen host: how it is booted, and what can be done in its dom0.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};

use super::domains::Domain;
use super::domu::{DomU, DomUPlan, TscMode};
use super::image;
use super::tools::XenTools;
use crate::again::{BootFailure, boot_twice};
use crate::compile::WORKLOAD;
use crate::emulated::{Emulated, Kind};
use crate::job::{JobPlan, Place, quoted};
use crate::kernel::{Flavour, Kernel};
use crate::qemu::Line;
use crate::rundir::RunDir;
use crate::{cache, carry};

/// Booting takes some 20 s on two idle cores; more when they are busy.
const KIND: Kind = Kind {
    title: "the Xen host",
    boot: Duration::from_secs(360),
    // Before Debian's wrappers in /usr/sbin, which find the right version at the price of a dozen processes.
    prologue: "for dir in /usr/lib/xen-[0-9]*/bin; do export PATH=$dir:$PATH; done\n",
};

const COUNTED: &str = "tcg,thread=single,tb-size=512";
const MEASURED: &str = "tcg,thread=multi,tb-size=512";

/// Small beside the default of 256. credit2 counts 10 ms, times the largest weight over this one, in 31 bits of
/// nanoseconds (`t2c_update`, xen/common/sched/credit2.c of 4.17): it must not be 200 times smaller than another's.
const FILLER_WEIGHT: u32 = 16;

/// What Xen schedules vCPUs with. Debian builds its Xen with the first two only; a host that comes up with another
/// scheduler than was asked for is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// Weights and caps; Xen's default until 4.11.
    Credit,
    /// Weights and caps; Xen's default since 4.12.
    Credit2,
    /// Real-time: a budget in every period.
    Rtds,
    /// One vCPU, one pCPU. There must be as many pCPUs as vCPUs.
    Null,
}

impl Scheduler {
    /// Its name on Xen's command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Credit => "credit",
            Self::Credit2 => "credit2",
            Self::Rtds => "rtds",
            Self::Null => "null",
        }
    }
}

/// How a Xen host is booted.
#[derive(Clone, Debug)]
pub struct XenOptions {
    /// pCPUs.
    pub cpus: u32,
    /// Memory in MiB; what dom0 does not get is for domUs.
    pub memory_mib: u32,
    /// vCPUs of dom0.
    pub dom0_vcpus: u32,
    /// Memory of dom0 in MiB; what is written there is in it.
    pub dom0_memory_mib: u32,
    /// Xen's scheduler.
    pub scheduler: Scheduler,
    /// Whether time is counted in instructions, 4 ns each, instead of taken from this machine. Then nothing that goes
    /// on beside can be seen inside: a cap of 30 % is 30.0 % under any load. pCPUs take turns on one thread; while all
    /// are idle they wait in real time, and may wake late ([`XenHost::never_idle`]).
    pub counted_time: bool,
    /// More of Xen's command line, as `tbuf_size=64`.
    pub xen_arguments: String,
    /// When everything of this run is killed, whatever happens.
    pub lifetime: Duration,
}

impl Default for XenOptions {
    fn default() -> Self {
        Self {
            cpus: 2,
            memory_mib: 3072,
            dom0_vcpus: 1,
            dom0_memory_mib: 1024,
            scheduler: Scheduler::Credit2,
            counted_time: true,
            xen_arguments: String::new(),
            lifetime: Duration::from_secs(1500),
        }
    }
}

/// A booted Xen host. Clones are the same host; it goes away with the last of them and the last domU and job on it.
#[derive(Clone)]
pub struct XenHost {
    pub(super) place: Arc<dyn Place>,
    scheduler: Scheduler,
    cpus: u32,
    next_address: Arc<AtomicU32>,
}

impl XenHost {
    /// Boots one with two pCPUs and credit2.
    pub fn boot() -> Result<Self> {
        Self::boot_with(&XenOptions::default())
    }

    /// Boots one; what does not come up is booted once more, and the second error counts.
    pub fn boot_with(options: &XenOptions) -> Result<Self> {
        let images = Images::make()?;
        let place = boot_twice(|| boot_once(options, &images))?;
        let log = fs::read(place.run().path().join("console.log")).context("no console log")?;
        check_scheduler(&String::from_utf8_lossy(&log), options.scheduler)?;
        let (place, next_address) = (Arc::new(place), Arc::new(AtomicU32::new(2)));
        Ok(Self { place, scheduler: options.scheduler, cpus: options.cpus, next_address })
    }

    /// One host for all tests of a process: booted by the first caller, ended when the process ends.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: OnceLock<Result<XenHost, String>> = OnceLock::new();
        let host = SHARED.get_or_init(|| Self::boot().map_err(|error| format!("{error:#}")));
        host.as_ref().map_err(|error| anyhow!("the shared Xen host did not boot: {error}"))
    }

    /// A shell command in dom0, as root. Starts in [`Self::scratch`]; Xen's tools are in its `PATH`.
    pub fn run(&self, command: &str) -> JobPlan {
        JobPlan::new(Arc::clone(&self.place), command)
    }

    /// A guest of Xen; para-virtual unless [`DomUPlan::pvh`] is asked for.
    pub fn domu(&self, name: &str) -> DomUPlan {
        DomUPlan::new(self.clone(), name)
    }

    /// Boots a domU, `filler`, that takes all that nobody else wants: until it is destroyed, counted time is of
    /// instructions only. While all pCPUs are idle it is this machine's, and how late that wakes QEMU is seen inside:
    /// after 17 ms credit2 has forgotten a part of what a capped domain has a right to.
    pub fn never_idle(&self) -> Result<DomU> {
        let filler = self.domu("filler").pv().vcpus(self.cpus).tsc_mode(TscMode::Native);
        let filler = filler.workload(&format!("hog:threads={}", self.cpus)).boot()?;
        self.weigh(filler.name(), FILLER_WEIGHT)?;
        Ok(filler)
    }

    /// The last number of an address on the bridge that no other domU has.
    pub(super) fn fresh_address(&self) -> u32 {
        self.next_address.fetch_add(1, Ordering::Relaxed)
    }

    /// What `xl list` says.
    pub fn domains(&self) -> Result<Vec<Domain>> {
        Domain::all_in(&self.run("xl list").within(60)?.ok()?.stdout)
    }

    /// Sets a domain's weight (256 is the default) under credit or credit2.
    pub fn weigh(&self, domain: &str, weight: u32) -> Result<()> {
        self.schedule(domain, &format!("-w {weight}"))
    }

    /// Caps a domain at so many percent of one pCPU (0: no cap) under credit or credit2.
    pub fn cap(&self, domain: &str, percent: u32) -> Result<()> {
        self.schedule(domain, &format!("-c {percent}"))
    }

    fn schedule(&self, domain: &str, what: &str) -> Result<()> {
        let command = format!("xl sched-{} -d {} {what}", self.scheduler.name(), quoted(domain));
        self.run(&command).within(60)?.ok().map(drop)
    }

    /// Ticks of Xen's TSC per second, as Xen measured them at boot: to the kHz.
    pub fn tsc_hz(&self) -> Result<u64> {
        let info = self.run("xl info").within(60)?.ok()?.stdout;
        mhz_in(&info).with_context(|| format!("xl info has no cpu_mhz:\n{info}"))
    }

    /// The program of the workloads, as commands in dom0 see it.
    pub fn workload(&self) -> Result<PathBuf> {
        in_cache(&WORKLOAD.binary()?)
    }

    /// The folder in which commands start, as they see it: in dom0's memory.
    pub fn scratch(&self) -> PathBuf {
        self.place.scratch()
    }

    /// Carries a file or folder into dom0. `to` is relative to [`Self::scratch`] or absolute; missing folders on its
    /// way are made.
    pub fn put(&self, file: impl AsRef<Path>, to: &str) -> Result<()> {
        carry::put(&self.place, file.as_ref(), to)
    }

    /// Brings a file or folder of dom0 to `to` on this machine.
    pub fn get(&self, file: &str, to: impl AsRef<Path>) -> Result<()> {
        carry::get(&self.place, file, to.as_ref())
    }

    /// An error about this host: keeps its logs and says where they are.
    pub fn failure(&self, message: impl std::fmt::Display) -> anyhow::Error {
        self.place.run().failure(format!("{message}\n{}", self.place.diagnosis()))
    }

    /// Throws kept logs away: the failure was expected.
    pub fn forget_failures(&self) {
        self.place.run().discard();
    }

    /// The folder of logs and shared files, on this machine; gone when the host is, unless something failed.
    pub fn logs(&self) -> &Path {
        self.place.run().path()
    }
}

/// A path of the cache as commands in dom0 see it.
pub(crate) fn in_cache(path: &Path) -> Result<PathBuf> {
    let inside = path.strip_prefix(cache::folder()?).context("not in the cache")?;
    Ok(Path::new("/run/testbed/cache").join(inside))
}

/// What a boot needs. All of it is made before, also what only domUs need: dom0 sees the cache as it was then.
struct Images {
    hypervisor: PathBuf,
    kernel: PathBuf,
    dom0: PathBuf,
}

impl Images {
    fn make() -> Result<Self> {
        let (tools, kernel) = (XenTools::get()?, Kernel::get(Flavour::Full)?);
        image::of_domu(&kernel)?;
        let dom0 = image::of_dom0(&kernel, &tools)?;
        Ok(Self { hypervisor: tools.hypervisor(), kernel: kernel.vmlinux(), dom0 })
    }
}

fn boot_once(options: &XenOptions, images: &Images) -> Result<Result<Emulated, BootFailure>> {
    let run = RunDir::new(options.lifetime)?;
    let logs = run.path().to_owned();
    link(images, &logs)?;
    Ok(Emulated::boot(KIND, run, command_line(options, "")).map_err(|error| (error, logs)))
}

/// All that [`Emulated::boot`] wants; `words` are added to dom0's command line.
pub(crate) fn prepared(options: &XenOptions, words: &str) -> Result<(Kind, RunDir, Line)> {
    let images = Images::make()?;
    let run = RunDir::new(options.lifetime)?;
    link(&images, run.path())?;
    Ok((KIND, run, command_line(options, words)))
}

fn link(images: &Images, logs: &Path) -> Result<()> {
    // Short names without the commas and spaces that end a name in QEMU's list of multiboot modules.
    [(&images.hypervisor, "xen"), (&images.kernel, "vmlinux"), (&images.dom0, "dom0")]
        .into_iter()
        .try_for_each(|(file, name)| symlink(file, logs.join(name)).context("cannot link an image"))
}

/// Xen takes its default where it does not have what its command line names, and says which it is
/// (`scheduler_init`, xen/common/sched/core.c of 4.17).
fn check_scheduler(log: &str, wanted: Scheduler) -> Result<()> {
    let line = log.lines().find(|line| line.contains("Using scheduler:")).unwrap_or_default();
    let name = wanted.name();
    let has_it = line.trim_end().ends_with(&format!("({name})"));
    ensure!(has_it, "this Xen has no scheduler {name}: '{line}'");
    Ok(())
}

fn command_line(options: &XenOptions, words: &str) -> Line {
    let XenOptions { dom0_memory_mib, dom0_vcpus, scheduler, xen_arguments, .. } = options;
    let mut line = Line(vec!["qemu-system-x86_64".into()]);
    // Without counted time, every delay of one of QEMU's threads is a jump of time for the pCPU it carries: Xen's
    // timers come late, caps give too little, and dom0 finds its clocks to disagree.
    line.words(&["-accel", if options.counted_time { COUNTED } else { MEASURED }]);
    if options.counted_time {
        line.words(&["-icount", "shift=2,sleep=on"]);
    }
    // SMAP and the extended states cost Xen much under emulation. RDTSCP is a trap: Xen under QEMU's SVM loads
    // TSC_AUX for PVH guests in a way that QEMU 7.2 refuses.
    line.words(&["-cpu", "max,-smap,-xsave,-avx,-avx2,-rdtscp"]);
    line.option("-smp", options.cpus.to_string());
    line.option("-m", options.memory_mib.to_string());
    line.words(&["-kernel", "xen"]);
    line.option("-append", format!(
        "console=com1 com1=115200,8n1 loglvl=all dom0_mem={dom0_memory_mib}M,max:{dom0_memory_mib}M \
         dom0_max_vcpus={dom0_vcpus} sched={} {xen_arguments}",
        scheduler.name(),
    ));
    let quiet = "console=hvc0 quiet panic=-1 noautogroup tsc=reliable clocksource=tsc";
    let space = if words.is_empty() { "" } else { " " };
    line.option("-initrd", format!("vmlinux {quiet}{space}{words},dom0"));
    line
}

/// `cpu_mhz                : 2596.140` of `xl info`, in Hz.
fn mhz_in(info: &str) -> Option<u64> {
    let value = info.lines().find_map(|line| line.strip_prefix("cpu_mhz"))?;
    let (mhz, khz) = value.trim_start_matches([' ', ':']).trim().split_once('.')?;
    let khz_in_mhz = format!("{khz:0<3}");
    let [mhz, khz] = [mhz, khz_in_mhz.get(..3)?].map(|digits| digits.parse::<u64>().ok());
    Some((mhz? * 1000 + khz?) * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_rate_is_read_to_the_khz() {
        let hz = |text: &str| mhz_in(&format!("nr_cpus : 2\ncpu_mhz                : {text}\n"));
        assert_eq!(hz("2596.140"), Some(2_596_140_000));
        assert_eq!(hz("2000.5"), Some(2_000_500_000));
        assert_eq!(hz("fast"), None);
    }

    #[test]
    fn a_scheduler_that_xen_lacks_is_noticed() {
        let log =
            "(XEN) a\r\n(XEN) Using scheduler: SMP Credit Scheduler rev2 (credit2)\r\n(XEN) b\n";
        assert!(check_scheduler(log, Scheduler::Credit2).is_ok());
        for absent in [Scheduler::Credit, Scheduler::Rtds, Scheduler::Null] {
            let error = check_scheduler(log, absent).unwrap_err().to_string();
            assert!(error.contains(absent.name()) && error.contains("rev2"), "{error}");
        }
    }
}
