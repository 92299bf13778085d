#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "random numbers of any size"
)]

use super::{LinesError, Reader, Rendered, push_rendered, write, write_object};
use crate::{
    groups::{ContainerWindow, PressureWindow},
    histogram::Histogram,
    missing::{Metric, Missing},
    rows::TABLES,
    snapshot::{
        ActorWindow, Antagonist, CpuWindow, ExitWindow, Health, IoWindow, Snapshot, ThreadWindow,
        WindowDetail,
    },
};
use proptest::{collection::vec, prelude::*};
use std::collections::HashMap;
use transect_bpf::live::bucket_bounds_ns;
use transect_model::{
    cell::{Cell, Record as _},
    column::{Column, ColumnSource, ColumnType, ColumnValue, Columnar as _},
    exit::{ExitReason, Isa},
    table::{Machine, Window},
};

/// Values of a row, made of random numbers: the same column and number, the same value.
struct Random<'a> {
    numbers: &'a [u64],
    at: usize,
    columns: HashMap<&'static str, Column>,
}

fn words(column: &str) -> &'static [&'static str] {
    match column {
        "kind" => &["read", "write", "xmit", "receive"],
        "role" => &["vcpu", "vmm", "vhost", "thread"],
        "state" => &["running", "preempted", "waking", "asleep", "halted", "gone", "unknown"],
        "metric" => &["exits", "halts", "waking"],
        _ => &["", "a \"quoted\"\\ name", "línea\n\u{1b}[2J\u{0}", "/kubepods.slice/x", "vm-7"],
    }
}

impl ColumnSource for Random<'_> {
    type Error = String;

    fn value<T: ColumnValue>(&mut self, column: &'static str) -> Result<T, String> {
        self.at += 1;
        let number = self.numbers[self.at % self.numbers.len()].rotate_left(self.at as u32);
        if self.columns[column].nullable && number.is_multiple_of(3) {
            return T::from_cell(&Cell::Null).ok_or("null".to_owned());
        }
        let number = number >> 11;
        let reasons = [(Isa::Svm, 0x78), (Isa::Svm, 0x400), (Isa::Vmx, 48), (Isa::Vmx, 0x7777)];
        let (isa, code) = reasons[number as usize % reasons.len()];
        let cell = match T::TYPE {
            ColumnType::I32 => Cell::I64(i64::from(number as u32 as i32)),
            ColumnType::I64 if number.is_multiple_of(2) => Cell::I64(-(number as i64)),
            ColumnType::I64 => Cell::I64(number as i64),
            ColumnType::U32 if column == "machine_id" => Cell::U64(number % 3),
            ColumnType::U32 => Cell::U64(u64::from(number as u32)),
            ColumnType::U64 => Cell::U64(number),
            ColumnType::Text if column == "reason" => Cell::Str(ExitReason { isa, code }.name()),
            ColumnType::Text if column == "kind" && self.columns.contains_key("parent_id") => {
                Cell::Str("guest".into())
            }
            ColumnType::Text => {
                let words = words(column);
                Cell::Str(words[number as usize % words.len()].into())
            }
            other => return Err(format!("{other:?} of {column}")),
        };
        T::from_cell(&cell).ok_or_else(|| format!("{column}: {cell:?}"))
    }
}

fn random<'a>(numbers: &'a [u64], columns: &[Column]) -> Random<'a> {
    Random { numbers, at: 0, columns: columns.iter().map(|c| (c.name, *c)).collect() }
}

fn lengths(numbers: &[u64]) -> Histogram {
    let mut histogram = Histogram::default();
    for number in numbers {
        let bucket = (*number % 98) as usize;
        assert!(histogram.add_from(bucket_bounds_ns(bucket).0, *number >> 40));
    }
    histogram
}

/// A snapshot of random rows, with what is missing as sources leave it: zero, or none.
fn snapshot() -> impl Strategy<Value = Snapshot> {
    let rows = || vec(vec(any::<u64>(), 1..20), 0..4);
    let tables = std::array::from_fn(|_| rows());
    (tables, vec(any::<u64>(), 8), 0..3_usize).prop_map(|(rows, numbers, missing)| {
        let [machines, actors, threads, cpus, exits, antagonists, io, containers, pressure, why]: [_; 10] =
            rows;
        let made = |rows: Vec<Vec<u64>>| rows.into_iter();
        let mut snapshot = Snapshot {
            ts: numbers[0] as i64,
            dur: (numbers[1] >> 11) as i64,
            ended_unix_ns: numbers[2],
            missed_windows: numbers[3] >> 11,
            machines: made(machines)
                .map(|n| Machine::read(&mut random(&n, Machine::TABLE.columns)).unwrap())
                .collect(),
            actors: made(actors)
                .map(|n| ActorWindow {
                    window: Window::read(&mut random(&n, Window::TABLE.columns)).unwrap(),
                    detail: WindowDetail::read(&mut random(&n, WindowDetail::DOC)).unwrap(),
                    waits: lengths(&n),
                })
                .collect(),
            threads: made(threads)
                .map(|n| ThreadWindow::read(&mut random(&n, ThreadWindow::DOC)).unwrap())
                .collect(),
            cpus: made(cpus)
                .map(|n| CpuWindow::read(&mut random(&n, CpuWindow::DOC)).unwrap())
                .collect(),
            exits: made(exits)
                .map(|n| (ExitWindow::read(&mut random(&n, ExitWindow::DOC)).unwrap(), lengths(&n)))
                .collect(),
            antagonists: made(antagonists)
                .map(|n| Antagonist::read(&mut random(&n, Antagonist::DOC)).unwrap())
                .collect(),
            io: made(io)
                .map(|n| (IoWindow::read(&mut random(&n, IoWindow::DOC)).unwrap(), lengths(&n)))
                .collect(),
            containers: made(containers)
                .map(|n| {
                    let row = ContainerWindow::read(&mut random(&n, ContainerWindow::DOC));
                    (row.unwrap(), lengths(&n))
                })
                .collect(),
            pressure: made(pressure)
                .map(|n| PressureWindow::read(&mut random(&n, PressureWindow::DOC)).unwrap())
                .collect(),
            missing: made(why)
                .take(missing)
                .map(|n| Missing::read(&mut random(&n, Missing::DOC)).unwrap())
                .collect(),
            health: Health::read(&mut random(&numbers, Health::DOC)).unwrap(),
        };
        lack(&mut snapshot);
        snapshot
    })
}

/// What sources do with columns that they lack.
fn lack(snapshot: &mut Snapshot) {
    let lacks = |snapshot: &Snapshot, metric: Metric, of| snapshot.lacks(metric.columns()[0], of);
    let told = snapshot.clone();
    for actor in &mut snapshot.actors {
        if lacks(&told, Metric::Exits, actor.window.machine_id) {
            actor.window.exits = 0;
        }
        if lacks(&told, Metric::Halts, actor.detail.machine_id) {
            let detail = &mut actor.detail;
            (detail.halts, detail.halts_polled, detail.poll_ns) = (0, 0, 0);
        }
        if lacks(&told, Metric::Waking, actor.detail.machine_id) {
            actor.detail.waking_ns = 0;
        }
    }
    for (row, _) in &mut snapshot.containers {
        if lacks(&told, Metric::Exits, row.machine_id) {
            row.exits = 0;
        }
        if lacks(&told, Metric::Waking, row.machine_id) {
            row.waking_ns = 0;
        }
    }
    for thread in &mut snapshot.threads {
        let of = thread.vm_machine_id.unwrap_or(thread.machine_id);
        if lacks(&told, Metric::Exits, of) {
            thread.exits = 0;
        }
        if lacks(&told, Metric::Waking, of) {
            thread.waking_ns = 0;
        }
    }
}

fn text(snapshots: &[Snapshot]) -> Vec<u8> {
    let mut text = Vec::new();
    for snapshot in snapshots {
        write(snapshot, &mut text).unwrap();
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_is_written_is_read_again(snapshots in vec(snapshot(), 0..4)) {
        let text = text(&snapshots);
        let read: Result<Vec<_>, _> = Reader::new(text.as_slice()).collect();
        prop_assert_eq!(read.unwrap(), snapshots);
    }

    /// What was rendered table by table gives the same lines, and the same objects.
    #[test]
    fn rendered_tables_are_the_lines_that_are_written(snapshot in snapshot()) {
        let tables = TABLES.map(|table| Rendered::table(&snapshot, table));
        let mut lines = Vec::new();
        let named: Vec<_> = TABLES.into_iter().zip(&tables).collect();
        push_rendered(&snapshot, &named, &mut lines);
        let lines = String::from_utf8(lines).unwrap();
        prop_assert_eq!(lines, String::from_utf8(text(std::slice::from_ref(&snapshot))).unwrap());
        let mut object = Vec::new();
        write_object(&snapshot, &TABLES, &mut object).unwrap();
        let object: serde_json::Value = serde_json::from_slice(&object).unwrap();
        for (name, rendered) in TABLES.iter().zip(&tables) {
            let rendered: serde_json::Value = serde_json::from_slice(&rendered.json()).unwrap();
            prop_assert_eq!(&rendered, &object[name]);
        }
    }

    /// What cannot be had is asked once for all machines alike: as if it were asked for every cell.
    #[test]
    fn a_cell_is_null_where_its_machine_lacks_it(snapshot in snapshot()) {
        let mut wanted = Vec::new();
        for actor in &snapshot.actors {
            actor.window.each_cell(&mut |name, cell| {
                let lacks = snapshot.lacks(name, actor.window.machine_id);
                wanted.push(format!("{name} {:?}", if lacks { Cell::Null } else { cell }));
            });
        }
        let mut given = Vec::new();
        let Ok(()) = snapshot.each_row_of::<std::convert::Infallible>("windows", |row, _| {
            row.each_cell(&mut |name, cell| given.push(format!("{name} {cell:?}")));
            Ok(())
        });
        prop_assert_eq!(given, wanted);
        let mut rows = 0;
        let Ok(()) = snapshot.each_row::<std::convert::Infallible>(|_, _| { rows += 1; Ok(()) });
        prop_assert_eq!(rows, snapshot.rows());
    }

    /// Whole windows before the cut come as they are, then it is told, once; nothing is made up.
    #[test]
    fn a_cut_log_is_read_to_its_last_whole_window(
        snapshots in vec(snapshot(), 1..4), at in any::<prop::sample::Index>()
    ) {
        let text = text(&snapshots);
        let at = at.index(text.len());
        let ends: Vec<usize> = (1..=snapshots.len()).map(|n| self::text(&snapshots[..n]).len()).collect();
        // The last line's end is no part of what it says.
        let whole = ends.iter().filter(|end| **end <= at + 1).count();
        let is_between = at == 0 || ends.iter().any(|end| (*end..=end + 1).contains(&(at + 1)));
        let mut read = Reader::new(&text[..at]);
        for snapshot in &snapshots[..whole] {
            prop_assert_eq!(&read.next().unwrap().unwrap(), snapshot);
        }
        match read.next() {
            None => prop_assert!(is_between),
            Some(Err(LinesError::Cut { .. })) => prop_assert!(!is_between),
            other => prop_assert!(false, "{:?}", other),
        }
        prop_assert!(read.next().is_none());
    }

    /// Whatever happens to a log: no panic, an end, and every error has a line number of the log.
    #[test]
    fn damage_is_told_with_its_line(
        snapshots in vec(snapshot(), 1..4),
        damage in vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 1..6)
    ) {
        let mut text = text(&snapshots);
        for (at, byte, removes) in damage {
            let at = at.index(text.len());
            if removes { text.remove(at); } else { text[at] = byte; }
        }
        let lines = text.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
        let mut sum: Option<Snapshot> = None;
        for read in Reader::new(text.as_slice()).take(100) {
            match read {
                Ok(window) => match &mut sum {
                    Some(sum) => sum.extend(&window),
                    None => sum = Some(window),
                },
                Err(LinesError::Io { line, .. } | LinesError::Broken { line, .. }
                    | LinesError::Cut { line, .. }) => prop_assert!((1..=lines + 1).contains(&line)),
            }
        }
    }
}

fn of(ts: i64) -> Snapshot {
    Snapshot { ts, dur: 7, missed_windows: 1, ..Snapshot::default() }
}

fn read(text: &[u8]) -> Vec<Result<i64, String>> {
    Reader::new(text)
        .map(|read| read.map(|window| window.ts).map_err(|error| error.to_string()))
        .collect()
}

#[test]
fn a_log_goes_on_behind_one_that_was_cut() {
    let (first, second) = (text(&[of(1), of(2)]), text(&[of(3)]));
    let mut log = first[..first.len() - 30].to_vec();
    log.push(b'\n');
    log.extend(&second);
    let got = read(&log);
    assert_eq!((got.len(), &got[0], &got[2]), (3, &Ok(1), &Ok(3)), "{got:?}");
    assert!(got[1].as_ref().unwrap_err().starts_with("line 4: not a JSON object ("), "{got:?}");
    // Without the half line, it is where the next one begins.
    let mut log = text(&[of(1)]);
    log.truncate(log.iter().position(|byte| *byte == b'\n').unwrap() + 1);
    log.extend(&second);
    let got = read(&log);
    assert_eq!(got[1], Ok(3));
    assert!(got[0].as_ref().unwrap_err().contains("line 2: the log ends inside a window (0 of 1"));
}

#[test]
fn other_files_are_told_apart_at_once() {
    let error = |text: &[u8]| read(text)[0].clone().unwrap_err();
    assert!(error(b"\x7fELF\n").starts_with("line 1: not a JSON object"));
    assert!(error(b"[1]\n").contains("not a JSON object"));
    assert!(error(b"{\"a\":1}\n").contains("\"table\""));
    assert!(error(b"\n{\"table\":\"windows\"}\n").starts_with("line 2: a row outside a window"));
    assert!(error(&vec![b'{'; 3 << 20]).contains("1 MiB"));
    assert_eq!(read(b""), []);
    assert_eq!(read(b"\n \n"), []);
}

#[test]
fn rows_must_be_what_they_say() {
    let good = String::from_utf8(text(&[of(5)])).unwrap();
    let error = |from: &str, to: &str| {
        assert!(good.contains(from), "{good}");
        read(good.replace(from, to).as_bytes())[0].clone().unwrap_err()
    };
    assert!(error("\"rows\":1}", "\"rows\":0}").contains("a window cannot have 0 rows"));
    assert!(
        error("\"late_threads\":0", "\"late_threads\":-1")
            .contains("invalid value of \"late_threads\": -1")
    );
    assert!(
        error("\"late_threads\":0", "\"late_threads\":null")
            .contains("no row of table \"missing\"")
    );
    assert!(error(",\"dur\":7,\"ended", ",\"ended").contains("\"dur\" must be a number"));
    assert!(error("\"no_room\":0", "\"no_room\":9007199254740993").contains("no_room"));
    let error = error("{\"table\":\"health\"", "{\"table\":\"exit_windows\",\"lengths\":[[3,1]]");
    assert!(error.starts_with("line 2: exit_windows: column \"reason\" is missing"), "{error}");
}

#[test]
fn a_column_that_a_log_does_not_have_is_missing_in_it() {
    let good = String::from_utf8(text(&[of(5)])).unwrap();
    let older = good.replace("\"late_threads\":0,", "");
    let window = Reader::new(older.as_bytes()).next().unwrap().unwrap();
    assert!(window.lacks("late_threads", transect_model::ids::MachineId(0)));
    assert!(window.missing[0].why.contains("another version"));
}

/// One row without a column makes it missing in all: what the others have there is nowhere shown, and nothing is made of it.
#[test]
fn values_of_a_missing_column_are_dropped() {
    let row = |seed| {
        let detail = WindowDetail::read(&mut random(&[seed], WindowDetail::DOC)).unwrap();
        let window = Window::read(&mut random(&[seed], Window::TABLE.columns)).unwrap();
        ActorWindow { window, detail, waits: Histogram::default() }
    };
    let mut rows = vec![row(8), row(9)];
    (rows[0].window.waited_ns, rows[1].window.waited_ns) = (0, 4711);
    let good = String::from_utf8(text(&[Snapshot { actors: rows, ..of(5) }])).unwrap();
    assert!(good.contains("\"waited_ns\":4711"));
    let older = good.replacen("\"waited_ns\":0,", "", 1);
    let window = Reader::new(older.as_bytes()).next().unwrap().unwrap();
    assert!(window.lacks("waited_ns", transect_model::ids::MachineId(0)));
    assert_eq!(window.actors[1].window.waited_ns, 0);
    let told = text(std::slice::from_ref(&window));
    assert_eq!(Reader::new(told.as_slice()).next().unwrap().unwrap(), window);
}

#[test]
fn null_is_read_where_it_is_missing_and_nowhere_else() {
    let detail = WindowDetail::read(&mut random(&[8], WindowDetail::DOC)).unwrap();
    let window = Window::read(&mut random(&[8], Window::TABLE.columns)).unwrap();
    let mut row = ActorWindow { window, detail, waits: Histogram::default() };
    (row.detail.halts, row.detail.halts_polled, row.detail.poll_ns) = (0, 0, 0);
    let missing = vec![Missing::everywhere(Metric::Halts, "needs \"kvm_vcpu_wakeup\"")];
    let told = Snapshot { actors: vec![row], missing, ..of(5) };
    let text = String::from_utf8(text(std::slice::from_ref(&told))).unwrap();
    assert!(text.contains("\"halts\":null"));
    assert_eq!(Reader::new(text.as_bytes()).next().unwrap().unwrap(), told);
    let other = text.replace("\"metric\":\"halts\"", "\"metric\":\"exits\"");
    let error = read(other.as_bytes())[0].clone().unwrap_err();
    assert!(
        error.starts_with("line 3: \"halts\" is null, and no row of table \"missing\""),
        "{error}"
    );
}

#[test]
fn an_object_has_the_tables_that_are_asked_for() {
    let missing = vec![Missing::everywhere(Metric::Exits, "needs \"kvm_exit\"")];
    let snapshot = Snapshot { missing, ..of(5) };
    let object = |tables: &[&str]| -> serde_json::Value {
        let mut out = Vec::new();
        write_object(&snapshot, tables, &mut out).unwrap();
        serde_json::from_slice(&out).unwrap()
    };
    let all = object(&TABLES);
    assert_eq!(
        (&all["ts"], &all["dur"], &all["missed_windows"]),
        (&5.into(), &7.into(), &1.into())
    );
    for table in TABLES {
        assert!(all[table].is_array() || table == "health", "{table}");
    }
    assert_eq!(all["missing"][0]["why"], "needs \"kvm_exit\"");
    assert_eq!(all["health"]["late_threads"], 0);
    let some = object(&["missing", "windows"]);
    assert!(some["windows"].is_array() && some.get("health").is_none());
}
