-- How long system calls took, by thread and call.
-- Percentiles are exact, nearest rank.
-- column: machine_id – the machine
-- column: machine – its name
-- column: tid – the thread
-- column: name – its name
-- column: nr – the call's number on that architecture
-- column: count – calls
-- column: errors – calls that returned an error
-- column: total_ns – time in them
-- column: p50_ns – the median
-- column: p99_ns – 99 % took no longer
-- column: max_ns – the longest
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
