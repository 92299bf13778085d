-- Xen's pCPUs, window by window: busy or idle, and what the domains did there together.
-- busy + idle + unknown is the window. What one domain did on a pCPU is in domain_metrics.
-- column: ts – start of the window, ns of trace time
-- column: dur – its length, ns
-- column: machine_id – the hypervisor
-- column: machine – its name
-- column: cpu – the pCPU
-- column: busy_ns – some vCPU had it
-- column: idle_ns – none had it
-- column: unknown_ns – lost records, or before the first one that tells
-- column: busy_share – busy, of what is known (0 to 1)
-- column: executions – times a vCPU was scheduled in
-- column: busy_per_execution_ns – how long one ran at a time
-- column: allocations – slices granted
-- column: allocated_avg_ns – their average
-- column: allocated_min_ns – the shortest
-- column: allocated_max_ns – the longest
-- column: io_count – pages exchanged and notifications
-- column: io_per_s – per second of the window
-- column: exits – VM exits; of PV guests, hypercalls and exceptions
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
    CAST(w.io_count AS DOUBLE) * 1e9 / nullif(w.dur, 0) AS io_per_s,
    w.exits
FROM windows AS w
JOIN machines AS m ON m.machine_id = w.machine_id
WHERE m.kind = 'hypervisor'
ORDER BY w.ts, w.cpu
