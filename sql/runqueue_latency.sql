-- Wakeup latency of each thread: time from the wakeup until it runs.
-- Percentiles are exact, nearest rank.
-- column: machine_id – the machine
-- column: machine – name of the machine
-- column: tid – the thread
-- column: name – name of the thread
-- column: count – number of wakeups
-- column: unfinished – wakeups after which the thread is not recorded as running
-- column: total_ns – wakeup latency, total
-- column: p50_ns – wakeup latency, median
-- column: p90_ns – 90th percentile
-- column: p99_ns – 99th percentile
-- column: max_ns – longest wakeup latency
-- example: SELECT machine, name, count, ns_text(p99_ns) AS p99 FROM runqueue_latency LIMIT 10
SELECT
    w.machine_id,
    m.name AS machine,
    w.tid,
    t.name,
    w.count,
    w.count - w.finished AS unfinished,
    w.total_ns,
    w.q[1] AS p50_ns,
    w.q[2] AS p90_ns,
    w.q[3] AS p99_ns,
    w.max_ns
FROM (
    SELECT
        machine_id,
        tid,
        count(*) AS count,
        count(dur) AS finished,
        sum(dur) AS total_ns,
        quantiles(dur, [0.5, 0.9, 0.99]) AS q,
        max(dur) AS max_ns
    FROM wakeups
    GROUP BY machine_id, tid
) AS w
JOIN machines AS m ON m.machine_id = w.machine_id
LEFT JOIN threads AS t ON t.machine_id = w.machine_id AND t.tid = w.tid
ORDER BY w.total_ns DESC NULLS LAST, w.machine_id, w.tid
