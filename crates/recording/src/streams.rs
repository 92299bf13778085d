//! The events themselves, of whatever format: a stream for each CPU and boot.

use transect_clock::{ClockGraph, Converter};
use transect_engine::topology::MachineInfo;
use transect_engine::{EventStream, Input};

/// Any source's stream.
pub type AnyStream<'s> = Box<dyn EventStream + Send + 's>;

/// The events of every CPU of a recording, and the clocks that relate them.
pub struct Streams<'s> {
    /// Who is who.
    pub machines: &'s [MachineInfo],
    /// From every machine's stamps to trace time.
    pub clocks: &'s ClockGraph,
    /// A stream for each CPU and boot of each machine, with its way to trace time.
    pub inputs: Vec<Input<AnyStream<'s>, Converter>>,
}
