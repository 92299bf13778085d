// SPDX-License-Identifier: GPL-2.0
/* Threads that free memory before they get some (include/trace/events/vmscan.h): for the whole machine, or for the
 * limit of their control group. */

SEC("tp_btf/mm_vmscan_direct_reclaim_begin")
int BPF_PROG(mm_vmscan_direct_reclaim_begin, int order)
{
	if (!wanted_here())
		return 0;
	return log_other(OTHER_RECLAIM_BEGIN, 0, (u32)order, 0);
}

SEC("tp_btf/mm_vmscan_direct_reclaim_end")
int BPF_PROG(mm_vmscan_direct_reclaim_end, unsigned long pages)
{
	if (!wanted_here())
		return 0;
	return log_other(OTHER_RECLAIM_END, 0, pages, 0);
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_begin")
int BPF_PROG(mm_vmscan_memcg_reclaim_begin, int order)
{
	if (!wanted_here())
		return 0;
	return log_other(OTHER_RECLAIM_BEGIN, 1, (u32)order, 0);
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_end")
int BPF_PROG(mm_vmscan_memcg_reclaim_end, unsigned long pages)
{
	if (!wanted_here())
		return 0;
	return log_other(OTHER_RECLAIM_END, 1, pages, 0);
}
