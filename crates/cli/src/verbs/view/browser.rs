//! Opens the browser, if there is one.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use transect_model::escape;

/// How long the browser has to read the file, after the command that started it has ended.
const READ_WITHIN: Duration = Duration::from_secs(30);

/// The file that leads a browser to the address. It is removed when this is dropped, at the latest.
pub(super) struct Page(PathBuf);

impl Drop for Page {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Opens an address in the user's browser; without a browser the printed address remains.
///
/// The address contains the token, and every local user can read the arguments of a command in `/proc`. Therefore the
/// browser gets the name of a file that only this user can read, and the page in it leads to the address.
pub(super) fn open(url: &str) -> Option<Page> {
    let has_screen =
        ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    let dir = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty());
    let dir = dir.map(PathBuf::from).filter(|dir| dir.is_dir());
    let dir = dir.unwrap_or_else(std::env::temp_dir);
    // Without the file the printed address remains, too.
    has_screen.then(|| open_by(Path::new("xdg-open"), &dir, url).ok()).flatten()
}

fn open_by(program: &Path, dir: &Path, url: &str) -> io::Result<Page> {
    let page = write_page(dir, url)?;
    let mut child = Command::new(program)
        .arg(&page.0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let path = page.0.clone();
    std::thread::spawn(move || {
        // Without this, the command would stay as a zombie.
        let _ = child.wait();
        std::thread::sleep(READ_WITHIN);
        let _ = fs::remove_file(path);
    });
    Ok(page)
}

/// A page that leads to the address, in a file with mode 0600.
fn write_page(dir: &Path, url: &str) -> io::Result<Page> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("transect-view-").suffix(".html");
    let mut file = builder.tempfile_in(dir)?;
    let url = escape::html(url);
    writeln!(
        file,
        "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\
         <meta http-equiv=\"refresh\" content=\"0; url={url}\"><title>transect view</title>\
         <a href=\"{url}\">Open the recording</a>"
    )?;
    let (_, path) = file.keep()?;
    Ok(Page(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::Instant;

    #[test]
    fn browser_gets_the_token_in_a_private_file_and_not_as_an_argument() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path();
        let (opener, runtime) = (dir.join("xdg-open"), dir.join("run"));
        fs::create_dir(&runtime).unwrap();
        let script = format!(
            "#!/bin/sh\ncd {}\nprintf %s \"$*\" >arguments\nstat -c %a \"$1\" >mode\n\
             cp \"$1\" part\nmv part page\n",
            dir.display()
        );
        fs::write(&opener, script).unwrap();
        fs::set_permissions(&opener, fs::Permissions::from_mode(0o755)).unwrap();
        let url = "http://127.0.0.1:8000/?token=0123456789abcdef#v=1-2";
        let page = open_by(&opener, &runtime, url).unwrap();
        let begun = Instant::now();
        while !dir.join("page").exists() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the opener did not run");
            std::thread::sleep(Duration::from_millis(5));
        }
        let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap();
        let file = PathBuf::from(read("arguments"));
        assert_eq!(file.parent(), Some(&*runtime), "the only argument is a file");
        assert!(!file.to_string_lossy().contains("0123456789abcdef"));
        assert_eq!(read("mode").trim(), "600");
        assert!(read("page").contains(&format!("content=\"0; url={url}\"")), "{}", read("page"));
        drop(page);
        assert_eq!(fs::read_dir(&runtime).unwrap().count(), 0, "the file is removed");
    }
}
