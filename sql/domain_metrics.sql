-- XenMon's metrics, window by window: per domain (or VM), per vCPU, and under Xen per domain and pCPU.
-- Rows with neither vcpu nor cpu are of the whole domain. A row with cpu is what the domain did on
-- that pCPU, vCPUs off every pCPU counting where they were last (pcpu_metrics has the pCPUs). Sums over longer windows are exact
-- (allocated_ns and allocations give the average slice); asking with --window makes others.
-- column: ts – start of the window, ns of trace time
-- column: dur – its length, ns
-- column: machine_id – the domain or VM
-- column: machine – its name
-- column: domid – its number under Xen
-- column: vcpu – the vCPU; null for the whole domain
-- column: cpu – the pCPU; null for all of them
-- column: executions – times a vCPU was scheduled in
-- column: gotten_ns – on a pCPU
-- column: waited_ns – runnable and without a pCPU
-- column: blocked_ns – asleep
-- column: gotten_share – gotten, of the window (1: one pCPU's worth)
-- column: waited_share – waited, of the window
-- column: blocked_share – blocked, of the window
-- column: gotten_per_execution_ns – how long it ran at a time
-- column: waited_per_execution_ns – how long it waited for that
-- column: allocations – slices granted (KVM: observed)
-- column: allocated_ns – their sum, as far as an average in whole ns tells it
-- column: allocated_avg_ns – their average
-- column: allocated_min_ns – the shortest
-- column: allocated_max_ns – the longest
-- column: io_count – pages exchanged and notifications (KVM: kicks and device interrupts)
-- column: io_per_s – per second of the window
-- column: io_per_execution – per time scheduled in
-- column: blocked_per_io_ns – blocked, per exchange
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
    CAST(w.io_count AS DOUBLE) * 1e9 / nullif(w.dur, 0) AS io_per_s,
    CAST(w.io_count AS DOUBLE) / nullif(w.executions, 0) AS io_per_execution,
    w.blocked_ns / nullif(CAST(w.io_count AS BIGINT), 0) AS blocked_per_io_ns
FROM windows AS w
JOIN machines AS m ON m.machine_id = w.machine_id
WHERE w.cgroup IS NULL AND m.kind <> 'hypervisor'
ORDER BY w.ts, w.machine_id, w.vcpu, w.cpu
