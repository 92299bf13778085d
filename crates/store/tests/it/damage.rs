//! Damage of any file of a finished recording: what is opened is what was written, or it is said not to be.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests report by failing")]

use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};
use transect_clock::evidence::Evidence;
use transect_model::ids::MachineId;
use transect_store::manifest::{MachineEntry, MachineKind, SourceEntry, SourceFormat};
use transect_store::{FileState, Manifest, Recording, RecordingWriter, StoreError, repair, verify};

/// A recording with an xentrace file of noise, and evidence.
fn write(dir: &Path) {
    let mut manifest = Manifest::new(1_000, vec!["transect".to_owned(), "record".to_owned()]);
    manifest.add_machine(MachineEntry {
        id: MachineId(0),
        parent: None,
        kind: MachineKind::Hypervisor,
        name: "xen".to_owned(),
        vmm_pid: None,
        cgroup: None,
        domid: None,
        uname: None,
        cpu_count: None,
        clock: Some("x86-tsc".to_owned()),
        vcpus: Vec::new(),
    });
    let writer = RecordingWriter::create(dir, manifest).unwrap();
    let entry = SourceEntry {
        machine_id: MachineId(0),
        file: "xen.bin".to_owned(),
        format: SourceFormat::Xentrace,
        spooled: false,
        clock: "x86-tsc".to_owned(),
        tsc_to_ns: None,
        sub_buffer_bytes: 0,
        cpu_count: 2,
        long_bytes: 8,
        big_endian: false,
        trace_id: 0,
        uname: String::new(),
    };
    let file = writer.add_xentrace(entry).unwrap();
    let noise: Vec<u8> =
        (0..50_000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect();
    file.append(&[&noise]).unwrap();
    writer.write_file("xen.json", b"{\"scheduler\": \"credit2\"}").unwrap();
    for at in 0..20 {
        writer.evidence(&Evidence::ClockRestart { machine: MachineId(0), at_host: at }).unwrap();
    }
    let finished = writer.finish().unwrap();
    assert!(finished.problems.is_empty(), "{:?}", finished.problems);
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { dirs.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

#[derive(Clone, Debug)]
enum Damage {
    Flip(prop::sample::Index, u8),
    Zeros(prop::sample::Index, usize),
    Cut(prop::sample::Index),
    Delete,
    Append(u8),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        4 => (any::<prop::sample::Index>(), 0..8_u8).prop_map(|(at, bit)| Damage::Flip(at, bit)),
        2 => (any::<prop::sample::Index>(), 1..5000_usize).prop_map(|(at, n)| Damage::Zeros(at, n)),
        2 => any::<prop::sample::Index>().prop_map(Damage::Cut),
        1 => Just(Damage::Delete),
        1 => any::<u8>().prop_map(Damage::Append),
    ]
}

impl Damage {
    /// False if the file is still what it was.
    fn apply(&self, file: &Path) -> bool {
        let before = fs::read(file).unwrap();
        let mut bytes = before.clone();
        match self {
            Damage::Flip(at, bit) => {
                let at = at.index(bytes.len());
                bytes[at] ^= 1 << bit;
            }
            Damage::Zeros(at, count) => {
                let at = at.index(bytes.len());
                let end = (at + count).min(bytes.len());
                bytes[at..end].fill(0);
            }
            Damage::Cut(at) => bytes.truncate(at.index(bytes.len())),
            Damage::Append(byte) => bytes.push(*byte),
            Damage::Delete => {
                fs::remove_file(file).unwrap();
                return true;
            }
        }
        fs::write(file, &bytes).unwrap();
        bytes != before
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_damage_is_silent(which in any::<prop::sample::Index>(), damage in damage()) {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("r.transect");
        write(&dir);
        let whole = Recording::open(&dir).unwrap();
        prop_assert!(whole.problems.is_empty() && whole.sources[0].damage().is_empty());
        prop_assert!(verify(&dir).unwrap().iter().all(|file| file.state == FileState::Whole));
        let content = fs::read(dir.join("xen.bin")).unwrap();
        let files = files(&dir);
        let file = &files[which.index(files.len())];
        let name = file.strip_prefix(&dir).unwrap().to_str().unwrap().to_owned();
        if !damage.apply(file) {
            return Ok(());
        }
        match Recording::open(&dir) {
            Err(error) => {
                prop_assert_eq!(&name, "xen.bin", "{}", error);
                let is_missing = matches!(error, StoreError::MissingSource(_));
                prop_assert!(is_missing && error.to_string().contains("xen.bin"));
            }
            Ok(found) => {
                prop_assert_eq!(&found.manifest, &whole.manifest, "{}", name);
                prop_assert_eq!(&found.evidence, &whole.evidence, "{}", name);
                let source = &found.sources[0];
                for (at, byte) in content.iter().enumerate() {
                    let is_damaged = source.damage().iter().any(|range| range.contains(&(at as u64)));
                    prop_assert!(is_damaged || source.bytes.get(at) == Some(byte), "{name}: byte {at}");
                }
                let is_copy = name.starts_with("copies/") || name == "xen.json";
                let is_told = !found.problems.is_empty() || !source.damage().is_empty();
                prop_assert!(is_told || is_copy, "{name}: {damage:?}");
            }
        }
        let checks = verify(&dir).unwrap();
        let own = checks.iter().find(|check| check.name == name).unwrap();
        prop_assert!(own.is_damaged(), "{name}: {:?}", own.state);
        let others = checks.iter().filter(|check| check.name != name && check.name != "xen.bin" && check.name != "xen.json");
        let others: Vec<_> = others.filter(|check| check.is_damaged()).collect();
        prop_assert!(others.is_empty(), "{name}: {others:?}");
        prop_assert_eq!(repair(&dir).unwrap().contains(&name), own.can_be_repaired, "{}", name);
        let again = verify(&dir).unwrap();
        let own = again.iter().find(|check| check.name == name).unwrap();
        let can_be_repaired = name.contains("manifest.json") || name.contains("clocks.jsonl");
        prop_assert_eq!(own.is_damaged(), !can_be_repaired, "{}", name);
    }
}

/// A recorder that was killed leaves no checksums, and says so.
#[test]
fn unfinished_recording_is_not_verified() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("r.transect");
    let manifest = Manifest::new(1_000, Vec::new());
    let writer = RecordingWriter::create(&dir, manifest).unwrap();
    writer.evidence(&Evidence::ClockRestart { machine: MachineId(0), at_host: 1 }).unwrap();
    fs::write(dir.join("host.cpu0.raw"), vec![1; 4096]).unwrap();
    drop(writer);
    let checks = verify(&dir).unwrap();
    let of = |name: &str| checks.iter().find(|check| check.name == name).unwrap().state.clone();
    assert_eq!(of("manifest.json"), FileState::Whole);
    assert_eq!(of("clocks.jsonl"), FileState::Whole);
    assert!(
        matches!(of("host.cpu0.raw"), FileState::Unverified(why) if why.contains("ended before"))
    );
}
