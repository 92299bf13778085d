//! Whom a vCPU of Xen's waits for: whoever has the pCPU that it then gets, piece by piece.

#![allow(clippy::unwrap_used, dead_code, reason = "a failed expectation is the report")]

use crate::xen_runs;
use transect_model::{ids::CpuId, state::VcpuState};
use transect_xentrace::{IDLE_DOMAIN, Runstate, Writer, XenEvent, XenVcpu};

fn dom(dom: u16) -> XenVcpu {
    XenVcpu { dom, vcpu: 0 }
}

/// One pCPU. `ones` runs and blocks, `twos` takes over; `ones` wakes, `threes` takes over from
/// `twos`, then the pCPU idles for a moment, then it is `ones`' again.
fn trace() -> Vec<u8> {
    use Runstate::{Blocked, Runnable, Running};
    let idle = XenVcpu { dom: IDLE_DOMAIN, vcpu: 0 };
    let change = |t: u64, vcpu, old, new| (t, XenEvent::RunstateChange { vcpu, old, new });
    let records = [
        change(1_000, dom(1), Runnable, Running),
        change(2_000, dom(1), Running, Blocked),
        change(2_001, dom(2), Runnable, Running),
        change(3_000, dom(1), Blocked, Runnable),
        (3_999, XenEvent::Switch { prev: dom(2), next: dom(3) }),
        change(4_000, dom(2), Running, Runnable),
        change(4_001, dom(3), Runnable, Running),
        change(5_000, dom(3), Running, Blocked),
        change(5_001, idle, Runnable, Running),
        change(5_500, idle, Running, Runnable),
        change(5_501, dom(1), Runnable, Running),
        change(6_000, dom(1), Running, Blocked),
    ];
    let mut writer = Writer::new(Vec::new(), 4096);
    for (t, event) in records {
        writer.event(CpuId(0), t, &event).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn a_wait_is_blamed_on_each_who_has_the_pcpu_meanwhile() {
    let run = xen_runs::run(&trace(), 1_000_000_000);
    let machine = |domid| {
        let machines = &run.tables.machines;
        machines.iter().find(|m| m.domid == Some(domid)).unwrap().machine_id
    };
    let waits = |domid: u32, state: VcpuState| -> Vec<(i64, i64, Option<u32>)> {
        let rows = run.tables.vcpu_states.iter();
        let rows = rows.filter(|row| row.machine_id == machine(domid) && row.state == state);
        rows.map(|row| (row.ts, row.dur, row.by_machine_id.map(|id| id.0))).collect()
    };
    let (two, three, xen) = (Some(machine(2).0), Some(machine(3).0), Some(0));
    assert_eq!(
        waits(1, VcpuState::Waking),
        [(3_000, 1_001, two), (4_001, 999 + 1, three), (5_001, 500, xen)]
    );
    // Who is preempted waits for whom it was preempted by, and then for the next.
    let after: Vec<_> =
        waits(2, VcpuState::Preempted).into_iter().filter(|w| w.0 >= 4_000).collect();
    assert_eq!(after.first(), Some(&(4_000, 1_001, three)));
    assert_eq!(after.last().unwrap().2, Some(machine(1).0));
}
