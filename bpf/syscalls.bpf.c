// SPDX-License-Identifier: GPL-2.0
/*
 * System calls (include/trace/events/syscalls.h). Three ways, dearest last in detail:
 * sys_exit alone (an instant, with number and result), both folded into one record (with the
 * duration), both as two records (cfg.fold off).
 */

SEC("tp_btf/sys_enter")
int BPF_PROG(sys_enter, struct pt_regs *regs, long nr)
{
	if (!wanted_here())
		return 0;
	return log_sys_enter(nr);
}

/* The number is what the tracepoint prints: orig_ax, -1 after sigreturn. */
SEC("tp_btf/sys_exit")
int BPF_PROG(sys_exit, struct pt_regs *regs, long ret)
{
	if (!wanted_here())
		return 0;
	return log_sys_exit(regs->orig_ax, ret);
}
