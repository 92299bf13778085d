//! vCPUs, pCPUs and windows: how time divides.

use super::grid::{Column, Grid, left, right};
use super::rates::ratio;
use super::{Page, count, dash, share};
use crate::lines::{CpuLine, VcpuLine};
use std::collections::BTreeMap;
use std::io;
use transect_model::ids::{MachineId, MachineKind};
use transect_model::table::Window;

/// What a vCPU does on a pCPU, in columns.
const KVM_PARTS: [Column; 4] = [
    right("= guest"),
    right("+ exit"),
    right("+ user").expendable(4),
    right("+ poll").expendable(6),
];
const XEN_PARTS: [Column; 4] = [
    right("= guest").expendable(6),
    right("+ exit").expendable(6),
    right("+ hypercall").expendable(4),
    right("+ trap").expendable(4),
];

impl Page<'_> {
    /// Is it Xen's recording?
    pub(crate) fn is_xen(&self) -> bool {
        self.report.machines.iter().any(|m| m.kind == MachineKind::Hypervisor)
    }

    pub(crate) fn vcpus(&mut self) -> io::Result<()> {
        let explanation = "gotten + waited + blocked + offline + unknown = 100 % of the window";
        self.heading_of_times("VCPUS", explanation)?;
        if self.report.vcpus.is_empty() {
            return self.paragraph("No vCPUs were recorded.");
        }
        let [guest, exit, third, fourth] = if self.is_xen() { XEN_PARTS } else { KVM_PARTS };
        let mut grid = Grid::new(&[
            left("vCPU"),
            right("window").expendable(9),
            right("gotten"),
            guest,
            exit,
            third,
            fourth,
            right("+ other").expendable(7),
            right("waited"),
            right("blocked"),
            right("(halted)").expendable(1),
            right("offline").expendable(8),
            right("unknown"),
            right("scheduled in").expendable(5),
            right("exits"),
            right("steal").expendable(3),
        ]);
        let mut of_vm: BTreeMap<MachineId, Vec<&VcpuLine>> = BTreeMap::new();
        for vcpu in &self.report.vcpus {
            of_vm.entry(vcpu.machine_id).or_default().push(vcpu);
        }
        for vm in &self.report.vms {
            let vcpus = of_vm.remove(&vm.machine_id).unwrap_or_default();
            for vcpu in &vcpus {
                grid.row(self.vcpu_cells(vcpu));
            }
            if vcpus.len() > 1 {
                grid.row(self.vcpu_cells(vm));
            }
        }
        self.actor_grid(grid)
    }

    fn vcpu_cells(&self, line: &VcpuLine) -> Vec<String> {
        let of_window = |ns| share(ns, line.window_ns);
        let (third, fourth) = match self.is_xen() {
            true => (line.hypercall_ns, line.trap_ns),
            false => (line.user_ns, line.halt_poll_ns),
        };
        let who = match line.vcpu {
            Some(vcpu) => format!("{} vcpu{vcpu}", line.machine),
            None => format!("{} (all vCPUs)", line.machine),
        };
        vec![
            who,
            self.ns(line.window_ns),
            of_window(line.gotten_ns),
            of_window(line.guest_ns),
            of_window(line.exit_ns),
            of_window(third),
            of_window(fourth),
            of_window(line.running_ns),
            of_window(line.waited_ns),
            of_window(line.blocked_ns),
            of_window(line.halted_ns),
            of_window(line.offline_ns),
            of_window(line.unknown_ns),
            count(line.executions),
            count(line.exits),
            self.ns(line.steal_ns),
        ]
    }

    pub(crate) fn cpus(&mut self) -> io::Result<()> {
        self.heading("CPUS", "occupancy of each CPU, as seen by its own machine")?;
        if self.report.cpus.is_empty() {
            return self.paragraph("No CPUs were recorded.");
        }
        let mut grid = Grid::new(&[
            left("CPU"),
            right("vCPUs"),
            right("other threads"),
            right("idle"),
            right("unknown"),
            right("slices").expendable(1),
        ]);
        for line in &self.report.cpus {
            grid.row(cpu_cells(line));
        }
        self.actor_grid(grid)
    }

    pub(crate) fn windows(&mut self) -> io::Result<()> {
        self.heading_of_times("WINDOWS", "metrics of vCPUs, VMs, cgroups and domains per window")?;
        let windows: Vec<&Window> = self.report.windows.iter().collect();
        if windows.is_empty() {
            return self.paragraph("No window contains a vCPU.");
        }
        let mut grid = Grid::new(&[
            left("actor"),
            right("from"),
            right("length").expendable(5),
            right("gotten"),
            right("guest").expendable(4),
            right("waited"),
            right("blocked"),
            right("offline").expendable(13),
            right("unknown"),
            right("scheduled in").expendable(3),
            right("gotten per run").expendable(12),
            right("waited per run").expendable(11),
            right("slice avg").expendable(2),
            right("slice min").expendable(7),
            right("slice max").expendable(6),
            right("I/O").expendable(1),
            right("I/O per s").expendable(8),
            right("I/O per run").expendable(9),
            right("blocked per I/O").expendable(10),
            right("exits"),
        ]);
        for window in windows {
            grid.row(self.window_cells(window));
        }
        self.grid(&grid)
    }

    fn window_cells(&self, row: &Window) -> Vec<String> {
        let whole = [row.gotten_ns, row.waited_ns, row.blocked_ns, row.offline_ns, row.unknown_ns];
        // Of a pCPU, where a domain is for a part of the time, and with several vCPUs for more than once.
        let whole: i64 = if row.cpu.is_some() { row.dur } else { whole.iter().sum() };
        let of_window = |ns| share(ns, whole);
        let machine = self.machine(row.machine_id);
        let is_xen = self.is_hypervisor(row.machine_id);
        let who = match (&row.cgroup, row.vcpu, row.cpu) {
            (Some(cgroup), ..) => cgroup.clone(),
            (None, Some(vcpu), _) => format!("{machine} vcpu{vcpu}"),
            (None, None, Some(cpu)) if is_xen => format!("{machine} cpu{cpu}"),
            (None, None, Some(cpu)) => format!("{machine} on cpu{cpu}"),
            (None, None, None) => format!("{machine} (all vCPUs)"),
        };
        let per = |ns: i64, of: u64| {
            self.ns_or_dash(i64::try_from(of).ok().and_then(|of| ns.checked_div(of)))
        };
        let from = row.ts.checked_sub(self.report.facts.window.start.get());
        vec![
            who,
            from.map_or_else(dash, |ns| format!("+{}", self.ns(ns))),
            self.ns(row.dur),
            of_window(row.gotten_ns),
            of_window(row.guest_ns),
            if is_xen { dash() } else { of_window(row.waited_ns) },
            of_window(row.blocked_ns),
            of_window(row.offline_ns),
            of_window(row.unknown_ns),
            count(row.executions),
            per(row.gotten_ns, row.executions),
            if is_xen { dash() } else { per(row.waited_ns, row.executions) },
            self.ns_or_dash(row.allocated_avg_ns),
            self.ns_or_dash(row.allocated_min_ns),
            self.ns_or_dash(row.allocated_max_ns),
            count(row.io_count),
            self.per_second(row.io_count, row.dur),
            ratio(row.io_count as f64, row.executions as f64),
            if is_xen { dash() } else { per(row.blocked_ns, row.io_count) },
            count(row.exits),
        ]
    }
}

fn cpu_cells(line: &CpuLine) -> Vec<String> {
    let of_window = |ns| share(ns, line.window_ns);
    vec![
        format!("{} cpu{}", line.machine, line.cpu),
        of_window(line.vcpu_ns),
        of_window(line.thread_ns),
        of_window(line.idle_ns),
        of_window(line.unknown_ns),
        count(line.slices),
    ]
}
