-- Error bound of each machine's stamps, and the test of its clock.
-- column: machine_id – the machine
-- column: machine – name of the machine
-- column: clock – the clock that stamps its own events
-- column: error_bound_ns – error bound of its stamps in trace time; null without a clock of its own
-- column: methods – methods that convert its clock into trace time
-- column: tested – number of its events that could be tested against the guest mode of its vCPUs
-- column: inside_share – share of the tested events that are inside guest mode (0 to 1); 1 if the conversion is right
-- column: worst_ns – largest distance of an outside event from guest mode
-- column: slack_later_ns – its time can shift later by this much before an event falls outside
-- column: slack_earlier_ns – its time can shift earlier by this much before an event falls outside
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
