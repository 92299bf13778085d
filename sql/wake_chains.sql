-- Chains of wakeups: a thread or an interrupt wakes a thread, which then wakes another one.
-- Each wakeup by a thread is joined with the last wakeup of that thread before it. Latency is the sum
-- of the two wakeup latencies. A thread that an interrupt interrupted is not its waker.
-- column: machine_id – the machine
-- column: machine – name of the machine
-- column: first – name of the first waker; of an interrupt: irq and its line, softirq and its number, the source of a vector, or interrupt if its handler was not recorded; idle if the recording does not tell contexts
-- column: second – name of the thread that it woke
-- column: third – name of the thread that the second one woke
-- column: count – number of occurrences
-- column: total_ns – latency of both wakeups, total
-- column: max_ns – longest latency of both wakeups
-- example: SELECT first, second, third, count, ns_text(total_ns) AS latency FROM wake_chains LIMIT 10
SELECT
    c.machine_id,
    m.name AS machine,
    coalesce(c.interrupt, a.name) AS first,
    b.name AS second,
    w.name AS third,
    sum(c.count) AS count,
    sum(c.total_ns) AS total_ns,
    max(c.max_ns) AS max_ns
FROM (
    SELECT
        machine_id,
        waker_tid AS first_tid,
        CASE
            WHEN waker_tid = 0 THEN 'idle'
            WHEN waker_tid IS NOT NULL THEN NULL
            WHEN source IS NULL THEN 'interrupt'
            WHEN source = 'line' THEN concat('irq ', vector)
            WHEN source = 'softirq' THEN concat('softirq ', vector)
            ELSE source
        END AS interrupt,
        tid AS second_tid,
        woken_tid AS third_tid,
        count(*) AS count,
        sum(dur + right_dur) AS total_ns,
        max(dur + right_dur) AS max_ns
    FROM asof(
        'SELECT ts, dur, machine_id, tid AS woken_tid, waker_tid AS tid FROM wakeups WHERE waker_tid > 0',
        'SELECT ts, dur, machine_id, tid, waker_tid, source, vector FROM wakeups',
        'machine_id, tid'
    )
    WHERE right_ts IS NOT NULL
    GROUP BY machine_id, waker_tid, source, vector, tid, woken_tid
) AS c
JOIN machines AS m ON m.machine_id = c.machine_id
LEFT JOIN threads AS a ON a.machine_id = c.machine_id AND a.tid = c.first_tid
LEFT JOIN threads AS b ON b.machine_id = c.machine_id AND b.tid = c.second_tid
LEFT JOIN threads AS w ON w.machine_id = c.machine_id AND w.tid = c.third_tid
GROUP BY c.machine_id, m.name, coalesce(c.interrupt, a.name), b.name, w.name
ORDER BY total_ns DESC NULLS LAST, machine_id, first, second, third
