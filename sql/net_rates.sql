-- Packets and bytes of each network device in each second.
-- A recording whose time is in ticks of unknown length has no rows here.
-- column: ts – start of the second, ns of trace time
-- column: machine_id – the machine
-- column: machine – name of the machine
-- column: device – the network device
-- column: direction – xmit or receive
-- column: packets – packets in that second
-- column: bytes – bytes in those packets
-- column: refused – packets that the driver did not accept
-- example: SELECT machine, device, direction, max(bytes) AS peak_bytes_per_s FROM net_rates
-- GROUP BY machine, device, direction
SELECT
    n.ts,
    n.machine_id,
    m.name AS machine,
    n.device,
    n.direction,
    n.packets,
    n.bytes,
    n.refused
FROM (
    SELECT
        bucket(ts, 1000000000) AS ts,
        machine_id,
        device,
        direction,
        count(*) AS packets,
        sum(bytes) AS bytes,
        count(*) FILTER (WHERE code <> 0) AS refused
    FROM net_io
    GROUP BY bucket(ts, 1000000000), machine_id, device, direction
) AS n
JOIN machines AS m ON m.machine_id = n.machine_id
WHERE m.time_unit = 'ns'
ORDER BY n.ts, n.machine_id, n.device, n.direction
