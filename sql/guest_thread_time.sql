-- What guest threads really got of the time their own kernel believes they ran.
-- column: machine_id – the guest
-- column: machine – its name
-- column: tid – the thread
-- column: name – its name
-- column: believed_ns – running, as the guest's kernel saw it
-- column: really_ns – of that, the vCPU was in guest mode
-- column: vcpu_preempted_ns – of that, the vCPU had no pCPU
-- column: exit_handling_ns – of that, the host was handling an exit
-- column: vcpu_halted_ns – of that, the vCPU was halted
-- column: unknown_ns – of that, the host's recording does not tell
-- column: really_share – really running, of what was believed (0 to 1)
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
