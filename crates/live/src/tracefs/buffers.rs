//! The kernel's trace buffers, read while it writes them: items per CPU.

use crate::LiveError;
use std::{collections::BTreeMap, io};
use transect_engine::{LostCause, LostEvents, StreamItem};
use transect_ftrace::{CoreDecoder, Endian, EventTable, Item, Page, PageLayout};
use transect_model::{
    ids::{CpuId, Tid},
    time::Timestamp,
};
use transect_tracefs::{
    CpuReader, CpuSink, EventRequest, Instance, Selection, Totals, Tracefs, choose_clock,
    clean_leftovers, cpus, meta,
};

/// Of each CPU: some seconds of a busy one, which is more than anybody waits.
const BUFFER_KB: u64 = 8192;
/// What is read of a CPU at a time at most: as much as its buffer holds.
const MOST_BYTES: u64 = BUFFER_KB * 1024;
/// Stamps in this are `CLOCK_MONOTONIC`.
const CLOCK: &str = "mono";

/// What live windows are made of.
const CORE: &[(&str, &str)] = &[
    ("sched", "sched_switch"),
    ("sched", "sched_waking"),
    ("sched", "sched_wakeup_new"),
    ("sched", "sched_migrate_task"),
    ("sched", "sched_process_fork"),
    ("sched", "sched_process_exec"),
    ("task", "task_rename"),
    ("kvm", "kvm_entry"),
    ("kvm", "kvm_exit"),
    ("kvm", "kvm_userspace_exit"),
    ("kvm", "kvm_vcpu_wakeup"),
    ("kvm", "kvm_halt_poll_ns"),
    ("kvm", "kvm_pio"),
    ("kvm", "kvm_mmio"),
    ("kvm", "kvm_fast_mmio"),
    ("kvm", "kvm_set_irq"),
    ("kvm", "kvm_msi_set_irq"),
];
/// What I/O is made of.
const IO: &[(&str, &str)] = &[
    ("block", "block_rq_issue"),
    ("block", "block_rq_complete"),
    ("net", "net_dev_xmit"),
    ("net", "netif_receive_skb"),
];

/// The buffers, being written.
pub(super) struct Buffers {
    /// Before the instance: a reader that is open keeps it from being removed.
    readers: BTreeMap<CpuId, CpuReader>,
    instance: Instance,
    decoder: Decoder,
    /// Events that this kernel lacks.
    pub(super) absent: Vec<String>,
}

impl Buffers {
    /// Makes them, and has the kernel write.
    pub(super) fn start(io: bool) -> Result<Self, LiveError> {
        let tracefs = Tracefs::find()?;
        let _removed = clean_leftovers(&tracefs, "transect");
        let wishes = CORE.iter().chain(IO.iter().filter(|_| io));
        let wishes: Vec<EventRequest> = wishes
            .map(|(system, event)| EventRequest {
                system: (*system).to_owned(),
                event: (*event).to_owned(),
                filter: None,
                required: *event == "sched_switch",
            })
            .collect();
        let selection = Selection::resolve(&tracefs, &wishes)?;
        let clock = choose_clock(&tracefs, Some(CLOCK))?;
        let instance = Instance::create(&tracefs, "transect")?;
        instance.set_clock(&clock.name)?;
        instance.set_buffer_kb_per_cpu(BUFFER_KB)?;
        let decoder = Decoder::new(&meta::at_start(&tracefs, &selection)?, &instance)?;
        let mut absent = selection.absent.clone();
        absent.extend(decoder.core.incomplete().iter().cloned());
        selection.enable(&instance)?;
        let mut buffers = Buffers { readers: BTreeMap::new(), instance, decoder, absent };
        buffers.follow_hotplug()?;
        buffers.instance.set_tracing(true)?;
        Ok(buffers)
    }

    /// Opens the buffers of CPUs that came online; gives those.
    pub(super) fn follow_hotplug(&mut self) -> Result<Vec<CpuId>, LiveError> {
        let mut added = Vec::new();
        for cpu in cpus::online()? {
            if !self.readers.contains_key(&cpu) {
                self.readers.insert(cpu, CpuReader::open(&self.instance, cpu)?);
                added.push(cpu);
            }
        }
        Ok(added)
    }

    /// Reads what there is, CPU by CPU. Says whether it was so much that the next look should come soon.
    pub(super) fn read(
        &mut self,
        each: &mut dyn FnMut(CpuId, Vec<StreamItem>),
    ) -> Result<bool, LiveError> {
        let mut is_much = false;
        for (cpu, reader) in &mut self.readers {
            let mut items = Items { decoder: &self.decoder, items: Vec::new() };
            let read = reader.take_now(&mut items, MOST_BYTES);
            let items = items.items;
            each(*cpu, items);
            is_much |= read? >= MOST_BYTES / 16;
        }
        Ok(is_much)
    }

    /// Events lost by the kernel's own count, since the start.
    pub(super) fn lost(&self) -> u64 {
        Totals::read(&self.instance, self.readers.keys().copied()).lost()
    }

    /// Is the kernel still writing? Somebody may have switched the instance off.
    pub(super) fn is_tracing(&self) -> Result<bool, LiveError> {
        Ok(self.instance.is_tracing()?)
    }
}

/// What the kernel's pages say.
pub(super) struct Decoder {
    layout: PageLayout,
    events: EventTable,
    core: CoreDecoder,
}

impl Decoder {
    fn new(files: &[meta::MetaFile], instance: &Instance) -> Result<Self, LiveError> {
        let unusable = |error: transect_ftrace::FormatError| LiveError::Formats(error.to_string());
        let mut events = EventTable::new(Endian::NATIVE, size_of::<usize>());
        let mut layout = None;
        for file in files {
            let mut parts = file.name.split('/');
            match (parts.next(), parts.next(), parts.next(), parts.next()) {
                (Some("header_page"), None, ..) => {
                    let parsed = PageLayout::parse(&file.bytes, Endian::NATIVE);
                    layout = Some(parsed.map_err(unusable)?);
                }
                (Some("events"), Some(system), Some(_), Some("format")) => {
                    // One that cannot be understood is an event less, which is told.
                    let _ = events.add(system, &file.bytes);
                }
                _ => {}
            }
        }
        let layout =
            layout.ok_or_else(|| LiveError::Formats("header_page is missing".to_owned()))?;
        let layout = layout.with_page_bytes(instance.sub_buffer_bytes() as usize);
        let core = CoreDecoder::new(&events);
        Ok(Decoder { layout: layout.map_err(unusable)?, events, core })
    }

    /// The items of one sub-buffer.
    fn decode(&self, page: &[u8], items: &mut Vec<StreamItem>) {
        for item in Page::new(page, &self.layout) {
            items.push(match item {
                Item::Event { ts, payload } => self.event(ts, payload),
                Item::Lost { count, .. } => {
                    StreamItem::Lost(LostEvents { count, cause: LostCause::BufferOverrun })
                }
                Item::Problem(_) => {
                    let cause = LostCause::CorruptPage;
                    StreamItem::Lost(LostEvents { count: None, cause })
                }
            });
        }
    }

    fn event(&self, ts: Timestamp<transect_model::time::Source>, payload: &[u8]) -> StreamItem {
        let tid = self.events.tid_of(payload).unwrap_or(Tid::IDLE);
        match self.core.decode(payload) {
            Some(event) => StreamItem::Event { ts, tid, quiet: 0, event },
            None => StreamItem::Other { ts, tid, quiet: 0 },
        }
    }
}

struct Items<'a> {
    decoder: &'a Decoder,
    items: Vec<StreamItem>,
}

impl CpuSink for Items<'_> {
    fn pages(&mut self, pages: &[u8]) -> io::Result<()> {
        let size = self.decoder.layout.page_bytes.max(1);
        for page in pages.chunks(size) {
            self.decoder.decode(page, &mut self.items);
        }
        Ok(())
    }
}
