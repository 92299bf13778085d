# Makes the recordings of this folder on a nested host (see README.md). Prints a tar, base64.
# Symbols are hidden from trace-cmd, or every file would carry megabytes of them.
exec 3>&1 >&2
mount --bind /dev/null /proc/kallsyms
cd "$(mktemp -d)" || exit 1
TRACING=/sys/kernel/tracing
[ -d $TRACING/events ] || mount -t tracefs nodev $TRACING
load='sleep 0.002; kill -0 $$; sleep 0.002'

trace-cmd record -q -o v6.dat --file-version 6 -C mono -e sched -e irq sh -c "$load"
trace-cmd record -q -o v6-instances.dat --file-version 6 -C local \
    -e sched:sched_switch -B web -e irq -B db -e raw_syscalls:sys_enter sh -c "$load"
trace-cmd record -q -o v7-none.dat --compression none -C x86-tsc -e sched -e irq -e workqueue sh -c "$load"
trace-cmd record -q -o v7-zstd.dat --compression zstd -C boot -e sched -e raw_syscalls -e signal -e task sh -c "$load"
trace-cmd record -q -o v7-instances.dat --compression zstd -C mono \
    -e sched:sched_switch -B web -e irq -B db -e raw_syscalls:sys_enter sh -c "$load"
trace-cmd record -q -o v7-date.dat --compression none --date -C local -e sched:sched_switch sh -c "$load"
trace-cmd record -q -o v7-tsc2nsec.dat --compression none -C tsc2nsec -e sched:sched_switch sh -c "$load"
trace-cmd record -q -o v7-all.dat --compression zstd -C mono -e all \
    sh -c "echo a mark > $TRACING/trace_marker; $load"

# Overwritten events: counted by the kernel, told on the first page that was left.
trace-cmd start -b 16 -e raw_syscalls
dd if=/dev/zero of=/dev/null bs=1 count=4000
trace-cmd stop
trace-cmd extract -o lost-overwritten.dat --compression zstd
trace-cmd reset

# A reader that is too slow: gaps in the middle.
trace-cmd record -q -o lost-slow.dat -b 8 --compression zstd -e raw_syscalls \
    sh -c 'dd if=/dev/zero of=/dev/null bs=1 count=2000; sleep 0.05; dd if=/dev/zero of=/dev/null bs=1 count=500'
ls -l
tar cz -- *.dat | base64 >&3
