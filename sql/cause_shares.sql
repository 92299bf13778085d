-- Causes of wakeups, interrupts and requests, by kind and by the evidence that joins cause and effect.
-- column: machine_id – the machine of the effect
-- column: machine – its name
-- column: kind – wakeup, fork, timer, ipi, completion, packet, softirq, kick, injection, line, work or lock
-- column: evidence – id (both ends carry the same number), context (both in one thread, handler or VM exit) or order (time alone)
-- column: count – number of causes
-- column: share – share of the machine's causes of this kind, 0 to 1
-- column: ambiguous – causes with more than one candidate
-- column: avg_ns – time from cause to effect, average
-- column: max_ns – longest time from cause to effect
-- example: SELECT machine, kind, evidence, count, share, ns_text(max_ns) AS longest FROM cause_shares LIMIT 10
SELECT
    c.machine_id,
    m.name AS machine,
    c.kind,
    c.evidence,
    c.count,
    round(c.count / sum(CAST(c.count AS DOUBLE)) OVER (PARTITION BY c.machine_id, c.kind), 4) AS share,
    c.ambiguous,
    c.avg_ns,
    c.max_ns
FROM (
    SELECT
        to_machine_id AS machine_id, kind, evidence,
        count(*) AS count,
        count(*) FILTER (WHERE candidates > 1) AS ambiguous,
        CAST(round(avg(dur)) AS BIGINT) AS avg_ns,
        max(dur) AS max_ns
    FROM causes
    GROUP BY to_machine_id, kind, evidence
) AS c
JOIN machines AS m ON m.machine_id = c.machine_id
ORDER BY c.machine_id, c.kind, c.count DESC, c.evidence
