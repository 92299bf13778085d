-- Handling time of VM exits by reason, port and hypercall.
-- column: machine_id – the VM
-- column: machine – name of the VM
-- column: reason – exit reason, as the kernel prints it
-- column: detail – hypercall number or I/O port, if recorded
-- column: count – number of exits
-- column: count_share – count as a share of the VM's exits (0 to 1)
-- column: handling_ns – time on a CPU to handle them
-- column: handling_share – handling_ns as a share of the VM's handling time (0 to 1)
-- column: places – number of different guest instructions that caused them
-- example: SELECT machine, reason, detail, count, ns_text(handling_ns) AS handling FROM top_exits
-- LIMIT 10
SELECT
    e.machine_id,
    m.name AS machine,
    e.reason,
    e.detail,
    e.count,
    CAST(e.count AS DOUBLE) / sum(e.count) OVER (PARTITION BY e.machine_id) AS count_share,
    e.handling_ns,
    CAST(e.handling_ns AS DOUBLE)
        / nullif(sum(e.handling_ns) OVER (PARTITION BY e.machine_id), 0) AS handling_share,
    e.places
FROM (
    SELECT
        machine_id, reason, detail,
        count(*) AS count, sum(handling_ns) AS handling_ns, count(DISTINCT rip) AS places
    FROM exits
    GROUP BY machine_id, reason, detail
) AS e
JOIN machines AS m ON m.machine_id = e.machine_id
ORDER BY e.handling_ns DESC NULLS LAST, e.machine_id, e.reason, e.detail
