//! Domain metrics per vCPU, VM and control group, in windows of a fixed length.
//!
//! Metrics are sums over states and events, so they need no order: a vCPU's state adds its time to
//! the windows it spans, an event adds one to the window it lies in. gotten + waited + blocked +
//! offline + unknown of a vCPU is the window, because its states tile the time.
//!
//! I/O counted: port and MMIO writes that leave the guest and kicks through ioeventfd, each from
//! the vCPU's own thread; and device interrupts raised by the VM's own threads (vCPU, VMM and vhost
//! threads), which only the VM's row can count. Interrupts that the host raises in the name of an
//! unrelated thread (an irqfd signalled from a hard interrupt) cannot be attributed and are not
//! counted. Under Xen: pages mapped, transferred or copied by grant, and event-channel calls, where
//! the trace has hypercalls; slices are then what the scheduler granted and not what was observed.
//!
//! Under Xen a domain has rows for each pCPU, too, and so has the hypervisor: a pCPU's own row, whose
//! gotten is busy and whose blocked is idle time, and whose counts are those of all domains on it.
//!
//! **Boundary state.** The metrics of each actor's unfinished windows. A vCPU's window is emitted
//! when its states have passed it; a VM's and a control group's at the end, because vCPUs and threads
//! that count towards them may still be found.

mod metrics;

use super::occupant::Occupant;
use metrics::{Metrics, Series, Tally};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use transect_model::{
    ids::{CpuId, MachineId, VcpuId},
    state::{ThreadState, VcpuState},
    table::{Row, TableSink, Window},
};

/// More windows than this are not made (broken stamps can stretch a recording to centuries).
const MAX_WINDOWS: i64 = 2_000_000;
/// Nor are they beyond 52 days, so that sums over a thousand vCPUs stay within 64 bits.
const MAX_SPAN_NS: i64 = 1 << 52;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct VcpuSeries {
    machine: MachineId,
    vcpu: VcpuId,
    series: Series,
    /// What is still to be added to the series of all that count this vCPU.
    tally: Tally,
    /// Index of its control group.
    cgroup: Option<usize>,
    /// Under Xen: index of what its domain does on the pCPU it is on, or was last on.
    pcpu: Option<usize>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct PcpuSeries {
    /// The domain; for the pCPU as a whole, the hypervisor.
    machine: MachineId,
    cpu: CpuId,
    series: Series,
    is_whole: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct VmSeries {
    machine: MachineId,
    series: Series,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct CgroupSeries {
    machine: MachineId,
    name: String,
    series: Series,
}

/// The windows of all actors.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Windows {
    /// Where the first window would begin.
    start: i64,
    /// Nothing from here on counts.
    until: i64,
    /// Where the recording does: the first window may be shorter.
    begins: i64,
    length_ns: i64,
    vcpus: Vec<VcpuSeries>,
    vms: Vec<VmSeries>,
    /// Position in `vms` by machine.
    vm_of: Vec<Option<usize>>,
    cgroups: Vec<CgroupSeries>,
    pcpus: Vec<PcpuSeries>,
    /// Position in `pcpus`.
    pcpu_of: FxHashMap<(MachineId, CpuId), usize>,
    /// Were there more windows than can be kept?
    overflowed: bool,
    /// The window looked up last: nearly all lookups are for the same one.
    now: Bounds,
}

/// A window's number, its first stamp and the first one behind it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Bounds {
    number: i64,
    from: i64,
    to: i64,
}

impl Windows {
    pub(crate) fn new(start: i64, length_ns: i64) -> Self {
        Windows {
            start,
            until: i64::MAX,
            begins: start,
            length_ns: length_ns.max(1),
            vcpus: Vec::new(),
            vms: Vec::new(),
            vm_of: Vec::new(),
            cgroups: Vec::new(),
            pcpus: Vec::new(),
            pcpu_of: FxHashMap::default(),
            overflowed: false,
            now: Bounds { number: 0, from: start, to: start },
        }
    }

    /// Makes the windows of [from, until) only, as far as it is the recording's. Before anything is
    /// counted.
    pub(crate) fn only_in(&mut self, from: i64, until: i64) {
        let from = from.max(self.start);
        (self.start, self.until) = (from, until);
        self.begins = from;
        self.now = Bounds { number: 0, from, to: from };
    }

    /// From now on windows begin at multiples of their length. Before anything was told.
    pub(crate) fn align(&mut self) {
        self.start = self.begins - self.begins.rem_euclid(self.length_ns);
        self.now = Bounds { number: 0, from: self.start, to: self.start };
    }

    /// Start and length of a window; the recording ends at `end`.
    fn extent(&self, window: i64, end: i64) -> (i64, i64) {
        let from = self.start + window * self.length_ns;
        let begin = from.max(self.begins);
        (begin, end.min(from.checked_add(self.length_ns).unwrap_or(end)) - begin)
    }

    /// Forgets what was before `edge`, where a window begins: what is told of that time from now on
    /// counts nowhere. For runs without an end.
    pub(crate) fn forget(&mut self, edge: i64) {
        let passed = (edge - self.start).div_euclid(self.length_ns);
        if passed <= 0 {
            return;
        }
        for at in 0..self.vcpus.len() {
            self.hand_on(at);
            self.vcpus[at].tally = Tally::default();
        }
        let vcpus = self.vcpus.iter_mut().map(|vcpu| &mut vcpu.series);
        let vms = self.vms.iter_mut().map(|vm| &mut vm.series);
        let pcpus = self.pcpus.iter_mut().map(|pcpu| &mut pcpu.series);
        let cgroups = self.cgroups.iter_mut().map(|cgroup| &mut cgroup.series);
        vcpus.chain(vms).chain(pcpus).chain(cgroups).for_each(|series| series.shift(passed));
        self.start += passed * self.length_ns;
        self.begins = self.begins.max(self.start);
        self.now = Bounds { number: 0, from: self.start, to: self.start };
    }

    /// How many actors there have been.
    pub(crate) fn actors(&self) -> usize {
        self.vcpus.len() + self.cgroups.len()
    }

    /// Adds the next vCPU (by vCPU index).
    pub(crate) fn push_vcpu(&mut self, machine: MachineId, vcpu: VcpuId) {
        let (series, tally) = (Series::default(), Tally::default());
        self.vcpus.push(VcpuSeries { machine, vcpu, series, tally, cgroup: None, pcpu: None });
        let at = machine.0 as usize;
        if self.vm_of.len() <= at {
            self.vm_of.resize(at + 1, None);
        }
        if self.vm_of[at].is_none() {
            self.vm_of[at] = Some(self.vms.len());
            self.vms.push(VmSeries { machine, series: Series::default() });
        }
    }

    /// The index of a control group of a machine.
    pub(crate) fn cgroup(&mut self, machine: MachineId, name: &str) -> usize {
        let known = self.cgroups.iter().position(|c| c.machine == machine && c.name == name);
        known.unwrap_or_else(|| {
            self.cgroups.push(CgroupSeries {
                machine,
                name: name.to_owned(),
                series: Series::default(),
            });
            self.cgroups.len() - 1
        })
    }

    /// The vCPU's thread belongs to a control group.
    pub(crate) fn vcpu_in_cgroup(&mut self, vcpu: usize, cgroup: Option<usize>) {
        self.hand_on(vcpu);
        self.vcpus[vcpu].cgroup = cgroup;
    }

    /// A vCPU is on this pCPU from here on (Xen).
    pub(crate) fn vcpu_on(&mut self, at: usize, cpu: CpuId) {
        let known = self.vcpus[at].pcpu;
        if known.is_none_or(|known| self.pcpus[known].cpu != cpu) {
            self.hand_on(at);
            self.vcpus[at].pcpu = Some(self.pcpu(self.vcpus[at].machine, cpu));
        }
    }

    fn pcpu(&mut self, machine: MachineId, cpu: CpuId) -> usize {
        *self.pcpu_of.entry((machine, cpu)).or_insert_with(|| {
            let series = Series::default();
            self.pcpus.push(PcpuSeries { machine, cpu, series, is_whole: false });
            self.pcpus.len() - 1
        })
    }

    /// The index of a hypervisor's pCPU.
    pub(crate) fn whole_pcpu(&mut self, hypervisor: MachineId, cpu: CpuId) -> usize {
        let at = self.pcpu(hypervisor, cpu);
        self.pcpus[at].is_whole = true;
        at
    }

    /// A hypervisor's pCPU was this one's in [from, to).
    pub(crate) fn pcpu_slice(&mut self, at: usize, occupant: Occupant, from: i64, to: i64) {
        self.each_part(from, to, |windows, window, ns| {
            let Some(metrics) = windows.pcpus[at].series.at(window) else { return };
            match occupant {
                Occupant::Unknown { .. } => metrics.unknown_ns += ns,
                Occupant::Idle => metrics.blocked_ns += ns,
                Occupant::Thread { .. } | Occupant::Vcpu(_) => metrics.gotten_ns += ns,
            }
        });
    }

    /// Is it known that windows were left out?
    pub(crate) fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// A vCPU was in `state` in [from, to): contiguous with what was told before.
    #[inline]
    pub(crate) fn vcpu(
        &mut self,
        at: usize,
        state: VcpuState,
        from: i64,
        to: i64,
        sink: &mut dyn TableSink,
    ) {
        if !self.vcpus[at].tally.add(state, from, to) {
            self.vcpu_in_windows(at, state, from, to, sink);
        }
    }

    /// The same for time in several windows, or in another than is being added up, or up to the end
    /// of one.
    fn vcpu_in_windows(
        &mut self,
        at: usize,
        state: VcpuState,
        from: i64,
        to: i64,
        sink: &mut dyn TableSink,
    ) {
        let Some(last) = self.each_part(from, to, |windows, window, ns| {
            let mut sums = Metrics::default();
            sums.add_vcpu(state, ns);
            windows.add(at, window, &sums);
        }) else {
            return;
        };
        let to = to.min(self.until);
        // A window is over when its last nanosecond is.
        let passed = if to < last.to { last.number } else { last.number + 1 };
        self.emit_passed(at, passed, sink);
        self.open(at, to);
    }

    /// Adds a vCPU's sums to those of everybody who counts it.
    fn add(&mut self, at: usize, window: i64, sums: &Metrics) {
        let VcpuSeries { series, cgroup, pcpu, .. } = &mut self.vcpus[at];
        if let Some(metrics) = series.at(window) {
            metrics.add(sums);
        }
        if let Some(pcpu) = *pcpu
            && let Some(metrics) = self.pcpus[pcpu].series.at(window)
        {
            metrics.add(sums);
        }
        // Of the rest, a control group counts what its threads do.
        if let Some(cgroup) = *cgroup
            && let Some(metrics) = self.cgroups[cgroup].series.at(window)
        {
            metrics.guest_ns += sums.guest_ns;
            metrics.halted_ns += sums.halted_ns;
            metrics.exits += sums.exits;
        }
    }

    /// Hands on what was added up of a vCPU.
    fn hand_on(&mut self, at: usize) {
        let tally = &mut self.vcpus[at].tally;
        let (window, sums) = (tally.window, tally.take());
        if sums != Metrics::default() {
            self.add(at, window, &sums);
        }
    }

    /// Begins to add up the vCPU's window at `t`. Is it one that is made?
    fn open(&mut self, at: usize, t: i64) -> bool {
        self.hand_on(at);
        let Some(window) = self.window(t) else { return false };
        let Bounds { from, to, .. } = self.now;
        let to = to.min(self.until).min(self.start + MAX_SPAN_NS);
        self.vcpus[at].tally = Tally::new(window, from, to);
        true
    }

    /// A thread of a control group was in `state` in [from, to).
    pub(crate) fn thread(&mut self, cgroup: Option<usize>, state: ThreadState, from: i64, to: i64) {
        let Some(cgroup) = cgroup else { return };
        self.each_part(from, to, |windows, window, ns| {
            if let Some(metrics) = windows.cgroups[cgroup].series.at(window) {
                metrics.add_thread(state, ns);
            }
        });
    }

    /// A vCPU was switched in.
    pub(crate) fn execution(&mut self, at: usize, t: i64) {
        self.count(at, t, |m| m.executions += 1);
    }

    /// A thread of a control group was switched in.
    pub(crate) fn thread_execution(&mut self, cgroup: Option<usize>, t: i64) {
        if let (Some(cgroup), Some(window)) = (cgroup, self.window(t))
            && let Some(metrics) = self.cgroups[cgroup].series.at(window)
        {
            metrics.executions += 1;
        }
    }

    /// A vCPU had the pCPU for `ns` until it was switched out against its will at `t`.
    pub(crate) fn slice(&mut self, at: usize, t: i64, ns: i64) {
        self.count(at, t, |m| m.add_slice(ns));
    }

    /// The scheduler of this pCPU grants a vCPU `ns` (Xen).
    pub(crate) fn granted(&mut self, at: usize, cpu: CpuId, t: i64, ns: i64) {
        let VcpuSeries { machine, pcpu, .. } = self.vcpus[at];
        if pcpu.is_some_and(|pcpu| self.pcpus[pcpu].cpu == cpu) {
            self.count(at, t, |m| m.add_slice(ns));
            return;
        }
        let Some(window) = self.window(t) else { return };
        if let Some(metrics) = self.vcpus[at].series.at(window) {
            metrics.add_slice(ns);
        }
        let pcpu = self.pcpu(machine, cpu);
        if let Some(metrics) = self.pcpus[pcpu].series.at(window) {
            metrics.add_slice(ns);
        }
    }

    /// `kvm_exit` of a vCPU.
    #[inline]
    pub(crate) fn exit(&mut self, at: usize, t: i64) {
        self.count(at, t, |m| m.exits += 1);
    }

    /// Kicks, device accesses or exchanges of pages by a vCPU. A broken record can name any number;
    /// the sum (a count, not time) stops at the top.
    pub(crate) fn vcpu_io(&mut self, at: usize, t: i64, number: u64) {
        if number > 0 {
            self.count(at, t, |m| m.io_count = m.io_count.saturating_add(number));
        }
    }

    /// A device interrupt raised for a VM.
    pub(crate) fn vm_io(&mut self, machine: MachineId, t: i64) {
        let Some(window) = self.window(t) else { return };
        let vm = self.vm(machine);
        if let Some(metrics) = vm.and_then(|vm| vm.series.at(window)) {
            metrics.io_count += 1;
        }
    }

    /// Emits the rest; the last window ends at `end`.
    pub(crate) fn finish(&mut self, end: i64, sink: &mut dyn TableSink) {
        let end = end.min(self.until);
        let count = match (end - self.start).checked_sub(1) {
            Some(last) if last >= 0 => last / self.length_ns + 1,
            _ => return,
        };
        if count > MAX_WINDOWS || end - self.start > MAX_SPAN_NS {
            self.overflowed = true;
            return;
        }
        for at in 0..self.vcpus.len() {
            self.hand_on(at);
            while self.vcpus[at].series.first < count {
                self.emit_vcpu(at, end, sink);
            }
        }
        for at in 0..self.vms.len() {
            while self.vms[at].series.first < count {
                self.emit_vm(at, end, sink);
            }
        }
        self.finish_pcpus(count, end, sink);
        for at in 0..self.cgroups.len() {
            while self.cgroups[at].series.first < count {
                let extent = self.extent(self.cgroups[at].series.first, end);
                let cgroup = &mut self.cgroups[at];
                let metrics = cgroup.series.pop();
                emit(extent, cgroup.machine, Part::Cgroup(cgroup.name.clone()), &metrics, sink);
            }
        }
    }

    /// Domains' pCPUs first: a pCPU's own row has the sums of their counts.
    fn finish_pcpus(&mut self, count: i64, end: i64, sink: &mut dyn TableSink) {
        let wholes = self.pcpus.iter().enumerate().filter(|(_, pcpu)| pcpu.is_whole);
        let whole_of: FxHashMap<CpuId, usize> = wholes.map(|(at, pcpu)| (pcpu.cpu, at)).collect();
        let (wholes, parts): (Vec<_>, Vec<_>) =
            (0..self.pcpus.len()).partition(|at| self.pcpus[*at].is_whole);
        for at in parts.into_iter().chain(wholes) {
            while self.pcpus[at].series.first < count {
                let extent = self.extent(self.pcpus[at].series.first, end);
                let PcpuSeries { machine, cpu, series, is_whole } = &mut self.pcpus[at];
                let (machine, cpu, is_whole) = (*machine, *cpu, *is_whole);
                let window = series.first;
                let metrics = series.pop();
                emit(extent, machine, Part::Pcpu(cpu), &metrics, sink);
                if !is_whole
                    && let Some(whole) = whole_of.get(&cpu)
                    && let Some(sum) = self.pcpus[*whole].series.at(window)
                {
                    sum.add_counts(&metrics);
                }
            }
        }
    }

    #[inline]
    fn count(&mut self, at: usize, t: i64, add: impl Fn(&mut Metrics)) {
        if self.vcpus[at].tally.covers(t) || self.open(at, t) {
            add(self.vcpus[at].tally.counts());
        }
    }

    fn vm(&mut self, machine: MachineId) -> Option<&mut VmSeries> {
        let at = self.vm_of.get(machine.0 as usize).copied().flatten()?;
        self.vms.get_mut(at)
    }

    fn window(&mut self, t: i64) -> Option<i64> {
        if t >= self.until {
            return None;
        }
        let window = self.bounds(t).number;
        (0..MAX_WINDOWS).contains(&window).then_some(window)
    }

    /// The window that `t` lies in.
    #[inline]
    fn bounds(&mut self, t: i64) -> Bounds {
        if t < self.now.from || self.now.to <= t {
            let number = (t - self.start).div_euclid(self.length_ns);
            let from = self.start + number * self.length_ns;
            // Beyond the end of time only where windows are longer than any recording.
            let to = from.checked_add(self.length_ns).unwrap_or(i64::MAX);
            self.now = Bounds { number, from, to };
        }
        self.now
    }

    /// Calls `add` for every window that [from, to) spans, with its share in ns; gives the last.
    fn each_part(
        &mut self,
        from: i64,
        to: i64,
        mut add: impl FnMut(&mut Self, i64, i64),
    ) -> Option<Bounds> {
        let (from, to) = (from.max(self.start), to.min(self.until));
        if to <= from {
            return None;
        }
        // From the end: it is what is looked up next.
        let last = self.bounds(to - 1);
        if last.number >= MAX_WINDOWS || to - self.start > MAX_SPAN_NS {
            self.overflowed = true;
            return None;
        }
        if last.from <= from {
            add(self, last.number, to - from);
            return Some(last);
        }
        let first = (from - self.start) / self.length_ns;
        for window in first..=last.number {
            let begin = self.start + window * self.length_ns;
            add(self, window, to.min(begin + self.length_ns) - from.max(begin));
        }
        Some(last)
    }

    /// Emits the vCPU's windows before number `passed`.
    fn emit_passed(&mut self, at: usize, passed: i64, sink: &mut dyn TableSink) {
        if self.vcpus[at].series.first >= passed {
            return;
        }
        while self.vcpus[at].series.first < passed {
            self.emit_vcpu(at, i64::MAX, sink);
        }
    }

    fn emit_vcpu(&mut self, at: usize, end: i64, sink: &mut dyn TableSink) {
        self.hand_on(at);
        let extent = self.extent(self.vcpus[at].series.first, end);
        let VcpuSeries { machine, vcpu, series, .. } = &mut self.vcpus[at];
        let window = series.first;
        let metrics = series.pop();
        emit(extent, *machine, Part::Vcpu(*vcpu), &metrics, sink);
        let machine = *machine;
        if let Some(sum) = self.vm(machine).and_then(|vm| vm.series.at(window)) {
            sum.add(&metrics);
        }
    }

    fn emit_vm(&mut self, at: usize, end: i64, sink: &mut dyn TableSink) {
        let extent = self.extent(self.vms[at].series.first, end);
        let vm = &mut self.vms[at];
        let metrics = vm.series.pop();
        emit(extent, vm.machine, Part::Whole, &metrics, sink);
    }
}

/// What of a machine a row is about.
enum Part {
    Whole,
    Vcpu(VcpuId),
    Pcpu(CpuId),
    Cgroup(String),
}

fn emit(
    (ts, dur): (i64, i64),
    machine_id: MachineId,
    part: Part,
    m: &Metrics,
    sink: &mut dyn TableSink,
) {
    let (vcpu, cpu, cgroup) = match part {
        Part::Whole => (None, None, None),
        Part::Vcpu(vcpu) => (Some(vcpu), None, None),
        Part::Pcpu(cpu) => (None, Some(cpu), None),
        Part::Cgroup(cgroup) => (None, None, Some(cgroup)),
    };
    sink.row(Row::from(Window {
        ts,
        dur,
        machine_id,
        vcpu,
        cpu,
        cgroup,
        executions: m.executions,
        gotten_ns: m.gotten_ns,
        waited_ns: m.waited_ns,
        blocked_ns: m.blocked_ns,
        offline_ns: m.offline_ns,
        unknown_ns: m.unknown_ns,
        guest_ns: m.guest_ns,
        halted_ns: m.halted_ns,
        allocations: u64::try_from(m.slices).unwrap_or(0),
        allocated_avg_ns: (m.slices > 0).then(|| m.slices_ns / m.slices.max(1)),
        allocated_min_ns: m.slice_min_ns,
        allocated_max_ns: m.slice_max_ns,
        io_count: m.io_count,
        exits: m.exits,
        steal_ns: m.waited_ns,
    }));
}
