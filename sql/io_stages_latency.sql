-- Latency of the stages of block requests, by machine, device, operation and stage.
-- Percentiles are exact, nearest rank, over the requests with a completion.
-- column: machine_id – the machine
-- column: machine – its name
-- column: device – the device, as major:minor
-- column: op – read, write, flush, discard or other
-- column: stage – the two events, as in io_stages
-- column: count – number of requests that have it
-- column: share – share of the time of these requests, 0 to 1
-- column: total_ns – its time, total
-- column: p50_ns – its length, median
-- column: p90_ns – 90th percentile
-- column: p99_ns – 99th percentile
-- column: p999_ns – 99.9th percentile
-- column: max_ns – longest
-- example: SELECT machine, device, op, stage, count, share, ns_text(p99_ns) AS p99 FROM io_stages_latency
SELECT
    machine_id, machine, device, op, stage, count,
    round(total_ns / sum(CAST(total_ns AS DOUBLE)) OVER (PARTITION BY machine_id, device, op), 4) AS share,
    total_ns,
    q[1] AS p50_ns,
    q[2] AS p90_ns,
    q[3] AS p99_ns,
    q[4] AS p999_ns,
    max_ns
FROM (
    SELECT
        machine_id, machine, device, op, stage,
        count(*) AS count,
        sum(dur) AS total_ns,
        quantiles(dur, [0.5, 0.9, 0.99, 0.999]) AS q,
        max(dur) AS max_ns
    FROM io_stages
    WHERE request_dur IS NOT NULL
    GROUP BY machine_id, machine, device, op, stage
) AS l
ORDER BY machine_id, device, op, total_ns DESC, stage
