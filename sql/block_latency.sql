-- Latency of block requests, by device and operation.
-- Percentiles are exact, nearest rank. The time in the queue (issue) is part of the latency.
-- column: machine_id – the machine
-- column: machine – name of the machine
-- column: device – the device, as major:minor
-- column: op – read, write, flush, discard or other
-- column: count – number of requests
-- column: unfinished – requests without a recorded completion
-- column: errors – requests that failed
-- column: bytes – length of all requests together
-- column: p50_ns – latency from the first event to completion, median
-- column: p90_ns – latency, 90th percentile
-- column: p99_ns – latency, 99th percentile
-- column: max_ns – longest latency
-- column: issue_p99_ns – time from the first event to the driver, 99th percentile
-- example: SELECT machine, device, op, count, ns_text(p99_ns) AS p99 FROM block_latency
SELECT
    b.machine_id,
    m.name AS machine,
    b.device,
    b.op,
    b.count,
    b.count - b.finished AS unfinished,
    b.errors,
    b.bytes,
    b.q[1] AS p50_ns,
    b.q[2] AS p90_ns,
    b.q[3] AS p99_ns,
    b.max_ns,
    b.i[1] AS issue_p99_ns
FROM (
    SELECT
        machine_id,
        device,
        op,
        count(*) AS count,
        count(dur) AS finished,
        count(*) FILTER (WHERE error < 0) AS errors,
        sum(bytes) AS bytes,
        quantiles(dur, [0.5, 0.9, 0.99]) AS q,
        max(dur) AS max_ns,
        quantiles(issue_ns, [0.99]) AS i
    FROM block_io
    GROUP BY machine_id, device, op
) AS b
JOIN machines AS m ON m.machine_id = b.machine_id
ORDER BY b.machine_id, b.device, b.op
