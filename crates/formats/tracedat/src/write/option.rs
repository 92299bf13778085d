//! Options in the file's bytes: the inverse of [`crate::read::option`].

use super::{
    encode::Encoder,
    layout::BufferPlace,
    spec::{BufferSpec, WriteError},
};
use crate::{
    read::{Guest, Options, option::id},
    timing::TimeShift,
};

/// All options that are facts about the recording.
pub(super) fn facts(encoder: &mut Encoder, options: &Options) -> Result<(), WriteError> {
    let texts = [
        (id::DATE, &options.date),
        (id::OFFSET, &options.offset),
        (id::TRACECLOCK, &options.trace_clock),
        (id::UNAME, &options.uname),
        (id::VERSION, &options.version),
    ];
    for (id, text) in texts {
        if let Some(text) = text {
            encoder.option(id, |e| e.cstr(text))?;
        }
    }
    for hook in &options.hooks {
        encoder.option(id::HOOK, |e| e.cstr(hook))?;
    }
    for maps in &options.proc_maps {
        encoder.option(id::PROCMAPS, |e| e.cstr(maps))?;
    }
    for stat in &options.cpu_stats {
        encoder.option(id::CPUSTAT, |e| e.cstr(&stat.text))?;
    }
    if let Some(trace_id) = options.trace_id {
        encoder.option(id::TRACEID, |e| e.u64(trace_id))?;
    }
    if let Some(conversion) = options.tsc2nsec {
        encoder.option(id::TSC2NSEC, |e| {
            e.u32(conversion.mult);
            e.u32(conversion.shift);
            e.u64(conversion.offset_ns);
        })?;
    }
    if let Some(shift) = &options.time_shift {
        encoder.option(id::TIME_SHIFT, |e| time_shift(e, shift))?;
    }
    for vm in &options.guests {
        encoder.option(id::GUEST, |e| guest(e, vm))?;
    }
    if let Some(count) = options.cpu_count {
        encoder.option(id::CPUCOUNT, |e| e.u32(count))?;
    }
    Ok(())
}

fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// Per CPU: count and three columns; behind all CPUs the fractions, which came later.
fn time_shift(encoder: &mut Encoder, shift: &TimeShift) {
    encoder.u64(shift.peer_trace_id);
    encoder.u32(shift.flags);
    encoder.u32(count(shift.cpus.len()));
    for samples in &shift.cpus {
        encoder.u32(count(samples.len()));
        samples.iter().for_each(|sample| encoder.u64(sample.time));
        samples.iter().for_each(|sample| encoder.u64(sample.offset.cast_unsigned()));
        samples.iter().for_each(|sample| encoder.u64(sample.scaling));
    }
    for sample in shift.cpus.iter().flatten() {
        encoder.u64(sample.fraction);
    }
}

fn guest(encoder: &mut Encoder, guest: &Guest) {
    encoder.cstr(&guest.name);
    encoder.u64(guest.trace_id);
    encoder.u32(count(guest.cpus.len()));
    for (cpu, tid) in &guest.cpus {
        encoder.u32(*cpu);
        encoder.u32(tid.cast_unsigned());
    }
}

/// Where a buffer's section and each CPU's data are.
pub(super) fn buffer(
    encoder: &mut Encoder,
    spec: &BufferSpec,
    place: &BufferPlace,
) -> Result<(), WriteError> {
    encoder.option(id::BUFFER, |e| {
        e.u64(place.header_offset);
        e.cstr(&spec.name);
        e.cstr(&spec.clock);
        e.u32(spec.page_bytes);
        e.u32(count(spec.cpus.len()));
        for (at, data) in spec.cpus.iter().enumerate() {
            e.u32(data.cpu);
            e.u64(place.cpu_offsets.get(at).copied().unwrap_or(0));
            e.u64(data.size_bytes);
        }
    })
}
