//! How fast rows become Parquet, beside the least that could be done with them: their bytes written
//! to a file as they are. `cargo bench --profile release -p transect-store --bench tables`.
#![allow(clippy::disallowed_methods, reason = "the benchmark makes files as other programs do")]
#![allow(missing_docs, reason = "criterion's macros make undocumented functions")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a bench that cannot run has nothing to say"
)]
#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "small numbers")]

use criterion::{BatchSize, Criterion, Throughput, criterion_group};
use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::process::ExitCode;
use transect_model::exit::{ExitReason, Isa};
use transect_model::ids::{CpuId, MachineId, Tid, VcpuId};
use transect_model::interrupt::Context;
use transect_model::state::{EffectiveState, ThreadState};
use transect_model::table::{Exit, Row, TableSink, ThreadStateRow};
use transect_store::tables::TablesWriter;

const ROWS: u64 = 2_000_000;

/// Numbers that repeat as little as those of a real recording (splitmix64).
fn noise(at: u64) -> u64 {
    let z = at.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 31)
}

/// 4 CPUs, 200 threads, rows in order of their ends.
fn thread_state(at: u64) -> ThreadStateRow {
    let (noise, dur) = (noise(at), 500 + noise(at ^ 1) % 60_000);
    let state = [ThreadState::Running, ThreadState::Runnable, ThreadState::Blocked];
    let state = state[(noise >> 8) as usize % 3];
    ThreadStateRow {
        ts: (at * 800 - dur.min(at * 800)) as i64,
        dur: dur as i64,
        machine_id: MachineId(0),
        tid: Tid(1000 + (noise % 200) as i32),
        cpu: Some(CpuId((noise >> 16) as u32 % 4)),
        state,
        effective: (state == ThreadState::Running && noise & 1 == 0)
            .then_some(EffectiveState::Running),
        reason: (state == ThreadState::Blocked).then_some('S'),
        waker_tid: (state == ThreadState::Runnable)
            .then_some(Tid(1000 + (noise >> 24) as i32 % 200)),
        waker_context: (state == ThreadState::Runnable).then_some(Context::Task),
    }
}

fn exit(at: u64) -> Exit {
    let (noise, dur) = (noise(at), 900 + noise(at ^ 1) % 20_000);
    Exit {
        ts: (at * 800 - dur.min(at * 800)) as i64,
        dur: Some(dur as i64),
        handling_ns: Some((dur / 2) as i64),
        machine_id: MachineId(1),
        vcpu: VcpuId((noise >> 8) as u32 % 4),
        reason: ExitReason { isa: Isa::Svm, code: [0x78, 0x81, 0x400, 0x7b][noise as usize % 4] },
        rip: 0xffff_ffff_8100_0000 + (noise >> 40) % 300 * 64,
        to_user: noise & 15 == 0,
        detail: None,
    }
}

fn write(rows: Vec<Row>) {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = TablesWriter::create(dir.path(), 2).unwrap();
    rows.into_iter().for_each(|row| writer.row(row));
    black_box(writer.finish().unwrap());
}

fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("tables");
    group.sample_size(10).throughput(Throughput::Elements(ROWS));
    let states = || (0..ROWS).map(|at| Row::ThreadState(thread_state(at))).collect();
    group.bench_function("thread_states", |b| {
        b.iter_batched(states, write, BatchSize::PerIteration);
    });
    let exits = || (0..ROWS).map(|at| Row::Exit(exit(at))).collect();
    group.bench_function("exits", |b| b.iter_batched(exits, write, BatchSize::PerIteration));
    let bytes = || (0..ROWS).map(|at| (thread_state(at).ts, at, at, at, at, at)).collect();
    group.bench_function("floor: 48 bytes a row written raw", |b| {
        b.iter_batched(bytes, raw, BatchSize::PerIteration);
    });
    group.finish();
}

/// As many bytes as a row has in memory, through a buffer into a file.
fn raw(rows: Vec<(i64, u64, u64, u64, u64, u64)>) {
    let dir = tempfile::tempdir().unwrap();
    let mut file = BufWriter::new(File::create(dir.path().join("raw")).unwrap());
    for (a, b, c, d, e, f) in &rows {
        file.write_all(&a.to_le_bytes()).unwrap();
        [b, c, d, e, f].iter().for_each(|v| file.write_all(&v.to_le_bytes()).unwrap());
    }
    file.into_inner().unwrap().sync_data().unwrap();
}

criterion_group!(benches, bench);
fn main() -> ExitCode {
    if cfg!(debug_assertions) {
        eprintln!("built as tests are: use `cargo bench --profile release`");
        return ExitCode::from(2);
    }
    benches();
    Criterion::default().configure_from_args().final_summary();
    ExitCode::SUCCESS
}
