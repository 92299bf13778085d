//! A program of this machine for a guest's image, with the libraries that it is linked with.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cpio::Cpio;
use crate::packages::run_tool;

/// The archive that adds the program and its libraries, at the places that they have here.
pub(crate) fn archive(program: &Path) -> Result<Vec<u8>> {
    let mut cpio = Cpio::default();
    let mut folders = BTreeSet::new();
    let said = run_tool(Command::new("ldd").arg(program), "libc-bin")?.stdout;
    let libraries = libraries(&String::from_utf8_lossy(&said))?;
    for file in [program.to_owned()].iter().chain(&libraries) {
        let name =
            file.strip_prefix("/").with_context(|| format!("{} is relative", file.display()))?;
        let is_plain = name.components().all(|part| matches!(part, Component::Normal(_)));
        ensure!(is_plain, "a path with '.': {}", file.display());
        let above: Vec<&Path> = name.ancestors().skip(1).collect();
        for folder in above.iter().rev().filter(|folder| !folder.as_os_str().is_empty()) {
            if folders.insert(folder.to_path_buf()) {
                cpio.folder(&folder.to_string_lossy())?;
            }
        }
        cpio.program(&name.to_string_lossy(), file)?;
    }
    cpio.finish()
}

/// The paths of ldd's lines: `NAME => PATH (ADDRESS)`, or `PATH (ADDRESS)` of the loader; the kernel's own has none.
fn libraries(said: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for line in said.lines().map(str::trim) {
        ensure!(!line.ends_with("not found"), "a library is missing: {line}");
        let path = line.split_once(" => ").map_or(line, |(_, path)| path);
        let path = path.rsplit_once(" (").map_or(path, |(path, _)| path);
        if path.starts_with('/') {
            found.push(PathBuf::from(path));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_from_what_ldd_says() {
        let said = "\tlinux-vdso.so.1 (0x00007fda4a5e3000)\n\
                    \tlibz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x00007fda4a5a4000)\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007fda4a5e5000)\n";
        let paths = ["/lib/x86_64-linux-gnu/libz.so.1", "/lib64/ld-linux-x86-64.so.2"];
        assert_eq!(libraries(said).unwrap(), paths.map(PathBuf::from));
        assert!(libraries("\tlibz.so.1 => not found\n").is_err());
    }
}
