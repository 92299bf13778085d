-- Domain metrics of each VM over the whole recording.
-- gotten + waited + blocked + offline + unknown is the length of the recording times the VM's
-- vCPUs; shares refer to that sum. For shorter time ranges, query the table windows.
-- column: machine_id – the VM
-- column: machine – name of the VM
-- column: vcpus – number of vCPUs
-- column: executions – times one of its vCPUs was scheduled in
-- column: gotten_ns – time its vCPUs were on a pCPU
-- column: waited_ns – time its vCPUs were runnable and without a pCPU
-- column: blocked_ns – time its vCPUs were asleep
-- column: offline_ns – time its vCPUs had no thread (under Xen: were offline)
-- column: unknown_ns – state unknown (lost events)
-- column: gotten_share – gotten, as a share of that sum (0 to 1)
-- column: waited_share – waited, as a share of that sum (0 to 1)
-- column: steal_ns – steal, as the guest's kernel accounts it
-- column: guest_ns – in guest mode (part of gotten)
-- column: halted_ns – halted by the guest itself (part of blocked)
-- column: io_count – kicks and injected device interrupts
-- column: exits – VM exits
-- example: SELECT machine, ns_text(waited_ns) AS waited, waited_share FROM vm_metrics
-- ORDER BY waited_share DESC
SELECT
    w.machine_id,
    m.name AS machine,
    count(DISTINCT w.vcpu) AS vcpus,
    sum(w.executions) AS executions,
    sum(w.gotten_ns) AS gotten_ns,
    sum(w.waited_ns) AS waited_ns,
    sum(w.blocked_ns) AS blocked_ns,
    sum(w.offline_ns) AS offline_ns,
    sum(w.unknown_ns) AS unknown_ns,
    CAST(sum(w.gotten_ns) AS DOUBLE) / nullif(sum(w.dur), 0) AS gotten_share,
    CAST(sum(w.waited_ns) AS DOUBLE) / nullif(sum(w.dur), 0) AS waited_share,
    sum(w.steal_ns) AS steal_ns,
    sum(w.guest_ns) AS guest_ns,
    sum(w.halted_ns) AS halted_ns,
    sum(w.io_count) AS io_count,
    sum(w.exits) AS exits
FROM windows AS w
JOIN machines AS m ON m.machine_id = w.machine_id
WHERE w.vcpu IS NOT NULL
GROUP BY w.machine_id, m.name
ORDER BY w.machine_id
