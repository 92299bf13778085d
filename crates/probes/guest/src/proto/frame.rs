//! What each frame carries, and its payload as bytes.

use super::{
    compact::{Words, put_reading, put_words, take_reading, take_words},
    error::ProtoError,
    header::{HEADER_BYTES, header},
    start::{
        Start, Started, put_start_2, put_started, put_started_2, take_start, take_start_2,
        take_started, take_started_2,
    },
    wire::{Put, Take},
};
use crate::stamp::{StampClock, TscReading};
use transect_model::untrusted::Untrusted;

/// Recorder → agent: opens a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Oldest protocol version the recorder speaks.
    pub min_version: u8,
    /// Newest protocol version the recorder speaks.
    pub max_version: u8,
    /// The recorder's own version, for messages.
    pub recorder: String,
}

/// Agent → recorder: the answer to [`Hello`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The protocol version of the session.
    pub version: u8,
    /// The agent's own version, for messages.
    pub agent: Untrusted<String>,
    /// What the agent knows about its machine.
    pub facts: MachineFacts,
}

/// What an agent says about the machine it runs in: text that the guest chooses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineFacts {
    /// Host name (`uname -n`).
    pub nodename: Untrusted<String>,
    /// Kernel release (`uname -r`).
    pub release: Untrusted<String>,
    /// Kernel version line (`uname -v`).
    pub version: Untrusted<String>,
    /// Architecture (`uname -m`).
    pub arch: Untrusted<String>,
    /// `/proc/sys/kernel/random/boot_id`: another one means another boot, so another clock.
    pub boot_id: Untrusted<String>,
    /// The hardware UUID the VMM gave (`product_uuid`), empty if unreadable.
    pub uuid: Untrusted<String>,
    /// The kernel's own time source (`tsc`, `kvm-clock`, …), empty if unreadable.
    pub clocksource: Untrusted<String>,
    /// Trace clocks the kernel offers (`trace_clock`).
    pub clocks: Vec<Untrusted<String>>,
    /// Those of them the agent can read itself, so that Pongs can carry them.
    pub stamp_clocks: Vec<StampClock>,
    /// One more than the highest CPU number that can ever appear.
    pub cpu_count: u32,
    /// Bytes of a memory page; sub-buffers are one page unless told otherwise.
    pub page_bytes: u32,
    /// The guest's vsock address; `None` if it has none.
    pub vsock_cid: Option<u32>,
    /// Why this machine cannot be traced; empty if it can.
    pub problem: Untrusted<String>,
}

/// Agent → recorder: the answer to a Ping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pong {
    /// The Ping's number.
    pub seq: u32,
    /// The CPU the stamp was read on.
    pub cpu: u32,
    /// The clock asked for, read as late as could be before sending.
    pub stamp: u64,
}

/// One CPU's ring buffer, as the kernel counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuStats {
    /// The CPU.
    pub cpu: u32,
    /// Events overwritten before they were read.
    pub overrun: u64,
    /// Events dropped because the buffer was full or nested too deep.
    pub dropped: u64,
    /// Events read and sent.
    pub events: u64,
    /// Bytes of pages sent.
    pub bytes: u64,
}

/// Agent → recorder: how recording goes. A machine with many CPUs sends several in a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Every event older than the receipt of this Ping has been sent: what a gap starts from.
    pub drained_seq: Option<u32>,
    /// CPU time the agent has used since the session began, ns.
    pub agent_cpu_ns: u64,
    /// Per CPU; only those that changed need to be there.
    pub cpus: Vec<CpuStats>,
}

/// One message of the protocol.
#[allow(clippy::large_enum_variant)] // One exists at a time, and a Box would cost more code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Opens a session.
    Hello(Hello),
    /// Accepts it.
    Welcome(Welcome),
    /// Begins recording.
    Start(Start),
    /// A piece of a descriptive file (a format, the page header, saved command lines, …).
    Meta {
        /// Path below the tracing directory, such as `events/sched/sched_switch/format`.
        name: String,
        /// True if the file goes on in the next Meta of the same name.
        more: bool,
        /// The piece.
        bytes: &'a [u8],
    },
    /// Recording runs.
    Started(Started),
    /// Whole sub-buffers of one CPU, oldest first.
    Data {
        /// The CPU.
        cpu: u32,
        /// The sub-buffers.
        pages: &'a [u8],
    },
    /// A slice of a log of the compact collector, in order of position within its log (version 2).
    Words(Words<'a>),
    /// The clock that stamps events, read beside the TSC (version 2).
    Reading(TscReading),
    /// Asks for a stamp.
    Ping {
        /// Number, rising within a session.
        seq: u32,
        /// Which clock.
        clock: StampClock,
    },
    /// Gives a stamp.
    Pong(Pong),
    /// How it goes.
    Stats(Stats),
    /// End recording, send the rest.
    Stop,
    /// The rest has been sent; the tracing instance is gone.
    Stopped,
    /// The session is over.
    Bye,
    /// The session is over because of this.
    Error {
        /// One sentence: what, where, what to do.
        text: Untrusted<String>,
    },
}

impl<'a> Frame<'a> {
    /// The frame's type byte.
    pub fn kind(&self) -> u8 {
        match self {
            Frame::Hello(_) => 1,
            Frame::Welcome(_) => 2,
            Frame::Start(start) if start.compact.is_some() => 14,
            Frame::Start(_) => 3,
            Frame::Meta { .. } => 4,
            Frame::Started(started) if started.is_version_2() => 15,
            Frame::Started(_) => 5,
            Frame::Data { .. } => 6,
            Frame::Ping { .. } => 7,
            Frame::Pong(_) => 8,
            Frame::Stats(_) => 9,
            Frame::Stop => 10,
            Frame::Stopped => 11,
            Frame::Bye => 12,
            Frame::Error { .. } => 13,
            Frame::Words(_) => 16,
            Frame::Reading(_) => 17,
        }
    }

    /// Appends the whole frame to `out`; on error `out` is as it was.
    ///
    /// # Errors
    /// [`ProtoError::TooLong`] if a string, list or the payload exceeds its limit.
    pub fn encode(&self, session: u32, out: &mut Vec<u8>) -> Result<(), ProtoError> {
        let start = out.len();
        out.resize(start + HEADER_BYTES, 0);
        let encoded = self.encode_payload(out).and_then(|()| {
            let header = header(self.kind(), session, out.len() - start - HEADER_BYTES)?;
            out[start..start + HEADER_BYTES].copy_from_slice(&header);
            Ok(())
        });
        if encoded.is_err() {
            out.truncate(start);
        }
        encoded
    }

    pub(super) fn encode_payload(&self, out: &mut Vec<u8>) -> Result<(), ProtoError> {
        let mut put = Put(out);
        match self {
            Frame::Hello(hello) => {
                put.u8(hello.min_version);
                put.u8(hello.max_version);
                put.str("recorder version", &hello.recorder)
            }
            Frame::Welcome(welcome) => {
                put.u8(welcome.version);
                put.text("agent version", &welcome.agent)?;
                put_facts(&mut put, &welcome.facts)
            }
            Frame::Start(start) => put_start_2(&mut put, start),
            Frame::Meta { name, more, bytes } => {
                put.str("meta name", name)?;
                put.u8(u8::from(*more));
                put.bytes(bytes);
                Ok(())
            }
            Frame::Started(started) if started.is_version_2() => put_started_2(&mut put, started),
            Frame::Started(started) => put_started(&mut put, started),
            Frame::Words(slice) => {
                put_words(&mut put, slice);
                Ok(())
            }
            Frame::Reading(reading) => {
                put_reading(&mut put, reading);
                Ok(())
            }
            Frame::Data { cpu, pages } => {
                put.u32(*cpu);
                put.bytes(pages);
                Ok(())
            }
            Frame::Ping { seq, clock } => {
                put.u32(*seq);
                put.u8(clock.code());
                Ok(())
            }
            Frame::Pong(pong) => {
                put.u32(pong.seq);
                put.u32(pong.cpu);
                put.u64(pong.stamp);
                Ok(())
            }
            Frame::Stats(stats) => put_stats(&mut put, stats),
            Frame::Stop | Frame::Stopped | Frame::Bye => Ok(()),
            Frame::Error { text } => put.text("error text", text),
        }
    }

    /// Decodes a payload of the given type.
    ///
    /// # Errors
    /// Any [`ProtoError`] of the payload kind.
    pub fn decode(kind: u8, payload: &'a [u8]) -> Result<Self, ProtoError> {
        let mut take = Take::new(payload);
        let frame = match kind {
            1 => Frame::Hello(Hello {
                min_version: take.u8("oldest version")?,
                max_version: take.u8("newest version")?,
                recorder: take.str("recorder version")?,
            }),
            2 => Frame::Welcome(Welcome {
                version: take.u8("version")?,
                agent: take.text("agent version")?,
                facts: take_facts(&mut take)?,
            }),
            3 => Frame::Start(take_start(&mut take)?),
            4 => Frame::Meta {
                name: take.str("meta name")?,
                more: take.bool("meta more")?,
                bytes: take.rest(),
            },
            5 => Frame::Started(take_started(&mut take)?),
            6 => Frame::Data { cpu: take.u32("cpu")?, pages: take.rest() },
            7 => Frame::Ping { seq: take.u32("ping number")?, clock: take_clock(&mut take)? },
            8 => Frame::Pong(Pong {
                seq: take.u32("pong number")?,
                cpu: take.u32("pong cpu")?,
                stamp: take.u64("pong stamp")?,
            }),
            9 => Frame::Stats(take_stats(&mut take)?),
            10 => Frame::Stop,
            11 => Frame::Stopped,
            12 => Frame::Bye,
            13 => Frame::Error { text: take.text("error text")? },
            14 => Frame::Start(take_start_2(&mut take)?),
            15 => Frame::Started(take_started_2(&mut take)?),
            16 => Frame::Words(take_words(&mut take)?),
            17 => Frame::Reading(take_reading(&mut take)?),
            unknown => return Err(ProtoError::UnknownKind(unknown)),
        };
        take.end("frame")?;
        Ok(frame)
    }
}

fn put_facts(put: &mut Put<'_>, facts: &MachineFacts) -> Result<(), ProtoError> {
    put.text("node name", &facts.nodename)?;
    put.text("kernel release", &facts.release)?;
    put.text("kernel version", &facts.version)?;
    put.text("architecture", &facts.arch)?;
    put.text("boot id", &facts.boot_id)?;
    put.text("uuid", &facts.uuid)?;
    put.text("clock source", &facts.clocksource)?;
    put.count("clocks", facts.clocks.len())?;
    for clock in &facts.clocks {
        put.text("clock", clock)?;
    }
    put.count("stamp clocks", facts.stamp_clocks.len())?;
    for clock in &facts.stamp_clocks {
        put.u8(clock.code());
    }
    put.u32(facts.cpu_count);
    put.u32(facts.page_bytes);
    put_option(put, facts.vsock_cid);
    put.text("problem", &facts.problem)
}

fn take_facts(take: &mut Take<'_>) -> Result<MachineFacts, ProtoError> {
    Ok(MachineFacts {
        nodename: take.text("node name")?,
        release: take.text("kernel release")?,
        version: take.text("kernel version")?,
        arch: take.text("architecture")?,
        boot_id: take.text("boot id")?,
        uuid: take.text("uuid")?,
        clocksource: take.text("clock source")?,
        clocks: take.texts("clocks")?,
        stamp_clocks: take.list("stamp clocks", 1, take_clock)?,
        cpu_count: take.u32("cpu count")?,
        page_bytes: take.u32("page size")?,
        vsock_cid: take_option(take, "vsock address")?,
        problem: take.text("problem")?,
    })
}

fn put_stats(put: &mut Put<'_>, stats: &Stats) -> Result<(), ProtoError> {
    put_option(put, stats.drained_seq);
    put.u64(stats.agent_cpu_ns);
    put.count("cpu statistics", stats.cpus.len())?;
    for cpu in &stats.cpus {
        put.u32(cpu.cpu);
        put.u64(cpu.overrun);
        put.u64(cpu.dropped);
        put.u64(cpu.events);
        put.u64(cpu.bytes);
    }
    Ok(())
}

fn take_stats(take: &mut Take<'_>) -> Result<Stats, ProtoError> {
    Ok(Stats {
        drained_seq: take_option(take, "drained number")?,
        agent_cpu_ns: take.u64("agent cpu time")?,
        cpus: take.list("cpu statistics", 36, |take| {
            Ok(CpuStats {
                cpu: take.u32("cpu")?,
                overrun: take.u64("overrun")?,
                dropped: take.u64("dropped")?,
                events: take.u64("events")?,
                bytes: take.u64("bytes")?,
            })
        })?,
    })
}

fn put_option(put: &mut Put<'_>, value: Option<u32>) {
    put.u8(u8::from(value.is_some()));
    put.u32(value.unwrap_or(0));
}

fn take_option(take: &mut Take<'_>, what: &'static str) -> Result<Option<u32>, ProtoError> {
    let is_there = take.bool(what)?;
    let value = take.u32(what)?;
    Ok(is_there.then_some(value))
}

fn take_clock(take: &mut Take<'_>) -> Result<StampClock, ProtoError> {
    let code = take.u8("clock")?;
    StampClock::from_code(code)
        .ok_or(ProtoError::BadValue { what: "clock", value: u64::from(code) })
}
