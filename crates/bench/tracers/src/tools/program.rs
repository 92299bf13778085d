//! Programs: where they are, and what they call themselves.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use transect_bench_core::{Fault, Kind, Refusal};

/// Where programs of root are, besides `PATH`: a worker in a guest may have a short one.
const MORE_PLACES: [&str; 4] = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// The program of this name.
///
/// # Errors
/// [`Kind::Missing`], with the package to install.
pub(crate) fn find(arm: &str, name: &str, package: &str) -> Result<PathBuf, Refusal> {
    let path = env::var_os("PATH").unwrap_or_default();
    let places = env::split_paths(&path).chain(MORE_PLACES.iter().map(PathBuf::from));
    find_in(arm, name, package, places)
}

fn find_in(
    arm: &str,
    name: &str,
    package: &str,
    mut places: impl Iterator<Item = PathBuf>,
) -> Result<PathBuf, Refusal> {
    let is_program = |path: &PathBuf| {
        fs::metadata(path)
            .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    places.find_map(|place| Some(place.join(name)).filter(is_program)).ok_or_else(|| {
        Refusal::new(Kind::Missing, format!("tracer {arm}"), format!("{name} is not installed"))
            .mend(format!("apt-get install {package}"))
    })
}

/// The first line that `PROGRAM --version` prints with something in it.
///
/// # Errors
/// It cannot be started, or says nothing.
pub(crate) fn version(program: &Path) -> Result<String, Fault> {
    let failed = |why: String| Fault::failed(format!("{} --version: {why}", program.display()));
    let output = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let line = said.lines().map(str::trim).find(|line| !line.is_empty());
    line.map(str::to_owned).ok_or_else(|| failed("it prints no version".to_owned()))
}

/// Tracing a whole machine, or another's process, is root's.
///
/// # Errors
/// [`Kind::NotHere`].
pub(crate) fn need_root(arm: &str) -> Result<(), Refusal> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(Refusal::new(
        Kind::NotHere,
        format!("tracer {arm}"),
        "tracing a whole machine requires root",
    )
    .mend("run as root"))
}

/// The running kernel's release.
pub(crate) fn kernel_release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_refused_with_its_package() {
        let empty = tempfile::tempdir().unwrap();
        fs::write(empty.path().join("strace"), "not executable").unwrap();
        let places = || std::iter::once(empty.path().to_owned());
        let refusal = find_in("strace", "strace", "strace", places()).unwrap_err();
        assert_eq!(refusal.kind, Kind::Missing);
        assert_eq!(
            refusal.to_string(),
            "tracer strace: strace is not installed (apt-get install strace)"
        );
        fs::set_permissions(empty.path().join("strace"), fs::Permissions::from_mode(0o755))
            .unwrap();
        assert!(find_in("strace", "strace", "strace", places()).is_ok());
    }

    #[test]
    fn programs_tell_their_version() {
        let sh = find("x", "env", "coreutils").unwrap();
        assert!(!version(&sh).unwrap().is_empty());
        assert!(version(Path::new("/nonexistent")).is_err());
    }
}
