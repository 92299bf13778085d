# The rest of PID 1 of Xen's dom0; host-common.sh stands before it. The root is an overlay: Xen's tools, which came
# in the initramfs, over this machine's root over 9p, and what is written goes to memory.
begin
mkdir -p /base /own
mount_root /base
mount -t tmpfs own /own
mkdir -p /own/upper /own/work
mount -t overlay -o lowerdir=/xen:/base,upperdir=/own/upper,workdir=/own/work root /host || poweroff -f
mount_inside
hostname xenhost
mount -t xenfs xenfs /host/proc/xen
# The hot-plug scripts of domUs must not depend on what this machine has installed.
cp /bin/busybox /host/run/testbed/busybox

mkdir -p /host/run/xen /host/run/xenstored /host/var/lib/xen /host/var/log/xen /host/run/testbed/share/console
tools=$(echo /xen/usr/lib/xen-[0-9]*/bin)
tools=${tools#/xen}
in_root() { PATH=$tools:/usr/sbin:/usr/bin chroot /host "$@"; }
in_root xenstored --internal-db --pid-file /run/xenstored.pid || echo "testbed: no xenstored"
tries=0
until in_root xenstore-exists / 2>/dev/null || [ $tries -ge 100 ]; do
	tries=$((tries + 1))
	usleep 50000
done
in_root xen-init-dom0 || echo "testbed: xen-init-dom0 failed"
in_root xenconsoled --pid-file=/run/xenconsoled.pid --log=guest --log-dir=/run/testbed/share/console

brctl addbr xenbr0
ifconfig xenbr0 10.0.0.1 netmask 255.255.255.0 up

fittings
# What domains of the benchmark see over the bridge: this machine's root, and at /mnt the folder that all share.
if told testbed.exports; then
	mount -t devtmpfs dev /base/dev
	mount --bind /host/run/testbed/share /base/mnt
	chroot /base /usr/sbin/diod --foreground --no-auth --nwthreads 4 --config-file /dev/null --logdest stderr \
		--listen 0.0.0.0:564 --export / --export /mnt 2>/host/run/testbed/share/diod.stderr &
fi
take_orders
