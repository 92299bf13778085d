-- Stacks at the events with which stages begin: one row for each stack that was recorded (record --stacks).
-- stage_ts is ts of the same stage in packet_stages and io_stages.
-- column: ts – time of the event, ns of trace time
-- column: machine_id – the machine
-- column: machine – its name
-- column: cpu – the CPU
-- column: tid – the current thread; in an interrupt the interrupted one
-- column: thread – its name; idle for tid 0
-- column: point – the event, as in stack_samples
-- column: stage_ts – start of the stage, ns of trace time; null if the event begins none
-- column: kernel – the functions in the kernel, the innermost first; null if they were not kept
-- column: program – the functions of the program, the innermost first; null if there are none
-- column: woken_tid – the thread that is woken, if the event is a waking
-- example: SELECT p.stage, s.kernel, count(*) AS samples, ns_text(sum(p.dur)) AS time FROM packet_stages AS p JOIN stage_stacks AS s ON s.stage_ts = p.ts GROUP BY p.stage, s.kernel ORDER BY sum(p.dur) DESC LIMIT 5
SELECT
    s.ts,
    s.machine_id,
    m.name AS machine,
    s.cpu,
    s.tid,
    CASE WHEN s.tid = 0 THEN 'idle' ELSE t.name END AS thread,
    s.point,
    s.stage_ts,
    k.functions AS kernel,
    p.functions AS program,
    s.woken_tid
FROM stack_samples AS s
JOIN machines AS m ON m.machine_id = s.machine_id
LEFT JOIN threads AS t ON t.machine_id = s.machine_id AND t.tid = s.tid
LEFT JOIN (
    SELECT stack_id, string_agg(symbol, ' ← ' ORDER BY depth) AS functions FROM stacks GROUP BY stack_id
) AS k ON k.stack_id = s.kernel_stack_id
LEFT JOIN (
    SELECT stack_id, string_agg(symbol, ' ← ' ORDER BY depth) AS functions FROM stacks GROUP BY stack_id
) AS p ON p.stack_id = s.user_stack_id
ORDER BY s.ts, s.machine_id, s.cpu
