-- Latency of VM exits, by VM and reason.
-- Percentiles are exact, nearest rank. Handling is the time on a CPU until the next entry; a halt
-- that sleeps for a second takes a microsecond of handling.
-- column: machine_id – the VM
-- column: machine – name of the VM
-- column: reason – exit reason, as the kernel prints it
-- column: count – number of exits
-- column: to_user – exits that returned to the VMM
-- column: unfinished – exits without a next entry in the recording; they have no duration and are not in the columns below
-- column: total_ns – time from exit to next entry, total
-- column: p50_ns – time from exit to next entry, median
-- column: p90_ns – 90th percentile
-- column: p99_ns – 99th percentile
-- column: max_ns – longest
-- column: handling_total_ns – handling time on a CPU, total
-- column: handling_p50_ns – handling time, median
-- column: handling_p99_ns – handling time, 99th percentile
-- column: handling_max_ns – longest handling time
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
