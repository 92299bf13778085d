//! What could not be read of one stream, on its way to the import log: never silent, never a flood.

use transect_model::table::ImportLog;

/// Problems of one stream listed one by one at most.
const MAX_LISTED: usize = 100;

/// The problems of one stream so far.
#[derive(Clone, Debug)]
pub(crate) struct Problems<'t> {
    source: &'t str,
    listed: Vec<ImportLog>,
    more: u64,
}

impl<'t> Problems<'t> {
    /// None yet; `source` is what messages call the file.
    pub(crate) fn new(source: &'t str) -> Self {
        Problems { source, listed: Vec::new(), more: 0 }
    }

    /// One more, found at this byte of the file.
    pub(crate) fn add(&mut self, offset: u64, message: impl FnOnce() -> String) {
        if self.listed.len() < MAX_LISTED {
            let offset = Some(offset);
            self.listed.push(self.row(offset, message()));
        } else {
            self.more += 1;
        }
    }

    /// The rows of the import log.
    pub(crate) fn rows(&self) -> Vec<ImportLog> {
        let mut rows = self.listed.clone();
        if self.more > 0 {
            rows.push(self.row(None, format!("{} more problems of the same stream", self.more)));
        }
        rows
    }

    fn row(&self, offset: Option<u64>, message: String) -> ImportLog {
        ImportLog { source: self.source.to_owned(), offset, message, data_loss: true }
    }
}
