//! Compiles the programs of `bpf/` to two BPF objects (what records and what counts), which the crate
//! embeds: whoever runs the binary needs no compiler.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// `CLANG` names another one. Any from 12 on will do: the programs use no newer builtins.
const CLANGS: [&str; 8] =
    ["clang", "clang-19", "clang-18", "clang-17", "clang-16", "clang-15", "clang-14", "clang-13"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let crate_dir = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let sources = crate_dir.join("../../../bpf").canonicalize()?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    println!("cargo:rerun-if-env-changed=CLANG");
    println!("cargo:rerun-if-changed={}", sources.display());
    for file in fs::read_dir(&sources)? {
        println!("cargo:rerun-if-changed={}", file?.path().display());
    }
    // libbpf-sys installs libbpf's headers for its dependents.
    let headers = env::var("DEP_BPF_INCLUDE")?;
    let clang = clang()?;
    for name in ["collector", "live"] {
        let object = out.join(name).with_extension("bpf.o");
        let source = sources.join(name).with_extension("bpf.c");
        compile(&clang, &sources, &source, Path::new(&headers), &object)?;
        strip(&clang, &object);
    }
    Ok(())
}

/// Takes the debugger's information out of the object, a third of it: what loading needs, BTF, stays.
/// Where clang's own strip is not installed, the object is merely larger.
fn strip(clang: &str, object: &Path) {
    let same_version = clang.replace("clang", "llvm-strip");
    for strip in [same_version.as_str(), "llvm-strip"] {
        if Command::new(strip).arg("-g").arg(object).status().is_ok_and(|o| o.success()) {
            return;
        }
    }
}

fn clang() -> Result<String, String> {
    let asked = env::var("CLANG").ok();
    let mut names = asked.iter().map(String::as_str).chain(CLANGS);
    let works = |name: &&str| {
        Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success())
    };
    let found = names.find(works).map(str::to_owned);
    found.ok_or_else(|| {
        "no clang: the BPF programs need it to build (apt-get install clang-14, or set CLANG)"
            .into()
    })
}

fn compile(
    clang: &str,
    sources: &Path,
    source: &Path,
    headers: &Path,
    object: &Path,
) -> Result<(), Box<dyn std::error::Error>> {
    let arch = match env::var("CARGO_CFG_TARGET_ARCH")?.as_str() {
        "x86_64" => "x86".to_owned(),
        "aarch64" => "arm64".to_owned(),
        other => other.to_owned(),
    };
    let status = Command::new(clang)
        .args([
            "-target",
            "bpf",
            "-mcpu=v3",
            "-O2",
            "-g",
            "-Wall",
            "-Werror",
            "-Wno-unused-function",
        ])
        .arg(format!("-D__TARGET_ARCH_{arch}"))
        // Paths of the machine that built it have no place in the binary.
        .arg(format!("-ffile-prefix-map={}=bpf", sources.display()))
        .arg("-I")
        .arg(headers)
        .arg("-c")
        .arg(source)
        .arg("-o")
        .arg(object)
        .status()?;
    if !status.success() {
        return Err(format!("{clang} could not compile {}", source.display()).into());
    }
    Ok(())
}
