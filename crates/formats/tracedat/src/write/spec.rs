//! The description of a file to come, and why it cannot be written.

use crate::{
    metadata::Metadata,
    read::{Compression, Options},
};
use thiserror::Error;
use transect_ftrace::Endian;

/// Why a file cannot be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// Something in the specification cannot be.
    #[error("cannot write trace.dat: {0}")]
    Spec(String),
    /// The output or a data source failed.
    #[error("cannot write trace.dat: {0}")]
    Io(#[from] std::io::Error),
}

/// One CPU's data to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuSpec {
    /// The CPU.
    pub cpu: u32,
    /// Bytes of its sub-buffers.
    pub size_bytes: u64,
}

/// One buffer to come.
#[derive(Clone, Debug, Default)]
pub struct BufferSpec {
    /// Name of the instance. Write the main buffer with an empty name: trace-cmd cannot open a
    /// file without one (an empty one is added where it is missing).
    pub name: String,
    /// Its trace clock.
    pub clock: String,
    /// Bytes of its sub-buffers.
    pub page_bytes: u32,
    /// Its CPUs; those not named have no data.
    pub cpus: Vec<CpuSpec>,
}

/// A whole file to come.
#[derive(Clone, Debug)]
pub struct FileSpec {
    /// Byte order of the traced machine, which the file takes over.
    pub endian: Endian,
    /// Bytes of the traced machine's `long`.
    pub long_bytes: u8,
    /// Page size of the traced machine.
    pub page_bytes: u32,
    /// Of metadata and data.
    pub compression: Compression,
    /// The kernel's description.
    pub metadata: Metadata,
    /// Facts about the recording; `unknown` ones are not written.
    pub options: Options,
    /// The buffers.
    pub buffers: Vec<BufferSpec>,
}

pub(super) fn spec_error<T>(what: impl Into<String>) -> Result<T, WriteError> {
    Err(WriteError::Spec(what.into()))
}
