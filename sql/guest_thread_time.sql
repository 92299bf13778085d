-- Effective time of guest threads: their running time in the guest's kernel, split by the state of the vCPU.
-- column: machine_id – the guest
-- column: machine – name of the guest
-- column: tid – the thread
-- column: name – name of the thread
-- column: believed_ns – running time, as recorded by the guest's kernel
-- column: really_ns – part of it with the vCPU in guest mode (without KVM events: on a pCPU)
-- column: vcpu_preempted_ns – part of it with the vCPU preempted or waking (steal)
-- column: exit_handling_ns – part of it in which the host handled an exit
-- column: vcpu_halted_ns – part of it with the vCPU halted or asleep
-- column: unknown_ns – part of it in which the state of the vCPU is unknown
-- column: really_share – really_ns as a share of believed_ns (0 to 1)
-- example: SELECT machine, name, ns_text(believed_ns) AS believed, really_share
-- FROM guest_thread_time LIMIT 10
SELECT
    s.machine_id,
    m.name AS machine,
    s.tid,
    t.name,
    s.believed_ns,
    s.really_ns,
    s.vcpu_preempted_ns,
    s.exit_handling_ns,
    s.vcpu_halted_ns,
    s.believed_ns - s.really_ns - s.vcpu_preempted_ns - s.exit_handling_ns - s.vcpu_halted_ns
        AS unknown_ns,
    CAST(s.really_ns AS DOUBLE) / nullif(s.believed_ns, 0) AS really_share
FROM (
    SELECT
        machine_id,
        tid,
        sum(dur) AS believed_ns,
        sum(CASE WHEN effective = 'running' THEN dur ELSE 0 END) AS really_ns,
        sum(CASE WHEN effective = 'vcpu_preempted' THEN dur ELSE 0 END) AS vcpu_preempted_ns,
        sum(CASE WHEN effective = 'exit_handling' THEN dur ELSE 0 END) AS exit_handling_ns,
        sum(CASE WHEN effective = 'vcpu_halted' THEN dur ELSE 0 END) AS vcpu_halted_ns
    FROM thread_states
    WHERE effective IS NOT NULL
    GROUP BY machine_id, tid
) AS s
JOIN machines AS m ON m.machine_id = s.machine_id
LEFT JOIN threads AS t ON t.machine_id = s.machine_id AND t.tid = s.tid
ORDER BY s.believed_ns DESC, s.machine_id, s.tid
