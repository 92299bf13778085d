//! Where this kernel runs: on hardware, in a domU, or in dom0, and what a dom0 lacks to record Xen.

use crate::{Tools, Version};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Bit of `/sys/hypervisor/properties/features` that only a dom0 has (`XENFEAT_dom0`,
/// xen/include/public/features.h).
const FEATURE_DOM0: u32 = 11;
/// Where the kernel passes hypercalls of tools on: the device, or xenfs before it existed.
const PRIVCMD: [&str; 2] = ["dev/xen/privcmd", "proc/xen/privcmd"];
/// What a recorder cannot do without.
const TOOLS: [&str; 2] = ["xentrace", "xl"];

/// Where this kernel runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Not under Xen (or it does not show).
    NotXen,
    /// In a guest of Xen: only its dom0 can record Xen.
    DomU(Version),
    /// In dom0.
    Dom0(Dom0),
}

/// A dom0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dom0 {
    /// Of the hypervisor.
    pub version: Version,
    /// Where its tools are.
    pub tools: Tools,
    /// What is missing to record Xen; empty if nothing is.
    pub lacks: Vec<Lack>,
}

/// Something that is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// What.
    pub what: String,
    /// How to mend it.
    pub mend: String,
}

/// Looks at this machine.
pub fn detect() -> Place {
    detect_below(Path::new("/"))
}

/// Looks at a machine whose files are below `root` (tests).
pub fn detect_below(root: &Path) -> Place {
    let hypervisor = root.join("sys/hypervisor");
    let text = |name: &str| {
        fs::read_to_string(hypervisor.join(name)).unwrap_or_default().trim().to_owned()
    };
    let capabilities = fs::read_to_string(root.join("proc/xen/capabilities")).unwrap_or_default();
    if text("type") != "xen" && capabilities.is_empty() {
        return Place::NotXen;
    }
    let number = |name: &str| text(name).parse().unwrap_or(0);
    let version = Version {
        major: number("version/major"),
        minor: number("version/minor"),
        extra: text("version/extra"),
    };
    let features = u32::from_str_radix(&text("properties/features"), 16).unwrap_or(0);
    let is_dom0 = capabilities.contains("control_d") || features >> FEATURE_DOM0 & 1 == 1;
    if !is_dom0 {
        return Place::DomU(version);
    }
    let tools = Tools::of_version(root, &version);
    let mut lacks: Vec<Lack> = privcmd(root).into_iter().collect();
    for tool in TOOLS {
        if let Err(error) = tools.find(tool) {
            let mend = format!("apt-get install xen-utils-{}", version.short());
            lacks.push(Lack { what: error.to_string(), mend });
        }
    }
    Place::Dom0(Dom0 { version, tools, lacks })
}

/// Can hypercalls be passed on? Opening tries the permission too.
fn privcmd(root: &Path) -> Option<Lack> {
    let there: Vec<PathBuf> =
        PRIVCMD.iter().map(|path| root.join(path)).filter(|path| path.exists()).collect();
    let Some(device) = there.first() else {
        return Some(Lack {
            what: "no /dev/xen/privcmd: Xen's tools cannot make hypercalls".to_owned(),
            mend: "modprobe xen-privcmd; modprobe xenfs; mount -t xenfs xenfs /proc/xen".to_owned(),
        });
    };
    match fs::File::options().read(true).write(true).open(device) {
        Ok(_) => None,
        Err(error) => Some(Lack {
            what: format!("{}: {error}", device.display()),
            mend: "run as root".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    struct Root(tempfile::TempDir);

    impl Root {
        fn new(files: &[(&str, &str)]) -> Self {
            let root = Root(tempfile::tempdir().unwrap());
            files.iter().for_each(|(path, text)| root.file(path, text));
            root
        }

        fn file(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }

        fn place(&self) -> Place {
            detect_below(self.0.path())
        }
    }

    const XEN: &[(&str, &str)] = &[
        ("sys/hypervisor/type", "xen\n"),
        ("sys/hypervisor/version/major", "4\n"),
        ("sys/hypervisor/version/minor", "17\n"),
        ("sys/hypervisor/version/extra", ".7\n"),
    ];

    #[test]
    fn places_are_told_apart() {
        assert_eq!(Root::new(&[]).place(), Place::NotXen);
        let other = Root::new(&[("sys/hypervisor/type", "other\n")]);
        assert_eq!(other.place(), Place::NotXen);
        let domu = Root::new(XEN);
        domu.file("sys/hypervisor/properties/features", "00001705\n");
        let version = Version { major: 4, minor: 17, extra: ".7".to_owned() };
        assert_eq!(domu.place(), Place::DomU(version.clone()));
        // Without xenfs the features tell.
        domu.file("sys/hypervisor/properties/features", "00002f05\n");
        assert!(matches!(domu.place(), Place::Dom0(dom0) if dom0.version == version));
    }

    #[test]
    fn what_a_dom0_lacks_is_said_with_its_mend() {
        let root = Root::new(XEN);
        root.file("proc/xen/capabilities", "control_d\n");
        let Place::Dom0(dom0) = root.place() else { panic!("no dom0") };
        let mends: Vec<_> = dom0.lacks.iter().map(|lack| lack.mend.as_str()).collect();
        let xenfs = "modprobe xen-privcmd; modprobe xenfs; mount -t xenfs xenfs /proc/xen";
        assert_eq!(
            mends,
            [xenfs, "apt-get install xen-utils-4.17", "apt-get install xen-utils-4.17"]
        );
        assert!(dom0.lacks[1].what.starts_with("xentrace not found in"), "{:?}", dom0.lacks);

        root.file("proc/xen/privcmd", "");
        root.file("usr/lib/xen-4.17/bin/xentrace", "#!/bin/sh\n");
        root.file("usr/sbin/xl", "#!/bin/sh\n");
        let Place::Dom0(dom0) = root.place() else { panic!("no dom0") };
        assert_eq!(dom0.lacks, []);
        let found = dom0.tools.find("xentrace").unwrap();
        assert!(found.ends_with("usr/lib/xen-4.17/bin/xentrace"), "{found:?}");
    }
}
