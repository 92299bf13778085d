//! Puts the page (`web/dist`, which `make web` builds) into the program, file by file. Without it
//! the program is built all the same, and says so when the page is asked for.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let dist = root.join("../../web/dist");
    // A folder that is not there yet is looked for again by every build.
    println!("cargo::rerun-if-changed={}", dist.display());
    let mut files = Vec::new();
    if dist.is_dir() {
        collect(&dist, &dist, &mut files)?;
    }
    files.sort();
    let mut source = String::from("&[\n");
    for (path, file) in files {
        println!("cargo::rerun-if-changed={}", file.display());
        let _ = writeln!(source, "({path:?}, include_bytes!({:?})),", file.display().to_string());
    }
    source.push_str("]\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("page.rs"), source)
}

fn collect(dist: &Path, dir: &Path, files: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path().canonicalize()?;
        if path.is_dir() {
            collect(dist, &path, files)?;
        } else if let Ok(name) = path.strip_prefix(dist.canonicalize()?) {
            files.push((format!("/{}", name.display()), path.clone()));
        }
    }
    Ok(())
}
