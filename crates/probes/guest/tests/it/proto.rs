//! Properties of the frame codec: what is sent arrives, whatever lies before it and however the
//! stream is cut; what is broken is an error and never more.
#![allow(clippy::unwrap_used, clippy::large_enum_variant)] // A failed expectation is the report.

use proptest::{collection::vec, prelude::*};
use transect_guest::{
    proto::*,
    stamp::{StampClock, TscReading},
};
use transect_model::untrusted::Untrusted;

/// A frame without borrowed bytes; bytes are kept beside it.
#[derive(Clone, Debug)]
enum Any {
    Owned(Frame<'static>),
    Meta(String, bool, Vec<u8>),
    Data(u32, Vec<u8>),
    Words(u32, u8, u64, u64, u64, Vec<u8>),
}

impl Any {
    fn frame(&self) -> Frame<'_> {
        match self {
            Any::Owned(frame) => frame.clone(),
            Any::Meta(name, more, bytes) => Frame::Meta { name: name.clone(), more: *more, bytes },
            Any::Data(cpu, pages) => Frame::Data { cpu: *cpu, pages },
            Any::Words(cpu, side, position, sync_ns, lost, words) => Frame::Words(Words {
                cpu: *cpu,
                side: *side,
                position: *position,
                sync_ns: *sync_ns,
                lost: *lost,
                words,
            }),
        }
    }
}

fn text() -> impl Strategy<Value = String> {
    "[ -~äöü✓]{0,40}"
}

/// A text that the peer chose: it may hold controls.
fn outside() -> impl Strategy<Value = Untrusted<String>> {
    "[ -~äöü✓\\x1b\\n\u{9b}\u{202e}]{0,40}".prop_map(Untrusted::new)
}

fn clock() -> impl Strategy<Value = StampClock> {
    proptest::sample::select(StampClock::ALL.to_vec())
}

fn facts() -> impl Strategy<Value = MachineFacts> {
    let texts = vec(outside(), 8);
    (texts, vec(outside(), 0..12), vec(clock(), 0..5), any::<(u32, u32, Option<u32>)>()).prop_map(
        |(mut texts, clocks, stamp_clocks, (cpu_count, page_bytes, vsock_cid))| {
            let mut next = || texts.pop().unwrap();
            MachineFacts {
                nodename: next(),
                release: next(),
                version: next(),
                arch: next(),
                boot_id: next(),
                uuid: next(),
                clocksource: next(),
                problem: next(),
                clocks,
                stamp_clocks,
                cpu_count,
                page_bytes,
                vsock_cid,
            }
        },
    )
}

fn start() -> impl Strategy<Value = Start> {
    let event =
        (text(), text(), text(), any::<bool>()).prop_map(|(system, name, filter, required)| {
            EventRequest { system, name, filter, required }
        });
    (text(), any::<u64>(), vec(event, 0..30), proptest::option::of(plan())).prop_map(
        |(clock, buffer_bytes, events, compact)| Start { clock, buffer_bytes, events, compact },
    )
}

fn plan() -> impl Strategy<Value = CompactPlan> {
    let forms = [SyscallForm::Folded, SyscallForm::Both, SyscallForm::ExitOnly];
    let words = vec(vec(text(), 0..9), 3);
    let numbers = vec(vec(any::<u32>(), 0..9), 2);
    (words, proptest::sample::select(forms.to_vec()), numbers, text(), any::<[u64; 5]>()).prop_map(
        |(mut words, syscalls, mut numbers, cgroup, [irq, softirq, syscall, exit, log])| {
            CompactPlan {
                families: words.pop().unwrap(),
                with: words.pop().unwrap(),
                without: words.pop().unwrap(),
                syscalls,
                tids: numbers.pop().unwrap(),
                tgids: numbers.pop().unwrap(),
                cgroup,
                min_irq_ns: irq,
                min_softirq_ns: softirq,
                min_syscall_ns: syscall,
                min_exit_ns: exit,
                log_bytes: log,
            }
        },
    )
}

fn started() -> impl Strategy<Value = Started> {
    let run = (any::<u64>(), outside(), vec(text(), 0..9))
        .prop_map(|(log_bytes, isa, events)| CompactRun { log_bytes, isa, events });
    let compact = proptest::option::of(run);
    (outside(), any::<(u32, u64)>(), vec(outside(), 0..9), compact, outside()).prop_map(
        |(clock, (page_bytes, buffer_bytes), missing, compact, why_full)| Started {
            clock,
            page_bytes,
            buffer_bytes,
            missing,
            compact,
            why_full,
        },
    )
}

/// A slice anywhere in its chunk.
fn words() -> impl Strategy<Value = Any> {
    (any::<(u32, u64, u64)>(), 0u8..3, 0u64..1 << 40, 0usize..4095, 1usize..4096).prop_map(
        |((cpu, sync_ns, lost), side, chunk, from, count)| {
            let count = count.min(4096 - from);
            let position = chunk * CHUNK_BYTES as u64 + from as u64 * 8;
            Any::Words(cpu, side, position, sync_ns, lost, vec![0xa5; count * 8])
        },
    )
}

fn reading() -> impl Strategy<Value = TscReading> {
    let in_ns = clock().prop_filter("a clock in ns", |clock| *clock != StampClock::X86Tsc);
    (in_ns, any::<[u64; 3]>()).prop_map(|(clock, [tsc_before, ns, tsc_after])| TscReading {
        clock,
        tsc_before,
        ns,
        tsc_after,
    })
}

fn stats() -> impl Strategy<Value = Stats> {
    let cpu =
        any::<(u32, u64, u64, u64, u64)>().prop_map(|(cpu, overrun, dropped, events, bytes)| {
            CpuStats { cpu, overrun, dropped, events, bytes }
        });
    (any::<Option<u32>>(), any::<u64>(), vec(cpu, 0..1000))
        .prop_map(|(drained_seq, agent_cpu_ns, cpus)| Stats { drained_seq, agent_cpu_ns, cpus })
}

fn frame() -> impl Strategy<Value = Any> {
    prop_oneof![
        (any::<(u8, u8)>(), text()).prop_map(|((min_version, max_version), recorder)| Any::Owned(
            Frame::Hello(Hello { min_version, max_version, recorder })
        )),
        (any::<u8>(), outside(), facts()).prop_map(|(version, agent, facts)| Any::Owned(
            Frame::Welcome(Welcome { version, agent, facts })
        )),
        start().prop_map(|start| Any::Owned(Frame::Start(start))),
        (text(), any::<bool>(), vec(any::<u8>(), 0..5000))
            .prop_map(|(name, more, bytes)| Any::Meta(name, more, bytes)),
        started().prop_map(|started| Any::Owned(Frame::Started(started))),
        words(),
        reading().prop_map(|reading| Any::Owned(Frame::Reading(reading))),
        (any::<u32>(), vec(any::<u8>(), 0..65536)).prop_map(|(cpu, pages)| Any::Data(cpu, pages)),
        (any::<u32>(), clock()).prop_map(|(seq, clock)| Any::Owned(Frame::Ping { seq, clock })),
        any::<(u32, u32, u64)>().prop_map(|(seq, cpu, stamp)| Any::Owned(Frame::Pong(Pong {
            seq,
            cpu,
            stamp
        }))),
        stats().prop_map(|stats| Any::Owned(Frame::Stats(stats))),
        Just(Any::Owned(Frame::Stop)),
        Just(Any::Owned(Frame::Stopped)),
        Just(Any::Owned(Frame::Bye)),
        outside().prop_map(|text| Any::Owned(Frame::Error { text })),
    ]
}

fn hello() -> Frame<'static> {
    Frame::Hello(Hello { min_version: 1, max_version: 1, recorder: "test".into() })
}

/// Feeds `wire` in pieces; returns the frames' debug forms and the first error. Goes on after an
/// error, as an agent does that waits for the next session.
fn decode_all(role: Role, wire: &[u8], piece: usize) -> (Vec<String>, Option<ProtoError>) {
    let mut decoder = Decoder::new(role);
    let mut seen = Vec::new();
    let mut first_error = None;
    let mut rest = wire;
    while !rest.is_empty() {
        let room = decoder.room();
        let taken = room.len().min(piece).min(rest.len());
        room[..taken].copy_from_slice(&rest[..taken]);
        decoder.filled(taken);
        rest = &rest[taken..];
        loop {
            match decoder.next() {
                Ok(Some(frame)) => seen.push(format!("{frame:?}")),
                Ok(None) => break,
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
    }
    (seen, first_error)
}

fn encode(session: u32, frames: &[Frame<'_>]) -> Vec<u8> {
    let mut wire = Vec::new();
    for frame in frames {
        frame.encode(session, &mut wire).unwrap();
    }
    wire
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is sent after the handshake arrives in order, however the bytes are cut.
    #[test]
    fn frames_survive_the_wire(frames in vec(frame(), 1..6), piece in 1usize..70_000, session in 1u32..) {
        let mut sent = vec![hello()];
        sent.extend(frames.iter().map(Any::frame));
        let wire = encode(session, &sent);
        let (seen, error) = decode_all(Role::Agent, &wire, piece);
        prop_assert_eq!(error, None);
        let sent: Vec<String> = sent.iter().map(|frame| format!("{frame:?}")).collect();
        prop_assert_eq!(seen, sent);
    }

    /// The cut-off tail of a dead session, other noise, and a cut-off last frame of it do not keep
    /// the next session from starting. A frame that lacks its last bytes may swallow the first
    /// ones of the next Hello: that is why a recorder repeats it.
    #[test]
    fn dead_sessions_are_skipped(
        old in vec(frame(), 1..4),
        from in any::<proptest::sample::Index>(),
        to in any::<proptest::sample::Index>(),
        noise in vec(any::<u8>(), 0..200),
        piece in 1usize..70_000,
    ) {
        let dead = encode(7, &old.iter().map(Any::frame).collect::<Vec<_>>());
        let (from, to) = (from.index(dead.len()), to.index(dead.len()));
        let mut wire = noise;
        wire.extend_from_slice(&dead[from.min(to)..from.max(to)]);
        let ping = Frame::Ping { seq: 3, clock: StampClock::Mono };
        let hellos = (dead.len() - from.max(to)) / HEADER_BYTES + 2;
        wire.extend(encode(8, &vec![hello(); hellos]));
        wire.extend(encode(8, std::slice::from_ref(&ping)));
        let (seen, _) = decode_all(Role::Agent, &wire, piece);
        let tail = seen.iter().rev().take(2).rev().cloned().collect::<Vec<_>>();
        prop_assert_eq!(tail, vec![format!("{:?}", hello()), format!("{ping:?}")]);
    }

    /// The recorder believes nothing before the Welcome of its own session.
    #[test]
    fn recorder_waits_for_its_own_welcome(
        stale in vec(frame(), 0..4), cut in 0usize..2000, facts in facts(), piece in 1usize..9000,
    ) {
        let mut wire = encode(7, &stale.iter().map(Any::frame).collect::<Vec<_>>());
        wire.drain(..cut.min(wire.len()));
        let welcome = Frame::Welcome(Welcome { version: 1, agent: "a".into(), facts });
        wire.extend(encode(8, &[welcome.clone(), Frame::Stopped]));
        let (seen, error) = decode_all(Role::Recorder { session: 8 }, &wire, piece);
        prop_assert_eq!(error, None);
        prop_assert_eq!(seen, vec![format!("{welcome:?}"), format!("{:?}", Frame::Stopped)]);
    }

    /// Arbitrary bytes, and bit flips in real frames, give frames or errors. (`fuzz` also checks
    /// that what decodes encodes to itself.)
    #[test]
    fn nothing_panics(noise in vec(any::<u8>(), 0..4000)) {
        fuzz(&noise);
        for kind in 0..=16 {
            let _ = Frame::decode(kind, &noise);
        }
    }

    #[test]
    fn flipped_bits_do_no_harm(
        frames in vec(frame(), 1..4), flips in vec((any::<proptest::sample::Index>(), 0u8..8), 1..6),
    ) {
        let mut sent = vec![hello()];
        sent.extend(frames.iter().map(Any::frame));
        let mut wire = encode(1, &sent);
        for (at, bit) in flips {
            let at = at.index(wire.len());
            wire[at] ^= 1 << bit;
        }
        wire.insert(0, 0xff);
        fuzz(&wire);
        wire[0] = 0x21;
        fuzz(&wire);
    }

    /// A payload cut anywhere is an error that names a field, except where only its free-form
    /// rest is shorter.
    #[test]
    fn cut_payloads_are_named(frame in frame(), cut in any::<proptest::sample::Index>()) {
        let wire = encode(1, &[frame.frame()]);
        let payload = &wire[HEADER_BYTES..];
        prop_assume!(!payload.is_empty());
        let cut = &payload[..cut.index(payload.len())];
        match Frame::decode(frame.frame().kind(), cut) {
            Err(ProtoError::Truncated { .. }) => {}
            Ok(Frame::Meta { .. } | Frame::Data { .. } | Frame::Words(_)) => {}
            // Cut inside of a word, or before the first.
            Err(ProtoError::BadValue { what: "length of a slice", .. }) => {}
            other => prop_assert!(false, "{other:?}"),
        }
    }
}

/// The layout of the README, byte by byte.
#[test]
fn layout_is_as_documented() {
    let wire = encode(0x0403_0201, &[Frame::Ping { seq: 5, clock: StampClock::X86Tsc }]);
    let want = [
        0xf5, b'T', b'X', 0x1a, 1, 7, 0, 0, 1, 2, 3, 4, 5, 0, 0, 0, // header
        0xaf, 0x30, 0xf7, 0x26, // its CRC-32, as zlib computes it
        5, 0, 0, 0, 1, // payload
    ];
    assert_eq!(wire, want);
}

/// Version 1 knows no more than it ever did: what it can say is said in its frame types.
#[test]
fn what_version_1_can_say_is_said_in_its_types() {
    let start = Start { clock: "mono".into(), buffer_bytes: 1, events: vec![], compact: None };
    let asks = Start { compact: Some(CompactPlan::default()), ..start.clone() };
    assert_eq!((Frame::Start(start).kind(), Frame::Start(asks).kind()), (3, 14));
    let full = Started::default();
    let says_why = Started { why_full: "no BTF".into(), ..full.clone() };
    let compact = Started { compact: Some(CompactRun::default()), ..full.clone() };
    let kinds = [full, says_why, compact].map(|started| Frame::Started(started).kind());
    assert_eq!(kinds, [5, 15, 15]);
}

#[test]
fn a_slice_that_is_not_of_one_chunk_is_refused() {
    let slice = |position: u64, bytes: usize| {
        let words = vec![0; bytes];
        let slice = Words { cpu: 0, side: 0, position, sync_ns: 0, lost: 0, words: &words };
        let wire = encode(1, &[Frame::Words(slice)]);
        Frame::decode(16, &wire[HEADER_BYTES..]).map(drop)
    };
    assert!(slice(0, CHUNK_BYTES).is_ok() && slice(CHUNK_BYTES as u64 - 8, 8).is_ok());
    for (position, bytes) in [(0, 0), (0, 12), (4, 8), (8, CHUNK_BYTES), (1 << 63, 8)] {
        let error = slice(position, bytes).unwrap_err();
        assert!(matches!(error, ProtoError::BadValue { .. }), "{position} {bytes}: {error}");
    }
}

#[test]
fn too_long_is_refused_and_leaves_nothing() {
    let mut wire = vec![1, 2, 3];
    let big = vec![0; MAX_PAYLOAD_BYTES];
    let error = Frame::Data { cpu: 0, pages: &big }.encode(1, &mut wire).unwrap_err();
    assert!(matches!(error, ProtoError::TooLong { .. }), "{error}");
    assert_eq!(wire, [1, 2, 3]);
}

#[test]
fn broken_stream_says_where() {
    let mut wire = encode(1, &[hello()]);
    let end = wire.len();
    wire.extend_from_slice(&[0xaa; HEADER_BYTES]);
    let (seen, error) = decode_all(Role::Agent, &wire, 9999);
    assert_eq!(seen.len(), 1);
    let offset = end as u64;
    assert!(matches!(error, Some(ProtoError::BadHeader { offset: at, .. }) if at == offset));
}

#[test]
fn unknown_frame_type_is_an_error_not_a_panic() {
    assert_eq!(Frame::decode(200, &[]), Err(ProtoError::UnknownKind(200)));
}
