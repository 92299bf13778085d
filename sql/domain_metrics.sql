-- XenMon's metrics per window: for each domain (or VM), each vCPU, and under Xen each domain on each pCPU.
-- A row without vcpu and cpu is the whole domain. A row with cpu is the domain on that pCPU; a vCPU
-- that is off every pCPU counts on its last one. The pCPUs themselves are in pcpu_metrics. Sums
-- over several windows are exact (allocated_ns and allocations give the average slice). transect report
-- --window reports windows of another length.
-- column: ts – start of the window, ns of trace time
-- column: dur – length of the window, ns
-- column: machine_id – the domain or VM
-- column: machine – name of the domain or VM
-- column: domid – the domain's number under Xen
-- column: vcpu – the vCPU; null for the whole domain
-- column: cpu – the pCPU; null for all of them
-- column: executions – times a vCPU was scheduled in
-- column: gotten_ns – time on a pCPU
-- column: waited_ns – time runnable and without a pCPU
-- column: blocked_ns – time asleep
-- column: gotten_share – gotten, as a share of the window (1: one pCPU)
-- column: waited_share – waited, as a share of the window
-- column: blocked_share – blocked, as a share of the window
-- column: gotten_per_execution_ns – average time on a pCPU per execution
-- column: waited_per_execution_ns – average time waited per execution
-- column: allocations – number of slices granted (KVM: observed)
-- column: allocated_ns – sum of the slices, computed from the average in whole ns
-- column: allocated_avg_ns – average slice
-- column: allocated_min_ns – shortest slice
-- column: allocated_max_ns – longest slice
-- column: io_count – pages exchanged and notifications (KVM: kicks and device interrupts)
-- column: io_per_s – io_count per second of the window; null if the recording's time is in ticks
-- column: io_per_execution – io_count per execution
-- column: blocked_per_io_ns – average time blocked per I/O
-- example: SELECT machine, ns_text(gotten_per_execution_ns) AS run, io_per_s, io_per_execution
-- FROM domain_metrics WHERE vcpu IS NULL AND cpu IS NULL ORDER BY ts, machine_id LIMIT 20
SELECT
    w.ts,
    w.dur,
    w.machine_id,
    m.name AS machine,
    m.domid,
    w.vcpu,
    w.cpu,
    w.executions,
    w.gotten_ns,
    w.waited_ns,
    w.blocked_ns,
    CAST(w.gotten_ns AS DOUBLE) / nullif(w.dur, 0) AS gotten_share,
    CAST(w.waited_ns AS DOUBLE) / nullif(w.dur, 0) AS waited_share,
    CAST(w.blocked_ns AS DOUBLE) / nullif(w.dur, 0) AS blocked_share,
    w.gotten_ns / nullif(CAST(w.executions AS BIGINT), 0) AS gotten_per_execution_ns,
    w.waited_ns / nullif(CAST(w.executions AS BIGINT), 0) AS waited_per_execution_ns,
    w.allocations,
    w.allocated_avg_ns * CAST(w.allocations AS BIGINT) AS allocated_ns,
    w.allocated_avg_ns,
    w.allocated_min_ns,
    w.allocated_max_ns,
    w.io_count,
    CASE WHEN m.time_unit = 'ns' THEN CAST(w.io_count AS DOUBLE) * 1e9 / nullif(w.dur, 0) END AS io_per_s,
    CAST(w.io_count AS DOUBLE) / nullif(w.executions, 0) AS io_per_execution,
    w.blocked_ns / nullif(CAST(w.io_count AS BIGINT), 0) AS blocked_per_io_ns
FROM windows AS w
JOIN machines AS m ON m.machine_id = w.machine_id
WHERE w.cgroup IS NULL AND m.kind <> 'hypervisor'
ORDER BY w.ts, w.machine_id, w.vcpu, w.cpu
