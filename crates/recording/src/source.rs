//! The files of events of a recording: their bytes, and what they are parsed to.

use anyhow::bail;
use std::collections::BTreeSet;
use std::ops::Range;
use transect_compact::{Compact, LogId};
use transect_model::ids::{CpuId, MachineId};
use transect_model::people::one_line;
use transect_model::table::ImportLog;
use transect_model::time::Timestamp;
use transect_store::Source;
use transect_store::manifest::SourceFormat;
use transect_tracedat::TraceDat;
use transect_xentrace::{Index, XenTrace, XenVersion};

/// The bytes of one source, trace.dat, compact or xentrace, and the machine whose events they hold.
pub(crate) struct SourceBytes<'a> {
    pub(crate) name: String,
    pub(crate) machine: MachineId,
    pub(crate) bytes: &'a [u8],
    /// The recording's source that it is, which tells its form and what is damaged.
    pub(crate) source: Option<&'a Source>,
    /// Of the Xen that wrote them, if one did.
    pub(crate) xen_version: XenVersion,
    /// Its place in the recording's list of sources.
    pub(crate) number: usize,
}

impl<'a> SourceBytes<'a> {
    /// Is its end missing, as its recording tells?
    pub(crate) fn is_cut(&self) -> bool {
        self.source.is_some_and(Source::is_cut)
    }

    /// Does it end otherwise than it did, as its recording tells?
    fn has_other_end(&self) -> bool {
        self.source.is_some_and(Source::has_other_end)
    }

    /// Does a compact file lack its end? One that is not what was written and has no totals does, too: blocks behind the
    /// damage cannot be found.
    fn lacks_end(&self, file: &Compact<'_>) -> bool {
        self.is_cut() || file.totals().is_none() && self.has_other_end()
    }

    /// A file by itself, of which nothing else is known.
    pub(crate) fn bare(
        name: String,
        machine: MachineId,
        bytes: &'a [u8],
        xen_version: XenVersion,
    ) -> Self {
        SourceBytes { name, machine, bytes, source: None, xen_version, number: 0 }
    }
}

/// One source file, parsed.
pub enum SourceFile<'a> {
    /// The full collector's, or trace-cmd's.
    Dat(Box<TraceDat<'a>>),
    /// The compact collector's.
    Compact(Box<Compact<'a>>),
    /// Xen's.
    Xen(Box<XenTrace<'a>>),
}

impl<'a> SourceFile<'a> {
    /// Tells the formats apart by their first bytes.
    pub(crate) fn parse(source: &SourceBytes<'a>) -> anyhow::Result<Self> {
        Self::parse_around(source, source.source.map_or(&[], Source::damage))
    }

    /// The same without a look at whether the file is what was written: for what is known without its events.
    pub(crate) fn parse_unverified(source: &SourceBytes<'a>) -> anyhow::Result<Self> {
        Self::parse_around(source, &[])
    }

    fn parse_around(source: &SourceBytes<'a>, damage: &[Range<u64>]) -> anyhow::Result<Self> {
        let bytes = source.bytes;
        let format = source.source.map(|source| source.entry.format);
        let format = format.unwrap_or_else(|| match bytes {
            _ if transect_compact::is_compact(bytes) => SourceFormat::Compact,
            _ if is_xentrace(bytes) => SourceFormat::Xentrace,
            _ => SourceFormat::TraceDat,
        });
        Ok(match format {
            SourceFormat::Compact => {
                let file = Compact::parse(bytes)?.as_source(source.number);
                if source.has_other_end() && is_whole(&file) {
                    bail!("it is whole, but not the file that was recorded");
                }
                let logs = source.source.map_or(&[][..], Source::logs);
                let logs = logs.iter().map(|(cpu, side, begins)| {
                    (LogId { cpu: *cpu, side: *side }, Timestamp::new(*begins))
                });
                let file = if source.lacks_end(&file) { file.with_logs(logs) } else { file };
                SourceFile::Compact(Box::new(file))
            }
            SourceFormat::Xentrace => {
                let trace = XenTrace::parse_around(bytes, source.xen_version, damage)?;
                SourceFile::Xen(Box::new(trace))
            }
            SourceFormat::TraceDat => {
                let head = source.source.filter(|_| !damage.is_empty());
                if let Some(offset) = head.and_then(Source::damaged_head) {
                    bail!(
                        "byte {offset}: the checksum is wrong in the description of the events: no event can be read"
                    );
                }
                SourceFile::Dat(Box::new(TraceDat::parse(bytes)?.with_damage(damage)))
            }
        })
    }

    /// The stamps of the first and the last event, as they are found now.
    pub(crate) fn span(&self, source: &SourceBytes<'_>) -> Option<(u64, u64)> {
        let span = match self {
            SourceFile::Compact(file) => file.span(),
            SourceFile::Dat(dat) => dat.span(&source.source?.entry.clock),
            SourceFile::Xen(file) => return file.span(),
        };
        span.map(|(first, last)| (first.get(), last.get()))
    }

    /// The CPUs of a file whose last events it lacks.
    pub(crate) fn cut_cpus(&self, source: &SourceBytes<'_>) -> BTreeSet<CpuId> {
        match self {
            SourceFile::Compact(file) if source.lacks_end(file) => file.cpus().collect(),
            SourceFile::Dat(dat) if source.is_cut() => {
                dat.buffers().iter().flat_map(|buffer| buffer.cpus().map(CpuId)).collect()
            }
            SourceFile::Dat(dat) => dat.cut_cpus().map(|(_, cpu)| CpuId(cpu)).collect(),
            // What damage costs, the codec knows.
            SourceFile::Compact(_) | SourceFile::Xen(_) => BTreeSet::new(),
        }
    }
}

/// Is this what xentrace writes?
pub(crate) fn is_xentrace(bytes: &[u8]) -> bool {
    Index::check(bytes).is_ok()
}

/// Is every byte of a file of blocks what its writer wrote, up to its end?
fn is_whole(file: &Compact<'_>) -> bool {
    file.totals().is_some() && file.problems().is_empty() && file.damaged_blocks().is_empty()
}

/// Parses each source. One that cannot be read is left out and logged, unless none is left.
pub(crate) fn parse<'s, 'a>(
    sources: &'s [SourceBytes<'a>],
    remarks: &mut Vec<ImportLog>,
) -> anyhow::Result<Vec<(&'s SourceBytes<'a>, SourceFile<'a>)>> {
    parse_by(SourceFile::parse, sources, remarks)
}

pub(crate) fn parse_by<'s, 'a>(
    parse: impl Fn(&SourceBytes<'a>) -> anyhow::Result<SourceFile<'a>>,
    sources: &'s [SourceBytes<'a>],
    remarks: &mut Vec<ImportLog>,
) -> anyhow::Result<Vec<(&'s SourceBytes<'a>, SourceFile<'a>)>> {
    let mut traces = Vec::new();
    let mut failed = None;
    for source in sources {
        match parse(source) {
            Ok(trace) => traces.push((source, trace)),
            Err(error) => {
                remarks.push(left_out(&source.name, error.as_ref()));
                failed = Some(match source.source {
                    Some(_) => anyhow::anyhow!(
                        "{}: {}; copy the file again from where the recording came from",
                        source.name,
                        one_line(error.as_ref())
                    ),
                    None => error.context(source.name.clone()),
                });
            }
        }
    }
    match failed {
        Some(error) if traces.is_empty() => Err(error),
        _ => Ok(traces),
    }
}

pub(crate) fn left_out(source: &str, why: &dyn std::error::Error) -> ImportLog {
    ImportLog {
        source: source.to_owned(),
        offset: None,
        message: format!("source skipped: {why}"),
        data_loss: true,
    }
}
