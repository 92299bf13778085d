-- Who had each CPU: vCPUs, other threads, nobody.
-- column: machine_id – the machine whose CPU it is
-- column: machine – its name
-- column: cpu – the CPU
-- column: window_ns – what the parts add up to
-- column: vcpu_ns – vCPUs (under KVM, the threads that run them)
-- column: thread_ns – other threads
-- column: idle_ns – nobody
-- column: unknown_ns – time without knowledge (lost events)
-- column: slices – slices of vCPUs, and of threads other than the idle one
-- column: busy_share – not idle, of what is known (0 to 1)
-- example: SELECT machine, cpu, busy_share, slices FROM cpu_time
SELECT
    s.machine_id,
    m.name AS machine,
    s.cpu,
    s.window_ns,
    s.vcpu_ns,
    s.busy_ns - s.vcpu_ns AS thread_ns,
    s.idle_ns,
    s.window_ns - s.busy_ns - s.idle_ns AS unknown_ns,
    s.slices,
    CAST(s.busy_ns AS DOUBLE) / nullif(s.busy_ns + s.idle_ns, 0) AS busy_share
FROM (
    SELECT
        machine_id,
        cpu,
        sum(dur) AS window_ns,
        sum(CASE WHEN vcpu IS NOT NULL THEN dur ELSE 0 END) AS vcpu_ns,
        sum(CASE WHEN tid > 0 OR vcpu IS NOT NULL THEN dur ELSE 0 END) AS busy_ns,
        sum(CASE WHEN tid = 0 THEN dur ELSE 0 END) AS idle_ns,
        count(*) FILTER (WHERE tid > 0 OR vcpu IS NOT NULL) AS slices
    FROM cpu_slices
    GROUP BY machine_id, cpu
) AS s
JOIN machines AS m ON m.machine_id = s.machine_id
ORDER BY s.machine_id, s.cpu
