//! Findings of a window: what holds whom, by the rules of [`transect_explain::detect::rules`] for which the sums of a window
//! suffice. The others need the events of a recording.
//!
//! ```text
//! threads, antagonists, limits of groups ─▶ cpu: starved, throttled
//! exits, halts, requests of vCPUs and VMs ─▶ vcpu: exit_storm, halt_poll, ping_pong
//! pressure stalls ────────────────────────▶ memory: reclaim
//! ```
//! They are made of the rows whenever somebody asks for them, and are not kept: a window of the history, or several as one,
//! have them as a new one has.

mod cpu;
mod memory;
mod scene;
#[cfg(test)]
mod tests;
mod vcpu;

use crate::{record::record, snapshot::Snapshot};
use scene::{Scene, range};
use transect_explain::{
    Party,
    detect::{Finding, sort},
    words::{findings, names},
};
use transect_model::{
    ids::{MachineId, Tid, VcpuId},
    time::TimeUnit,
};

/// Whoever makes many groups cannot make a window long: these are the largest.
const MOST: usize = 256;

record! {
    /// Something that a rule found in a window.
    FindingWindow {
        /// Start of the window, ns of trace time.
        ts: i64,
        /// Length of the window, ns.
        dur: i64,
        /// The machine of the one it is about: a VM or the host.
        machine_id: MachineId,
        /// The vCPU it is about.
        vcpu: Option<VcpuId>,
        /// Path of the control group it is about.
        cgroup: Option<String>,
        /// The thread it is about.
        tid: Option<Tid>,
        /// Name of the rule: starved, throttled, exit_storm, halt_poll, ping_pong or reclaim.
        detector: &'static str,
        /// Whom it is about, in words.
        subject: String,
        /// The time that it took.
        held_ns: i64,
        /// The time that the rule compares this with.
        of_ns: i64,
        /// Share of that time.
        share: f64,
        /// How often.
        count: u64,
        /// certain or likely.
        confidence: &'static str,
        /// In words.
        sentence: String,
        /// What one can try.
        hint: &'static str,
    }
}

impl Snapshot {
    /// What holds whom in this window; what takes the most time comes first. Of a window shorter than a second, nothing.
    pub fn findings(&self) -> Vec<FindingWindow> {
        let range = range(self.ts, self.dur);
        if !range.is_long_enough() {
            return Vec::new();
        }
        let scene = Scene::of(self);
        let mut found = cpu::find(&scene, range);
        found.extend(vcpu::find(&scene, range));
        found.extend(memory::find(&scene));
        sort(&mut found);
        found.truncate(MOST);
        found.iter().map(|finding| self.row(&scene, finding)).collect()
    }

    fn row(&self, scene: &Scene<'_>, finding: &Finding) -> FindingWindow {
        let (machine_id, vcpu, cgroup, tid) = match &finding.subject {
            Party::Thread(id) => (id.machine, None, None, Some(id.tid)),
            Party::Vcpu(machine, vcpu) => (*machine, Some(*vcpu), None, None),
            Party::Group(machine, path) => (*machine, None, Some(path.clone()), None),
            Party::Machine(machine) => (*machine, None, None, None),
            Party::Idle | Party::Quota | Party::Unknown => (MachineId(0), None, None, None),
        };
        FindingWindow {
            ts: self.ts,
            dur: self.dur,
            machine_id,
            vcpu,
            cgroup,
            tid,
            detector: finding.detector.as_str(),
            subject: names::party(scene, &finding.subject),
            held_ns: finding.held_ns,
            of_ns: finding.of_ns,
            share: finding.share(),
            count: finding.count,
            confidence: finding.confidence.as_str(),
            sentence: findings::sentence(scene, finding, TimeUnit::Ns),
            hint: findings::hint(finding),
        }
    }
}
