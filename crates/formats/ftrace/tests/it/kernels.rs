//! Format files of real kernels (and of older ones and arm64, written after their sources): all are
//! read, and each core tracepoint's record becomes its core event.
#![allow(clippy::expect_used, clippy::panic, reason = "test code")]

use std::path::{Path, PathBuf};
use transect_ftrace::{
    CoreDecoder, Endian, EventFormat, EventTable, Field, FieldKind, PageLayout, Value,
    check_header_event, core_tracepoints,
};
use transect_model::{
    event::{Access, BlockOp, BlockRequest, Comm, CoreEvent, PrevState},
    exit::{ExitReason, Isa},
    ids::{CpuId, Tid, VcpuId},
    interrupt::{Context, VectorSource},
};

fn testdata(part: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../testdata").join(part)
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder of test data");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|found| found == extension));
    paths.sort();
    paths
}

/// All events of one kernel's folder.
fn kernel(name: &str) -> EventTable {
    let mut table = EventTable::new(Endian::Little, 8);
    for path in files(&testdata("succeed/ftrace").join(name), "format") {
        let stem = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let (system, event) = stem.split_once('.').expect("SYSTEM.EVENT.format");
        let text = std::fs::read(&path).expect("a format file");
        table.add(system, &text).unwrap_or_else(|err| panic!("{}: {err}", path.display()));
        let found = table.find(system, event).expect("the event it is named after");
        assert!(!found.print_fmt.is_empty());
        assert!(found.fields.iter().all(|field| field.kind != FieldKind::Bytes), "{stem}");
    }
    assert!(table.len() > 20);
    table
}

/// A value to put into a record's field.
enum Put<'a> {
    Int(u64),
    Text(&'a str),
}
use Put::{Int, Text};

/// A record of an event, its fields set by name.
fn record(event: &EventFormat, endian: Endian, tid: u32, puts: &[(&str, Put<'_>)]) -> Vec<u8> {
    let end = event.fields.iter().map(Field::end_bytes).max().unwrap_or(8);
    let mut record = vec![0; end];
    let mut set = |at: usize, size: usize, value: u64| {
        let bytes = endian.bytes_u64(value);
        let bytes = if endian == Endian::Little { &bytes[..size] } else { &bytes[8 - size..] };
        record[at..at + size].copy_from_slice(bytes);
    };
    set(0, 2, u64::from(event.id));
    set(4, 4, u64::from(tid));
    let mut tail: Vec<u8> = Vec::new();
    for (name, put) in puts {
        let field = event.field(name).unwrap_or_else(|| panic!("{}: {name}", event.name));
        match (put, field.kind) {
            (Int(value), _) => set(field.offset_bytes, field.size_bytes, *value),
            (Text(text), FieldKind::Dynamic { .. }) => {
                let length = text.len() + 1;
                set(field.offset_bytes, 4, ((length << 16) | (end + tail.len())) as u64);
                tail.extend(text.bytes());
                tail.push(0);
            }
            (Text(text), _) => {
                for (at, byte) in text.bytes().enumerate() {
                    set(field.offset_bytes + at, 1, u64::from(byte));
                }
            }
        }
    }
    record.extend(tail);
    record
}

fn comm(name: &str) -> Comm {
    Comm::new(name.as_bytes())
}

/// Tracepoint, fields of its record, what it is.
type Case = (&'static str, Vec<(&'static str, Put<'static>)>, CoreEvent);

/// Every core tracepoint with fields set, and the event it must become. Fields that one kernel
/// does not have are left out by the caller.
fn cases() -> Vec<Case> {
    // The flags of a hard interrupt within a softirq.
    let woken = || {
        vec![
            ("common_flags", Int(0x18)),
            ("comm", Text("CPU 0/KVM")),
            ("pid", Int(162)),
            ("prio", Int(120)),
            ("target_cpu", Int(3)),
        ]
    };
    let (tid, name, target_cpu) = (Tid(162), comm("CPU 0/KVM"), CpuId(3));
    let context = Some(Context::Irq);
    let mut cases = vec![
        (
            "sched:sched_switch",
            vec![
                ("prev_comm", Text("hog")),
                ("prev_pid", Int(7)),
                ("prev_prio", Int(120)),
                ("prev_state", Int(2)),
                ("next_comm", Text("fifteen_letters")),
                ("next_pid", Int(8)),
                ("next_prio", Int(u64::MAX)),
            ],
            CoreEvent::SchedSwitch {
                prev: Tid(7),
                prev_comm: comm("hog"),
                prev_prio: 120,
                prev_state: PrevState(2),
                next: Tid(8),
                next_comm: comm("fifteen_letters"),
                next_prio: -1,
            },
        ),
        (
            "sched:sched_waking",
            woken(),
            CoreEvent::SchedWaking { tid, comm: name, prio: 120, target_cpu, context },
        ),
        (
            "sched:sched_wakeup",
            woken(),
            CoreEvent::SchedWakeup { tid, comm: name, prio: 120, target_cpu, context },
        ),
        (
            "sched:sched_wakeup_new",
            woken(),
            CoreEvent::SchedWakeupNew { tid, comm: name, prio: 120, target_cpu },
        ),
        (
            "sched:sched_migrate_task",
            vec![("pid", Int(9)), ("orig_cpu", Int(1)), ("dest_cpu", Int(2))],
            CoreEvent::SchedMigrate { tid: Tid(9), orig_cpu: CpuId(1), dest_cpu: CpuId(2) },
        ),
        (
            "sched:sched_process_fork",
            vec![("parent_pid", Int(1)), ("child_pid", Int(2)), ("child_comm", Text("sh"))],
            CoreEvent::SchedFork {
                parent: Tid(1),
                child: Tid(2),
                child_pid: None,
                child_comm: comm("sh"),
            },
        ),
        (
            "sched:sched_process_exec",
            vec![("filename", Text("/bin/ls")), ("pid", Int(4)), ("old_pid", Int(5))],
            CoreEvent::SchedExec { tid: Tid(4), old_tid: Tid(5) },
        ),
        (
            "sched:sched_process_exit",
            vec![("comm", Text("ls")), ("pid", Int(4))],
            CoreEvent::SchedExit { tid: Tid(4), comm: comm("ls") },
        ),
        (
            "task:task_rename",
            vec![("newcomm", Text("new")), ("pid", Int(77))],
            CoreEvent::TaskRename { tid: Tid(77), new_comm: comm("new") },
        ),
        (
            "kvm:kvm_entry",
            vec![("vcpu_id", Int(1)), ("rip", Int(0xffff_8000_0000_0001))],
            CoreEvent::KvmEntry { vcpu: Some(VcpuId(1)), rip: Some(0xffff_8000_0000_0001) },
        ),
        (
            "kvm:kvm_exit",
            vec![
                ("exit_reason", Int(0x81)),
                ("guest_rip", Int(5)),
                ("isa", Int(2)),
                ("info1", Int(6)),
                ("info2", Int(7)),
                ("vcpu_id", Int(1)),
            ],
            CoreEvent::KvmExit {
                vcpu: Some(VcpuId(1)),
                reason: ExitReason { isa: Isa::Svm, code: 0x81 },
                rip: 5,
                info1: 6,
                info2: 7,
            },
        ),
        (
            "kvm:kvm_hypercall",
            vec![
                ("nr", Int(1000)),
                ("a0", Int(1)),
                ("a1", Int(2)),
                ("a2", Int(3)),
                ("a3", Int(u64::MAX)),
            ],
            CoreEvent::KvmHypercall { nr: 1000, args: [1, 2, 3, u64::MAX] },
        ),
        (
            "kvm:kvm_userspace_exit",
            vec![("reason", Int(2)), ("errno", Int((-4i64).cast_unsigned()))],
            CoreEvent::KvmUserspaceExit { reason: 2, errno: -4 },
        ),
        (
            "kvm:kvm_vcpu_wakeup",
            vec![("ns", Int(12)), ("waited", Int(1)), ("valid", Int(0))],
            CoreEvent::KvmVcpuWakeup { ns: 12, waited: true, valid: false },
        ),
        (
            "kvm:kvm_halt_poll_ns",
            vec![("grow", Int(1)), ("vcpu_id", Int(1)), ("new", Int(10)), ("old", Int(20))],
            CoreEvent::KvmHaltPollNs { vcpu: VcpuId(1), new_ns: 10, old_ns: 20 },
        ),
        (
            "kvm:kvm_pio",
            vec![
                ("rw", Int(1)),
                ("port", Int(0x3f8)),
                ("size", Int(1)),
                ("count", Int(2)),
                ("val", Int(65)),
            ],
            CoreEvent::KvmPio {
                access: Access::Write,
                port: 0x3f8,
                size: 1,
                count: 2,
                value: Some(65),
            },
        ),
        (
            "kvm:kvm_mmio",
            // What is read comes later: a value is none.
            vec![("type", Int(0)), ("len", Int(4)), ("gpa", Int(0xfee0_0000)), ("val", Int(5))],
            CoreEvent::KvmMmio {
                access: Access::UnsatisfiedRead,
                gpa: 0xfee0_0000,
                len: 4,
                value: None,
            },
        ),
        (
            "kvm:kvm_fast_mmio",
            vec![("gpa", Int(0xfebf_0000))],
            CoreEvent::KvmFastMmio { gpa: 0xfebf_0000 },
        ),
        (
            "kvm:kvm_mmio",
            vec![("type", Int(2)), ("len", Int(2)), ("gpa", Int(0xfebf_b004)), ("val", Int(1))],
            CoreEvent::KvmMmio { access: Access::Write, gpa: 0xfebf_b004, len: 2, value: Some(1) },
        ),
        (
            "kvm:kvm_page_fault",
            vec![("fault_address", Int(0x1000)), ("error_code", Int(0x14))],
            CoreEvent::KvmPageFault { gpa: 0x1000, error_code: 0x14 },
        ),
        (
            "kvm:kvm_set_irq",
            vec![("gsi", Int(5)), ("level", Int(1))],
            CoreEvent::KvmSetIrq { gsi: 5, level: 1 },
        ),
        (
            "kvm:kvm_msi_set_irq",
            vec![("address", Int(0xfee0_1000)), ("data", Int(0x41))],
            CoreEvent::KvmMsi { address: 0xfee0_1000, data: 0x41 },
        ),
        (
            "kvm:kvm_inj_virq",
            vec![("vector", Int(0xec)), ("reinjected", Int(1))],
            CoreEvent::KvmInjVirq { vector: 0xec, reinjected: true },
        ),
        (
            "kvm:kvm_write_tsc_offset",
            vec![
                ("vcpu_id", Int(1)),
                ("previous_tsc_offset", Int(0)),
                ("next_tsc_offset", Int((-5i64).cast_unsigned())),
            ],
            CoreEvent::KvmWriteTscOffset {
                vcpu: VcpuId(1),
                previous: 0,
                next: (-5i64).cast_unsigned(),
            },
        ),
        (
            "irq:irq_handler_entry",
            vec![("irq", Int(25)), ("name", Text("virtio1-req.0"))],
            CoreEvent::IrqEntry { irq: 25, name: comm("virtio1-req.0") },
        ),
        (
            "irq:irq_handler_exit",
            vec![("irq", Int(25)), ("ret", Int(1))],
            CoreEvent::IrqExit { irq: 25, handled: true },
        ),
        (
            "irq:softirq_raise",
            vec![("common_flags", Int(0x10)), ("vec", Int(9))],
            CoreEvent::SoftirqRaise { vector: 9, context: Some(Context::Softirq) },
        ),
        ("irq:softirq_entry", vec![("vec", Int(9))], CoreEvent::SoftirqEntry { vector: 9 }),
        ("irq:softirq_exit", vec![("vec", Int(9))], CoreEvent::SoftirqExit { vector: 9 }),
        ("raw_syscalls:sys_enter", vec![("id", Int(59))], CoreEvent::SyscallEnter { nr: 59 }),
        (
            "raw_syscalls:sys_exit",
            vec![("id", Int(59)), ("ret", Int((-2i64).cast_unsigned()))],
            CoreEvent::SyscallExit { nr: 59, ret: -2 },
        ),
    ];
    cases.extend(io_cases());
    cases.extend(vector_cases());
    cases.extend(cause_cases());
    cases
}

/// The same for what devices and kworkers do.
fn io_cases() -> Vec<Case> {
    let request = |rwbs| {
        vec![
            ("dev", Int(254 << 20 | 3)),
            ("sector", Int(1 << 33)),
            ("nr_sector", Int(8)),
            ("rwbs", Text(rwbs)),
        ]
    };
    let read =
        |op| BlockRequest { device: 254 << 20 | 3, sector: 1 << 33, sectors: 8, op, id: None };
    let mut complete = request("FF");
    complete.push(("error", Int((-5i64).cast_unsigned())));
    let (skb, device) = (0xffff_8880_1234_5678, comm("enp0s3"));
    let packet = || vec![("skbaddr", Int(skb)), ("len", Int(1514)), ("name", Text("enp0s3"))];
    let mut sent = packet();
    sent.push(("rc", Int(16)));
    let (work, function) = (0xffff_8880_0000_0010, 0xffff_ffff_8100_0000);
    let item = || vec![("work", Int(work)), ("function", Int(function))];
    vec![
        ("block:block_rq_insert", request("WS"), CoreEvent::BlockInsert(read(BlockOp::Write))),
        ("block:block_rq_issue", request("RA"), CoreEvent::BlockIssue(read(BlockOp::Read))),
        (
            "block:block_rq_complete",
            complete,
            CoreEvent::BlockComplete { request: read(BlockOp::Flush), error: -5 },
        ),
        ("net:net_dev_xmit", sent, CoreEvent::NetXmit { skb, bytes: 1514, device, code: 16 }),
        ("net:netif_receive_skb", packet(), CoreEvent::NetReceive { skb, bytes: 1514, device }),
        ("workqueue:workqueue_execute_start", item(), CoreEvent::WorkStart { work, function }),
        ("workqueue:workqueue_execute_end", item(), CoreEvent::WorkEnd { work, function }),
    ]
}

fn cause_cases() -> Vec<Case> {
    let accepted =
        || vec![("apicid", Int(3)), ("dm", Int(0x100)), ("tm", Int(1)), ("vec", Int(0x23))];
    let accept = |hardware| CoreEvent::KvmAccept {
        vcpu: VcpuId(3),
        vector: 0x23,
        mode: 1,
        hardware,
        context: Some(Context::Task),
    };
    let (lock, work, function) =
        (0xffff_8880_0000_0020, 0xffff_8880_0000_0010, 0xffff_ffff_8100_0000);
    let reclaim = |memcg| CoreEvent::ReclaimBegin { memcg, order: 3 };
    let reclaimed = |memcg| CoreEvent::ReclaimEnd { memcg, pages: 1 << 33 };
    vec![
        ("kvm:kvm_apic_accept_irq", accepted(), accept(false)),
        ("kvm:kvm_apicv_accept_irq", accepted(), accept(true)),
        (
            "workqueue:workqueue_queue_work",
            vec![("common_flags", Int(0x48)), ("work", Int(work)), ("function", Int(function))],
            CoreEvent::WorkQueue { work, function, context: Some(Context::Nmi) },
        ),
        (
            "lock:contention_begin",
            vec![("lock_addr", Int(lock)), ("flags", Int(2))],
            CoreEvent::LockBegin { lock, flags: 2, owner: None },
        ),
        (
            "lock:contention_end",
            vec![("lock_addr", Int(lock)), ("ret", Int((-4i64).cast_unsigned()))],
            CoreEvent::LockEnd { lock, ret: -4 },
        ),
        ("vmscan:mm_vmscan_direct_reclaim_begin", vec![("order", Int(3))], reclaim(false)),
        (
            "vmscan:mm_vmscan_direct_reclaim_end",
            vec![("nr_reclaimed", Int(1 << 33))],
            reclaimed(false),
        ),
        ("vmscan:mm_vmscan_memcg_reclaim_begin", vec![("order", Int(3))], reclaim(true)),
        (
            "vmscan:mm_vmscan_memcg_reclaim_end",
            vec![("nr_reclaimed", Int(1 << 33))],
            reclaimed(true),
        ),
    ]
}

fn vector_cases() -> Vec<Case> {
    let sources = [
        ("irq_vectors:local_timer_entry", "irq_vectors:local_timer_exit", VectorSource::LocalTimer),
        ("irq_vectors:reschedule_entry", "irq_vectors:reschedule_exit", VectorSource::Reschedule),
        (
            "irq_vectors:call_function_entry",
            "irq_vectors:call_function_exit",
            VectorSource::CallFunction,
        ),
        (
            "irq_vectors:call_function_single_entry",
            "irq_vectors:call_function_single_exit",
            VectorSource::CallFunctionSingle,
        ),
        ("irq_vectors:irq_work_entry", "irq_vectors:irq_work_exit", VectorSource::IrqWork),
        (
            "irq_vectors:x86_platform_ipi_entry",
            "irq_vectors:x86_platform_ipi_exit",
            VectorSource::PlatformIpi,
        ),
        ("irq_vectors:thermal_apic_entry", "irq_vectors:thermal_apic_exit", VectorSource::Thermal),
        (
            "irq_vectors:threshold_apic_entry",
            "irq_vectors:threshold_apic_exit",
            VectorSource::Threshold,
        ),
        (
            "irq_vectors:deferred_error_apic_entry",
            "irq_vectors:deferred_error_apic_exit",
            VectorSource::DeferredError,
        ),
        (
            "irq_vectors:spurious_apic_entry",
            "irq_vectors:spurious_apic_exit",
            VectorSource::Spurious,
        ),
        ("irq_vectors:error_apic_entry", "irq_vectors:error_apic_exit", VectorSource::Error),
    ];
    let pair = |(entry, exit, source)| {
        let number = || vec![("vector", Int(0xec))];
        let vector = 0xec;
        [
            (entry, number(), CoreEvent::VectorEntry { source, vector }),
            (exit, number(), CoreEvent::VectorExit { source, vector }),
        ]
    };
    sources.into_iter().flat_map(pair).collect()
}

fn core_events_are_read(table: &EventTable, absent: &[&str]) {
    let decoder = CoreDecoder::new(table);
    assert_eq!(decoder.incomplete(), Vec::<String>::new());
    for (name, puts, expected) in cases() {
        let (system, event) = name.split_once(':').expect("SYSTEM:EVENT");
        let Some(event) = table.find(system, event) else {
            let is_absent = absent.iter().any(|absent| name.starts_with(absent));
            assert!(is_absent, "{name} is not there");
            continue;
        };
        let record = record(event, Endian::Little, 42, &puts);
        assert_eq!(decoder.decode(&record), Some(expected), "{name}");
        assert_eq!(table.tid_of(&record), Some(Tid(42)));
        // A record that ends before its last field is no event, but no panic either.
        for cut in 0..record.len() {
            let _ = decoder.decode(&record[..cut]);
        }
        assert_eq!(decoder.decode(&record[..2]), None);
    }
}

#[test]
fn linux_6_18() {
    let absent = ["irq_vectors:threshold_apic", "irq_vectors:deferred_error_apic"];
    core_events_are_read(&kernel("linux-6.18"), &absent);
}

#[test]
fn linux_6_1() {
    let absent = [
        "kvm:kvm_fast_mmio",
        "kvm:kvm_write_tsc_offset",
        "kvm:kvm_apic",
        "irq_vectors:",
        "workqueue:workqueue_queue_work",
        "lock:",
        "vmscan:",
    ];
    core_events_are_read(&kernel("linux-6.1"), &absent);
}

#[test]
fn every_core_tracepoint_is_tested() {
    for (system, name) in core_tracepoints() {
        let full = format!("{system}:{name}");
        let is_tested = cases().iter().any(|(name, ..)| *name == full);
        assert!(is_tested || full == "kvm:kvm_guest_fault", "{full}");
    }
}

#[test]
fn headers_of_linux_6_18() {
    let folder = testdata("succeed/ftrace/linux-6.18");
    let page = std::fs::read(folder.join("header_page")).expect("header_page");
    assert_eq!(PageLayout::parse(&page, Endian::Little), Ok(PageLayout::native(4096)));
    let event = std::fs::read(folder.join("header_event")).expect("header_event");
    assert_eq!(check_header_event(&event), Ok(()));
}

#[test]
fn a_cpu_mask() {
    let table = kernel("linux-6.18");
    let event = table.find("ipi", "ipi_send_cpumask").expect("the event");
    let mut record = record(event, Endian::Little, 1, &[("cpumask", Int(16 << 16 | 32))]);
    record.extend(0x8000_0000_0000_0001u64.to_le_bytes());
    record.extend(2u64.to_le_bytes());
    let value = table.value(event.field("cpumask").expect("the field"), &record);
    let Some(Value::CpuMask(mask)) = value else { panic!("{value:?}") };
    assert_eq!(mask.cpus().collect::<Vec<_>>(), [0, 63, 65]);
}

/// A format file in the kernel's words.
fn written(name: &str, fields: &[(&str, usize, usize, u8)]) -> String {
    let mut text = format!("name: {name}\nID: 99\nformat:\n");
    let common = [
        ("unsigned short common_type", 0, 2, 0),
        ("unsigned char common_flags", 2, 1, 0),
        ("unsigned char common_preempt_count", 3, 1, 0),
        ("int common_pid", 4, 4, 1),
    ];
    for (field, offset, size, signed) in common.iter().chain(fields) {
        text.push_str(&format!(
            "\tfield:{field};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n"
        ));
    }
    text + "\nprint fmt: \"\"\n"
}

fn decode_written(
    system: &str,
    name: &str,
    fields: &[(&str, usize, usize, u8)],
    puts: &[(&str, Put<'_>)],
) -> Option<CoreEvent> {
    let mut table = EventTable::new(Endian::Big, 8);
    table.add(system, written(name, fields).as_bytes()).expect("a format");
    let record = record(table.get(99).expect("the event"), Endian::Big, 1, puts);
    CoreDecoder::new(&table).decode(&record)
}

/// `arch/x86/kvm/trace.h` of Linux 5.4: no vCPU at the exit, no instruction pointer at the entry.
#[test]
fn kvm_of_linux_5_4() {
    let entry = decode_written(
        "kvm",
        "kvm_entry",
        &[("unsigned int vcpu_id", 8, 4, 0)],
        &[("vcpu_id", Int(3))],
    );
    assert_eq!(entry, Some(CoreEvent::KvmEntry { vcpu: Some(VcpuId(3)), rip: None }));
    let exit = decode_written(
        "kvm",
        "kvm_exit",
        &[
            ("unsigned int exit_reason", 8, 4, 0),
            ("unsigned long guest_rip", 16, 8, 0),
            ("u32 isa", 24, 4, 0),
            ("u64 info1", 32, 8, 0),
            ("u64 info2", 40, 8, 0),
        ],
        &[("exit_reason", Int(48)), ("isa", Int(1)), ("info1", Int(9))],
    );
    let reason = ExitReason { isa: Isa::Vmx, code: 48 };
    assert_eq!(exit, Some(CoreEvent::KvmExit { vcpu: None, reason, rip: 0, info1: 9, info2: 0 }));
}

/// `arch/arm64/kvm/trace_arm.h`: exits by exception class where a trap was taken.
#[test]
fn kvm_of_arm64() {
    let fields = [
        ("int ret", 8, 4, 1),
        ("unsigned int esr_ec", 12, 4, 0),
        ("unsigned long vcpu_pc", 16, 8, 0),
    ];
    let exit = |ret, esr_ec| {
        let puts = [("ret", Int(ret)), ("esr_ec", Int(esr_ec)), ("vcpu_pc", Int(0x80))];
        match decode_written("kvm", "kvm_exit", &fields, &puts) {
            Some(CoreEvent::KvmExit { vcpu: None, reason, rip: 0x80, .. }) => reason,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(exit(2, 0x16), ExitReason { isa: Isa::Arm64, code: 0x16 });
    assert!(exit(2, 0x16).is_hypercall());
    assert_eq!(exit(0, 0), ExitReason { isa: Isa::Arm64Ret, code: 0 });
    let entry = decode_written(
        "kvm",
        "kvm_entry",
        &[("unsigned long vcpu_pc", 8, 8, 0)],
        &[("vcpu_pc", Int(0x80))],
    );
    assert_eq!(entry, Some(CoreEvent::KvmEntry { vcpu: None, rip: Some(0x80) }));
    let fault = decode_written(
        "kvm",
        "kvm_guest_fault",
        &[
            ("unsigned long vcpu_pc", 8, 8, 0),
            ("unsigned long hsr", 16, 8, 0),
            ("unsigned long hxfar", 24, 8, 0),
            ("unsigned long long ipa", 32, 8, 0),
        ],
        &[("hsr", Int(0x9300_0007)), ("ipa", Int(0x4000_0000))],
    );
    let gpa = 0x4000_0000;
    assert_eq!(fault, Some(CoreEvent::KvmPageFault { gpa, error_code: 0x9300_0007 }));
}

/// Linux 4.2 and earlier had `success` in the wakeup events and called the injected vector `irq`.
#[test]
fn renamed_and_dropped_fields() {
    let wakeup = decode_written(
        "sched",
        "sched_wakeup",
        &[
            ("char comm[16]", 8, 16, 1),
            ("pid_t pid", 24, 4, 1),
            ("int prio", 28, 4, 1),
            ("int success", 32, 4, 1),
            ("int target_cpu", 36, 4, 1),
        ],
        &[("comm", Text("a")), ("pid", Int(5)), ("prio", Int(1)), ("target_cpu", Int(2))],
    );
    let (tid, prio, target_cpu, context) = (Tid(5), 1, CpuId(2), Some(Context::Task));
    let expected = CoreEvent::SchedWakeup { tid, comm: comm("a"), prio, target_cpu, context };
    assert_eq!(wakeup, Some(expected));
    let fields = [("unsigned int irq", 8, 4, 0)];
    let inject = decode_written("kvm", "kvm_inj_virq", &fields, &[("irq", Int(0x20))]);
    assert_eq!(inject, Some(CoreEvent::KvmInjVirq { vector: 0x20, reinjected: false }));
    let rename = decode_written(
        "task",
        "task_rename",
        &[("char oldcomm[16]", 8, 16, 0), ("char newcomm[16]", 24, 16, 0)],
        &[("newcomm", Text("b"))],
    );
    assert_eq!(rename, Some(CoreEvent::TaskRename { tid: Tid(1), new_comm: comm("b") }));
}

/// Linux 4.4: `errors` of a request, and a work item's end without its function.
#[test]
fn block_and_work_of_linux_4_4() {
    let complete = decode_written(
        "block",
        "block_rq_complete",
        &[
            ("dev_t dev", 8, 4, 0),
            ("sector_t sector", 16, 8, 0),
            ("unsigned int nr_sector", 24, 4, 0),
            ("int errors", 28, 4, 1),
            ("char rwbs[8]", 32, 8, 1),
        ],
        &[("dev", Int(8 << 20)), ("errors", Int(5)), ("rwbs", Text("R"))],
    );
    let request =
        BlockRequest { device: 8 << 20, sector: 0, sectors: 0, op: BlockOp::Read, id: None };
    assert_eq!(complete, Some(CoreEvent::BlockComplete { request, error: 5 }));
    let fields = [("void * work", 8, 8, 0)];
    let end = decode_written("workqueue", "workqueue_execute_end", &fields, &[("work", Int(7))]);
    assert_eq!(end, Some(CoreEvent::WorkEnd { work: 7, function: 0 }));
}

#[test]
fn a_core_event_without_a_needed_field_is_named() {
    let mut table = EventTable::new(Endian::Little, 8);
    let text = written("kvm_pio", &[("unsigned int port", 8, 4, 0)]);
    table.add("kvm", text.as_bytes()).expect("a format");
    let decoder = CoreDecoder::new(&table);
    assert_eq!(decoder.incomplete(), ["kvm:kvm_pio"]);
    assert!(!decoder.is_core(99));
}

/// Format files that are wrong in one way each: what is said about them, word for word.
#[test]
fn bad_formats_are_explained() {
    let paths = files(&testdata("fail/ftrace"), "format");
    assert!(paths.len() >= 8);
    for path in paths {
        let text = std::fs::read(&path).expect("a file");
        let said = match EventFormat::parse("sched", &text, 8) {
            Ok(event) => {
                let mut table = EventTable::new(Endian::Little, 8);
                table.add_format(event).expect_err("a refusal").to_string()
            }
            Err(err) => err.to_string(),
        };
        let expected = path.with_extension("txt");
        if std::env::var_os("TRANSECT_UPDATE").is_some() {
            std::fs::write(&expected, format!("{said}\n")).expect("writable");
        }
        let expected = std::fs::read_to_string(&expected).expect("its description");
        assert_eq!(said, expected.trim_end(), "{}", path.display());
    }
}
