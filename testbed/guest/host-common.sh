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

# What a machine has for itself, over the root that is mounted at /host.
mount_own() {
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
	ifconfig lo 127.0.0.1 up
}

mount_inside() {
	mount_own
	mount -t 9p -o trans=virtio,version=9p2000.L,msize=500000,cache=none share /host/run/testbed/share || poweroff -f
	mkdir -p /host/run/testbed/cache
	mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=500000,cache=loose cache /host/run/testbed/cache
}

# The device of the virtio-serial port of this name; nothing if there is none.
port_of() {
	for name in /sys/class/virtio-ports/*/name; do
		[ "$(cat $name 2>/dev/null)" = "$1" ] && echo /dev/$(basename $(dirname $name))
	done
}

# Whether the kernel's command line has this word.
told() {
	for word in $(cat /proc/cmdline); do [ "$word" = "$1" ] && return 0; done
	return 1
}

# What it says after `NAME=`.
told_of() {
	for word in $(cat /proc/cmdline); do
		case $word in $1=*) echo "${word#*=}" ;; esac
	done
}

# What the benchmark's machines have beside (src/fitted.rs): modules, a card, a disk of their own, a port for their worker.
fittings() {
	fit_modules
	fit_disk /dev/vda
	fit_card
	worker=$(port_of testbed.pipe.0)
	if [ -n "$worker" ]; then serve_workers $worker & fi
}

# Modules are looked for where the shared folder may have some, now or later.
fit_modules() {
	[ -d /host/lib/modules ] || return 0
	mount -t tmpfs modules /host/lib/modules
	ln -s /run/testbed/share/modules /host/lib/modules/$(uname -r)
}

# fit_disk DEVICE
fit_disk() {
	mkdir -p /host/run/testbed/scratch
	[ -b $1 ] || return 0
	mount -t ext4 -o noatime $1 /host/run/testbed/scratch || poweroff -f
	chmod 1777 /host/run/testbed/scratch
}

fit_card() {
	if [ -e /sys/class/net/eth0 ]; then
		card=eth0
		if told testbed.bridge; then
			[ -d /sys/class/net/xenbr0 ] || brctl addbr xenbr0
			brctl addif xenbr0 eth0
			ifconfig eth0 up
			ifconfig xenbr0 up
			card=xenbr0:1
		fi
		address=$(told_of testbed.address)
		[ -z "$address" ] || ifconfig $card $address netmask 255.255.255.0 up
		route add default gw 10.0.2.2
	fi
}

# Runs a worker for every line "worker ARGUMENTS" of a port, or of the socket at 0; that is then its standard input and
# output. When it has ended, a line says so that begins with a byte which no line of a worker begins with.
serve_workers() {
	if [ -n "$1" ]; then exec 4<>$1; else exec 4<&0; fi
	echo "testbed: ready" >&4
	while read -r verb arguments <&4; do
		[ "$verb" = worker ] || continue
		chroot /host /bin/sh -c "$own_environment
			cd /run/testbed/scratch && exec /run/testbed/share/worker $arguments" \
			<&4 >&4 2>>/host/run/testbed/share/worker.stderr 4>&-
		printf '\n\004 %s\n' $? >&4
	done
}
own_environment='export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8
	export HOME=/run/testbed/scratch TMPDIR=/run/testbed/scratch'

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
		port=$(port_of testbed.control)
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

