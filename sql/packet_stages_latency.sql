-- Latency of the stages of packets, by sender, receiver and stage.
-- Percentiles are exact, nearest rank.
-- column: machine_id – the sender; null if the packets came from outside of the recording
-- column: machine – its name
-- column: to_machine_id – the receiver; null if the packets left the recording or were dropped
-- column: to_machine – its name
-- column: stage – the two events, as in packet_stages
-- column: count – number of packets that have it
-- column: share – share of the time of these packets, 0 to 1
-- column: total_ns – its time, total
-- column: p50_ns – its length, median
-- column: p90_ns – 90th percentile
-- column: p99_ns – 99th percentile
-- column: p999_ns – 99.9th percentile
-- column: max_ns – longest
-- example: SELECT machine, to_machine, stage, count, share, ns_text(p99_ns) AS p99 FROM packet_stages_latency
SELECT
    machine_id, machine, to_machine_id, to_machine, stage, count,
    round(total_ns / sum(CAST(total_ns AS DOUBLE)) OVER (PARTITION BY machine_id, to_machine_id), 4) AS share,
    total_ns,
    q[1] AS p50_ns,
    q[2] AS p90_ns,
    q[3] AS p99_ns,
    q[4] AS p999_ns,
    max_ns
FROM (
    SELECT
        machine_id, machine, to_machine_id, to_machine, stage,
        count(*) AS count,
        sum(dur) AS total_ns,
        quantiles(dur, [0.5, 0.9, 0.99, 0.999]) AS q,
        max(dur) AS max_ns
    FROM packet_stages
    GROUP BY machine_id, machine, to_machine_id, to_machine, stage
) AS l
ORDER BY machine_id NULLS FIRST, to_machine_id NULLS FIRST, total_ns DESC, stage
