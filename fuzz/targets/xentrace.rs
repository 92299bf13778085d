//! Any bytes as an xentrace file, as it is and as the records of a window (which chance would
//! seldom hit upon); what is read is written again and must come back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use transect_model::ids::CpuId;
use transect_xentrace::{Record, Writer, XenTrace, XenVersion, word::CPU_CHANGE_HEAD};

/// A record without its place in the file, and without a stamp it has only inherited: perhaps from
/// an unknown record, which is not written again.
type Read = (Option<u64>, u32, Vec<u8>);

fn content(record: Record<'_>) -> Read {
    (record.stamped.then_some(record.tsc), record.event, record.extra.to_vec())
}

fn read(file: &[u8], version: XenVersion) {
    let Ok(trace) = XenTrace::parse(file, version) else { return };
    let mut writer = Writer::new(Vec::new(), 1 << 16);
    let mut all: Vec<(CpuId, Vec<Read>)> = Vec::new();
    let place = |record: Record<'_>| (record.at_bytes, record.tsc);
    for cpu in trace.cpus() {
        let mut stream = trace.stream(cpu);
        let (mut records, mut places) = (Vec::new(), Vec::new());
        for record in stream.by_ref() {
            let _ = record.typed();
            for (field, value) in record.fields() {
                let _ = field.show(value);
            }
            writer.copy(cpu, &record).expect("what was read fits");
            records.push(content(record));
            places.push(place(record));
        }
        for problem in trace.problems().iter().chain(stream.problems()) {
            assert!(problem.at_bytes <= file.len() as u64);
        }
        let parts = trace.parts(cpu, 3).into_iter();
        let joined = parts.flat_map(|part| trace.stream_of(cpu, part)).map(place);
        assert!(joined.eq(places), "in parts it reads otherwise");
        all.push((cpu, records));
    }
    let copy = writer.finish().expect("writing to memory");
    let Ok(copy) = XenTrace::parse(&copy, version) else { return };
    assert!(copy.problems().is_empty());
    for (cpu, records) in all {
        assert!(copy.stream(cpu).map(content).eq(records), "it came back otherwise");
    }
}

fuzz_target!(|data: &[u8]| {
    read(data, XenVersion::Unknown);
    let [minor, data @ ..] = data else { return };
    let mut file = Vec::new();
    for word in [CPU_CHANGE_HEAD, 0, data.len() as u32] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    file.extend_from_slice(data);
    read(&file, XenVersion::Minor(*minor));
});
