#!/bin/busybox sh
# What the PID 1 of the nested host ("L1") and that of Xen's dom0 have in common; host-init.sh or xen/dom0-init.sh
# follows in the same file. This machine's root is seen read only over 9p, with a /proc, /sys, /dev, /run and /tmp of
# its own over that and the image cache (which may lie under one of these) at /run/testbed/cache. Jobs run in a chroot
# into it: orders come as lines over the virtio-serial port "testbed.control", a job's script, output and result are
# files of the writable share.
#   run N     start jobs/N/script in a session of its own; answer "exit N CODE" when it ends
#   kill N    kill that session
begin() {
	/bin/busybox mkdir -p /proc /sys /dev /jobs /host
	/bin/busybox mount -t devtmpfs dev /dev
	/bin/busybox --install -s /bin
	export PATH=/bin
	mount -t proc proc /proc
	mount -t sysfs sys /sys
	while read -r module; do insmod "$module" || echo "testbed: no $module"; done </modules.list
}

# mount_root FOLDER
mount_root() {
	mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=500000,cache=loose root $1 || poweroff -f
}

# Over the root that is mounted at /host.
mount_inside() {
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
	mkdir -p /host/run/testbed/cache
	mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=500000,cache=loose cache /host/run/testbed/cache
	ifconfig lo 127.0.0.1 up
}

jobs=/host/run/testbed/share/jobs
job() {
	setsid chroot /host /bin/sh /run/testbed/share/jobs/$1/script </dev/null >$jobs/$1/stdout 2>$jobs/$1/stderr &
	echo $! >/jobs/$1
	wait $!
	code=$?
	rm -f /jobs/$1
	echo "exit $1 $code" >&3
}

take_orders() {
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
}

