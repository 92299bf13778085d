//! Whatever happens to the files of tables, no reader gives another answer: each gives that of the whole
//! tables, or an error that names a file that was changed.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "tests report by failing, and are of small numbers"
)]

use crate::common;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use transect_integrity::Damage;
use transect_model::exit::{ExitReason, Isa};
use transect_model::ids::{CpuId, MachineId, VcpuId};
use transect_model::state::VcpuState;
use transect_model::table::{Exit, Row, TableSink, VcpuStateRow};
use transect_query::{Database, Options, QueryError};
use transect_store::StoreError;
use transect_store::tables::{Basis, Range, TablesWriter, ensure, read_rows};
use transect_timeline::{Build, TimelineError};

const CASES: u64 = 400;
const ROWS: i64 = 6000;

/// Random numbers that are the same in every run (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

fn rows() -> impl Iterator<Item = Row> {
    let reason = |at: i64| ExitReason { isa: Isa::Svm, code: 0x60 + (at % 5) as u32 };
    (0..ROWS).flat_map(move |at| {
        let (machine_id, ts) = (MachineId(1 + (at % 2) as u32), 1000 + at * 10);
        let exit = Exit {
            ts,
            dur: Some(at * 7919 % 1013),
            handling_ns: None,
            machine_id,
            vcpu: VcpuId(0),
            reason: reason(at),
            rip: at.cast_unsigned() * 31 % 97,
            to_user: at % 3 == 0,
            detail: None,
        };
        let state = VcpuStateRow {
            ts,
            dur: 20,
            machine_id,
            vcpu: VcpuId(0),
            cpu: Some(CpuId(0)),
            state: if at % 4 == 0 { VcpuState::Exit } else { VcpuState::Guest },
            reason: (at % 4 == 0).then(|| reason(at)),
            by_machine_id: None,
            by_tid: None,
        };
        [exit.into(), state.into()]
    })
}

/// Keeps a checksum of all rows.
#[derive(Default)]
struct Sum(Vec<String>);

impl TableSink for Sum {
    fn row(&mut self, row: Row) {
        self.0.push(format!("{row:?}"));
    }
}

/// An answer, or the damage that is the reason for none.
type Told = Result<String, Damage>;

fn by_rows(tables: &Path) -> Told {
    let mut sum = Sum::default();
    match read_rows(tables, Range::ALL, &mut sum) {
        Ok(rows) => Ok(format!("{rows} {:?}", sum.0)),
        Err(StoreError::Damaged(damage)) => Err(damage),
        Err(error) => panic!("{error}"),
    }
}

fn by_sql(tables: &Path) -> Told {
    let ask = || {
        let database = Database::open(tables, &Options { threads: 1, ..Options::default() })?;
        let questions = [
            "SELECT reason, count(*), sum(dur), sum(rip) FROM exits GROUP BY 1 ORDER BY 1",
            "SELECT count(*) FROM vcpu_states",
            "SELECT machine_id, state, sum(dur) FROM vcpu_states WHERE ts > 9000 GROUP BY 1, 2 ORDER BY 1, 2",
        ];
        questions.iter().map(|sql| common::csv(&database, sql)).collect::<Result<String, _>>()
    };
    match ask() {
        Ok(answers) => Ok(answers),
        Err(QueryError::Damaged(damage)) => Err(damage),
        Err(error) => panic!("{error}"),
    }
}

fn by_timeline(tables: &Path) -> Told {
    let parent = tempfile::tempdir().unwrap();
    let build = Build {
        tables,
        parent: parent.path(),
        threads: 1,
        progress: &|_| (),
        partial: &|_| (),
        stop: &AtomicBool::new(false),
    };
    match build.ensure() {
        Ok(view) => Ok(format!("{:?} {:?}", view.tracks(), view.keys())),
        Err(TimelineError::Tables(damage)) => Err(damage),
        Err(error) => panic!("{error}"),
    }
}

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files(&path, found),
            false => found.push(path),
        }
    }
    found.sort();
}

#[test]
fn no_change_of_any_file_gives_another_answer() {
    let dir = tempfile::tempdir().unwrap();
    let basis = Basis::new("test", "", []).unwrap();
    let made = ensure(dir.path(), dir.path(), &basis, |tables, _| {
        let mut writer = TablesWriter::create(tables, 3)?;
        rows().for_each(|row| writer.row(row));
        writer.finish()
    });
    let tables = made.unwrap().path;
    let mut all = Vec::new();
    files(&tables, &mut all);
    assert_eq!(all.len(), 6, "{all:?}");
    let readers = [by_rows, by_sql, by_timeline];
    let whole = readers.map(|read| read(&tables).unwrap());
    let contents: Vec<Vec<u8>> = all.iter().map(|path| fs::read(path).unwrap()).collect();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut answers, mut refusals) = (0, 0);
    for case in 0..CASES {
        let (at, other) = (random.below(all.len()), random.below(all.len()));
        let (path, mut bytes) = (&all[at], contents[at].clone());
        let place = random.below(bytes.len());
        let mut changed = vec![path];
        let what = random.below(8);
        match what {
            0 => bytes.truncate(place),
            1 => bytes.push(0),
            2 => bytes.drain(..place.min(100)).for_each(drop),
            3 if at != other => {
                fs::write(&all[other], &bytes).unwrap();
                bytes.clone_from(&contents[other]);
                changed.push(&all[other]);
            }
            4 => bytes[place..].iter_mut().take(4096).for_each(|byte| *byte = 0),
            _ => bytes[place] ^= 1 << random.below(8),
        }
        match what {
            5 => fs::remove_file(path).unwrap(),
            _ => fs::write(path, &bytes).unwrap(),
        }
        for (read, whole) in readers.iter().zip(&whole) {
            match read(&tables) {
                Ok(answer) => {
                    assert_eq!(answer, *whole, "case {case}: {} at {place}", path.display());
                    answers += 1;
                }
                Err(damage) => {
                    let is_named = changed.contains(&&damage.path);
                    assert!(is_named, "case {case}: {damage}, changed: {changed:?}");
                    refusals += 1;
                }
            }
        }
        for path in changed {
            let at = all.iter().position(|known| known == path).unwrap();
            fs::write(path, &contents[at]).unwrap();
        }
    }
    // What a reader does not read it need not verify.
    assert!(refusals > 2 * answers, "{refusals} refusals, {answers} answers");
    readers.iter().zip(whole).for_each(|(read, whole)| assert_eq!(read(&tables), Ok(whole)));
}
