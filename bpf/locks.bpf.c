// SPDX-License-Identifier: GPL-2.0
/* Waits for locks of the kernel (include/trace/events/lock.h, since 5.19). */

/* LCB_F_*: what kind of lock it is. */
#define LOCK_SPIN 1
#define LOCK_READ 2
#define LOCK_WRITE 4
#define LOCK_RT 8
#define LOCK_PERCPU 16
#define LOCK_MUTEX 32

#define OWNER_BITS 7ull
#define RWSEM_READERS 1ull

/* Who has the lock; 0 where that is not one thread, or the lock does not tell (perf's get_lock_owner). */
static __always_inline u32 lock_owner(void *lock, u32 flags)
{
	u64 owner = 0;
	u32 tid = 0;

	if (flags & LOCK_MUTEX)
		bpf_core_read(&owner, sizeof(owner), &((struct mutex *)lock)->owner.counter);
	else if (flags & (LOCK_READ | LOCK_WRITE) && !(flags & (LOCK_SPIN | LOCK_RT | LOCK_PERCPU)))
		bpf_core_read(&owner, sizeof(owner), &((struct rw_semaphore *)lock)->owner.counter);
	if (!(flags & LOCK_MUTEX) && owner & RWSEM_READERS)
		return 0;
	owner &= ~OWNER_BITS;
	if (owner)
		bpf_core_read(&tid, sizeof(tid), &((struct task_struct *)owner)->pid);
	return tid;
}

SEC("tp_btf/contention_begin")
int BPF_PROG(contention_begin, void *lock, unsigned int flags)
{
	if (!wanted_here())
		return 0;
	return log_other(OTHER_LOCK_BEGIN, flags & 0x1fffffff, (u64)lock, lock_owner(lock, flags));
}

SEC("tp_btf/contention_end")
int BPF_PROG(contention_end, void *lock, int ret)
{
	if (!wanted_here())
		return 0;
	return log_other(OTHER_LOCK_END, 0, (u64)lock, (u32)ret);
}
