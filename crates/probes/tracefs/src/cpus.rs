//! Lists of CPUs as sysfs writes them (`0-3,8`), and which are online.

use crate::{TracefsError, files};
use std::path::Path;
use transect_model::ids::CpuId;

/// No kernel has more CPUs (`NR_CPUS` at most 8192 on x86); more is a broken file.
const MAX_CPUS: u32 = 1 << 16;

/// The CPUs that are online now.
pub fn online() -> Result<Vec<CpuId>, TracefsError> {
    read_list(Path::new("/sys/devices/system/cpu/online"))
}

/// The CPUs that may ever come online; tracefs has a directory for each.
pub fn possible() -> Result<Vec<CpuId>, TracefsError> {
    read_list(Path::new("/sys/devices/system/cpu/possible"))
}

fn read_list(path: &Path) -> Result<Vec<CpuId>, TracefsError> {
    let text = files::read_text(path)?;
    parse_list(&text).ok_or_else(|| TracefsError::Content {
        path: path.to_owned(),
        text: text.trim().to_owned(),
        expected: "a list of CPUs like 0-3,8",
    })
}

/// Parses `0-3,8`; `None` where it is no such list.
pub fn parse_list(text: &str) -> Option<Vec<CpuId>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || last >= MAX_CPUS {
            return None;
        }
        cpus.extend((first..=last).map(CpuId));
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        let ids = |text| parse_list(text).map(|cpus| cpus.iter().map(|c| c.0).collect::<Vec<_>>());
        assert_eq!(ids("0-1\n"), Some(vec![0, 1]));
        assert_eq!(ids("0,2-3,8"), Some(vec![0, 2, 3, 8]));
        assert_eq!(ids("\n"), Some(vec![]));
        for bad in ["a", "3-1", "0-4294967295", "1-"] {
            assert_eq!(ids(bad), None, "{bad}");
        }
    }
}
