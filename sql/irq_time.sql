-- CPU time of interrupt and softirq handlers, by CPU.
-- column: machine_id – the machine
-- column: machine – name of the machine
-- column: cpu – the CPU
-- column: kind – irq (an interrupt line), softirq or vector (an interrupt of the CPU's own)
-- column: vector – interrupt line, softirq number or vector
-- column: name – the softirq's name, or the vector's source; null for interrupt lines
-- column: count – number of runs of the handler
-- column: total_ns – time in the handler, total
-- column: max_ns – longest run
-- example: SELECT machine, cpu, kind, vector, name, ns_text(total_ns) AS total FROM irq_time LIMIT 10
SELECT
    i.machine_id,
    m.name AS machine,
    i.cpu,
    CASE i.source WHEN 'line' THEN 'irq' WHEN 'softirq' THEN 'softirq' ELSE 'vector' END AS kind,
    i.vector,
    CASE i.source
        WHEN 'line' THEN NULL
        WHEN 'softirq' THEN
            CASE i.vector
                WHEN 0 THEN 'HI' WHEN 1 THEN 'TIMER' WHEN 2 THEN 'NET_TX' WHEN 3 THEN 'NET_RX'
                WHEN 4 THEN 'BLOCK' WHEN 5 THEN 'IRQ_POLL' WHEN 6 THEN 'TASKLET' WHEN 7 THEN 'SCHED'
                WHEN 8 THEN 'HRTIMER' WHEN 9 THEN 'RCU'
            END
        ELSE i.source
    END AS name,
    i.count,
    i.total_ns,
    i.max_ns
FROM (
    SELECT
        machine_id, cpu, source, vector,
        count(*) AS count, sum(dur) AS total_ns, max(dur) AS max_ns
    FROM irqs
    GROUP BY machine_id, cpu, source, vector
) AS i
JOIN machines AS m ON m.machine_id = i.machine_id
ORDER BY i.total_ns DESC, i.machine_id, i.cpu, i.source, i.vector
