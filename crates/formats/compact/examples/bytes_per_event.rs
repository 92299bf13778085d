//! Bytes per event of the same events as ftrace pages and as compact, before and after zstd.
//!
//! `cargo run --release -p transect-compact --example bytes_per_event -- trace.dat [OUT.compact]`
//!
//! The events of every CPU of a trace.dat go through the log writer as the collector would have
//! written them. "zstd" is level 3: of the ftrace pages, each CPU's as one stream; of compact, as
//! `repack` stores it. Events without a record (`sched_wakeup`) count for ftrace only.
#![allow(clippy::print_stdout, clippy::cast_precision_loss, reason = "it prints its measurements")]

use std::{error::Error, fs, time::Instant};
use transect_compact::{
    BlockWriter, Carried, Compact, FileHeader, LogId, LogWriter, Names, Totals,
};
use transect_ftrace::{CoreDecoder, Page};
use transect_model::{
    exit::Isa,
    ids::{CpuId, Tid},
};
use transect_tracedat::{Item, TraceDat};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("which trace.dat?")?;
    let bytes = fs::read(&path)?;
    let trace = TraceDat::parse(&bytes)?;
    let core = CoreDecoder::new(trace.events());
    let mut file = BlockWriter::new(Vec::new(), &FileHeader::new(64, Isa::Svm, ""))?;
    let mut names = Names::default();
    let (mut events, mut carried, mut page_bytes, mut page_zstd) = (0_u64, 0_u64, 0, 0);
    let mut log_bytes = 0;
    for buffer in trace.buffers() {
        for cpu in buffer.cpus() {
            let mut pages = Vec::new();
            let mut stream = trace.stream(buffer, cpu).ok_or("no stream")?;
            while let Some(page) = stream.next_page() {
                let page = page.map_err(|problem| problem.to_string())?;
                if Page::new(page, &buffer.layout).next().is_some() {
                    pages.extend_from_slice(page);
                }
            }
            page_bytes += pages.len();
            page_zstd += zstd::bulk::compress(&pages, 3)?.len();
            let mut log = LogWriter::new(LogId { cpu: CpuId(cpu), side: 0 });
            let mut stream = trace.stream(buffer, cpu).ok_or("no stream")?;
            while let Some(item) = stream.next() {
                let Item::Event { ts, payload } = item else { continue };
                events += 1;
                let Some(event) = core.decode(payload) else { continue };
                names.learn(&event);
                let tid = trace.events().tid_of(payload).unwrap_or(Tid::IDLE);
                let written = log.event(ts.get(), tid, &event, &mut file)?;
                carried += u64::from(written != Carried::No);
            }
            log.finish(&mut file)?;
            log_bytes += log.position();
        }
    }
    file.names(&names)?;
    let file = file.finish(&Totals::default())?;
    let start = Instant::now();
    let packed = transect_compact::repack(&file, Vec::new())?;
    let took = start.elapsed();
    let per = |bytes: usize, events: u64| bytes as f64 / events as f64;
    println!("{events} events, {carried} of them as compact records");
    println!(
        "ftrace pages   {:6.2} B/event, zstd {:5.3}",
        per(page_bytes, events),
        per(page_zstd, events)
    );
    println!(
        "compact        {:6.2} B/event, zstd {:5.3}",
        per(usize::try_from(log_bytes)?, carried),
        per(packed.len(), carried)
    );
    println!(
        "after zstd, compact is {:.3} of ftrace; packing took {:.0} ns/event",
        per(packed.len(), carried) / per(page_zstd, events),
        took.as_secs_f64() * 1e9 / carried as f64
    );
    let start = Instant::now();
    let mut count = 0_u64;
    let compact = Compact::parse(&packed)?;
    let mut items = Vec::new();
    for cpu in compact.cpus() {
        let Some(mut stream) = compact.stream(cpu) else { continue };
        while stream.next_batch(&mut items, 1024) {
            count += items.len() as u64;
            items.clear();
        }
    }
    println!(
        "reading it took {:.1} ns/event ({count})",
        start.elapsed().as_secs_f64() * 1e9 / carried as f64
    );
    if let Some(out) = arguments.next() {
        fs::write(out, &file)?;
    }
    Ok(())
}
