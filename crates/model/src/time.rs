//! Time stamps that cannot be mixed up.
//!
//! A stamp is a number *and* the clock it was read from. Two stamps of different clocks cannot be
//! compared, subtracted or merged; the only way from one to the other is the clock graph, which
//! also says how wrong the result may be. So a stamp's domain is part of its type:
//!
//! - [`Timestamp<Source>`]: as the probe wrote it, in the clock of its stream (TSC ticks of one
//!   machine, nanoseconds of one kernel's `mono`). Unsigned; any 64-bit value can occur.
//! - [`Timestamp<Trace>`]: trace time, nanoseconds on the recording's one clock. Signed, because a
//!   guest's first event may lie before the host's zero.
//!
//! ```
//! use transect_model::time::{Source, Timestamp, Trace};
//! let tsc = Timestamp::<Source>::new(7_788_000_000);
//! let ts = Timestamp::<Trace>::new(3_000_000_000);
//! assert_eq!(ts.get(), 3_000_000_000);
//! assert_eq!(tsc.get(), 7_788_000_000);
//! ```

use serde::{Deserialize, Serialize};
use std::{fmt, marker::PhantomData};

mod sealed {
    pub trait Sealed {}
}

/// A kind of clock, and the integer its stamps are kept in.
pub trait Domain: sealed::Sealed + Copy {
    /// The integer that holds a stamp of this domain.
    type Repr: Copy + Ord + fmt::Debug + fmt::Display + std::hash::Hash;
}

/// The clock of one stream, as the probe wrote it. Unit and origin depend on the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {}
/// Trace time: nanoseconds on the recording's reference clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trace {}

impl sealed::Sealed for Source {}
impl sealed::Sealed for Trace {}
impl Domain for Source {
    type Repr = u64;
}
impl Domain for Trace {
    type Repr = i64;
}

/// What one unit of trace time is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Nanoseconds.
    Ns,
    /// Ticks of a counter whose rate the recording does not say.
    Ticks,
}

impl TimeUnit {
    /// The word in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            TimeUnit::Ns => "ns",
            TimeUnit::Ticks => "ticks",
        }
    }
}

/// A stamp in the clock domain `D`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp<D: Domain>(D::Repr, PhantomData<D>);

impl<D: Domain> Timestamp<D> {
    /// A stamp read from a clock of this domain. Only decoders (for [`Source`]) and the clock
    /// graph (for [`Trace`]) have a reason to call it.
    pub const fn new(value: D::Repr) -> Self {
        Timestamp(value, PhantomData)
    }

    /// The bare number, for storage and printing.
    pub const fn get(self) -> D::Repr {
        self.0
    }
}

impl<D: Domain> fmt::Debug for Timestamp<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl<D: Domain> fmt::Display for Timestamp<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Timestamp<Trace> {
    /// Before every event.
    pub const MIN: Self = Timestamp::new(i64::MIN);
    /// After every event.
    pub const MAX: Self = Timestamp::new(i64::MAX);

    /// Nanoseconds from `earlier` to `self`; negative if the order is the other way round,
    /// `None` if they are further apart than 292 years, which only broken input is.
    pub fn checked_ns_since(self, earlier: Self) -> Option<i64> {
        self.0.checked_sub(earlier.0)
    }
}

/// A stretch of trace time, start included, end excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First nanosecond of the stretch.
    pub start: Timestamp<Trace>,
    /// First nanosecond after it.
    pub end: Timestamp<Trace>,
}

impl Span {
    /// Length in nanoseconds; 0 for an empty or reversed span.
    pub fn dur_ns(&self) -> i64 {
        self.end.checked_ns_since(self.start).unwrap_or(0).max(0)
    }

    /// Does the stamp lie inside?
    pub fn contains(&self, ts: Timestamp<Trace>) -> bool {
        self.start <= ts && ts < self.end
    }
}

/// How far a converted stamp may be from the truth, in nanoseconds either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ErrorBoundNs(pub u64);

impl ErrorBoundNs {
    /// Same counter, known arithmetic: nothing but the last digit's rounding is lost.
    pub const EXACT: ErrorBoundNs = ErrorBoundNs(0);

    /// Bounds along a path add up; `None` if that leaves 64 bits.
    pub fn checked_add(self, other: ErrorBoundNs) -> Option<ErrorBoundNs> {
        self.0.checked_add(other.0).map(ErrorBoundNs)
    }
}
