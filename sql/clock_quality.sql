-- How far each machine's stamps can be trusted.
-- column: machine_id – the machine
-- column: machine – its name
-- column: clock – what its own events were stamped with
-- column: error_bound_ns – how far a stamp may be off in trace time; null without a clock of its own
-- column: methods – how its clock was related to trace time
-- column: tested – its events that could be tested against its vCPUs' guest mode
-- column: inside_share – of these, inside (0 to 1): 1 is what true clocks give
-- column: worst_ns – farthest that one was outside
-- column: slack_later_ns – its time could be this much later before an event fell outside
-- column: slack_earlier_ns – its time could be this much earlier
-- example: SELECT machine, ns_text(error_bound_ns) AS bound, inside_share FROM clock_quality
SELECT
    m.machine_id,
    m.name AS machine,
    m.clock,
    CAST(m.error_bound_ns AS BIGINT) AS error_bound_ns,
    e.methods,
    c.tested,
    CAST(c.inside AS DOUBLE) / nullif(c.tested, 0) AS inside_share,
    c.worst_ns,
    c.slack_later_ns,
    c.slack_earlier_ns
FROM machines AS m
LEFT JOIN (
    SELECT machine_id, string_agg(DISTINCT method, ', ' ORDER BY method) AS methods
    FROM clock_edges
    GROUP BY machine_id
) AS e ON e.machine_id = m.machine_id
LEFT JOIN clock_check AS c ON c.machine_id = m.machine_id
ORDER BY m.machine_id
