//! What is written is read.
#![allow(clippy::unwrap_used, reason = "test code")]

use crate::common::files;
use proptest::prelude::*;
use transect_model::{exit::Isa, ids::CpuId};
use transect_xentrace::{
    Hypercall, Lost, Runstate, Writer, XenEvent, XenTrace, XenVcpu, XenVersion, records,
};

fn vcpu() -> impl Strategy<Value = XenVcpu> {
    (any::<u16>(), any::<u16>()).prop_map(|(dom, vcpu)| XenVcpu { dom, vcpu })
}

fn runstate() -> impl Strategy<Value = Runstate> {
    prop::sample::select(vec![
        Runstate::Running,
        Runstate::Runnable,
        Runstate::Blocked,
        Runstate::Offline,
    ])
}

fn slice() -> impl Strategy<Value = Option<u32>> {
    prop::option::of(0..=i32::MAX as u32)
}

fn call() -> impl Strategy<Value = Hypercall> {
    (0..1_u32 << 20, any::<[Option<u32>; 6]>()).prop_map(|(op, args)| Hypercall::new(op, args))
}

fn exit() -> impl Strategy<Value = XenEvent> {
    // What one number means depends on the version: 4.17 knows no Vmx of its own.
    let isa = prop::sample::select(vec![None, Some(Isa::Svm)]);
    (any::<u32>(), any::<u64>(), any::<bool>(), isa)
        .prop_map(|(reason, rip, nested, isa)| XenEvent::VmExit { reason, rip, nested, isa })
}

fn scheduling() -> impl Strategy<Value = XenEvent> {
    let of_vcpu = (vcpu(), 0..6).prop_map(|(vcpu, which)| match which {
        0 => XenEvent::ContinueRunning { vcpu },
        1 => XenEvent::Wake { vcpu },
        2 => XenEvent::Sleep { vcpu },
        3 => XenEvent::Block { vcpu },
        4 => XenEvent::Yield { vcpu },
        _ => XenEvent::Shutdown { vcpu, reason: 3 },
    });
    prop_oneof![
        of_vcpu,
        (vcpu(), runstate(), runstate()).prop_map(|(vcpu, old, new)| XenEvent::RunstateChange {
            vcpu,
            old,
            new
        }),
        (vcpu(), any::<u32>()).prop_map(|(vcpu, ran_ns)| XenEvent::SwitchInfPrev { vcpu, ran_ns }),
        (vcpu(), any::<u32>(), slice()).prop_map(|(vcpu, waited_ns, slice_ns)| {
            XenEvent::SwitchInfNext { vcpu, waited_ns, slice_ns }
        }),
        (vcpu(), any::<u32>(), slice()).prop_map(|(vcpu, ran_ns, slice_ns)| {
            XenEvent::SwitchInfCont { vcpu, ran_ns, slice_ns }
        }),
        (vcpu(), vcpu()).prop_map(|(prev, next)| XenEvent::Switch { prev, next }),
    ]
}

fn of_domain() -> impl Strategy<Value = XenEvent> {
    (any::<u16>(), 0..7).prop_map(|(dom, which)| match which {
        0 => XenEvent::DomainScheduled { dom },
        1 => XenEvent::DomainUnscheduled { dom },
        2 => XenEvent::DomainCreated { dom },
        3 => XenEvent::DomainDestroyed { dom },
        4 => XenEvent::GrantMap { dom },
        5 => XenEvent::GrantUnmap { dom },
        _ => XenEvent::GrantTransfer { dom },
    })
}

fn of_guest() -> impl Strategy<Value = XenEvent> {
    prop_oneof![
        exit(),
        any::<bool>().prop_map(|nested| XenEvent::VmEntry { nested }),
        any::<u32>().prop_map(|vector| XenEvent::Injection { vector }),
        any::<Option<u32>>().prop_map(|vector| XenEvent::Interrupt { vector }),
        any::<u32>().prop_map(|op| XenEvent::HvmHypercall { op }),
        any::<bool>().prop_map(|pending| XenEvent::Halt { pending }),
        call().prop_map(XenEvent::Hypercall),
        call().prop_map(XenEvent::Subcall),
        (0..0x8000_u16, any::<Option<u16>>(), any::<u64>())
            .prop_map(|(trap, error_code, rip)| XenEvent::PvTrap { trap, error_code, rip }),
        (any::<u64>(), any::<u64>(), any::<u32>())
            .prop_map(|(rip, addr, error_code)| XenEvent::PvPageFault { rip, addr, error_code }),
        any::<u64>().prop_map(|rip| XenEvent::PvPrivop { rip }),
        Just(XenEvent::PvMathState),
        any::<[u64; 3]>().prop_map(|[rip, addr, pte]| XenEvent::PvPtwr { rip, addr, pte }),
    ]
}

fn of_hardware() -> impl Strategy<Value = XenEvent> {
    prop_oneof![
        any::<[u32; 2]>().prop_map(|[irq, took_tsc]| XenEvent::IrqHandled { irq, took_tsc }),
        any::<u32>().prop_map(|state| XenEvent::IdleEntry { state }),
        any::<u32>().prop_map(|state| XenEvent::IdleExit { state }),
        any::<[u32; 2]>()
            .prop_map(|[from_mhz, to_mhz]| XenEvent::FrequencyChange { from_mhz, to_mhz }),
    ]
}

fn event() -> impl Strategy<Value = XenEvent> {
    prop_oneof![4 => scheduling(), 1 => of_domain(), 4 => of_guest(), 1 => of_hardware()]
}

/// Events with the CPU they are on and what the clock advances before them.
fn trace() -> impl Strategy<Value = Vec<(u32, u64, XenEvent)>> {
    prop::collection::vec((0..4_u32, 0..1_000_000_u64, event()), 1..200)
}

proptest! {
    #[test]
    fn events_come_back(trace in trace(), window_bytes in 1..3_000_usize) {
        let mut writer = Writer::new(Vec::new(), window_bytes);
        let mut written = vec![Vec::new(); 4];
        let mut tsc = 1_000;
        for (cpu, advance, event) in trace {
            tsc += advance;
            // The first record of a CPU has a stamp, or what it inherits would come from later.
            let first = written[cpu as usize].is_empty();
            let stamped = !matches!(
                event,
                XenEvent::Injection { .. } | XenEvent::Interrupt { .. }
                    | XenEvent::HvmHypercall { .. } | XenEvent::Halt { .. }
            );
            if first && !stamped {
                continue;
            }
            let last = written[cpu as usize].last().map_or(tsc, |&(last, _)| last);
            writer.event(CpuId(cpu), tsc, &event).unwrap();
            written[cpu as usize].push((if stamped { tsc } else { last }, event));
        }
        let file = writer.finish().unwrap();
        prop_assume!(!file.is_empty());
        let trace = XenTrace::parse(&file, XenVersion::Unknown).unwrap();
        prop_assert!(trace.problems().is_empty());
        for (cpu, written) in (0..4).zip(written) {
            let mut stream = trace.stream(CpuId(cpu));
            let read: Vec<_> = stream.by_ref().map(|record| (record.tsc, record.typed())).collect();
            prop_assert_eq!(read, written);
            prop_assert!(stream.problems().is_empty());
        }
    }

    #[test]
    fn fields_come_back_bit_by_bit(words in any::<[u32; 7]>()) {
        // Every row's fields, put together again, are the bits they were taken from.
        for row in records::all().filter(|row| row.versions.written) {
            let used = &words[..usize::from(row.max_words)];
            let extra: Vec<u8> = used.iter().flat_map(|word| word.to_le_bytes()).collect();
            for field in row.fields {
                let Some(value) = field.value(row.id | row.varying, &extra) else {
                    prop_assert!(matches!(field.at, records::At::Argument(_)));
                    continue;
                };
                let word = |at: u8| u64::from(words[usize::from(at)]);
                let expected = match field.at {
                    records::At::Word(at) => word(at),
                    records::At::Pair(at) => word(at) | word(at + 1) << 32,
                    records::At::Bits { word: at, shift, bits } => word(at) << (64 - shift - bits) >> (64 - bits),
                    _ => continue,
                };
                let expected = if field.meaning == records::Meaning::Bool { u64::from(expected != 0) } else { expected };
                prop_assert_eq!(value.as_u64(), Some(expected), "{} {}", row.name, field.name);
            }
        }
    }
}

#[test]
fn vmx_exits_come_back_from_4_19() {
    let event = XenEvent::VmExit { reason: 12, rip: 1 << 40, nested: false, isa: Some(Isa::Vmx) };
    let mut writer = Writer::new(Vec::new(), 4096);
    writer.event(CpuId(0), 5, &event).unwrap();
    let file = writer.finish().unwrap();
    let typed = |minor| {
        let trace = XenTrace::parse(&file, XenVersion::Minor(minor)).unwrap();
        trace.stream(CpuId(0)).next().unwrap().typed()
    };
    assert_eq!(typed(19), event);
    let XenEvent::VmExit { isa, .. } = typed(18) else { unreachable!() };
    assert_eq!(isa, None);
}

#[test]
fn lost_records_come_back() {
    let current = XenVcpu { dom: 3, vcpu: 7 };
    let lost = Lost { count: 28_343, from_tsc: 100, to_tsc: 9_000, current };
    let mut writer = Writer::new(Vec::new(), 4096);
    writer.event(CpuId(0), 50, &XenEvent::PvMathState).unwrap();
    writer.event(CpuId(0), lost.to_tsc, &XenEvent::Lost(lost)).unwrap();
    let file = writer.finish().unwrap();
    let trace = XenTrace::parse(&file, XenVersion::Unknown).unwrap();
    let mut stream = trace.stream(CpuId(0));
    assert_eq!(stream.by_ref().last().unwrap().typed(), XenEvent::Lost(lost));
    assert_eq!((stream.totals().lost_records, stream.totals().lost), (1, 28_343));
}

#[test]
fn copies_are_the_same() {
    for (name, file) in files("succeed") {
        let trace = XenTrace::parse(&file, XenVersion::Unknown).unwrap();
        let mut writer = Writer::new(Vec::new(), 700);
        for cpu in trace.cpus() {
            for record in trace.stream(cpu) {
                writer.copy(cpu, &record).unwrap();
            }
        }
        let copy = writer.finish().unwrap();
        let copy = XenTrace::parse(&copy, XenVersion::Unknown).unwrap();
        for cpu in trace.cpus() {
            let key = |record: transect_xentrace::Record<'_>| {
                (record.tsc, record.stamped, record.event, record.extra.to_vec())
            };
            assert!(copy.stream(cpu).map(key).eq(trace.stream(cpu).map(key)), "{name} CPU {cpu}");
        }
    }
}

#[test]
fn what_cannot_be_written_says_so() {
    let mut writer = Writer::new(Vec::new(), 4096);
    let failed = writer.record(CpuId(0), None, 1, &[0; 8]).unwrap_err();
    assert_eq!(failed.to_string(), "a record of event 0x1 has 8 words: the maximum is 7");
    let failed = writer.record(CpuId(0), None, 1 << 28, &[]).unwrap_err();
    assert_eq!(failed.to_string(), "event number 0x10000000 has more than 28 bits");
    let failed = writer.record(CpuId(16_384), None, 1, &[]).unwrap_err();
    assert_eq!(failed.to_string(), "invalid CPU 16384: Xen has at most 16384");
    assert!(writer.event(CpuId(0), 1, &XenEvent::Other).is_err());
}
