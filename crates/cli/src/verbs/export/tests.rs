//! Exports of the sample tables; the Perfetto trace is checked by Perfetto's own schema.

use super::jsonl::JsonLines;
use crate::output::Output;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use transect_model::ids::{CpuId, MachineId};
use transect_model::table::{Lost, Row, TableSink};
use transect_report::sample;

fn lost(count: Option<u64>) -> Row {
    Row::Lost(Lost {
        ts: -3,
        dur: i64::MAX,
        machine_id: MachineId(1),
        cpu: Some(CpuId(2)),
        count,
        cause: "buffer_overrun".to_owned(),
    })
}

#[test]
fn a_row_is_a_line_with_its_tables_name() {
    let mut sink = JsonLines::new(Vec::new());
    sink.row(lost(Some(u64::MAX)));
    sink.row(lost(None));
    let (rows, bytes) = sink.finish().unwrap();
    assert_eq!(rows, 2);
    assert_eq!(
        String::from_utf8(bytes).unwrap().lines().next().unwrap(),
        "{\"table\":\"lost\",\"ts\":-3,\"dur\":9223372036854775807,\"machine_id\":1,\"cpu\":2,\
         \"count\":18446744073709551615,\"cause\":\"buffer_overrun\"}"
    );
}

struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::Error::from(io::ErrorKind::StorageFull))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_told_at_the_end() {
    let mut sink = JsonLines::new(Full);
    sink.row(lost(None));
    assert_eq!(sink.finish().err().unwrap().kind(), io::ErrorKind::StorageFull);
}

#[test]
fn a_file_appears_only_when_it_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out.jsonl");
    let mut output = Output::create(&path).unwrap();
    output.write_all(b"half").unwrap();
    assert!(!path.exists());
    drop(output);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    let mut output = Output::create(&path).unwrap();
    output.write_all(b"whole").unwrap();
    output.finish().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"whole");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

fn write_both(dir: &Path) {
    let tables = sample::tables();
    let trace = std::fs::File::create(dir.join("sample.pftrace")).unwrap();
    let written = transect_perfetto::timeline::write(&tables, "ns", trace).unwrap();
    assert_eq!(written.shift_ns, 50, "the interrupt before trace time 0");
    let lines = std::fs::File::create(dir.join("sample.jsonl")).unwrap();
    let mut sink = JsonLines::new(io::BufWriter::new(lines));
    sample::rows(tables).into_iter().for_each(|row| sink.row(row));
    sink.finish().unwrap().1.flush().unwrap();
}

/// The Python with Perfetto's schema, which `make setup` installs; none in a bare `cargo test`.
fn python(script: &str, dir: &Path) -> Option<std::process::Output> {
    let python = std::env::var_os("TRANSECT_PYTHON")?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(python)
        .arg(root.join("tests/perfetto").join(script))
        .args([dir.join("sample.pftrace"), dir.join("sample.jsonl")])
        .output();
    Some(output.unwrap())
}

fn assert_passes(script: &str) {
    let dir = tempfile::tempdir().unwrap();
    write_both(dir.path());
    let Some(output) = python(script, dir.path()) else {
        println!("skipped: TRANSECT_PYTHON is not set (make test sets it)");
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let erred = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{erred}");
    print!("{said}");
}

/// Tier `make test`: beside Perfetto's own schema.
mod host {
    use super::*;

    #[test]
    fn the_trace_keeps_to_perfettos_schema_and_to_the_tables() {
        assert_passes("check.py");
    }

    #[test]
    fn the_check_notices_every_alteration() {
        assert_passes("test_check.py");
    }
}
