#!/bin/busybox sh
# PID 1 of the user-mode kernel. Its root is this host's root over hostfs, read only; ubda is its own disk; a terminal
# whose other end are two pipes is its worker's port (see serve_workers in the testbed's guest/host-common.sh).
for applet in mount mkdir stty chroot poweroff chmod ifconfig; do alias $applet="/bin/busybox $applet"; done
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
chmod 1777 /tmp /dev/shm
mkdir -p /run/testbed/scratch /run/testbed/share
mount -t hostfs -o /run/testbed/share share /run/testbed/share || poweroff -f
mount -t ext4 -o noatime /dev/ubda /run/testbed/scratch || poweroff -f
chmod 1777 /run/testbed/scratch
ifconfig lo 127.0.0.1 up
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8
export HOME=/run/testbed/scratch TMPDIR=/run/testbed/scratch
cd /run/testbed/scratch
exec 4<>/dev/ttyS0
stty raw -echo <&4
echo "testbed: ready" >&4
while read -r verb arguments <&4; do
	[ "$verb" = worker ] || continue
	eval "/run/testbed/share/worker $arguments" <&4 >&4 4>&-
	printf '\n\004 %s\n' $? >&4
done
poweroff -f
