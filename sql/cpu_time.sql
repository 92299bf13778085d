-- Time of each CPU: vCPUs, other threads, idle.
-- column: machine_id – the machine that has the CPU
-- column: machine – name of the machine
-- column: cpu – the CPU
-- column: window_ns – sum of the parts
-- column: vcpu_ns – vCPUs on the CPU (under KVM, the threads that run them)
-- column: thread_ns – other threads on the CPU
-- column: idle_ns – CPU idle
-- column: unknown_ns – state unknown (lost events)
-- column: slices – number of slices of vCPUs and of threads, without the idle thread
-- column: busy_share – busy, as a share of the known time (0 to 1)
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
