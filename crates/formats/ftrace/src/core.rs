//! From records to the model's core events.
//!
//! Which tracepoint becomes which [`CoreEvent`] is one flat list here; how its fields are found
//! on this kernel is compiled once per table, in one module per tracepoint family. Fields were
//! added, renamed and moved between Linux 4.x and 6.18: an access names all spellings, and a
//! field that some kernels do not have is an `Option` in the model or has the value the kernel
//! would have shown.

mod block;
mod fields;
mod irq;
mod kvm;
mod lock;
mod net;
mod sched;
mod vectors;
mod vmscan;
mod work;

use crate::event::EventTable;
use fields::{Decode, Fields};
use std::{fmt, sync::Arc};
use transect_model::{event::CoreEvent, interrupt::VectorSource};

/// Looks the fields up; `None` if this kernel's event lacks one that the model needs.
type Compile = fn(&Fields<'_>) -> Option<Decode>;

/// Tracepoint → how it is read.
const CORE: &[(&str, &str, Compile)] = &[
    ("sched", "sched_switch", sched::switch),
    ("sched", "sched_waking", sched::waking),
    ("sched", "sched_wakeup", sched::wakeup),
    ("sched", "sched_wakeup_new", sched::wakeup_new),
    ("sched", "sched_migrate_task", sched::migrate),
    ("sched", "sched_process_fork", sched::fork),
    ("sched", "sched_process_exec", sched::exec),
    ("sched", "sched_process_exit", sched::exit),
    ("task", "task_rename", sched::rename),
    ("kvm", "kvm_entry", kvm::entry),
    ("kvm", "kvm_exit", kvm::exit),
    ("kvm", "kvm_hypercall", kvm::hypercall),
    ("kvm", "kvm_userspace_exit", kvm::userspace_exit),
    ("kvm", "kvm_vcpu_wakeup", kvm::vcpu_wakeup),
    ("kvm", "kvm_halt_poll_ns", kvm::halt_poll_ns),
    ("kvm", "kvm_pio", kvm::pio),
    ("kvm", "kvm_mmio", kvm::mmio),
    ("kvm", "kvm_fast_mmio", kvm::fast_mmio),
    ("kvm", "kvm_page_fault", kvm::page_fault),
    ("kvm", "kvm_guest_fault", kvm::guest_fault),
    ("kvm", "kvm_set_irq", kvm::set_irq),
    ("kvm", "kvm_msi_set_irq", kvm::msi),
    ("kvm", "kvm_apic_accept_irq", |f| kvm::accept(f, false)),
    ("kvm", "kvm_apicv_accept_irq", |f| kvm::accept(f, true)),
    ("kvm", "kvm_inj_virq", kvm::inj_virq),
    ("kvm", "kvm_write_tsc_offset", kvm::write_tsc_offset),
    ("irq", "irq_handler_entry", irq::entry),
    ("irq", "irq_handler_exit", irq::exit),
    ("irq", "softirq_raise", irq::softirq_raise),
    ("irq", "softirq_entry", irq::softirq_entry),
    ("irq", "softirq_exit", irq::softirq_exit),
    ("irq_vectors", "local_timer_entry", |f| vectors::entry(f, VectorSource::LocalTimer)),
    ("irq_vectors", "local_timer_exit", |f| vectors::exit(f, VectorSource::LocalTimer)),
    ("irq_vectors", "reschedule_entry", |f| vectors::entry(f, VectorSource::Reschedule)),
    ("irq_vectors", "reschedule_exit", |f| vectors::exit(f, VectorSource::Reschedule)),
    ("irq_vectors", "call_function_entry", |f| vectors::entry(f, VectorSource::CallFunction)),
    ("irq_vectors", "call_function_exit", |f| vectors::exit(f, VectorSource::CallFunction)),
    ("irq_vectors", "call_function_single_entry", |f| {
        vectors::entry(f, VectorSource::CallFunctionSingle)
    }),
    ("irq_vectors", "call_function_single_exit", |f| {
        vectors::exit(f, VectorSource::CallFunctionSingle)
    }),
    ("irq_vectors", "irq_work_entry", |f| vectors::entry(f, VectorSource::IrqWork)),
    ("irq_vectors", "irq_work_exit", |f| vectors::exit(f, VectorSource::IrqWork)),
    ("irq_vectors", "x86_platform_ipi_entry", |f| vectors::entry(f, VectorSource::PlatformIpi)),
    ("irq_vectors", "x86_platform_ipi_exit", |f| vectors::exit(f, VectorSource::PlatformIpi)),
    ("irq_vectors", "thermal_apic_entry", |f| vectors::entry(f, VectorSource::Thermal)),
    ("irq_vectors", "thermal_apic_exit", |f| vectors::exit(f, VectorSource::Thermal)),
    ("irq_vectors", "threshold_apic_entry", |f| vectors::entry(f, VectorSource::Threshold)),
    ("irq_vectors", "threshold_apic_exit", |f| vectors::exit(f, VectorSource::Threshold)),
    ("irq_vectors", "deferred_error_apic_entry", |f| {
        vectors::entry(f, VectorSource::DeferredError)
    }),
    ("irq_vectors", "deferred_error_apic_exit", |f| vectors::exit(f, VectorSource::DeferredError)),
    ("irq_vectors", "spurious_apic_entry", |f| vectors::entry(f, VectorSource::Spurious)),
    ("irq_vectors", "spurious_apic_exit", |f| vectors::exit(f, VectorSource::Spurious)),
    ("irq_vectors", "error_apic_entry", |f| vectors::entry(f, VectorSource::Error)),
    ("irq_vectors", "error_apic_exit", |f| vectors::exit(f, VectorSource::Error)),
    ("raw_syscalls", "sys_enter", irq::sys_enter),
    ("raw_syscalls", "sys_exit", irq::sys_exit),
    ("block", "block_rq_insert", block::insert),
    ("block", "block_rq_issue", block::issue),
    ("block", "block_rq_complete", block::complete),
    ("net", "net_dev_xmit", net::xmit),
    ("net", "netif_receive_skb", net::receive),
    ("workqueue", "workqueue_queue_work", work::queue),
    ("workqueue", "workqueue_execute_start", work::start),
    ("workqueue", "workqueue_execute_end", work::end),
    ("lock", "contention_begin", lock::begin),
    ("lock", "contention_end", lock::end),
    ("vmscan", "mm_vmscan_direct_reclaim_begin", |f| vmscan::begin(f, false)),
    ("vmscan", "mm_vmscan_direct_reclaim_end", |f| vmscan::end(f, false)),
    ("vmscan", "mm_vmscan_memcg_reclaim_begin", |f| vmscan::begin(f, true)),
    ("vmscan", "mm_vmscan_memcg_reclaim_end", |f| vmscan::end(f, true)),
];

/// `system:name` of every tracepoint that has a core event, for recorders and `doctor`.
pub fn core_tracepoints() -> impl Iterator<Item = (&'static str, &'static str)> {
    CORE.iter().map(|(system, name, _)| (*system, *name))
}

/// Decodes the core events of one kernel.
#[derive(Clone)]
pub struct CoreDecoder {
    table: Arc<EventTable>,
    by_id: Vec<Option<Decode>>,
    incomplete: Vec<String>,
}

impl CoreDecoder {
    /// Compiles the accessors for all core events the table has.
    pub fn new(table: &EventTable) -> Self {
        let mut decoder = CoreDecoder {
            table: Arc::new(table.clone()),
            by_id: Vec::new(),
            incomplete: Vec::new(),
        };
        for (system, name, compile) in CORE {
            let Some(event) = table.find(system, name) else { continue };
            let fields = Fields { event, machine: table.machine() };
            match compile(&fields) {
                Some(decode) => decoder.set(event.id, decode),
                None => decoder.incomplete.push(event.full_name()),
            }
        }
        decoder
    }

    fn set(&mut self, id: u16, decode: Decode) {
        let id = usize::from(id);
        if self.by_id.len() <= id {
            self.by_id.resize(id + 1, None);
        }
        self.by_id[id] = Some(decode);
    }

    /// The core event a record is, `None` if it is another event or cut off.
    #[inline]
    pub fn decode(&self, payload: &[u8]) -> Option<CoreEvent> {
        self.decode_id(self.table.id_of(payload)?, payload)
    }

    /// [`CoreDecoder::decode`] for a caller that has looked at the record's number already.
    #[inline]
    pub fn decode_id(&self, id: u16, payload: &[u8]) -> Option<CoreEvent> {
        match self.by_id.get(usize::from(id)) {
            Some(Some(decode)) => decode(payload),
            _ => None,
        }
    }

    /// Is a record of this number a core event? (Then `decode` fails only for a cut record.)
    #[inline]
    pub fn is_core(&self, id: u16) -> bool {
        matches!(self.by_id.get(usize::from(id)), Some(Some(_)))
    }

    /// Tracepoints the kernel has, but without a field that the core event needs. They stay
    /// reachable as generic events; whoever reports should say so.
    pub fn incomplete(&self) -> &[String] {
        &self.incomplete
    }
}

impl fmt::Debug for CoreDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CoreDecoder")
            .field("events", &self.by_id.iter().flatten().count())
            .field("incomplete", &self.incomplete)
            .finish()
    }
}
