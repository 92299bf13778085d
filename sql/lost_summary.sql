-- Lost events and the time they hide, by machine and cause.
-- column: machine_id – the machine
-- column: machine – name of the machine
-- column: cause – buffer_overrun, overwritten, guest_disconnected, disk_full, not_written, truncated_file, …
-- column: holes – number of stretches without events
-- column: hidden_ns – length of those stretches, summed over all CPUs
-- column: events – number of lost events, if the source counted them
-- column: uncounted – stretches for which the source has no count
-- column: first_ts – start of the first stretch, ns of trace time
-- column: last_end_ts – end of the last stretch, ns of trace time
-- example: SELECT machine, cause, events, ns_text(hidden_ns) AS hidden FROM lost_summary
SELECT
    l.machine_id,
    m.name AS machine,
    l.cause,
    count(*) AS holes,
    sum(l.dur) AS hidden_ns,
    sum(l.count) AS events,
    count(*) FILTER (WHERE l.count IS NULL) AS uncounted,
    min(l.ts) AS first_ts,
    max(l.ts + l.dur) AS last_end_ts
FROM lost AS l
JOIN machines AS m ON m.machine_id = l.machine_id
GROUP BY l.machine_id, m.name, l.cause
ORDER BY l.machine_id, l.cause
