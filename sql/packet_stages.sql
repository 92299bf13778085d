-- Stages of packets: one row for each stretch of a packet's way between two events.
-- A stage that is not known is part of the stretch around it, so the stages of a packet add up to its dur.
-- A packet with a single known event has no row.
-- column: packet – number of the packet, by its first event, from 1
-- column: machine_id – the sender; null if the packet came from outside of the recording
-- column: machine – its name
-- column: to_machine_id – the receiver; null if the packet left the recording or was dropped
-- column: to_machine – its name
-- column: stage – the two events, as the columns of packets without _ts: send..kick
-- column: ts – start of the stage, ns of trace time
-- column: dur – length of the stage, ns
-- column: packet_ts – first event of the packet
-- column: packet_dur – length of the packet's way, ns
-- example: SELECT stage, ns_text(dur) AS length FROM packet_stages WHERE packet = 1
SELECT
    s.packet,
    s.sender AS machine_id,
    m.name AS machine,
    s.to_machine_id,
    r.name AS to_machine,
    s.stage,
    s.ts,
    s.dur,
    s.packet_ts,
    s.packet_dur
FROM (
    SELECT
        packet, sender, to_machine_id, packet_ts, packet_dur, place,
        lag(cut) OVER w || '..' || cut AS stage,
        lag(t) OVER w AS ts,
        t - lag(t) OVER w AS dur
    FROM (
        SELECT
            row_number() OVER (ORDER BY ts, machine_id, flow, seq) AS packet,
            CASE WHEN send_ts IS NOT NULL THEN machine_id END AS sender,
            to_machine_id,
            ts AS packet_ts,
            dur AS packet_dur,
            unnest([
                send_ts, kick_ts, pickup_ts, host_receive_ts, host_send_ts, fetch_ts,
                signal_ts, inject_ts, guest_irq_ts, receive_ts, wake_ts, run_ts
            ]) AS t,
            unnest([
                'send', 'kick', 'pickup', 'host_receive', 'host_send', 'fetch',
                'signal', 'inject', 'guest_irq', 'receive', 'wake', 'run'
            ]) AS cut,
            unnest([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]) AS place
        FROM packets
    ) AS u
    WHERE t IS NOT NULL
    WINDOW w AS (PARTITION BY packet ORDER BY place)
) AS s
LEFT JOIN machines AS m ON m.machine_id = s.sender
LEFT JOIN machines AS r ON r.machine_id = s.to_machine_id
WHERE s.ts IS NOT NULL
ORDER BY s.packet, s.place
