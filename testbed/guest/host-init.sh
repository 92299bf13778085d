# The rest of PID 1 of the nested host ("L1"); host-common.sh stands before it.
begin
mount_root /host
mount_inside
hostname kvmhost

if ! told testbed.unlistened; then
	# QEMU's TCG may keep executing an int3 that the kernel has long replaced: a CPU that meets it with interrupts
	# off traps for ever, and the one that patches waits for it for ever (6.1 under QEMU 7.2; about every tenth time
	# events were enabled). So the tracepoints that recorders use are patched once, while there is only one CPU
	# (maxcpus=1), and stay so: with two idle listeners, further ones only lengthen a list (kernel/tracepoint.c,
	# tracepoint_add_func, TP_FUNC_N).
	tracing=/host/sys/kernel/tracing
	for idle in 1 2; do
		instance=$tracing/instances/testbed-idle-$idle
		mkdir $instance
		echo 0 >$instance/tracing_on
		echo 4 >$instance/buffer_size_kb
		for system in sched task kvm irq raw_syscalls block net workqueue; do
			[ -e $instance/events/$system/enable ] && echo 1 >$instance/events/$system/enable
		done
	done
	# The size of an instance's buffer also ends the waiting of the top buffer for its own (kernel/trace/trace.c,
	# ring_buffer_expanded): it would stay at one page, and recorders that leave it alone would lose events.
	echo 1408 >$tracing/buffer_size_kb
	# The same holds for what VMs and counters patch.
	told testbed.plain || /bin/steady || poweroff -f
	for cpu in /sys/devices/system/cpu/cpu[1-9]*/online; do echo 1 >$cpu; done
fi

fittings
# A guest that takes no orders, only workers.
if told testbed.leaf; then
	wait
	poweroff -f
fi
take_orders
