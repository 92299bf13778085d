-- How long VM exits took, by VM and reason.
-- Percentiles are exact, nearest rank. Handling is the time on a CPU until the next entry; a halt
-- that sleeps a second costs a microsecond of handling.
-- column: machine_id – the VM
-- column: machine – its name
-- column: reason – why it left guest mode, as the kernel names it
-- column: count – exits
-- column: to_user – how many went on to the VMM
-- column: unfinished – exits without a next entry in the recording, in no duration here
-- column: total_ns – from exit to next entry, in all
-- column: p50_ns – the median
-- column: p90_ns – 90 % took no longer
-- column: p99_ns – 99 % took no longer
-- column: max_ns – the longest
-- column: handling_total_ns – time on a CPU handling them, in all
-- column: handling_p50_ns – its median
-- column: handling_p99_ns – 99 % took no longer
-- column: handling_max_ns – the longest
-- example: SELECT machine, reason, count, ns_text(p99_ns) AS p99 FROM exit_latency LIMIT 10
SELECT
    e.machine_id,
    m.name AS machine,
    e.reason,
    e.count,
    e.to_user,
    e.count - e.finished AS unfinished,
    e.total_ns,
    e.q[1] AS p50_ns,
    e.q[2] AS p90_ns,
    e.q[3] AS p99_ns,
    e.max_ns,
    e.handling_total_ns,
    e.h[1] AS handling_p50_ns,
    e.h[2] AS handling_p99_ns,
    e.handling_max_ns
FROM (
    SELECT
        machine_id,
        reason,
        count(*) AS count,
        count(*) FILTER (WHERE to_user) AS to_user,
        count(dur) AS finished,
        sum(dur) AS total_ns,
        quantiles(dur, [0.5, 0.9, 0.99]) AS q,
        max(dur) AS max_ns,
        sum(handling_ns) AS handling_total_ns,
        quantiles(handling_ns, [0.5, 0.99]) AS h,
        max(handling_ns) AS handling_max_ns
    FROM exits
    GROUP BY machine_id, reason
) AS e
JOIN machines AS m ON m.machine_id = e.machine_id
ORDER BY e.handling_total_ns DESC NULLS LAST, e.machine_id, e.reason
