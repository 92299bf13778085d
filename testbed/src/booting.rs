//! A machine that boots as people's machines do, and reboots itself: BIOS, GRUB from its disk, systemd.
//!
//! **What.** Emulated (TCG), one CPU. One disk has a master boot record with GRUB 2 in front of `/boot`, an ext4 file
//! system with the kernel and GRUB's environment. The root is this machine's own, read only over 9p, under what the second
//! disk has and takes. Nobody gives it orders: units that are put into it do what is to be done ([`Booting::unit`]), and the
//! folder `/mnt` ([`Booting::share`]) is seen from both sides.
//!
//! **Constraints.** Debian's GRUB is fetched and unpacked into the cache, never installed. `grub.cfg` has what
//! `/etc/grub.d/00_header` writes for `grub-reboot` (`next_entry`, good for one boot), and menu entries of one kernel with
//! different words on its command line.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::cache::{self, Key};
use crate::initramfs;
use crate::kernel::{Flavour, Kernel};
use crate::packages::{self, run_tool};
use crate::qemu::{Accelerator, Line};
use crate::rundir::{Process, RunDir};
use crate::wait::tail;

/// Debian's packages of GRUB, and those that its programs need and a machine without it may lack.
const PACKAGES: &[&str] = &[
    "grub-common",
    "grub2-common",
    "grub-pc-bin",
    "libdevmapper1.02.1",
    "libefiboot1",
    "libefivar1",
    "libfuse3-3",
];

const MODULES: &[&str] =
    &["biosdisk", "part_msdos", "ext2", "normal", "linux", "loadenv", "test", "echo", "serial"];

/// Where it looks for the rest of itself.
const PREFIX: &str = "(hd0,msdos1)/grub";

const SECTOR_BYTES: u64 = 512;
/// Where the file system begins: what is before is GRUB's.
const FIRST_SECTOR: u32 = 2048;
const BOOT_DISK_MIB: u64 = 64;
const DISK_MIB: u64 = 256;

/// A menu entry: what `grub-reboot` calls it, and the words for the kernel's command line.
pub type MenuEntry = (&'static str, &'static str);

/// A machine that is being made: what its disk holds.
pub struct Booting {
    run: RunDir,
    tree: PathBuf,
}

/// The machine. It ends when this is dropped.
pub struct Booted {
    run: RunDir,
    qemu: Process,
}

impl Booting {
    /// A machine with these menu entries, the first of which it boots by if nobody says otherwise. It lives no longer
    /// than that.
    pub fn new(entries: &[MenuEntry], lifetime: Duration) -> Result<Self> {
        let run = RunDir::new(lifetime)?;
        let tree = run.folder("tree")?;
        run.folder("share")?;
        let boot = run.folder("tree/boot/grub")?;
        let kernel = Kernel::get(Flavour::Full)?;
        let initrd = initramfs::of_booting(&kernel)?;
        fs::copy(kernel.vmlinuz(), tree.join("boot/vmlinuz")).context("no vmlinuz")?;
        fs::copy(initrd, tree.join("boot/initrd")).context("no initrd")?;
        fs::write(boot.join("grub.cfg"), menu(entries)?)?;
        let mut environment = b"# GRUB Environment Block\n".to_vec();
        environment.resize(1024, b'#');
        fs::write(boot.join("grubenv"), environment)?;
        let (from, to) = (grub()?.join("usr"), run.folder("tree/upper")?.join("usr"));
        run_tool(Command::new("cp").arg("-rT").arg(from).arg(to), "coreutils")?;
        // 20 MB of modules that are in the core already, or nobody's.
        fs::remove_dir_all(tree.join("upper/usr/lib/grub"))?;
        Ok(Self { run, tree })
    }

    /// The shared folder, as this machine sees it; the other sees it at `/mnt`.
    pub fn share(&self) -> PathBuf {
        self.run.path().join("share")
    }

    /// Puts a file into its root; `path` begins with `/`.
    pub fn file(&self, path: &str, text: &str) -> Result<()> {
        let path = self.place(path)?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Puts a link to a file of this machine into its root.
    pub fn link(&self, path: &str, to: &Path) -> Result<()> {
        symlink(to, self.place(path)?).context("cannot link")
    }

    /// Puts a service into it that every boot starts.
    pub fn unit(&self, name: &str, text: &str) -> Result<()> {
        let units = "/usr/lib/systemd/system";
        self.file(&format!("{units}/{name}"), text)?;
        let wanted = self.place(&format!("{units}/multi-user.target.wants/{name}"))?;
        symlink(format!("../{name}"), wanted).context("cannot link")
    }

    fn place(&self, path: &str) -> Result<PathBuf> {
        let path = self.tree.join("upper").join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().context("a path without a folder")?)?;
        Ok(path)
    }

    /// Makes its disk and starts it.
    pub fn boot(self) -> Result<Booted> {
        let disks = ["boot", "own"].map(|name| self.run.path().join(format!("{name}.disk")));
        make_boot_disk(&self.tree.join("boot"), &disks[0])?;
        make_own_disk(&self.tree, &disks[1])?;
        let share = self.share();
        let console = self.run.path().join("console.log");
        let mut line = Line(vec!["qemu-system-x86_64".into()]);
        line.words(&["-display", "none", "-nodefaults", "-smp", "1", "-m", "1024"]);
        line.words(&Accelerator::Tcg.arguments(1));
        line.option("-serial", format!("file:{}", console.display()));
        for disk in disks {
            line.option("-drive", format!("file={},format=raw,if=virtio", disk.display()));
        }
        line.folder(Path::new("/"), "root", true);
        line.folder(&share, "share", false);
        let run = self.run;
        let log = |name: &str| run.path().join(name);
        let qemu = run.spawn(&line.0, &log("qemu.stdout"), &log("qemu.stderr"))?;
        Ok(Booted { run, qemu })
    }
}

impl Booted {
    /// The shared folder, as this machine sees it.
    pub fn share(&self) -> PathBuf {
        self.run.path().join("share")
    }

    /// Waits until it has switched itself off.
    pub fn wait_until_off(&self, within: Duration) -> Result<()> {
        let deadline = Instant::now() + within;
        loop {
            match self.qemu.ended()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!(self.failure(&format!("the machine ended ({status})"))),
                None if Instant::now() > deadline => {
                    let within = within.as_secs();
                    bail!(self.failure(&format!("the machine is not off after {within} s")));
                }
                None => std::thread::sleep(Duration::from_millis(200)),
            }
        }
    }

    /// An error that shows the end of its console.
    pub fn failure(&self, message: &str) -> anyhow::Error {
        let said = fs::read(self.run.path().join("console.log")).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        self.run.failure(format!("{message}\n--- its console\n{}\n---", tail(&said, 40)))
    }
}

/// GRUB's configuration: what `/etc/grub.d/00_header` has for `next_entry`, and the entries.
fn menu(entries: &[MenuEntry]) -> Result<String> {
    let (first, _) = entries.first().context("a menu without entries")?;
    let mut text = format!(
        "serial --unit=0\nterminal_output serial\n\
         if [ -s $prefix/grubenv ]; then\n  load_env\nfi\n\
         if [ \"${{next_entry}}\" ] ; then\n  set default=\"${{next_entry}}\"\n  set next_entry=\n  save_env next_entry\n\
         else\n  set default=\"{first}\"\nfi\nset timeout=0\n"
    );
    for (name, words) in entries {
        let always = "console=ttyS0 quiet systemd.show_status=0 panic=-1 tsc=reliable clocksource=tsc no_timer_check";
        text += &format!(
            "menuentry '{name}' --id '{name}' {{\n  linux /vmlinuz {always} {words}\n  initrd /initrd\n}}\n"
        );
    }
    Ok(text)
}

/// Debian's GRUB, below `usr`.
fn grub() -> Result<PathBuf> {
    let key = Key::new("grub").with(PACKAGES).with(MODULES).with(PREFIX).name();
    cache::entry(&key, |folder| {
        packages::unpack(PACKAGES, folder)?;
        // As on a system whose /lib is a link: a folder in an overlay would hide it.
        for name in ["bin", "sbin", "lib"] {
            let (from, to) = (folder.join(name), folder.join("usr").join(name));
            if from.is_dir() {
                run_tool(Command::new("cp").arg("-rT").arg(&from).arg(to), "coreutils")?;
                fs::remove_dir_all(from)?;
            }
        }
        let mut make = Command::new(folder.join("usr/bin/grub-mkimage"));
        make.env("LD_LIBRARY_PATH", folder.join("usr/lib/x86_64-linux-gnu"));
        make.args(["-O", "i386-pc", "-p", PREFIX, "-d"]);
        make.arg(folder.join("usr/lib/grub/i386-pc")).arg("-o").arg(folder.join("core.img"));
        run_tool(make.args(MODULES), "grub-common").map(drop)
    })
}

/// What is the machine's own, without `/boot`.
fn make_own_disk(tree: &Path, disk: &Path) -> Result<()> {
    fs::remove_dir_all(tree.join("boot"))?;
    File::create(disk)?.set_len(DISK_MIB << 20)?;
    let mut make = Command::new("mke2fs");
    make.args(["-q", "-F", "-t", "ext4", "-d"]).arg(tree).arg(disk);
    run_tool(&mut make, "e2fsprogs").map(drop)
}

/// A disk with GRUB before the file system. That `boot.img` reads its core from sector 1 on, and the core its own rest
/// from sector 2 on, is how both are made (GRUB 2.06, `grub-core/boot/i386/pc/boot.S` and `diskboot.S`).
fn make_boot_disk(tree: &Path, disk: &Path) -> Result<()> {
    let offset = u64::from(FIRST_SECTOR) * SECTOR_BYTES;
    File::create(disk)?.set_len(BOOT_DISK_MIB << 20)?;
    let mut make = Command::new("mke2fs");
    // What GRUB 2.06 does not read.
    make.args(["-q", "-F", "-t", "ext4", "-O", "^metadata_csum_seed,^orphan_file", "-d"]).arg(tree);
    make.arg("-E").arg(format!("offset={offset}")).arg(disk);
    let kibibytes = ((BOOT_DISK_MIB << 20) - offset) / 1024;
    run_tool(make.arg(format!("{kibibytes}k")), "e2fsprogs")?;

    let grub = grub()?;
    let mut record = [0; 512];
    File::open(grub.join("usr/lib/grub/i386-pc/boot.img"))?.read_exact(&mut record[..440])?;
    let sectors = u32::try_from(((BOOT_DISK_MIB << 20) - offset) / SECTOR_BYTES)?;
    // One partition, active, of Linux; by sector numbers, with the cylinders that mean "too far".
    let partition = &mut record[446..462];
    partition[..8].copy_from_slice(&[0x80, 0xfe, 0xff, 0xff, 0x83, 0xfe, 0xff, 0xff]);
    partition[8..12].copy_from_slice(&FIRST_SECTOR.to_le_bytes());
    partition[12..].copy_from_slice(&sectors.to_le_bytes());
    record[510..].copy_from_slice(&[0x55, 0xaa]);
    let core = fs::read(grub.join("core.img"))?;
    ensure!(core.len() as u64 <= offset - SECTOR_BYTES, "GRUB's core is too large");
    let mut disk = File::options().write(true).open(disk)?;
    disk.write_all(&record)?;
    disk.seek(SeekFrom::Start(SECTOR_BYTES))?;
    disk.write_all(&core).context("cannot write GRUB")
}
