//! From parsed files to streams, whatever their format is.

use crate::{AnyStream, SourceBytes, SourceFile};
use transect_clock::{ClockError, ClockGraph, Converter};
use transect_engine::compact::CompactSource;
use transect_engine::dat::DatSource;
use transect_engine::xen::XenSource;
use transect_engine::{EventStream, Input};
use transect_model::table::ImportLog;

/// A source as the engine reads it.
pub(crate) enum Reader<'t, 'a> {
    Dat(DatSource<'t, 'a>),
    Compact(CompactSource<'t, 'a>),
    Xen(XenSource<'t, 'a>),
}

/// A reader for each source. A machine's sources are in the order in which they were begun, which
/// tells of which of its boots each is.
pub(crate) fn readers<'t, 'a>(
    traces: &'t [(&SourceBytes<'_>, SourceFile<'a>)],
    all: &[SourceBytes<'_>],
    clocks: &ClockGraph,
) -> Vec<Reader<'t, 'a>> {
    let reader = |(source, trace): &'t (&SourceBytes<'_>, SourceFile<'a>)| {
        let mut of_machine = all.iter().filter(|other| other.machine == source.machine);
        let number = of_machine.position(|other| other.name == source.name).unwrap_or(0);
        Reader::new(source, trace, clocks.boot_of_source(source.machine, number))
    };
    traces.iter().map(reader).collect()
}

impl<'t, 'a> Reader<'t, 'a> {
    fn new(source: &SourceBytes<'_>, trace: &'t SourceFile<'a>, boot: usize) -> Self {
        let (machine, name) = (source.machine, source.name.as_str());
        match trace {
            SourceFile::Dat(dat) => Reader::Dat(DatSource::new(dat, machine, name).of_boot(boot)),
            SourceFile::Compact(file) => {
                Reader::Compact(CompactSource::new(file, machine, name).of_boot(boot))
            }
            SourceFile::Xen(file) => Reader::Xen(XenSource::new(file, machine, name)),
        }
    }

    pub(crate) fn remarks(&self, clocks: &ClockGraph) -> Vec<ImportLog> {
        match self {
            Reader::Dat(dat) => dat.remarks(clocks),
            Reader::Compact(file) => file.remarks(clocks),
            Reader::Xen(file) => file.remarks(),
        }
    }

    pub(crate) fn inputs(
        &self,
        clocks: &ClockGraph,
    ) -> Result<Vec<Input<AnyStream<'_>, Converter>>, ClockError> {
        Ok(match self {
            Reader::Dat(dat) => dat.inputs(clocks)?.into_iter().map(boxed).collect(),
            Reader::Compact(file) => file.inputs(clocks)?.into_iter().map(boxed).collect(),
            Reader::Xen(file) => file.inputs(clocks)?.into_iter().map(boxed).collect(),
        })
    }
}

/// Streams are asked for hundreds of items at a time: the box costs nothing.
fn boxed<'s>(
    input: Input<impl EventStream + Send + 's, Converter>,
) -> Input<AnyStream<'s>, Converter> {
    Input { key: input.key, stream: Box::new(input.stream), clock: input.clock }
}
