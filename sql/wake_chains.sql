-- Chains of wakeups: a thread wakes a second, which then wakes a third.
-- Each wakeup is joined with the last wakeup of its waker before it. Latency is the sum of the two
-- wakeup latencies.
-- column: machine_id – the machine
-- column: machine – name of the machine
-- column: first – name of the first waker (for a wakeup from an interrupt, the interrupted thread; idle)
-- column: second – name of the thread that it woke
-- column: third – name of the thread that the second one woke
-- column: count – number of occurrences
-- column: total_ns – latency of both wakeups, total
-- column: max_ns – longest latency of both wakeups
-- example: SELECT first, second, third, count, ns_text(total_ns) AS latency FROM wake_chains LIMIT 10
SELECT
    c.machine_id,
    m.name AS machine,
    CASE WHEN c.first_tid = 0 THEN 'idle' ELSE a.name END AS first,
    b.name AS second,
    w.name AS third,
    sum(c.count) AS count,
    sum(c.total_ns) AS total_ns,
    max(c.max_ns) AS max_ns
FROM (
    SELECT
        machine_id,
        waker_tid AS first_tid,
        tid AS second_tid,
        woken_tid AS third_tid,
        count(*) AS count,
        sum(dur + right_dur) AS total_ns,
        max(dur + right_dur) AS max_ns
    FROM asof(
        'SELECT ts, dur, machine_id, tid AS woken_tid, waker_tid AS tid FROM wakeups',
        'SELECT ts, dur, machine_id, tid, waker_tid FROM wakeups',
        'machine_id, tid'
    )
    WHERE tid > 0 AND right_ts IS NOT NULL
    GROUP BY machine_id, waker_tid, tid, woken_tid
) AS c
JOIN machines AS m ON m.machine_id = c.machine_id
LEFT JOIN threads AS a ON a.machine_id = c.machine_id AND a.tid = c.first_tid
LEFT JOIN threads AS b ON b.machine_id = c.machine_id AND b.tid = c.second_tid
LEFT JOIN threads AS w ON w.machine_id = c.machine_id AND w.tid = c.third_tid
GROUP BY c.machine_id, m.name, CASE WHEN c.first_tid = 0 THEN 'idle' ELSE a.name END, b.name, w.name
ORDER BY total_ns DESC NULLS LAST, machine_id, first, second, third
