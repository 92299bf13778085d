//! Any bytes as a trace.dat file, read as `import` does.
#![no_main]

use libfuzzer_sys::fuzz_target;
use transect_ftrace::CoreDecoder;
use transect_tracedat::{Item, TraceDat};

fuzz_target!(|data: &[u8]| {
    let Ok(trace) = TraceDat::parse(data) else { return };
    let decoder = CoreDecoder::new(trace.events());
    let _ = (trace.kallsyms(), trace.printk_formats());
    for buffer in trace.buffers() {
        for cpu in buffer.cpus() {
            let Some(mut stream) = trace.stream(buffer, cpu) else { continue };
            // A file may list the same data many times; once is enough here.
            let mut left = 20_000;
            while let Some(item) = stream.next() {
                if let Item::Event { ts, payload } = item {
                    let _ = buffer.timing.report_ns(ts.get(), cpu);
                    let _ = decoder.decode(payload);
                }
                left -= 1;
                if left == 0 {
                    break;
                }
            }
        }
    }
});
