-- Time of each thread by state, as its own kernel schedules it.
-- column: machine_id – the machine whose kernel schedules the thread
-- column: machine – name of the machine
-- column: tid – the thread
-- column: name – name of the thread
-- column: running_ns – time on a CPU
-- column: runnable_ns – time runnable, not running
-- column: blocked_ns – time asleep
-- column: disk_ns – time in uninterruptible sleep, state D (part of blocked)
-- column: unknown_ns – time inside lost events, or before the first event of the thread
-- column: runs – times it got a CPU
-- column: preemptions – number of times the thread was scheduled out while runnable (no wakeup)
-- example: SELECT name, ns_text(running_ns) AS ran, ns_text(runnable_ns) AS waited FROM thread_time
-- WHERE machine = 'host' LIMIT 10
SELECT
    s.machine_id,
    m.name AS machine,
    s.tid,
    t.name,
    s.running_ns,
    s.runnable_ns,
    s.blocked_ns,
    s.disk_ns,
    s.unknown_ns,
    s.runs,
    s.preemptions
FROM (
    SELECT
        machine_id,
        tid,
        sum(CASE WHEN state = 'running' THEN dur ELSE 0 END) AS running_ns,
        sum(CASE WHEN state = 'runnable' THEN dur ELSE 0 END) AS runnable_ns,
        sum(CASE WHEN state = 'blocked' THEN dur ELSE 0 END) AS blocked_ns,
        sum(CASE WHEN state = 'blocked' AND reason = 'D' THEN dur ELSE 0 END) AS disk_ns,
        sum(CASE WHEN state = 'unknown' THEN dur ELSE 0 END) AS unknown_ns,
        count(*) FILTER (WHERE state = 'running') AS runs,
        count(*) FILTER (WHERE state = 'runnable' AND waker_tid IS NULL AND waker_context IS NULL) AS preemptions
    FROM thread_states
    GROUP BY machine_id, tid
) AS s
JOIN machines AS m ON m.machine_id = s.machine_id
LEFT JOIN threads AS t ON t.machine_id = s.machine_id AND t.tid = s.tid
ORDER BY s.running_ns DESC, s.machine_id, s.tid
