//! A recording from its first page to its last reader, with kills and torn pages in between.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed expectation is the report")]

use procfs::process::{FDTarget, Process};
use proptest::prelude::*;
use std::{fs, path::Path};
use transect_clock::evidence::Evidence;
use transect_model::ids::{CpuId, MachineId, MachineKind, Tid, VcpuId};
use transect_store::{
    Manifest, Recording, RecordingWriter, SourceSpool, StoreError,
    manifest::{Gap, MachineEntry, SourceEntry, SourceFormat, VcpuEntry},
};
use transect_tracedat::{Item, TraceDat};

const PAGE: usize = 4096;
const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
const HEADER_EVENT: &str = "# compressed entry header\n\ttype_len    :    5 bits\n\
    \ttime_delta  :   27 bits\n\tarray       :   32 bits\n\n\tpadding     : type == 29\n\
    \ttime_extend : type == 30\n\ttime_stamp : type == 31\n\tdata max type_len  == 28\n";
const FORMAT: &str = "name: tick\nID: 500\nformat:\n\
    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
    \tfield:u32 n;\toffset:8;\tsize:4;\tsigned:0;\n\nprint fmt: \"%u\", REC->n\n";

/// One sub-buffer whose events carry the numbers `from..from + count`, a tick apart.
fn page(from: u32, count: u32) -> Vec<u8> {
    let mut data = Vec::new();
    for n in from..from + count {
        let delta = u32::from(n > from);
        data.extend((3 | (delta << 5)).to_le_bytes());
        data.extend(500u16.to_le_bytes());
        data.extend([0, 0]);
        data.extend(42i32.to_le_bytes());
        data.extend(n.to_le_bytes());
    }
    let mut page = u64::from(from).to_le_bytes().to_vec();
    page.extend((data.len() as u64).to_le_bytes());
    page.extend(data);
    page.resize(PAGE, 0);
    page
}

fn host() -> MachineEntry {
    MachineEntry {
        id: MachineId(0),
        parent: None,
        kind: MachineKind::Host,
        name: "testhost".to_owned(),
        vmm_pid: None,
        cgroup: None,
        domid: None,
        uname: None,
        cpu_count: Some(2),
        clock: Some("mono".to_owned()),
        vcpus: Vec::new(),
    }
}

fn source(machine: u32, file: &str) -> SourceEntry {
    SourceEntry {
        machine_id: MachineId(machine),
        file: file.to_owned(),
        format: SourceFormat::TraceDat,
        spooled: false,
        clock: "mono".to_owned(),
        tsc_to_ns: None,
        sub_buffer_bytes: 4096,
        cpu_count: 2,
        long_bytes: 8,
        big_endian: false,
        trace_id: 7 + u64::from(machine),
        uname: "Linux testhost 6.18 x86_64".to_owned(),
    }
}

fn describe(spool: &SourceSpool) {
    spool.meta("header_page", HEADER_PAGE.as_bytes()).unwrap();
    spool.meta("header_event", HEADER_EVENT.as_bytes()).unwrap();
    spool.meta("events/test/tick/format", FORMAT.as_bytes()).unwrap();
    spool.meta("saved_cmdlines", b"42 the-thread\n").unwrap();
}

fn begin(dir: &Path) -> (RecordingWriter, SourceSpool) {
    let mut manifest = Manifest::new(1_000, vec!["transect".to_owned(), "record".to_owned()]);
    manifest.add_machine(host());
    let writer = RecordingWriter::create(dir, manifest).unwrap();
    let spool = writer.add_source(source(0, "host.dat")).unwrap();
    describe(&spool);
    (writer, spool)
}

/// The numbers of every event of a source, per CPU.
fn numbers(bytes: &[u8]) -> Vec<(u32, Vec<u32>)> {
    let trace = TraceDat::parse(bytes).unwrap();
    let mut all = Vec::new();
    for buffer in trace.buffers() {
        for cpu in buffer.cpus() {
            let Some(mut stream) = trace.stream(buffer, cpu) else { continue };
            let mut seen = Vec::new();
            while let Some(item) = stream.next() {
                match item {
                    Item::Event { payload, .. } => {
                        seen.push(u32::from_le_bytes(payload[8..12].try_into().unwrap()));
                    }
                    other => panic!("{other:?}"),
                }
            }
            if !seen.is_empty() {
                all.push((cpu, seen));
            }
        }
    }
    all
}

fn scratch() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("r.transect");
    (dir, path)
}

#[test]
fn a_finished_recording_is_a_trace_dat_with_every_event() {
    let (_keep, dir) = scratch();
    let (writer, spool) = begin(&dir);
    spool.append(CpuId(0), &[page(0, 10), page(10, 200)].concat()).unwrap();
    spool.append(CpuId(3), &page(500, 1)).unwrap();
    let finished = writer.finish().unwrap();
    assert!(finished.problems.is_empty(), "{:?}", finished.problems);
    let names: Vec<_> = fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(
        names.len(),
        5,
        "only manifest.json, clocks.jsonl, host.dat, checksums.bin and copies stay: {names:?}"
    );
    let recording = Recording::open(&dir).unwrap();
    assert!(!recording.is_recovered() && recording.problems.is_empty());
    assert!(!recording.sources[0].entry.spooled);
    let want = vec![(0, (0..210).collect()), (3, vec![500])];
    assert_eq!(numbers(&recording.sources[0].bytes), want);
}

#[test]
fn a_killed_recording_is_read_from_its_spools_and_says_so() {
    let (_keep, dir) = scratch();
    let (writer, spool) = begin(&dir);
    spool.append(CpuId(0), &page(0, 10)).unwrap();
    // Killed in the middle of a page.
    let mut raw = fs::read(dir.join("host.cpu0.raw")).unwrap();
    raw.extend(&page(10, 5)[..1000]);
    fs::write(dir.join("host.cpu0.raw"), raw).unwrap();
    drop((writer, spool));
    let before: Vec<_> = fs::read_dir(&dir).unwrap().count().to_ne_bytes().to_vec();
    let recording = Recording::open(&dir).unwrap();
    assert!(recording.is_recovered());
    assert_eq!(numbers(&recording.sources[0].bytes), [(0, (0..10).collect::<Vec<_>>())]);
    let text = format!("{:?}", recording.problems);
    assert!(text.contains("did not finish") && text.contains("last 1000 bytes"), "{text}");
    let after: Vec<_> = fs::read_dir(&dir).unwrap().count().to_ne_bytes().to_vec();
    assert_eq!(before, after, "opening writes nothing");
}

#[test]
fn the_recovered_bytes_are_those_of_the_finished_file() {
    let (_keep, dir) = scratch();
    let (writer, spool) = begin(&dir);
    spool.append(CpuId(1), &page(0, 10)).unwrap();
    spool.append(CpuId(0), &[page(3, 4), page(7, 4)].concat()).unwrap();
    let recovered = Recording::open(&dir).unwrap();
    let _ = writer.finish().unwrap();
    assert_eq!(&*recovered.sources[0].bytes, fs::read(dir.join("host.dat")).unwrap());
}

/// The end can be urgent: the copy to a trace.dat is then not made, and a recording is complete without it.
#[test]
fn assembly_that_is_given_up_leaves_complete_spools() {
    let (_keep, dir) = scratch();
    let (writer, spool) = begin(&dir);
    for cpu in 0..3 {
        spool.append(CpuId(cpu), &page(cpu * 100, 10)).unwrap();
    }
    let looks = std::cell::Cell::new(0);
    let gives_up = || looks.replace(looks.get() + 1) > 0;
    let finished = writer.finish_unless(&gives_up).unwrap();
    assert_eq!(finished.left_spooled, ["host.dat"]);
    assert!(finished.problems.is_empty(), "{:?}", finished.problems);
    assert_eq!(looks.get(), 2, "given up in the middle");
    assert!(!dir.join("host.dat").exists() && !dir.join("host.dat.tmp").exists());
    let recording = Recording::open(&dir).unwrap();
    let text = format!("{:?}", recording.problems);
    assert!(recording.problems.is_empty() && recording.manifest.finished, "{text}");
    let cpus = (0..3).map(|cpu| (cpu, (cpu * 100..cpu * 100 + 10).collect::<Vec<_>>()));
    assert_eq!(numbers(&recording.sources[0].bytes), cpus.collect::<Vec<_>>());
}

/// A guest can have more CPUs than this process may have files.
#[test]
fn spools_of_many_cpus_are_not_all_open() {
    let (_keep, dir) = scratch();
    let (_writer, spool) = begin(&dir);
    for round in 0..2 {
        for cpu in 0..300 {
            spool.append(CpuId(cpu), &page(round * 10, 10)).unwrap();
        }
    }
    let open = Process::myself().unwrap().fd().unwrap().flatten();
    let is_spool = |path: &Path| path.starts_with(&dir) && path.extension() == Some("raw".as_ref());
    let spools = open.filter(|fd| matches!(&fd.target, FDTarget::Path(path) if is_spool(path)));
    assert!(spools.count() <= 128);
    for cpu in [0, 127, 128, 299] {
        let bytes = fs::read(dir.join(format!("host.cpu{cpu}.raw"))).unwrap();
        assert_eq!(bytes, [page(0, 10), page(10, 10)].concat(), "CPU {cpu}");
    }
}

#[test]
fn guests_are_sources_of_their_own_and_trace_cmd_finds_them() {
    let (_keep, dir) = scratch();
    let (writer, spool) = begin(&dir);
    spool.append(CpuId(0), &page(0, 1)).unwrap();
    let guest = writer
        .update(|manifest| {
            let vcpus = vec![VcpuEntry { vcpu: VcpuId(0), vmm_tid: Some(Tid(77)) }];
            let (kind, name) = (MachineKind::Guest, "web1".to_owned());
            let parent = Some(MachineId(0));
            manifest.add_machine(MachineEntry { kind, name, parent, vcpus, ..host() })
        })
        .unwrap();
    let guest_spool = writer.add_source(source(guest.0, "guest-web1.dat")).unwrap();
    describe(&guest_spool);
    guest_spool.append(CpuId(0), &page(9, 2)).unwrap();
    writer
        .gap(Gap { machine_id: guest, from: Some(1), to: None, cause: "guest_stalled".into() })
        .unwrap();
    let at_host = 5;
    writer.evidence(&Evidence::ClockRestart { machine: guest, at_host }).unwrap();
    let _ = writer.finish().unwrap();
    let recording = Recording::open(&dir).unwrap();
    assert_eq!(numbers(&recording.sources[1].bytes), [(0, vec![9, 10])]);
    assert_eq!(recording.manifest.gaps.len(), 1);
    assert_eq!(recording.evidence, [Evidence::ClockRestart { machine: guest, at_host }]);
    let host = TraceDat::parse(&recording.sources[0].bytes).unwrap();
    let pair = &host.options().guests[0];
    assert_eq!(
        (pair.name.as_str(), pair.trace_id, pair.cpus.as_slice()),
        ("web1", 8, &[(0, 77)][..])
    );
}

#[test]
fn trace_cmd_is_told_a_guests_offset_where_kvm_knows_one_that_holds() {
    let shift_of = |offsets: &[(u32, i64)], clock: &str| {
        let (_keep, dir) = scratch();
        let mut manifest = Manifest::new(1_000, Vec::new());
        manifest.add_machine(host());
        let (kind, parent) = (MachineKind::Guest, Some(MachineId(0)));
        let guest = manifest.add_machine(MachineEntry { kind, parent, ..host() });
        let writer = RecordingWriter::create(&dir, manifest).unwrap();
        for (machine, file) in [(0, "host.dat"), (1, "guest-web1.dat")] {
            let entry = SourceEntry { clock: clock.to_owned(), ..source(machine, file) };
            describe(&writer.add_source(entry).unwrap());
        }
        for (vcpu, offset) in offsets {
            writer
                .evidence(&Evidence::TscOffset {
                    machine: guest,
                    parent: MachineId(0),
                    vcpu: VcpuId(*vcpu),
                    offset: *offset,
                    ratio: None,
                    frac_bits: None,
                    at_host: 1,
                })
                .unwrap();
        }
        let _ = writer.finish().unwrap();
        let recording = Recording::open(&dir).unwrap();
        let guest = TraceDat::parse(&recording.sources[1].bytes).unwrap();
        guest.options().time_shift.clone()
    };
    let shift = shift_of(&[(0, -500), (1, -400), (0, -500)], "x86-tsc").unwrap();
    assert_eq!(shift.peer_trace_id, 7);
    assert_eq!((shift.host_from_guest(1000, 0), shift.host_from_guest(1000, 1)), (1500, 1400));
    assert_eq!(shift_of(&[(0, -500), (0, -501)], "x86-tsc"), None, "it moved");
    assert_eq!(shift_of(&[(1, -500)], "x86-tsc"), None, "vCPU 0 is not known");
    assert_eq!(shift_of(&[(0, -500)], "mono"), None, "other clocks");
    assert_eq!(shift_of(&[], "x86-tsc"), None, "nothing is known");
}

#[test]
fn a_source_cut_off_before_it_was_described_is_named_and_the_others_open() {
    let (_keep, dir) = scratch();
    let (writer, spool) = begin(&dir);
    spool.append(CpuId(0), &page(0, 1)).unwrap();
    let _ = writer.add_source(source(0, "guest-early.dat")).unwrap();
    let recording = Recording::open(&dir).unwrap();
    assert_eq!(recording.sources.len(), 1);
    assert!(recording.problems.iter().any(|p| p.message.contains("header_page is missing")));
}

#[test]
fn what_cannot_be_is_refused_with_a_reason() {
    let (_keep, dir) = scratch();
    let (writer, spool) = begin(&dir);
    assert!(matches!(spool.append(CpuId(0), &[0; 100]), Err(StoreError::NotWholePages { .. })));
    assert!(matches!(spool.meta("../../etc/passwd", b""), Err(StoreError::Name { .. })));
    assert!(writer.add_source(source(0, "../x.dat")).is_err());
    let again = RecordingWriter::create(&dir, Manifest::new(0, Vec::new()));
    assert!(matches!(again, Err(StoreError::Exists(_))));
    assert!(matches!(Recording::open(Path::new("/")), Err(StoreError::NotARecording { .. })));
    fs::write(dir.join("manifest.json"), "{\"format\": 99}").unwrap();
    let error = Recording::open(&dir).unwrap_err().to_string();
    assert!(error.contains("version 99") && error.contains("newer transect"), "{error}");
    fs::write(dir.join("manifest.json"), "{\"format\": 1,").unwrap();
    assert!(Recording::open(&dir).unwrap_err().to_string().contains("line 1"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever was appended, wherever the recorder was killed: whole pages are read, in order.
    #[test]
    fn a_kill_anywhere_costs_at_most_the_torn_page(
        counts in prop::collection::vec(1u32..250, 1..6),
        cut in 0usize..5 * PAGE,
    ) {
        let (_keep, dir) = scratch();
        let (_writer, spool) = begin(&dir);
        let mut next = 0;
        for count in &counts {
            spool.append(CpuId(0), &page(next, *count)).unwrap();
            next += count;
        }
        let raw = dir.join("host.cpu0.raw");
        let bytes = fs::read(&raw).unwrap();
        let cut = cut.min(bytes.len());
        fs::write(&raw, &bytes[..cut]).unwrap();
        let whole: u32 = counts.iter().take(cut / PAGE).sum();
        let recording = Recording::open(&dir).unwrap();
        let read: Vec<u32> = numbers(&recording.sources[0].bytes).into_iter().flat_map(|(_, n)| n).collect();
        prop_assert_eq!(read, (0..whole).collect::<Vec<_>>());
    }

    /// A manifest cut anywhere, or with a byte changed, is an error or a manifest; never a panic.
    #[test]
    fn a_broken_manifest_never_panics(at in 0usize..2000, byte in any::<u8>()) {
        let (_keep, dir) = scratch();
        let _begun = begin(&dir);
        let path = dir.join("manifest.json");
        let mut text = fs::read(&path).unwrap();
        // Without its last newline it is still whole.
        let at = at % (text.len() - 1);
        text[at] = byte;
        fs::write(&path, &text).unwrap();
        let _ = Recording::open(&dir);
        fs::write(&path, &text[..at]).unwrap();
        prop_assert!(Recording::open(&dir).is_err());
    }
}
