//! The events tables: every record of real recordings once, field by field, in order of time.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "tests and their helpers: a failure is what they are for; numbers are small"
)]

use crate::read;

use read::{Value, files};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use transect_clock::evidence::RateSource;
use transect_clock::{ClockGraph, ClockOptions, Evidence};
use transect_compact::{BlockWriter, Compact, FileHeader, LogId, LogWriter, Totals};
use transect_ftrace::value::Value as FieldValue;
use transect_model::cell::Cell;
use transect_model::event::{Comm, CoreEvent, PrevState};
use transect_model::exit::{ExitReason, Isa};
use transect_model::ids::{CpuId, MachineId, Tid, VcpuId};
use transect_store::tables::{EventSource, SourceEvents, write_events};
use transect_tracedat::{Item, TraceDat};

fn recordings() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/succeed/tracedat");
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|ext| ext == "dat")).collect();
    found.sort();
    assert!(found.len() > 10);
    found
}

fn clocks(dat: &TraceDat<'_>) -> ClockGraph {
    let clock = dat.buffers().first().map(|buffer| buffer.clock.clone()).unwrap_or_default();
    let machine = MachineId(0);
    let mut evidence = vec![Evidence::Reference { machine, clock }];
    if let Some(rate) = dat.options().tsc2nsec {
        evidence.push(Evidence::TscRate {
            machine,
            mult: rate.mult,
            shift: rate.shift,
            offset_ns: 0,
            how: RateSource::Tsc2nsec,
            error_ppm: 0.0,
        });
    }
    ClockGraph::from_evidence(&evidence, ClockOptions::default()).unwrap()
}

/// What one row of an event should be: ts, cpu, tid, and the own fields that are there.
type Row = (i64, u32, i32, BTreeMap<String, Value>);

/// What the decoder says the file holds, event by event, without any of our writer's code.
fn expected(dat: &TraceDat<'_>, clocks: &ClockGraph) -> BTreeMap<String, Vec<Row>> {
    let mut events: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    let clock = clocks.clock(MachineId(0)).to_owned();
    let buffers = dat.buffers().iter().filter(|b| b.clock.is_empty() || b.clock == clock);
    for buffer in buffers {
        for cpu in buffer.cpus() {
            let mut converter = clocks.converter(MachineId(0), CpuId(cpu)).unwrap();
            let mut stream = dat.stream(buffer, cpu).unwrap();
            while let Some(item) = stream.next() {
                let Item::Event { ts, payload } = item else { continue };
                let Some(format) = dat.events().event_of(payload) else { continue };
                let ts = converter.follow(ts).unwrap().get();
                let fields = dat
                    .events()
                    .values(payload)
                    .filter_map(|(field, value)| Some((field.name.to_string(), cell(&value?))));
                let row = (ts, cpu, dat.events().tid_of(payload).unwrap().0, fields.collect());
                events.entry(format.name.to_string()).or_default().push(row);
            }
        }
    }
    events
}

fn cell(value: &FieldValue<'_>) -> Value {
    match value {
        FieldValue::I64(v) => Cell::I64(*v),
        FieldValue::U64(v) | FieldValue::Pointer(v) => Cell::U64(*v),
        FieldValue::Bool(v) => Cell::Bool(*v),
        FieldValue::Str(v) => Cell::Str(String::from_utf8_lossy(v).into_owned().into()),
        FieldValue::Bytes(v) => {
            Cell::Str(v.iter().map(|b| format!("{b:02x}")).collect::<String>().into())
        }
        FieldValue::Array(array) => {
            let items: Vec<String> = array
                .iter()
                .map(|item| match item {
                    FieldValue::I64(v) => v.to_string(),
                    FieldValue::U64(v) => v.to_string(),
                    other => panic!("{other:?} in an array"),
                })
                .collect();
            Cell::Str(format!("[{}]", items.join(",")).into())
        }
        FieldValue::CpuMask(mask) => {
            let cpus: Vec<u32> = mask.cpus().collect();
            Cell::Str(cpu_list(&cpus).into())
        }
    }
}

/// `0-3,8`, the slow way: each CPU that begins a range, with the CPU that ends it.
fn cpu_list(cpus: &[u32]) -> String {
    let has = |cpu: u32| cpus.contains(&cpu);
    let begins = |cpu: u32| has(cpu) && (cpu == 0 || !has(cpu - 1));
    let ranges = (0..8192).filter(|cpu| begins(*cpu)).map(|first| {
        let last = (first..).find(|cpu| !has(cpu + 1)).unwrap();
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    });
    ranges.collect::<Vec<_>>().join(",")
}

/// What the files hold, event by event.
fn written(dir: &Path) -> BTreeMap<String, Vec<Row>> {
    let mut events: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    for path in files(&dir.join("events")) {
        let folder = path.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
        let rows = read::rows(&path).into_iter().map(row).collect::<Vec<_>>();
        assert!(rows.is_sorted_by_key(|row| row.0), "{}", path.display());
        let name = folder.strip_prefix("name=").unwrap();
        events.entry(name.to_owned()).or_default().extend(rows);
    }
    events
}

fn row(cells: Vec<(String, Value)>) -> Row {
    let mut cells = cells.into_iter();
    let mut next = |name: &str| {
        let (found, value) = cells.next().unwrap();
        assert_eq!(found, name);
        value
    };
    let (Cell::I64(ts), Cell::U64(machine)) = (next("ts"), next("machine_id")) else { panic!() };
    let (Cell::U64(cpu), Cell::I64(tid)) = (next("cpu"), next("tid")) else { panic!() };
    assert_eq!(machine, 0);
    let own = cells
        .filter(|(_, value)| *value != Cell::Null)
        .map(|(name, value)| (name.strip_prefix("arg_").map(str::to_owned).unwrap_or(name), value));
    (ts, cpu as u32, tid as i32, own.collect())
}

fn sorted(mut events: BTreeMap<String, Vec<Row>>) -> BTreeMap<String, Vec<Row>> {
    for rows in events.values_mut() {
        rows.sort_by_key(|row| format!("{row:?}"));
    }
    events
}

/// Every record of every recording there is for tests: both byte orders, 32 and 64 bits, instances,
/// lost events, compressed or not.
#[test]
fn every_record_is_there_once_with_every_field() {
    let mut total = 0;
    for path in recordings() {
        let bytes = fs::read(&path).unwrap();
        let dat = TraceDat::parse(&bytes).unwrap();
        let clocks = clocks(&dat);
        let dir = tempfile::tempdir().unwrap();
        let sources = [EventSource { machine: MachineId(0), events: SourceEvents::Dat(&dat) }];
        let rows = write_events(dir.path(), &sources, &clocks, |_| {}).unwrap().rows;
        let expected = expected(&dat, &clocks);
        let counts =
            expected.iter().map(|(name, rows)| (format!("events/{name}"), rows.len() as u64));
        assert_eq!(rows, counts.collect(), "{}", path.display());
        total += rows.values().sum::<u64>();
        let (written, expected) = (sorted(written(dir.path())), sorted(expected));
        for (name, rows) in &expected {
            for (ours, theirs) in written[name].iter().zip(rows) {
                assert_eq!(ours, theirs, "{name} of {}", path.display());
            }
        }
    }
    assert!(total > 10_000, "{total} records");
}

fn mono() -> ClockGraph {
    let reference = Evidence::Reference { machine: MachineId(0), clock: "mono".into() };
    ClockGraph::from_evidence(&[reference], ClockOptions::default()).unwrap()
}

/// A compact file of one CPU with these events.
fn compact(events: &[(u64, i32, CoreEvent)]) -> Vec<u8> {
    let mut file = BlockWriter::new(Vec::new(), &FileHeader::new(1, Isa::Svm, "")).unwrap();
    let mut log = LogWriter::new(LogId { cpu: CpuId(0), side: 0 });
    for (ns, tid, event) in events {
        log.event(*ns, Tid(*tid), event, &mut file).unwrap();
    }
    log.finish(&mut file).unwrap();
    file.finish(&Totals::default()).unwrap()
}

/// Core events are under the names and columns of their tracepoints; folded ones are two.
#[test]
fn compact_events_look_like_their_tracepoints() {
    let reason = ExitReason { isa: Isa::Svm, code: 0x78 };
    let exit = |rip| CoreEvent::KvmExit { vcpu: Some(VcpuId(1)), reason, rip, info1: 9, info2: 0 };
    let file = compact(&[
        (1_000, 7, exit(0xffff_8000_0000_1234)),
        (1_500, 7, CoreEvent::KvmEntry { vcpu: Some(VcpuId(1)), rip: None }),
        (2_000, 7, CoreEvent::IrqEntry { irq: 30, name: Comm::default() }),
        (2_100, 7, CoreEvent::IrqExit { irq: 30, handled: true }),
        (2_200, 7, CoreEvent::TaskRename { tid: Tid(7), new_comm: Comm::new(b"worker") }),
    ]);
    let file = Compact::parse(&file).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let sources = [EventSource { machine: MachineId(0), events: SourceEvents::Compact(&file) }];
    let rows = write_events(dir.path(), &sources, &mono(), |_| {}).unwrap().rows;
    assert_eq!(rows.values().sum::<u64>(), 5, "{rows:?}");
    let written = written(dir.path());
    let only = |name: &str| {
        let [row] = &written[name][..] else { panic!("{name}: {:?}", written[name]) };
        row.clone()
    };
    let (ts, cpu, tid, fields) = only("kvm_exit");
    assert_eq!((ts, cpu, tid), (1_000, 0, 7));
    assert_eq!(fields["exit_reason"], Cell::U64(0x78));
    assert_eq!(fields["guest_rip"], Cell::U64(0xffff_8000_0000_1234));
    assert_eq!(fields["isa"], Cell::U64(2));
    assert_eq!(only("kvm_entry").3["vcpu_id"], Cell::U64(1));
    assert_eq!(only("irq_handler_exit").3["ret"], Cell::I64(1));
    assert_eq!(only("task_rename").3["newcomm"], Cell::Str("worker".into()));
}

/// A machine whose events are in a compact file and in a trace.dat: one table per event, with the
/// columns of both.
#[test]
fn sources_of_different_formats_share_tables() {
    let path = recordings().into_iter().find(|path| path.ends_with("v7-all.dat")).unwrap();
    let bytes = fs::read(path).unwrap();
    let dat = TraceDat::parse(&bytes).unwrap();
    assert_eq!(dat.buffers()[0].clock, "mono");
    let switch = CoreEvent::SchedSwitch {
        prev: Tid(1),
        prev_comm: Comm::default(),
        prev_prio: 120,
        prev_state: PrevState(1),
        next: Tid(2),
        next_comm: Comm::default(),
        next_prio: 120,
    };
    let file = compact(&[(1_000, 1, switch)]);
    let file = Compact::parse(&file).unwrap();
    let clocks = mono();
    let sources = [
        EventSource { machine: MachineId(0), events: SourceEvents::Compact(&file) },
        EventSource { machine: MachineId(0), events: SourceEvents::Dat(&dat) },
    ];
    let dir = tempfile::tempdir().unwrap();
    let counts = write_events(dir.path(), &sources, &clocks, |_| {}).unwrap().rows;
    let rows: Vec<_> = files(&dir.path().join("events/name=sched_switch"))
        .iter()
        .flat_map(|path| read::rows(path))
        .collect();
    assert_eq!(counts["events/sched_switch"], rows.len() as u64);
    let (ours, theirs): (Vec<_>, Vec<_>) =
        rows.iter().partition(|row| row[0].1 == Cell::I64(1_000));
    assert_eq!(ours.len(), 1);
    assert!(theirs.len() > 10, "{} of trace.dat", theirs.len());
    let get = |row: &[(String, Value)], name: &str| {
        row.iter().find(|(column, _)| column == name).map(|(_, value)| value.clone()).unwrap()
    };
    assert_eq!(get(ours[0], "next_pid"), Cell::I64(2));
    assert_eq!(get(ours[0], "next_comm"), Cell::Null);
    assert!(theirs.iter().all(|row| matches!(get(row, "next_comm"), Cell::Str(_))));
}
