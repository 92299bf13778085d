// SPDX-License-Identifier: GPL-2.0
/* Work items of kernel threads (include/trace/events/workqueue.h); where vhost's workers are
 * workqueues too, theirs. */

SEC("tp_btf/workqueue_execute_start")
int BPF_PROG(workqueue_execute_start, struct work_struct *work)
{
	if (!wanted_here())
		return 0;
	return log_write3(WORK_START, 0, (u64)work, (u64)work->func);
}

/* The work may be gone by now: its function comes as an argument (since 5.5). The verifier refuses
 * arguments that are pointers to functions, but not reading them from the context's memory. */
SEC("tp_btf/workqueue_execute_end")
int BPF_PROG(workqueue_execute_end, struct work_struct *work)
{
	u64 function = 0;

	if (!wanted_here())
		return 0;
	bpf_probe_read_kernel(&function, sizeof(function), &ctx[1]);
	return log_write3(WORK_END, 0, (u64)work, function);
}

SEC("tp_btf/workqueue_queue_work")
int BPF_PROG(workqueue_queue_work, int cpu, struct pool_workqueue *queue, struct work_struct *work)
{
	if (!wanted_here())
		return 0;
	return log_other(OTHER_WORK_QUEUE, 0, (u64)work, (u64)work->func);
}
