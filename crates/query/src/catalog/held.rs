//! The files of tables as DataFusion reads them: through one store, which verifies what it reads.
//!
//! Files that are opened at once are read by their descriptors, also in a process that can no longer open files. Others
//! are opened for each read, so that a recording of thousands of files needs few descriptors.

use crate::error::QueryError;
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::object_store::path::Path as Location;
use datafusion::object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;
use transect_integrity::{CheckedFile, KnownFile};
use url::Url;

/// How the files of tables are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Opened by their paths when they are needed.
    ByPath,
    /// Opened at once and kept open.
    Held,
}

/// A file of the tables.
#[derive(Debug)]
pub(crate) struct HeldFile {
    known: KnownFile,
    /// The open file, if it is not to be opened by its path.
    open: Option<CheckedFile>,
    bytes: u64,
    modified: SystemTime,
    url: Url,
    location: Location,
}

impl HeldFile {
    pub(crate) fn new(known: KnownFile, reach: Reach) -> Result<Self, QueryError> {
        let path = known.path();
        let failed = |error| QueryError::tables(path, error);
        let no_url = || failed(io::Error::new(io::ErrorKind::InvalidInput, "not an absolute path"));
        let absolute = path.canonicalize().map_err(failed)?;
        let url = Url::from_file_path(absolute).map_err(|()| no_url())?;
        let listed = ListingTableUrl::try_new(url.clone(), None).map_err(|_| no_url())?;
        let (open, about) = match reach {
            Reach::Held => {
                let open = known.open().map_err(failed)?;
                let about = open.file().metadata().map_err(failed)?;
                (Some(open), about)
            }
            Reach::ByPath => (None, path.metadata().map_err(failed)?),
        };
        let (bytes, modified) = (about.len(), about.modified().map_err(failed)?);
        let location = listed.prefix().clone();
        Ok(Self { known, open, bytes, modified, url, location })
    }

    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// The file, open.
    pub(crate) fn checked(&self) -> io::Result<CheckedFile> {
        match &self.open {
            Some(open) => Ok(open.clone()),
            None => self.known.open(),
        }
    }

    /// Reads ranges.
    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let read = || -> io::Result<Vec<Bytes>> {
            let file = self.checked()?;
            ranges.iter().map(|range| file.read_range(range.clone())).collect()
        };
        read().map_err(|error| match transect_integrity::damage_in(&error) {
            // It names the file.
            Some(damage) => failed(damage.clone()),
            None => failed(format!("/{}: {error}", self.location)),
        })
    }

    fn meta(&self) -> ObjectMeta {
        ObjectMeta {
            location: self.location.clone(),
            last_modified: self.modified.into(),
            size: self.bytes,
            e_tag: None,
            version: None,
        }
    }
}

/// The store of all files of the tables, in place of the file system.
#[derive(Debug, Default)]
pub(crate) struct HeldStore(HashMap<Location, Arc<HeldFile>>);

impl HeldStore {
    pub(crate) fn new<'f>(files: impl Iterator<Item = &'f Arc<HeldFile>>) -> Self {
        Self(files.map(|file| (file.location.clone(), Arc::clone(file))).collect())
    }

    fn find(&self, location: &Location) -> Result<&HeldFile> {
        self.0.get(location).map(Arc::as_ref).ok_or_else(|| Error::NotFound {
            path: location.to_string(),
            source: "not a file of these tables".into(),
        })
    }
}

impl fmt::Display for HeldStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("files of tables")
    }
}

fn failed(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Generic { store: "tables", source: source.into() }
}

fn read_only() -> Error {
    Error::NotSupported { source: "tables are read-only".into() }
}

#[async_trait]
impl ObjectStore for HeldStore {
    async fn get_opts(&self, location: &Location, options: GetOptions) -> Result<GetResult> {
        let file = self.find(location)?;
        let meta = file.meta();
        options.check_preconditions(&meta)?;
        let range = match &options.range {
            Some(range) => range.as_range(file.bytes).map_err(failed)?,
            None => 0..file.bytes,
        };
        let bytes = match options.head {
            true => Bytes::new(),
            false => file.read(std::slice::from_ref(&range))?.pop().unwrap_or_default(),
        };
        let payload = GetResultPayload::Stream(stream::once(async { Ok(bytes) }).boxed());
        Ok(GetResult { payload, meta, range, attributes: Default::default() })
    }

    async fn get_ranges(&self, location: &Location, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.find(location)?.read(ranges)
    }

    fn list(&self, prefix: Option<&Location>) -> BoxStream<'static, Result<ObjectMeta>> {
        let is_below = |file: &&Arc<HeldFile>| {
            prefix.is_none_or(|prefix| file.location.prefix_matches(prefix))
        };
        let found: Vec<_> = self.0.values().filter(is_below).map(|file| Ok(file.meta())).collect();
        stream::iter(found).boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Location>) -> Result<ListResult> {
        Err(Error::NotSupported { source: "tables have no folders here".into() })
    }

    async fn put_opts(&self, _: &Location, _: PutPayload, _: PutOptions) -> Result<PutResult> {
        Err(read_only())
    }

    async fn put_multipart_opts(
        &self,
        _: &Location,
        _: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        Err(read_only())
    }

    fn delete_stream(
        &self,
        _: BoxStream<'static, Result<Location>>,
    ) -> BoxStream<'static, Result<Location>> {
        stream::once(async { Err(read_only()) }).boxed()
    }

    async fn copy_opts(&self, _: &Location, _: &Location, _: CopyOptions) -> Result<()> {
        Err(read_only())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests report by failing")]
    use super::*;
    use datafusion::object_store::{GetRange, ObjectStoreExt as _};
    use futures::FutureExt as _;
    use std::fs::File;
    use std::path::Path;

    /// Open files never wait.
    fn block_on<T>(work: impl Future<Output = T>) -> T {
        work.now_or_never().unwrap()
    }

    fn store(dir: &Path) -> (HeldStore, Location) {
        let path = dir.join("a b.parquet");
        std::fs::write(&path, b"0123456789").unwrap();
        let file = HeldFile::new(KnownFile::unknown(&path), Reach::Held).unwrap();
        let file = Arc::new(file);
        let location = file.location.clone();
        (HeldStore::new([&file].into_iter()), location)
    }

    #[test]
    fn ranges_are_those_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let (store, location) = store(dir.path());
        let get = |range| {
            let options = GetOptions { range, ..GetOptions::default() };
            block_on(async { store.get_opts(&location, options).await?.bytes().await })
        };
        assert_eq!(get(None).unwrap(), "0123456789");
        assert_eq!(get(Some(GetRange::Bounded(2..4))).unwrap(), "23");
        assert_eq!(get(Some(GetRange::Bounded(8..99))).unwrap(), "89");
        assert_eq!(get(Some(GetRange::Suffix(3))).unwrap(), "789");
        assert!(get(Some(GetRange::Bounded(10..11))).is_err());
        let ranges = block_on(store.get_ranges(&location, &[0..1, 9..10])).unwrap();
        assert_eq!(ranges, ["0", "9"]);
        assert_eq!(block_on(store.head(&location)).unwrap().size, 10);
        let listed: Vec<_> = block_on(store.list(None).collect());
        assert_eq!(listed.len(), 1);
    }

    #[test]
    fn other_files_do_not_exist_and_nothing_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let (store, location) = store(dir.path());
        let other = Location::from("etc/passwd");
        assert!(matches!(block_on(store.get(&other)), Err(Error::NotFound { .. })));
        assert!(block_on(store.put(&location, "x".into())).is_err());
        assert!(block_on(store.delete(&location)).is_err());
        assert!(block_on(store.copy(&location, &other)).is_err());
        assert_eq!(std::fs::read(dir.path().join("a b.parquet")).unwrap(), b"0123456789");
    }

    #[test]
    fn file_that_was_cut_is_an_error_with_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let (store, location) = store(dir.path());
        File::options()
            .write(true)
            .open(dir.path().join("a b.parquet"))
            .unwrap()
            .set_len(4)
            .unwrap();
        let error = block_on(store.get_range(&location, 0..8)).unwrap_err().to_string();
        assert!(
            error.contains("a b.parquet: damaged: the file has 4 bytes; 10 were written"),
            "{error}"
        );
    }
}
