-- CPU waiting time of each vCPU, by antagonist.
-- The time in which a vCPU is preempted or waking is charged to its antagonist: the vCPU or thread
-- on the CPU that it waits for. Each stretch is split when the CPU switches threads. Threads with
-- the same name are one row.
-- column: machine_id – the VM that waited
-- column: machine – name of that VM
-- column: vcpu – its vCPU that waited
-- column: by_kind – kind of antagonist: vcpu, machine (a Xen domain, any of its vCPUs), thread, idle (the CPU was leaving its idle state) or unknown
-- column: by_machine – machine of the antagonist: a VM or the host
-- column: by_vcpu – the antagonist's vCPU number, if it is a vCPU
-- column: by_name – the antagonist's thread name, if it is another thread
-- column: waited_ns – time the vCPU waited for this antagonist
-- column: share – waited_ns as a share of the vCPU's waiting time (0 to 1)
-- column: count – number of stretches of waiting
-- example: SELECT machine, vcpu, by_machine, by_name, ns_text(waited_ns) AS waited
-- FROM antagonists LIMIT 10
SELECT
    machine_id,
    machine,
    vcpu,
    by_kind,
    by_machine,
    by_vcpu,
    by_name,
    sum(waited_ns) AS waited_ns,
    CAST(sum(waited_ns) AS DOUBLE)
        / nullif(sum(sum(waited_ns)) OVER (PARTITION BY machine_id, vcpu), 0) AS share,
    sum(stretches) AS count
FROM (
    SELECT
        s.machine_id,
        m.name AS machine,
        s.vcpu,
        CASE
            WHEN s.by_tid IS NULL AND s.by_machine_id IS NOT NULL THEN 'machine'
            WHEN s.by_tid IS NULL THEN 'unknown'
            WHEN s.by_tid = 0 THEN 'idle'
            WHEN v.vcpu IS NOT NULL THEN 'vcpu'
            ELSE 'thread'
        END AS by_kind,
        b.name AS by_machine,
        v.vcpu AS by_vcpu,
        CASE WHEN v.vcpu IS NULL AND s.by_tid > 0 THEN t.name END AS by_name,
        s.waited_ns,
        s.stretches
    FROM (
        SELECT
            machine_id, vcpu, by_machine_id, by_tid,
            sum(dur) AS waited_ns, count(*) AS stretches
        FROM vcpu_states
        WHERE state = 'preempted' OR state = 'waking'
        GROUP BY machine_id, vcpu, by_machine_id, by_tid
    ) AS s
    JOIN machines AS m ON m.machine_id = s.machine_id
    LEFT JOIN machines AS b ON b.machine_id = s.by_machine_id
    LEFT JOIN vcpus AS v ON v.machine_id = s.by_machine_id AND v.vmm_tid = s.by_tid
    LEFT JOIN threads AS t
        ON t.tid = s.by_tid AND t.machine_id = coalesce(m.parent_id, s.by_machine_id)
) AS named
GROUP BY machine_id, machine, vcpu, by_kind, by_machine, by_vcpu, by_name
ORDER BY waited_ns DESC, machine_id, vcpu, by_kind, by_machine, by_vcpu, by_name
