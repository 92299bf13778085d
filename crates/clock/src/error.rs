//! What can go wrong between two clocks.

use transect_model::ids::{CpuId, MachineId};

/// Why a clock could not be related to trace time, or a stamp not converted.
///
/// Small and `Copy`, because the hot path returns it for every stamp that broken input carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClockError {
    /// The evidence has no `Reference` record.
    #[error(
        "no clock evidence names the reference clock: the recording's clocks.jsonl is empty or \
         lacks its first line; import the machines' files one by one instead"
    )]
    NoReference,
    /// Nothing relates this machine's clock to the reference.
    #[error(
        "machine {machine}: no evidence relates its clock to the host's (no TSC offset read from \
         KVM, no exchange over the guest channel, no TIMESHIFT in its file): record it again with \
         the agent connected, or report on its file alone"
    )]
    NoPath {
        /// The machine whose clock hangs loose.
        machine: MachineId,
    },
    /// The machine's vCPUs have different offsets and this one was never read.
    #[error(
        "machine {machine} cpu {cpu}: its TSC offset was never read and the other vCPUs' offsets \
         differ from each other, so none of them applies"
    )]
    NoOffset {
        /// The guest.
        machine: MachineId,
        /// Its CPU.
        cpu: CpuId,
    },
    /// A tick rate that no counter can have.
    #[error("tick rate mult {mult}, shift {shift} is impossible (mult 1.., shift 0..=63 expected)")]
    BadRate {
        /// The multiplier.
        mult: u32,
        /// The shift.
        shift: u32,
    },
    /// A frequency that no counter can have.
    #[error("a counter of {hz} Hz cannot be converted to nanoseconds (1 kHz to 10 GHz expected)")]
    BadFrequency {
        /// The frequency.
        hz: u64,
    },
    /// A TSC scaling ratio that no CPU can have.
    #[error(
        "TSC scaling ratio {ratio} with {frac_bits} fraction bits is impossible (ratio 1.., \
         fraction bits 0..=63 expected)"
    )]
    BadScaling {
        /// The ratio as the debugfs file gives it.
        ratio: u64,
        /// Its fraction bits.
        frac_bits: u32,
    },
    /// A stamp that leaves 64 bits on its way to trace time: broken input.
    #[error(
        "timestamp {stamp} is outside its clock's range in this recording (trace time would \
         exceed 64 bits): the record is damaged"
    )]
    OutOfRange {
        /// The stamp as its source wrote it (or as an intermediate clock would show it).
        stamp: u64,
    },
    /// Exchanges between clocks of different units say nothing on their rate yet.
    #[error(
        "the exchanges with machine {machine} do not determine the rate of its clock (all were \
         made at one time and the clocks count in different units): at least two, some time apart, are needed"
    )]
    RateUnknown {
        /// The guest.
        machine: MachineId,
    },
}
