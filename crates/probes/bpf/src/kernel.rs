//! What the running kernel is and has: version, CPUs, the names in its BTF.

use std::{collections::HashSet, fs, path::Path};

use crate::{BpfError, WhyNot, layout::MAX_CPUS};

/// Version as (major, minor), from `uname`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(pub(crate) u32, pub(crate) u32);

impl Version {
    pub(crate) fn running() -> Self {
        Self::of(&release())
    }

    pub(crate) fn of(release: &str) -> Self {
        let mut numbers =
            release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
        Self(numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }
}

/// The kernel's release, as `uname -r` prints it.
pub(crate) fn release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// Numbers in a list such as `0-3,8`.
fn parse_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?.min(1 << 20));
    }
    Some(cpus)
}

fn cpus(which: &str) -> Result<Vec<u32>, BpfError> {
    let path = format!("/sys/devices/system/cpu/{which}");
    let text = fs::read_to_string(&path).map_err(BpfError::system(path.clone()))?;
    parse_list(&text).ok_or_else(|| BpfError::Plan(format!("{path}: cannot parse {text:?}")))
}

/// How many logs are needed, and which of their CPUs are online now.
pub(crate) fn possible_cpus() -> Result<(usize, HashSet<u32>), BpfError> {
    let possible = cpus("possible")?;
    let count = possible.iter().max().map_or(0, |last| *last as usize + 1);
    if count == 0 || count > MAX_CPUS {
        return Err(BpfError::Plan(format!(
            "{count} possible CPUs: the compact collector supports 1 to {MAX_CPUS}"
        )));
    }
    Ok((count, cpus("online")?.into_iter().collect()))
}

/// The names of the kernel's types that matter here, from the string sections of its BTF and of
/// KVM's modules. Which type a name belongs to is not asked: these names are unmistakable.
#[derive(Debug, Default)]
pub(crate) struct Names(HashSet<String>);

/// Prefix of the typedef that every tracepoint with BTF has.
const TRACEPOINT: &str = "btf_trace_";
/// Types, and functions that programs are put behind.
const WANTED: [&str; 5] =
    ["vcpu_svm", "vcpu_vmx", "trace_event_raw_kvm_exit", "throttle_cfs_rq", "unthrottle_cfs_rq"];

impl Names {
    pub(crate) fn read() -> Result<Self, WhyNot> {
        let mut names = Self::default();
        let vmlinux = fs::read("/sys/kernel/btf/vmlinux")
            .map_err(|error| WhyNot::NoBtf(error.to_string()))?;
        names.take(&vmlinux);
        for module in ["kvm", "kvm_amd", "kvm_intel"] {
            // A module that is not loaded, or is built in, has no file.
            if let Ok(btf) = fs::read(Path::new("/sys/kernel/btf").join(module)) {
                names.take(&btf);
            }
        }
        Ok(names)
    }

    fn take(&mut self, btf: &[u8]) {
        let wanted = |name: &[u8]| {
            name.starts_with(TRACEPOINT.as_bytes()) || WANTED.iter().any(|w| w.as_bytes() == name)
        };
        let found = strings(btf).split(|byte| *byte == 0).filter(|name| wanted(name));
        self.0.extend(found.map(|name| String::from_utf8_lossy(name).into_owned()));
    }

    pub(crate) fn has_tracepoint(&self, name: &str) -> bool {
        self.0.contains(&format!("{TRACEPOINT}{name}"))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains(name)
    }
}

/// The string section of a BTF blob (`struct btf_header`: `hdr_len` at 4, `str_off` at 16, `str_len` at 20).
fn strings(btf: &[u8]) -> &[u8] {
    let word = |at: usize| Some(u32::from_ne_bytes(btf.get(at..at + 4)?.try_into().ok()?) as usize);
    let range = || {
        let start = word(4)?.checked_add(word(16)?)?;
        Some(start..start.checked_add(word(20)?)?)
    };
    range().and_then(|range| btf.get(range)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_cpu_lists() {
        assert_eq!(Version::of("6.1.0-38-amd64"), Version(6, 1));
        assert!(Version::of("5.9-rc1") < Version(5, 18));
        assert_eq!(parse_list("0-2,5\n"), Some(vec![0, 1, 2, 5]));
        assert_eq!(parse_list("x"), None);
    }

    #[test]
    fn a_cut_blob_has_no_names() {
        assert!(strings(&[0; 10]).is_empty());
        let mut names = Names::default();
        let mut blob = vec![0_u8; 24];
        blob[4] = 24;
        blob[20] = 25;
        blob.extend(b"\0btf_trace_kvm_exit\0tail\0");
        names.take(&blob);
        assert!(names.has_tracepoint("kvm_exit"));
    }
}
