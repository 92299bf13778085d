// SPDX-License-Identifier: GPL-2.0
/* Interrupt handlers and softirqs (include/trace/events/irq.h). Arguments unchanged since 5.5. */

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(irq_handler_entry, int irq, struct irqaction *action)
{
	if (!wanted_here())
		return 0;
	return log_irq_entry(irq);
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(irq_handler_exit, int irq, struct irqaction *action, int ret)
{
	if (!wanted_here())
		return 0;
	return log_irq_exit(irq, ret != 0);
}

SEC("tp_btf/softirq_raise")
int BPF_PROG(softirq_raise, unsigned int vector)
{
	if (!wanted_here())
		return 0;
	return log_write(SOFTIRQ_RAISE, vector & 15);
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(softirq_entry, unsigned int vector)
{
	if (!wanted_here())
		return 0;
	return log_softirq_entry(vector);
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(softirq_exit, unsigned int vector)
{
	if (!wanted_here())
		return 0;
	return log_softirq_exit(vector);
}
