//! What was seen of the clocks while recording: one record a line in `clocks.jsonl`.
//!
//! Evidence is raw: stamps as the clocks showed them, nothing computed. Everything derived from it
//! (offsets, rates, bounds) is made anew by the [`crate::ClockGraph`] each time a recording is
//! opened, so a better estimator helps old recordings too.
//!
//! Records are appended in the order things were seen; that order is the order of host time, and
//! it is what separates the pieces of a clock that was restarted ([`Evidence::ClockRestart`]).
//!
//! ```
//! use transect_clock::evidence::Evidence;
//! use transect_model::ids::{MachineId, VcpuId};
//! let line = r#"{"evidence":"tsc_offset","machine":1,"vcpu":0,"offset":-37855553294,"at_host":109625254466}"#;
//! let read: Evidence = serde_json::from_str(line).unwrap();
//! assert!(matches!(read, Evidence::TscOffset { machine: MachineId(1), vcpu: VcpuId(0), .. }));
//! ```

use serde::{Deserialize, Serialize};
use transect_model::ids::{CpuId, MachineId, VcpuId};

/// One observation of a clock. Field and variant names are the file format: they do not change.
///
/// `parent` is the machine whose clock the other stamps are of: the machine that hosts the guest,
/// [`MachineId`] 0 where it is left out. Only nested recordings need it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "evidence", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Evidence {
    /// The clock that trace time is made of. Exactly one, first.
    Reference {
        /// The machine it belongs to: in recordings of our own 0, and under Xen 1 (dom0).
        machine: MachineId,
        /// Its name in `trace_clock`: `x86-tsc`, `mono`, `local`, …
        clock: String,
    },
    /// The clock that stamps a machine's streams. Without it: the same kind as the reference.
    SourceClock {
        /// The machine.
        machine: MachineId,
        /// Its name in `trace_clock`.
        clock: String,
    },
    /// How the reference's ticks become nanoseconds: `ns = ((tsc * mult) >> shift) + offset_ns`.
    TscRate {
        /// The machine whose TSC it is; only the reference's is used.
        machine: MachineId,
        /// Multiplier.
        mult: u32,
        /// Shift, 0..=63.
        shift: u32,
        /// Added after the shift. 0 if stamps are to be those `trace-cmd report` prints: since
        /// 2021 (commit 8463afd6) it reads this number from TSC2NSEC and does not use it.
        #[serde(default)]
        offset_ns: i64,
        /// Where it comes from.
        how: RateSource,
        /// How far the rate may be off, parts per million; 0 if it is the kernel's own.
        #[serde(default)]
        error_ppm: f64,
    },
    /// A vCPU's TSC as KVM makes it: `guest = ((host * ratio) >> frac_bits) + offset`.
    ///
    /// Source: `/sys/kernel/debug/kvm/PID-FD/vcpuN/tsc-offset`, `tsc-scaling-ratio`,
    /// `tsc-scaling-ratio-frac-bits` (`arch/x86/kvm/debugfs.c`), or the `kvm_write_tsc_offset`
    /// tracepoint. A change seen by the tracepoint is written as two records with the same
    /// `at_host`: the previous offset and the next one.
    TscOffset {
        /// The guest.
        machine: MachineId,
        /// The machine whose TSC it is offset from.
        #[serde(default)]
        parent: MachineId,
        /// The vCPU.
        vcpu: VcpuId,
        /// The offset, two's complement as in debugfs.
        offset: i64,
        /// Scaling ratio; none where the hardware (or the kernel) does not scale.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ratio: Option<u64>,
        /// Fraction bits of the ratio: 48 (VMX) or 32 (SVM).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        frac_bits: Option<u32>,
        /// The parent's trace clock when it was read.
        at_host: u64,
    },
    /// One question and answer over the guest channel. The guest's stamp was taken after
    /// `host_send` and before `host_recv`, whatever the channel's delays: that is all it claims.
    Exchange {
        /// The guest.
        machine: MachineId,
        /// The machine that asked.
        #[serde(default)]
        parent: MachineId,
        /// The parent's trace clock just before the question was sent.
        host_send: u64,
        /// The guest's trace clock when it answered.
        guest: u64,
        /// The parent's trace clock just after the answer was read.
        host_recv: u64,
    },
    /// A machine's own TSC read around a reading of its own kernel clock: the clock showed `ns` at
    /// some tick in `tsc_before..=tsc_after`. What relates a machine's `mono` stamps to its
    /// TSC, and so to those of its host, whose offset KVM tells.
    TscReading {
        /// The machine that read both.
        machine: MachineId,
        /// The clock read, by its name in `trace_clock`: `mono`. Readings of another clock than
        /// the one that stamps the machine's streams are not used.
        clock: String,
        /// The TSC just before.
        tsc_before: u64,
        /// The clock.
        ns: u64,
        /// The TSC just after.
        tsc_after: u64,
    },
    /// A machine's wall clock (CLOCK_REALTIME) read between two readings of the clock that stamps
    /// its streams: it showed `unix_ns` at some stamp in `before..=after`. Only the reference's are
    /// used, for the table `wall_clock`.
    WallReading {
        /// The machine that read both.
        machine: MachineId,
        /// Its trace clock just before, raw.
        before: u64,
        /// The wall clock, ns since 1970-01-01 00:00 UTC.
        unix_ns: i64,
        /// Its trace clock just after, raw.
        after: u64,
    },
    /// The parent, a hypervisor, had a vCPU of the machine running without a break, from one stamp
    /// of its TSC to another; `first` and `last` are the first and the last stamp of the machine's
    /// kernel that were taken in that time on that CPU.
    VcpuRan {
        /// The guest.
        machine: MachineId,
        /// The hypervisor.
        #[serde(default)]
        parent: MachineId,
        /// The CPU, as the guest numbers it.
        cpu: CpuId,
        /// The hypervisor's TSC when it began to run.
        from: u64,
        /// The guest's trace clock at its first event.
        first: u64,
        /// The guest's trace clock at its last event.
        last: u64,
        /// The hypervisor's TSC when it ceased to run.
        to: u64,
    },
    /// The parent, a hypervisor, emulated the reading of the machine's counter and recorded that:
    /// `stamp` was read after one stamp of its TSC and before another.
    ClockRead {
        /// The guest.
        machine: MachineId,
        /// The hypervisor.
        #[serde(default)]
        parent: MachineId,
        /// The CPU, as the guest numbers it.
        cpu: CpuId,
        /// The hypervisor's TSC at the record before.
        after: u64,
        /// The guest's trace clock.
        stamp: u64,
        /// The hypervisor's TSC at the record of the emulation.
        before: u64,
    },
    /// From here on the machine's clock is another one (it was booted again): stamps and
    /// exchanges before and after have nothing to do with each other.
    ClockRestart {
        /// The guest.
        machine: MachineId,
        /// The parent's trace clock when that was noticed.
        at_host: u64,
    },
    /// One sample of a TIMESHIFT option of a guest's `trace.dat`, with trace-cmd's own meaning:
    /// `host = ((guest * scaling) >> fraction) + offset`.
    TimeShift {
        /// The guest.
        machine: MachineId,
        /// The machine recorded with it.
        #[serde(default)]
        parent: MachineId,
        /// The guest's CPU.
        cpu: CpuId,
        /// The guest's trace clock at the sample.
        at_guest: u64,
        /// Added after scaling.
        offset: i64,
        /// Scaling; 1 without.
        scaling: u64,
        /// Fraction bits of the scaling; 0 without.
        fraction: u32,
        /// The option's INTERPOLATE flag: set by trace-cmd's `ptp`, not by its `kvm` protocol.
        #[serde(default)]
        interpolated: bool,
    },
}

/// Where a tick rate comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateSource {
    /// The kernel's own numbers (`cap_user_time_zero` of a perf mmap page): exact by definition,
    /// because they are how the kernel itself makes nanoseconds of this counter.
    PerfMmap,
    /// The TSC2NSEC option of an imported `trace.dat`.
    Tsc2nsec,
    /// The counter was compared with another clock; `error_ppm` says how well.
    Measured,
    /// The user said so (`--tsc-hz`).
    Given,
    /// A hypervisor's printed report, in whole kHz (`--xen-tsc`); `error_ppm` is the rounding.
    XenReport,
}
