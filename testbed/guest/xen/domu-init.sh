# The rest of PID 1 of a domain of the benchmark; host-common.sh stands before it. Its root is the outer machine's, which
# dom0 exports over the bridge (diod), its disk is /dev/xvda. It takes no orders: workers come over a connection that it
# opens itself, to the address that its command line has.
[ "$1" = serve ] && serve_workers
[ "$1" = serve ] && exit

# mount_remote WHAT OPTIONS WHERE
mount_remote() {
	tries=0
	until mount -t 9p -o trans=tcp,port=564,version=9p2000.L,msize=262144,aname=$1,$2 10.0.2.15 $3; do
		tries=$((tries + 1))
		[ $tries -lt 100 ] || poweroff -f
		usleep 200000
	done
}

begin
fit_card
mount_remote / ro,cache=loose /host
mount_own
mount_remote /mnt/$(told_of testbed.name) cache=none /host/run/testbed/share
hostname $(told_of testbed.name)
fit_modules
fit_disk /dev/xvda
port=$(told_of testbed.worker)
nc ${port%:*} ${port#*:} -e /init serve
poweroff -f
