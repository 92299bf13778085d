-- Metrics of the pCPUs under Xen, per window: busy and idle time, and the sums over all domains.
-- busy + idle + unknown is the window. The share of a single domain in a pCPU is in domain_metrics.
-- column: ts – start of the window, ns of trace time
-- column: dur – length of the window, ns
-- column: machine_id – the hypervisor
-- column: machine – name of the hypervisor
-- column: cpu – the pCPU
-- column: busy_ns – time with a vCPU on the pCPU
-- column: idle_ns – time without a vCPU on the pCPU
-- column: unknown_ns – state unknown: records lost, or before the first record about the pCPU
-- column: busy_share – busy, as a share of the known time (0 to 1)
-- column: executions – times a vCPU was scheduled in
-- column: busy_per_execution_ns – average time that a vCPU was on the pCPU per execution
-- column: allocations – number of slices granted
-- column: allocated_avg_ns – average slice
-- column: allocated_min_ns – shortest slice
-- column: allocated_max_ns – longest slice
-- column: io_count – pages exchanged and notifications
-- column: io_per_s – io_count per second of the window; null if the recording's time is in ticks
-- column: exits – VM exits; for PV guests, hypercalls and exceptions
-- example: SELECT cpu, round(100 * busy_share, 1) AS busy_percent, executions FROM pcpu_metrics
-- ORDER BY ts, cpu LIMIT 20
SELECT
    w.ts,
    w.dur,
    w.machine_id,
    m.name AS machine,
    w.cpu,
    w.gotten_ns AS busy_ns,
    w.blocked_ns AS idle_ns,
    w.unknown_ns,
    CAST(w.gotten_ns AS DOUBLE) / nullif(w.gotten_ns + w.blocked_ns, 0) AS busy_share,
    w.executions,
    w.gotten_ns / nullif(CAST(w.executions AS BIGINT), 0) AS busy_per_execution_ns,
    w.allocations,
    w.allocated_avg_ns,
    w.allocated_min_ns,
    w.allocated_max_ns,
    w.io_count,
    CASE WHEN m.time_unit = 'ns' THEN CAST(w.io_count AS DOUBLE) * 1e9 / nullif(w.dur, 0) END AS io_per_s,
    w.exits
FROM windows AS w
JOIN machines AS m ON m.machine_id = w.machine_id
WHERE m.kind = 'hypervisor'
ORDER BY w.ts, w.cpu
