//! Cuts a recording down to a test file: the first pages of each CPU, the formats of the events
//! that occur in them, no kallsyms.
//!
//! `cargo run -p transect-tracedat --example trim -- IN OUT [PAGES [none|zlib|zstd]]`
#![allow(clippy::print_stderr, reason = "a tool of the developers")]

use std::{
    collections::{BTreeSet, HashMap},
    error::Error,
    fs::File,
    io::{BufWriter, Cursor},
};
use transect_ftrace::{EventFormat, Item, Page};
use transect_tracedat::{BufferSpec, Compression, CpuSpec, FileSpec, TraceDat};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [input, output, rest @ ..] = args.as_slice() else {
        return Err("usage: trim IN OUT [PAGES [none|zlib|zstd]]".into());
    };
    let pages = rest.first().map_or(Ok(2), |text| text.parse())?;
    let compression = rest.get(1).map_or("none", String::as_str);
    let compression = Compression::from_name(compression).ok_or("unknown compression")?;

    let file = std::fs::read(input)?;
    let trace = TraceDat::parse(&file)?;
    let mut data = HashMap::new();
    let mut seen = BTreeSet::new();
    let mut buffers = Vec::new();
    for (at, buffer) in trace.buffers().iter().enumerate() {
        let mut cpus = Vec::new();
        for cpu in buffer.cpus() {
            let bytes = first_pages(&trace, at, cpu, pages, &mut seen)?;
            cpus.push(CpuSpec { cpu, size_bytes: bytes.len() as u64 });
            data.insert((at, cpu), bytes);
        }
        let page_bytes = u32::try_from(buffer.layout.page_bytes)?;
        buffers.push(BufferSpec {
            name: buffer.name.clone(),
            clock: buffer.clock.clone(),
            page_bytes,
            cpus,
        });
    }
    let mut metadata = trace.metadata();
    metadata.kallsyms.clear();
    let long_bytes = trace.events().machine().long_bytes;
    for (system, formats) in &mut metadata.systems {
        formats.retain(|text| {
            EventFormat::parse(system, text, long_bytes).is_ok_and(|event| seen.contains(&event.id))
        });
    }
    metadata.systems.retain(|(_, formats)| !formats.is_empty());
    let spec = FileSpec {
        endian: trace.header().endian,
        long_bytes: trace.header().long_bytes,
        page_bytes: trace.header().page_bytes,
        compression,
        metadata,
        options: trace.options().clone(),
        buffers,
    };
    let out = BufWriter::new(File::create(output)?);
    spec.write(out, |buffer, cpu| {
        Ok(Cursor::new(data.get(&(buffer, cpu)).map_or(&[][..], Vec::as_slice)))
    })?;
    eprintln!(
        "{output}: {} events' formats, {} bytes",
        seen.len(),
        std::fs::metadata(output)?.len()
    );
    Ok(())
}

fn first_pages(
    trace: &TraceDat<'_>,
    buffer: usize,
    cpu: u32,
    pages: usize,
    seen: &mut BTreeSet<u16>,
) -> Result<Vec<u8>, Box<dyn Error>> {
    let buffer = &trace.buffers()[buffer];
    let mut stream = trace.stream(buffer, cpu).ok_or("no such CPU")?;
    let mut bytes = Vec::new();
    for _ in 0..pages {
        let Some(page) = stream.next_page() else { break };
        let page = page.map_err(|problem| problem.to_string())?;
        for item in Page::new(page, &buffer.layout) {
            if let Item::Event { payload, .. } = item {
                seen.extend(trace.events().id_of(payload));
            }
        }
        bytes.extend_from_slice(page);
    }
    Ok(bytes)
}
