//! Where `--log` puts the rows: by the file's ending.

mod csv;
mod parquet;
mod sink;

use crate::terminal;
use anyhow::Context as _;
use sink::{Sink, append};
use std::{
    io::{BufWriter, Write},
    path::Path,
};
use transect_live::{Snapshot, lines};
use transect_model::guard::Syntax;

/// A log.
pub(super) struct Log {
    name: String,
    out: Box<dyn Sink>,
}

impl Log {
    /// Opens a log to go on with it, or a new one.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let out: Box<dyn Sink> = match path.extension().and_then(|end| end.to_str()) {
            _ if name == "-" => {
                Box::new(Lines(BufWriter::new(Box::new(terminal::data(Syntax::Json)))))
            }
            Some("jsonl") => Box::new(Lines(BufWriter::new(Box::new(append(path)?)))),
            Some("csv") => Box::new(csv::Csv::open(path)?),
            Some("parquet") => Box::new(parquet::Parquet::open(path)?),
            _ => anyhow::bail!(
                "{name}: unknown log format: the name must end in .jsonl, .csv or .parquet, or be - for JSON lines"
            ),
        };
        Ok(Log { name, out })
    }

    pub(super) fn write(&mut self, snapshot: &Snapshot) -> anyhow::Result<()> {
        self.out.write(snapshot).with_context(|| format!("cannot write {}", self.name))
    }

    pub(super) fn finish(mut self) -> anyhow::Result<()> {
        self.out.finish().with_context(|| format!("cannot write {}", self.name))
    }
}

/// JSON lines.
struct Lines(BufWriter<Box<dyn Write>>);

impl Sink for Lines {
    fn write(&mut self, snapshot: &Snapshot) -> anyhow::Result<()> {
        lines::write(snapshot, &mut self.0)?;
        Ok(self.0.flush()?)
    }
}
