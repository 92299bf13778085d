-- Stages of block requests: one row for each stretch of a request's way between two events.
-- A stage that is not known is part of the stretch around it, so the stages of a request add up to its dur.
-- column: request – number of the request, by submission, from 1
-- column: machine_id – the machine
-- column: machine – its name
-- column: device – the device, as major:minor
-- column: op – read, write, flush, discard or other
-- column: tid – the submitter
-- column: stage – the two events, as the columns of io_requests without _ts: issue..kick
-- column: ts – start of the stage, ns of trace time
-- column: dur – length of the stage, ns
-- column: request_ts – submission of the request
-- column: request_dur – length of the request, ns; null without a completion
-- example: SELECT stage, ns_text(dur) AS length FROM io_stages WHERE request = 1
SELECT
    s.request,
    s.machine_id,
    m.name AS machine,
    s.device,
    s.op,
    s.tid,
    s.stage,
    s.ts,
    s.dur,
    s.request_ts,
    s.request_dur
FROM (
    SELECT
        request, machine_id, device, op, tid, request_ts, request_dur, place,
        lag(cut) OVER w || '..' || cut AS stage,
        lag(t) OVER w AS ts,
        t - lag(t) OVER w AS dur
    FROM (
        SELECT
            row_number() OVER (ORDER BY ts, machine_id, device, sector) AS request,
            machine_id, device, op, tid,
            ts AS request_ts,
            dur AS request_dur,
            unnest([
                ts, issue_ts, kick_ts, pickup_ts, host_submit_ts, host_issue_ts, host_complete_ts,
                signal_ts, inject_ts, guest_irq_ts, complete_ts, wake_ts, run_ts
            ]) AS t,
            unnest([
                'submit', 'issue', 'kick', 'pickup', 'host_submit', 'host_issue', 'host_complete',
                'signal', 'inject', 'guest_irq', 'complete', 'wake', 'run'
            ]) AS cut,
            unnest([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]) AS place
        FROM io_requests
    ) AS u
    WHERE t IS NOT NULL
    WINDOW w AS (PARTITION BY request ORDER BY place)
) AS s
JOIN machines AS m ON m.machine_id = s.machine_id
WHERE s.ts IS NOT NULL
ORDER BY s.request, s.place
