//! Bare files: a trace.dat says itself whose it is, an xentrace file is Xen's.

use crate::ending::Ending;
use crate::facts::{Facts, Stored, TimeUnit};
use crate::{
    SourceBytes, XenOptions,
    endings::Endings,
    opened::{Opened, display_name},
    source::is_xentrace,
    xen,
};
use anyhow::Context as _;
use std::path::Path;
use transect_engine::dat::pair;
use transect_model::table::ImportLog;
use transect_model::time::{Span, Timestamp};
use transect_store::Mapping;
use transect_tracedat::TraceDat;
use transect_xentrace::XenVersion;

/// Maps a file that should be a trace.
pub(crate) fn map(path: &Path) -> anyhow::Result<Mapping> {
    anyhow::ensure!(
        path.exists(),
        "{}: no such recording: expected a directory made by 'transect record' or 'import', \
         a trace.dat or an xentrace file",
        path.display()
    );
    Ok(Mapping::open(path)?)
}

/// Everything the engine needs to know about these files.
pub(crate) fn opened<'a>(
    files: &[(&Path, &'a Mapping)],
    options: &XenOptions,
) -> anyhow::Result<Opened<'a>> {
    if let [(path, map)] = files
        && is_xentrace(map)
    {
        let path = display_name(path);
        let source_bytes = Some(map.len() as u64);
        let stored = Some(Stored { events: 0, source_bytes, table_bytes: None });
        return Ok(xen::opened(Facts { stored, ..facts(path.clone()) }, path, map, options));
    }
    let mut traces = Vec::new();
    for (path, map) in files {
        let name = display_name(path);
        let trace = TraceDat::parse(map).with_context(|| name.clone())?;
        traces.push((name, trace));
    }
    let named: Vec<(&str, &TraceDat<'_>)> =
        traces.iter().map(|(name, trace)| (name.as_str(), trace)).collect();
    let pairing = pair(&named)?;
    let sources = files.iter().zip(&pairing.machine_of_file).zip(&traces);
    let sources = sources.map(|(((_, map), machine), (name, _))| {
        SourceBytes::bare(name.clone(), *machine, map, XenVersion::Unknown)
    });
    let remarks = pairing.notes.iter().map(|note| ImportLog {
        source: named.first().map_or_else(String::new, |(name, _)| (*name).to_owned()),
        offset: None,
        message: note.clone(),
        data_loss: false,
    });
    let path = named.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(" + ");
    Ok(Opened {
        facts: facts(path),
        sources: sources.collect(),
        remarks: remarks.collect(),
        topology: pairing.topology,
        evidence: pairing.evidence,
        gaps: Vec::new(),
        filters: Vec::new(),
        window: None,
        written: None,
        lost: Vec::new(),
        endings: Endings::default(),
    })
}

fn facts(path: String) -> Facts {
    Facts {
        path,
        created_unix_ns: None,
        transect_version: None,
        command: Vec::new(),
        finished: true,
        ending: Ending::default(),
        window: Span { start: Timestamp::new(0), end: Timestamp::new(0) },
        unit: TimeUnit::Ns,
        cost: None,
        stored: None,
        excerpt_of: None,
        filter: None,
        filter_effect: "",
        snapshot: None,
        notes: Vec::new(),
    }
}
