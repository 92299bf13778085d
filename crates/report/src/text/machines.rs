//! Machines, their clocks, and whether the merged time holds.

use super::grid::{Grid, left, right};
use super::{Page, count, dash, share};
use std::io;
use transect_model::{
    ids::MachineKind,
    table::{ClockCheck, ClockEdge, Machine},
};

impl Page<'_> {
    pub(crate) fn machines(&mut self) -> io::Result<()> {
        self.heading_of_times("MACHINES AND CLOCKS", "")?;
        let mut grid = Grid::new(&[
            left("machine"),
            left("kind"),
            left("on").expendable(2),
            right("vCPUs"),
            right("VMM pid").expendable(3),
            left("clock"),
            right("error bound"),
            right("events inside"),
        ]);
        for machine in &self.report.machines {
            grid.row(self.machine_cells(machine));
        }
        self.actor_grid(grid)?;
        for edge in &self.report.clock_edges {
            self.paragraph(&self.edge_words(edge))?;
        }
        for check in &self.report.clock_check {
            self.paragraph(&self.check_words(check))?;
        }
        Ok(())
    }

    fn machine_cells(&self, machine: &Machine) -> Vec<String> {
        let id = machine.machine_id;
        let vcpus = self.report.vcpus.iter().filter(|v| v.machine_id == id).count();
        let check = self.report.clock_check.iter().find(|c| c.machine_id == id);
        let or_dash = |text: Option<String>| text.unwrap_or_else(dash);
        vec![
            machine.name.clone(),
            machine.kind.as_str().to_owned(),
            or_dash(machine.parent_id.map(|id| self.machine(id))),
            if vcpus == 0 { dash() } else { count(vcpus as u64) },
            or_dash(machine.vmm_pid.map(|pid| pid.to_string())),
            or_dash(machine.clock.clone()),
            or_dash(machine.error_bound_ns.map(|ns| format!("±{}", self.bound(ns)))),
            or_dash(check.map(|c| share(signed(c.inside), signed(c.tested)))),
        ]
    }

    fn edge_words(&self, edge: &ClockEdge) -> String {
        let machine = self.machine(edge.machine_id);
        let bound = self.bound(edge.error_bound_ns);
        if edge.method == "tsc_rate" {
            return format!(
                "{machine}: trace time is derived from {}, {:.9} ticks per ns, error bound ±{bound}.",
                edge.from_clock, edge.rate
            );
        }
        let under_xen = self.report.machines.iter().any(|m| m.kind == MachineKind::Hypervisor);
        let offset = if under_xen { "the TSC that it shares with Xen" } else { "KVM's TSC offset" };
        let how = match edge.method.as_str() {
            "tsc_offset" if edge.samples > 0 => format!(
                "by {offset} and {} readings of both clocks paired with the TSC",
                count(edge.samples)
            ),
            "tsc_offset" if under_xen => "the same counter".to_owned(),
            "tsc_offset" => "offset read from KVM".to_owned(),
            "causality" => format!(
                "offset estimated from {} intervals in which its vCPUs ran",
                count(edge.samples)
            ),
            "exchange" => {
                format!("offset estimated over the channel from {} brackets", count(edge.samples))
            }
            "timeshift" => "offset from the file's TIMESHIFT option".to_owned(),
            other => other.replace('_', " "),
        };
        format!(
            "{machine}: {} → {} of {}, {how}: {}, rate {}, error bound ±{bound}.",
            edge.from_clock,
            edge.to_clock,
            self.led_to(edge),
            edge.offset,
            edge.rate
        )
    }

    /// The machine whose clock an edge leads to: under Xen that may be the domain that makes trace time.
    fn led_to(&self, edge: &ClockEdge) -> String {
        let of = |id| self.report.machines.iter().find(|m| m.machine_id == id);
        let is_root = of(edge.machine_id).is_some_and(|m| m.parent_id.is_none());
        if is_root { "dom0".to_owned() } else { "its host".to_owned() }
    }

    fn check_words(&self, check: &ClockCheck) -> String {
        let machine = self.machine(check.machine_id);
        // Xen says when a vCPU runs, which includes its own work for it.
        let domain = self
            .report
            .machines
            .iter()
            .any(|m| m.machine_id == check.machine_id && m.domid.is_some());
        let mode = if domain { "running intervals" } else { "guest mode" };
        if check.tested == 0 {
            return format!(
                "{machine}: no guest event could be tested against its vCPU's {mode} \
                 ({} untested).",
                count(check.untested)
            );
        }
        let inside = format!(
            "{machine}: {} of {} testable guest events lie inside {mode} of their own vCPU",
            count(check.inside),
            count(check.tested)
        );
        if check.outside > 0 {
            return format!(
                "{inside}; {} lie outside, the farthest by {}. Do not trust durations across \
                 machines that are shorter than that.",
                count(check.outside),
                self.ns(check.worst_ns)
            );
        }
        format!(
            "{inside}. The check cannot detect shifts of the guest's clock smaller than +{} or \
             −{}.",
            self.ns(check.slack_later_ns),
            self.ns(check.slack_earlier_ns)
        )
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
