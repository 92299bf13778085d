-- Latency of system calls, by thread and call.
-- Percentiles are exact, nearest rank.
-- column: machine_id – the machine
-- column: machine – name of the machine
-- column: tid – the thread
-- column: name – name of the thread
-- column: nr – system call number on that architecture
-- column: count – number of calls
-- column: errors – calls that returned an error
-- column: total_ns – time in the calls, total
-- column: p50_ns – latency, median
-- column: p99_ns – latency, 99th percentile
-- column: max_ns – longest call
-- example: SELECT name, nr, count, ns_text(p99_ns) AS p99 FROM syscall_latency LIMIT 10
SELECT
    s.machine_id,
    m.name AS machine,
    s.tid,
    t.name,
    s.nr,
    s.count,
    s.errors,
    s.total_ns,
    s.q[1] AS p50_ns,
    s.q[2] AS p99_ns,
    s.max_ns
FROM (
    SELECT
        machine_id,
        tid,
        nr,
        count(*) AS count,
        count(*) FILTER (WHERE ret BETWEEN -4095 AND -1) AS errors,
        sum(dur) AS total_ns,
        quantiles(dur, [0.5, 0.99]) AS q,
        max(dur) AS max_ns
    FROM syscalls
    GROUP BY machine_id, tid, nr
) AS s
JOIN machines AS m ON m.machine_id = s.machine_id
LEFT JOIN threads AS t ON t.machine_id = s.machine_id AND t.tid = s.tid
ORDER BY s.total_ns DESC NULLS LAST, s.machine_id, s.tid, s.nr
