#!/bin/busybox sh
# PID 1 of the nested host ("L1"). Mounts the outer machine's root read only over 9p, its own /proc, /sys, /dev,
# /run, /tmp over that, the image cache (which may lie under one of these) at /run/testbed/cache, and then runs jobs inside: orders come as lines over the virtio-serial port
# "testbed.control", a job's script, output and result are files of the writable share.
#   run N     start jobs/N/script in a session of its own; answer "exit N CODE" when it ends
#   kill N    kill that session
/bin/busybox mkdir -p /proc /sys /dev /jobs /host
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
while read -r module; do insmod "$module" || echo "testbed: no $module"; done </modules.list
mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=500000,cache=loose root /host || poweroff -f
mount -t proc proc /host/proc
mount -t sysfs sys /host/sys
mount -t devtmpfs dev /host/dev
mkdir -p /host/dev/shm /host/dev/pts
mount -t tmpfs shm /host/dev/shm
mount -t devpts pts /host/dev/pts
mount -t tmpfs run /host/run
mount -t tmpfs tmp /host/tmp
mount -t tracefs tracing /host/sys/kernel/tracing
mount -t debugfs debug /host/sys/kernel/debug
mount -t cgroup2 cgroup /host/sys/fs/cgroup
mount -t bpf bpf /host/sys/fs/bpf
chmod 1777 /host/tmp /host/dev/shm
mkdir -p /host/run/testbed/share
mount -t 9p -o trans=virtio,version=9p2000.L,msize=500000,cache=none share /host/run/testbed/share || poweroff -f
hostname kvmhost
mkdir -p /host/run/testbed/cache
mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=500000,cache=loose cache /host/run/testbed/cache
ifconfig lo 127.0.0.1 up

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
	for system in sched task kvm irq; do
		[ -e $instance/events/$system/enable ] && echo 1 >$instance/events/$system/enable
	done
done
for cpu in /sys/devices/system/cpu/cpu[1-9]*/online; do echo 1 >$cpu; done

jobs=/host/run/testbed/share/jobs
job() {
	setsid chroot /host /bin/sh /run/testbed/share/jobs/$1/script </dev/null >$jobs/$1/stdout 2>$jobs/$1/stderr &
	echo $! >/jobs/$1
	wait $!
	code=$?
	rm -f /jobs/$1
	echo "exit $1 $code" >&3
}

port=
while [ -z "$port" ]; do
	for name in /sys/class/virtio-ports/*/name; do
		[ "$(cat $name 2>/dev/null)" = testbed.control ] && port=/dev/$(basename $(dirname $name))
	done
	[ -c "$port" ] || { port=; sleep 0.05; }
done
exec 3<>$port
echo "ready $(cut -d' ' -f1 /proc/uptime)" >&3
# The read also ends when the other side goes away: then so does this host.
while read -r verb number <&3; do
	case $verb in
	run) job $number & ;;
	kill) [ -f /jobs/$number ] && kill -KILL -$(cat /jobs/$number) ;;
	esac
done
poweroff -f
