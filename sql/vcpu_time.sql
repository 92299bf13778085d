-- Time of each vCPU, by state.
-- The states of a vCPU tile the recording: the *_ns columns other than window_ns add up to
-- window_ns.
-- column: machine_id – the VM
-- column: machine – name of the VM
-- column: vcpu – the vCPU
-- column: window_ns – sum of the states
-- column: guest_ns – in guest mode
-- column: exit_ns – in the kernel between an exit and the next entry
-- column: user_ns – in the VMM
-- column: halt_poll_ns – halted, while the host polls
-- column: hypercall_ns – in a hypercall of a Xen PV guest, as far as recorded
-- column: trap_ns – in the handling of a Xen PV guest's exception, as far as recorded
-- column: running_ns – on a pCPU, without events for a finer state
-- column: preempted_ns – scheduled out while runnable
-- column: waking_ns – woken, not yet on a pCPU
-- column: halted_ns – asleep after the guest's own halt
-- column: blocked_ns – asleep for another reason
-- column: offline_ns – without a thread (not yet created, or exited); under Xen, in runstate offline
-- column: unknown_ns – inside lost events, or before the first event about the vCPU
-- column: gotten_share – on a pCPU, as a share of the window (0 to 1)
-- column: waited_share – preempted or waking, as a share of the window (0 to 1)
-- example: SELECT machine, vcpu, round(100 * waited_share, 1) AS waited_percent FROM vcpu_time
-- ORDER BY waited_share DESC
SELECT
    s.machine_id,
    m.name AS machine,
    s.vcpu,
    s.window_ns,
    s.guest_ns,
    s.exit_ns,
    s.user_ns,
    s.halt_poll_ns,
    s.hypercall_ns,
    s.trap_ns,
    s.running_ns,
    s.preempted_ns,
    s.waking_ns,
    s.halted_ns,
    s.blocked_ns,
    s.offline_ns,
    s.unknown_ns,
    CAST(
        s.guest_ns + s.exit_ns + s.user_ns + s.halt_poll_ns + s.hypercall_ns + s.trap_ns
            + s.running_ns AS DOUBLE
    ) / nullif(s.window_ns, 0) AS gotten_share,
    CAST(s.preempted_ns + s.waking_ns AS DOUBLE) / nullif(s.window_ns, 0) AS waited_share
FROM (
    SELECT
        machine_id,
        vcpu,
        sum(dur) AS window_ns,
        sum(CASE WHEN state = 'guest' THEN dur ELSE 0 END) AS guest_ns,
        sum(CASE WHEN state = 'exit' THEN dur ELSE 0 END) AS exit_ns,
        sum(CASE WHEN state = 'user' THEN dur ELSE 0 END) AS user_ns,
        sum(CASE WHEN state = 'halt_poll' THEN dur ELSE 0 END) AS halt_poll_ns,
        sum(CASE WHEN state = 'hypercall' THEN dur ELSE 0 END) AS hypercall_ns,
        sum(CASE WHEN state = 'trap' THEN dur ELSE 0 END) AS trap_ns,
        sum(CASE WHEN state = 'running' THEN dur ELSE 0 END) AS running_ns,
        sum(CASE WHEN state = 'preempted' THEN dur ELSE 0 END) AS preempted_ns,
        sum(CASE WHEN state = 'waking' THEN dur ELSE 0 END) AS waking_ns,
        sum(CASE WHEN state = 'halted' THEN dur ELSE 0 END) AS halted_ns,
        sum(CASE WHEN state = 'blocked' THEN dur ELSE 0 END) AS blocked_ns,
        sum(CASE WHEN state = 'offline' THEN dur ELSE 0 END) AS offline_ns,
        sum(CASE WHEN state = 'unknown' THEN dur ELSE 0 END) AS unknown_ns
    FROM vcpu_states
    GROUP BY machine_id, vcpu
) AS s
JOIN machines AS m ON m.machine_id = s.machine_id
ORDER BY s.machine_id, s.vcpu
