//! Programs that workloads run.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};
use transect_bench_core::{Fault, Kind, Refusal};

/// Where Debian has what an administrator's `PATH` has and a service's may not.
const MORE: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// How much of what a failed program said is passed on.
const SAID: usize = 400;

/// Where a program is.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = env::var("PATH").unwrap_or_default();
    let folders = path.split(':').chain(MORE.split(':')).filter(|folder| !folder.is_empty());
    folders.map(|folder| Path::new(folder).join(name)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// Where a program is, or which Debian package has it.
pub(crate) fn need(workload: &str, name: &str, package: &str) -> Result<PathBuf, Refusal> {
    find(name).ok_or_else(|| {
        Refusal::new(
            Kind::Missing,
            format!("workload {workload}"),
            format!("{name} is not installed"),
        )
        .mend(format!("apt install {package}"))
    })
}

/// Runs a program to its end. What it says is kept; if it fails, the end of that is the error.
pub(crate) fn run(command: &mut Command) -> Result<Output, Fault> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .map_err(|error| Fault::failed(format!("cannot run {name}: {error}")))?;
    succeeded(&name, output)
}

/// Like [`run`], what it prints goes into a file.
pub(crate) fn run_into(command: &mut Command, output: fs::File) -> Result<(), Fault> {
    let name = command.get_program().to_string_lossy().into_owned();
    let child = command.stdin(Stdio::null()).stdout(output).stderr(Stdio::piped()).spawn();
    let output = child.and_then(std::process::Child::wait_with_output);
    let output = output.map_err(|error| Fault::failed(format!("cannot run {name}: {error}")))?;
    succeeded(&name, output).map(|_| ())
}

fn succeeded(name: &str, output: Output) -> Result<Output, Fault> {
    if output.status.success() {
        return Ok(output);
    }
    let said = [output.stdout.as_slice(), &output.stderr].concat();
    let said = String::from_utf8_lossy(&said[said.len().saturating_sub(SAID)..]).into_owned();
    Err(Fault::failed(format!("{name} failed, {}: {}", output.status, said.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_what_the_program_said() {
        let fault = run(Command::new("/bin/sh").args(["-c", "echo so; echo sad >&2; exit 3"]));
        let fault = fault.unwrap_err().to_string();
        assert!(fault.contains("so") && fault.contains("sad") && fault.contains('3'), "{fault}");
        assert!(
            need("w", "no-such-program", "p").unwrap_err().to_string().contains("apt install p")
        );
        assert!(find("sh").is_some());
    }
}
