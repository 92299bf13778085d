//! Makes the made-up files of `testdata/{succeed,fail}/xentrace`.
//!
//! `cargo run -p transect-xentrace --example xentrace_corpus`, then
//! `TRANSECT_UPDATE=1 cargo test -p transect-xentrace`, and review.

use std::{error::Error, path::Path};
use transect_model::ids::CpuId;
use transect_xentrace::{
    Lost, Runstate, Writer, XenEvent, XenVcpu,
    records::{self, RecordDef},
    word::{CPU_CHANGE_HEAD, LOST_RECORDS, WRAP_BUFFER},
};

type Failed = Box<dyn Error>;

const CPU0: CpuId = CpuId(0);
const CPU1: CpuId = CpuId(1);
const BEGIN_TSC: u64 = 1_000_000;

fn main() -> Result<(), Failed> {
    let testdata = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../testdata");
    let save = |kind: &str, name: &str, file: Vec<u8>| {
        std::fs::write(testdata.join(kind).join("xentrace").join(format!("{name}.bin")), file)
    };
    save("succeed", "every-record", every_record()?)?;
    for (name, file) in broken()? {
        save("fail", name, file)?;
    }
    Ok(())
}

/// Every row of the table: with its fewest and, where that differs, with its most words. A word
/// has its own number in every byte, so that a field taken from the wrong place shows.
fn every_record() -> Result<Vec<u8>, Failed> {
    let mut writer = Writer::new(Vec::new(), 4096);
    let mut tsc = BEGIN_TSC;
    for row in records::all().filter(|row| row.versions.written) {
        if row.id == transect_xentrace::word::CPU_CHANGE {
            continue;
        }
        let mut sizes = vec![row.min_words, row.max_words];
        sizes.dedup();
        for words in sizes {
            tsc += 1_000;
            put(&mut writer, row, tsc, words.into())?;
        }
    }
    Ok(writer.finish()?)
}

fn put(
    writer: &mut Writer<Vec<u8>>,
    row: &RecordDef,
    tsc: u64,
    words: usize,
) -> Result<(), Failed> {
    let mut numbers = [1, 2, 3, 4, 5, 6, 7].map(|number: u32| number * 0x1010_1010 + 0x0102_0304);
    if row.id == LOST_RECORDS {
        numbers[2] = 0x1000;
        numbers[3] = 0;
    }
    if row.name.starts_with("pv_hypercall") {
        // Six arguments of 32 bits, or none.
        numbers[0] = if words > 1 { 0x5550_0014 } else { 0x17 };
    }
    let varying = if row.name == "guest_event" { 0x123 } else { row.varying };
    let stamp = row.stamped.then_some(tsc);
    Ok(writer.record(CPU0, stamp, row.id | varying, &numbers[..words])?)
}

fn vcpu(dom: u16) -> XenVcpu {
    XenVcpu { dom, vcpu: 0 }
}

/// Two windows of CPU 0 and one of CPU 1 between them, of four records each.
fn good() -> Result<Vec<u8>, Failed> {
    let mut writer = Writer::new(Vec::new(), 4096);
    some(&mut writer, CPU0, BEGIN_TSC)?;
    some(&mut writer, CPU1, BEGIN_TSC + 100)?;
    some(&mut writer, CPU0, BEGIN_TSC + 10_000)?;
    Ok(writer.finish()?)
}

fn some(writer: &mut Writer<Vec<u8>>, cpu: CpuId, tsc: u64) -> Result<(), Failed> {
    let vcpu = vcpu(u16::try_from(cpu.0)? + 1);
    let (running, runnable) = (Runstate::Running, Runstate::Runnable);
    for (n, event) in [
        XenEvent::Wake { vcpu },
        XenEvent::RunstateChange { vcpu, old: Runstate::Blocked, new: runnable },
        XenEvent::RunstateChange { vcpu, old: runnable, new: running },
        XenEvent::PvPrivop { rip: 0xffff_ffff_8100_0000 },
    ]
    .iter()
    .enumerate()
    {
        writer.event(cpu, tsc + n as u64 * 500, event)?;
    }
    writer.flush(cpu)?;
    Ok(())
}

/// Bytes of a window of [`some`]: wake 20, two runstates 16 each, privop 20.
const WINDOW: usize = 72;
/// And with its CPU_CHANGE record.
const WHOLE: usize = WINDOW + 12;

fn with_word(mut file: Vec<u8>, at: usize, word: u32) -> Vec<u8> {
    file[at..at + 4].copy_from_slice(&word.to_le_bytes());
    file
}

fn one(tsc: Option<u64>, event: u32, words: &[u32]) -> Result<Vec<u8>, Failed> {
    let mut writer = Writer::new(Vec::new(), 4096);
    some(&mut writer, CPU0, BEGIN_TSC)?;
    writer.record(CPU0, tsc, event, words)?;
    some(&mut writer, CPU0, BEGIN_TSC + 10_000)?;
    Ok(writer.finish()?)
}

fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// Each wrong in one way.
fn broken() -> Result<Vec<(&'static str, Vec<u8>)>, Failed> {
    let good = good()?;
    let (first, rest) = good.split_at(WHOLE);
    let (second, third) = rest.split_at(WHOLE);
    let late = Some(BEGIN_TSC + 5_000);
    let lost =
        Lost { count: 7, from_tsc: BEGIN_TSC + 9_000, to_tsc: BEGIN_TSC + 5_000, current: vcpu(1) };
    let mut backward = Writer::new(Vec::new(), 4096);
    some(&mut backward, CPU0, BEGIN_TSC)?;
    backward.event(CPU0, lost.to_tsc, &XenEvent::Lost(lost))?;
    Ok(vec![
        ("nothing", Vec::new()),
        ("not-xentrace", b"\x7fELF\x02\x01\x01\x00 and more".to_vec()),
        ("old-format", joined(&[&[0, 0, 0, 0], first])),
        ("change-cut", good[..7].to_vec()),
        ("cut-at-record", good[..2 * WHOLE + 12 + 20].to_vec()),
        ("cut-in-record", good[..2 * WHOLE + 12 + 27].to_vec()),
        ("cut-in-later-change", good[..2 * WHOLE + 9].to_vec()),
        ("cpu-99999", with_word(good.clone(), WHOLE + 4, 99_999)),
        (
            "cpu-and-bytes-damaged",
            with_word(with_word(good.clone(), WHOLE + 4, 99_999), WHOLE + 8, 1_000_000),
        ),
        ("window-too-long", with_word(good.clone(), WHOLE + 8, 100)),
        ("window-too-long-for-file", with_word(good.clone(), WHOLE + 8, 1_000_000)),
        ("window-too-short", with_word(good.clone(), WHOLE + 8, 36)),
        ("window-of-half-words", with_word(good.clone(), WHOLE + 8, 37)),
        ("window-of-other-cpu", with_word(joined(&[first, third, second]), 2 * WHOLE + 4, 0)),
        ("change-damaged", with_word(good.clone(), WHOLE, CPU_CHANGE_HEAD ^ 0x100)),
        ("garbage-between", joined(&[first, b"no window at all!", second, third])),
        ("garbage-at-end", joined(&[&good, b"and so it ends"])),
        ("record-over-window", with_word(good.clone(), WHOLE + 12 + 52, 0xf020_1106)),
        ("two-recordings", joined(&[&good, &good])),
        ("time-back", one(Some(BEGIN_TSC - 1), 0x0002_8004, &[1, 0])?),
        ("too-many-words", one(late, 0x0002_8004, &[1, 0, 3, 4, 5, 6, 7])?),
        ("too-few-words", one(late, 0x0002_8004, &[1])?),
        ("dom-too-large", one(late, 0x0002_8004, &[70_000, 0, 0])?),
        ("unknown-event", one(late, 0x0002_2218, &[1, 2, 3])?),
        ("unknown-class", one(late, 0x0100_0001, &[])?),
        ("change-with-stamp", one(late, CPU_CHANGE_HEAD & 0xfff_ffff, &[0, 16])?),
        ("wrap-then-unknown", joined(&[&one(None, WRAP_BUFFER, &[0; 4])?, &[0; 8]])),
        ("lost-backward", backward.finish()?),
    ])
}
