//! Xen's command line tools: where they are, and running them with a deadline.

use crate::{Version, XenError};
use rustix::{
    fs::{MemfdFlags, memfd_create},
    process::{Pid, Signal, kill_process},
};
use std::{
    env,
    fs::File,
    io::{self, Read, Seek},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

/// The last so many bytes of what a tool said are shown.
const SHOWN_BYTES: usize = 400;

/// The folders with Xen's tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tools {
    folders: Vec<PathBuf>,
    version: String,
}

impl Tools {
    /// Those of the hypervisor that runs: Debian has a folder for each version, and wrappers in `/usr/sbin` that look
    /// for it at the price of another program; elsewhere they are in the usual places.
    pub fn of_version(root: &Path, version: &Version) -> Self {
        let short = version.short();
        let mut folders = vec![root.join(format!("usr/lib/xen-{short}/bin"))];
        if root == Path::new("/") {
            folders.extend(env::var_os("PATH").iter().flat_map(env::split_paths));
        }
        let usual =
            ["usr/sbin", "usr/bin", "usr/local/sbin", "usr/lib/xen/bin", "usr/lib64/xen/bin"];
        folders.extend(usual.map(|folder| root.join(folder)));
        Tools { folders, version: short }
    }

    /// A tool's path.
    ///
    /// # Errors
    /// [`XenError::NoTool`] names the package.
    pub fn find(&self, tool: &str) -> Result<PathBuf, XenError> {
        let is_program = |path: &PathBuf| {
            path.metadata()
                .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        };
        let mut paths = self.folders.iter().map(|folder| folder.join(tool));
        paths.find(is_program).ok_or_else(|| {
            let looked = self.folders.iter().map(|folder| folder.display().to_string());
            XenError::NoTool {
                tool: tool.to_owned(),
                looked: looked.collect::<Vec<_>>().join(", "),
                version: self.version.clone(),
            }
        })
    }

    /// Runs a tool and returns what it wrote to its standard output.
    ///
    /// # Errors
    /// It is not there, fails, or takes longer than `limit`.
    pub fn run(&self, tool: &str, args: &[&str], limit: Duration) -> Result<String, XenError> {
        let path = self.find(tool)?;
        let failed = |action| {
            let tool = path.clone();
            move |source: io::Error| XenError::Tool { tool, action, source }
        };
        let mut out = Said::new().map_err(failed("make a file in memory for"))?;
        let mut said = Said::new().map_err(failed("make a file in memory for"))?;
        let mut child = Command::new(&path)
            .args(args)
            .stdin(Stdio::null())
            .stdout(out.stdio().map_err(failed("start"))?)
            .stderr(said.stdio().map_err(failed("start"))?)
            .spawn()
            .map_err(failed("start"))?;
        let command = || format!("{tool} {}", args.join(" "));
        let started = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().map_err(failed("wait for"))? {
                break status;
            }
            if started.elapsed() > limit {
                if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                    // Our own child, not yet reaped: the pid is still its.
                    let _ = kill_process(pid, Signal::KILL);
                }
                let _ = child.wait();
                return Err(XenError::Slow { command: command(), limit });
            }
            thread::sleep(Duration::from_millis(2).min(limit / 10));
        };
        if !status.success() {
            let how = how_it_ended(status);
            return Err(XenError::Refused { command: command(), how, said: said.last_words() });
        }
        out.text().map_err(failed("read the output of"))
    }
}

fn how_it_ended(status: ExitStatus) -> String {
    status.to_string()
}

/// What a program writes, in a file in memory: it can never be kept waiting for a reader.
#[derive(Debug)]
pub(crate) struct Said(File);

impl Said {
    pub(crate) fn new() -> io::Result<Self> {
        let file = memfd_create("transect-said", MemfdFlags::CLOEXEC)?;
        Ok(Said(file.into()))
    }

    /// For the program.
    pub(crate) fn stdio(&self) -> io::Result<Stdio> {
        Ok(Stdio::from(self.0.try_clone()?))
    }

    fn text(&mut self) -> io::Result<String> {
        let mut bytes = Vec::new();
        self.0.rewind()?;
        self.0.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The last lines, as one; for messages.
    pub(crate) fn last_words(&mut self) -> String {
        let text = self.text().unwrap_or_default();
        let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let line = lines.join("; ");
        let from = line.len().saturating_sub(SHOWN_BYTES);
        let from = (from..line.len()).find(|at| line.is_char_boundary(*at)).unwrap_or(0);
        line[from..].to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn tools(scripts: &[(&str, &str)]) -> (tempfile::TempDir, Tools) {
        let root = tempfile::tempdir().unwrap();
        let tools =
            Tools::of_version(root.path(), &Version { major: 4, minor: 17, extra: String::new() });
        let folder = root.path().join("usr/sbin");
        fs::create_dir_all(&folder).unwrap();
        for (name, script) in scripts {
            let path = folder.join(name);
            // By another process: one that is forked meanwhile would have it open for writing, too.
            let write = "printf '#!/bin/sh\\n%s\\n' \"$1\" >\"$0\" && chmod 755 \"$0\"";
            let mut writer = Command::new("sh");
            assert!(writer.args(["-c", write]).arg(path).arg(script).status().unwrap().success());
        }
        (root, tools)
    }

    #[test]
    fn a_tool_answers_fails_or_is_late() {
        let second = Duration::from_secs(10);
        let (_root, tools) = tools(&[
            ("xl", "echo \"$@\"; echo not shown >&2"),
            ("bad", "echo half; echo the cause >&2; exit 3"),
            ("slow", "exec sleep 60"),
        ]);
        assert_eq!(tools.run("xl", &["list", "-l"], second).unwrap(), "list -l\n");
        let error = tools.run("bad", &["x"], second).unwrap_err().to_string();
        assert_eq!(error, "bad x: exit status: 3: the cause");
        let error = tools.run("slow", &[], Duration::from_millis(100)).unwrap_err();
        assert!(matches!(error, XenError::Slow { .. }), "{error}");
        let error = tools.run("none", &[], second).unwrap_err().to_string();
        assert!(error.contains("apt-get install xen-utils-4.17"), "{error}");
    }
}
