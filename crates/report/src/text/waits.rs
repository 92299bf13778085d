//! Exits by reason, and who each vCPU waited for.

use super::grid::{Column, left, right};
use super::{Page, antagonist, count, counted, share};
use crate::lines::{AntagonistLine, ExitLine};
use std::io::{self, Write as _};
use transect_model::exit::Isa;
use transect_model::ids::MachineId;

const EXIT_COLUMNS: [Column; 14] = [
    left("reason"),
    right("count"),
    right("to VMM").expendable(4),
    right("handling"),
    right("of VM time"),
    right("p50").expendable(1),
    right("p90").expendable(3),
    right("p99"),
    right("max").expendable(2),
    right("to next entry"),
    right("entry p50").expendable(6),
    right("entry p90").expendable(8),
    right("entry p99").expendable(7),
    right("entry max").expendable(5),
];

/// Of Xen PV guests: when they go in is all that is recorded.
const PV_COLUMNS: [Column; 2] = [left("reason"), right("count")];

fn is_xen_pv(line: &ExitLine) -> bool {
    matches!(line.reason.isa, Isa::XenHypercall | Isa::XenTrap)
}

impl Page<'_> {
    pub(crate) fn exits(&mut self) -> io::Result<()> {
        self.heading_of_times(
            "EXITS BY REASON",
            "handling: on a CPU until the next entry; to next entry: includes sleep and waiting",
        )?;
        if self.report.exits.is_empty() {
            return self.paragraph(
                "No VM exits were recorded (KVM: kvm:kvm_exit; Xen: trace classes hvm and pv).",
            );
        }
        let report = self.report;
        let groups = report.exits.chunk_by(|a, b| a.machine_id == b.machine_id);
        self.groups(groups, |page, group| {
            let vm_ns = report.vms.iter().find(|vm| vm.machine_id == group[0].machine_id);
            let vm_ns = vm_ns.map_or(0, |vm| vm.window_ns);
            let exits: u64 = group.iter().map(|l| l.count).sum();
            let handling_ns: i64 = group.iter().map(|l| l.handling_total_ns).sum();
            let machine = &group[0].machine;
            if group.iter().all(|line| line.unfinished == line.count && is_xen_pv(line)) {
                let exits = count(exits);
                page.paragraph(&format!(
                    "{machine}: {exits} hypercalls and exceptions, without durations: Xen does not record their end"
                ))?;
                return page.top_grid(&PV_COLUMNS, group, |_, line| {
                    vec![line.reason.to_string(), count(line.count)]
                });
            }
            let title = format!(
                "{machine}: {}, exit handling took {} of its vCPUs' time",
                counted(exits, "exit"),
                share(handling_ns, vm_ns)
            );
            page.paragraph(&title)?;
            page.top_grid(&EXIT_COLUMNS, group, |page, line| page.exit_cells(line, vm_ns))
        })
    }

    fn exit_cells(&self, line: &ExitLine, vm_ns: i64) -> Vec<String> {
        vec![
            line.reason.to_string(),
            count(line.count),
            count(line.to_user),
            self.ns(line.handling_total_ns),
            share(line.handling_total_ns, vm_ns),
            self.ns_or_dash(line.handling_p50_ns),
            self.ns_or_dash(line.handling_p90_ns),
            self.ns_or_dash(line.handling_p99_ns),
            self.ns_or_dash(line.handling_max_ns),
            self.ns(line.total_ns),
            self.ns_or_dash(line.p50_ns),
            self.ns_or_dash(line.p90_ns),
            self.ns_or_dash(line.p99_ns),
            self.ns_or_dash(line.max_ns),
        ]
    }

    pub(crate) fn antagonists(&mut self) -> io::Result<()> {
        self.heading_of_times(
            "ANTAGONISTS",
            "vCPUs and threads that held the CPU while a vCPU waited for it",
        )?;
        if self.report.antagonists.is_empty() {
            return self.paragraph("No vCPU waited.");
        }
        let columns = [
            left("vCPU"),
            left("antagonist"),
            right("waited"),
            right("of its wait"),
            right("of the window"),
            right("intervals").expendable(1),
        ];
        let report = self.report;
        let same_vcpu = |a: &AntagonistLine, b: &AntagonistLine| {
            (a.machine_id, a.vcpu) == (b.machine_id, b.vcpu)
        };
        let mut is_first = true;
        self.groups(report.antagonists.chunk_by(same_vcpu), |page, group| {
            if !std::mem::take(&mut is_first) {
                writeln!(page.out)?;
            }
            let waited_ns: i64 = group.iter().map(|l| l.waited_ns).sum();
            page.top_grid(&columns, group, |page, line| page.antagonist_cells(line, waited_ns))
        })
    }

    fn antagonist_cells(&self, line: &AntagonistLine, waited_ns: i64) -> Vec<String> {
        vec![
            format!("{} vcpu{}", line.machine, line.vcpu),
            antagonist(line),
            self.ns(line.waited_ns),
            share(line.waited_ns, waited_ns),
            share(line.waited_ns, self.vcpu_window_ns(line.machine_id)),
            count(line.count),
        ]
    }

    fn vcpu_window_ns(&self, machine: MachineId) -> i64 {
        let vcpu = self.report.vcpus.iter().find(|v| v.machine_id == machine);
        vcpu.map_or_else(|| self.window_ns(), |v| v.window_ns)
    }
}
