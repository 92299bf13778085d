# The rest of PID 1 of a machine that boots by GRUB, until systemd is; host-common.sh stands before it. The root is an
# overlay: what its second disk has, over this machine's root over 9p. What is written stays there from boot to boot. The
# first disk is /boot, and a file system of its own, as GRUB reads no journal: only what is unmounted before the reboot is
# seen by it as it was left.
begin
mkdir -p /base /own
mount_root /base
mount -t ext4 /dev/vdb /own || poweroff -f
mkdir -p /own/upper /own/work
mount -t overlay -o lowerdir=/base,upperdir=/own/upper,workdir=/own/work root /host || poweroff -f
mount -t ext4 /dev/vda1 /host/boot || poweroff -f
# What lies in this machine's own would be tidied up, file by file.
mount -t tmpfs tmp /host/tmp
mount -t 9p -o trans=virtio,version=9p2000.L,msize=500000,cache=none share /host/mnt || poweroff -f
if [ ! -e /own/prepared ]; then
	# None of this machine's own services and disks. What systemd itself wants stays.
	rm -rf /host/etc/systemd/system/*.wants
	: >/host/etc/fstab
	: >/own/prepared
fi
mount --move /dev /host/dev
umount /sys
umount /proc
exec switch_root /host /lib/systemd/systemd
