/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel's types, as far as the programs look into them.
 *
 * No dump of one kernel's vmlinux.h: each structure has only the members we read, and
 * preserve_access_index makes libbpf put the offsets of the running kernel in when it loads the
 * programs (CO-RE). A member that a kernel lacks is asked for with bpf_core_field_exists first.
 */
#ifndef TRANSECT_KERNEL_H
#define TRANSECT_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

/* include/uapi/linux/bpf.h: only what the maps below need. */
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_STACK_TRACE = 7,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
enum {
	BPF_F_NO_PREALLOC = 1u << 0,
	BPF_F_MMAPABLE = 1u << 10,
};
enum { BPF_F_USER_STACK = 1u << 8 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1u << 0 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* --- tasks ------------------------------------------------------------------------------- */
struct kernfs_node {
	u64 id;
};
struct cgroup {
	int level;
	struct kernfs_node *kn;
	struct cgroup *ancestors[]; /* since 6.1 */
};
struct cgroup___ids { /* until 6.0 */
	u64 ancestor_ids[0];
};
struct css_set {
	struct cgroup *dfl_cgrp;
};
struct preempt_halves { /* little-endian: the count is the first half */
	u32 count;
};
struct thread_info {
	u32 cpu; /* x86: since 5.16 */
	struct preempt_halves preempt; /* arm64 */
};
struct rq {
	int cpu; /* with CONFIG_SMP */
};
struct cfs_rq {
	struct rq *rq; /* with CONFIG_FAIR_GROUP_SCHED */
};
struct task_group {
	struct cfs_rq **cfs_rq; /* the same; one for each CPU */
};
struct sched_entity {
	unsigned char sched_delayed; /* since 6.12 */
};
struct task_struct {
	struct thread_info thread_info;
	int on_cpu; /* with CONFIG_SMP */
	int on_rq;
	struct sched_entity se;
	unsigned int __state;
	int prio;
	int pid;
	int tgid;
	int exit_state;
	struct task_group *sched_task_group; /* with CONFIG_CGROUP_SCHED */
	int softirq_disable_cnt; /* with CONFIG_PREEMPT_RT */
	struct css_set *cgroups;
	char comm[16];
};
struct task_struct___cpu { /* x86 until 5.15 */
	unsigned int cpu;
};
struct task_struct___state { /* until 5.13 */
	volatile long state;
};
struct pt_regs {
	unsigned long orig_ax;
};
struct bpf_iter__task {
	union {
		struct task_struct *task;
	};
};

/* --- KVM ---------------------------------------------------------------------------------- */
struct kvm_vcpu_arch {
	unsigned long regs[17]; /* [16] is rip: NR_VCPU_REGS and kvm_register.h order, x86-64 */
};
struct kvm_vcpu {
	int vcpu_id;
	struct kvm_vcpu_arch arch;
};
struct vmcb_control_area {
	u32 exit_code;
	u64 exit_info_1;
};
struct vmcb {
	struct vmcb_control_area control;
};
struct vcpu_svm {
	struct kvm_vcpu vcpu;
	struct vmcb *vmcb;
};
struct trace_event_raw_kvm_exit {
	unsigned int exit_reason;
	unsigned long guest_rip;
	u64 info1;
	unsigned int vcpu_id;
};
struct trace_event_raw_kvm_inj_virq {
	bool reinjected; /* since 6.0 */
};
struct trace_event_raw_kvm_page_fault {
	unsigned int vcpu_id; /* since 6.2: the tracepoint then starts with the vCPU */
};

/* --- interrupts, work ----------------------------------------------------------------------- */
struct irqaction;
struct pool_workqueue;
struct work_struct {
	void (*func)(struct work_struct *work);
};

/* --- locks, quotas -------------------------------------------------------------------------- */
typedef struct {
	long counter;
} atomic_long_t;
struct mutex {
	atomic_long_t owner; /* a task, and three bits */
};
struct rw_semaphore {
	atomic_long_t owner; /* the same; the lowest bit: readers have it */
};
struct cgroup_subsys_state {
	struct cgroup *cgroup;
};
struct task_group___quota {
	struct cgroup_subsys_state css;
};
struct cfs_rq___quota { /* with CONFIG_CFS_BANDWIDTH */
	struct rq *rq;
	struct task_group *tg;
	int throttled;
};

/* --- block ---------------------------------------------------------------------------------- */
struct gendisk {
	int major;
	int first_minor;
	struct request_queue *queue;
};
struct request_queue {
	struct gendisk *disk; /* since 5.15 */
	const void *mq_ops; /* none: it takes bios and has no requests */
};
struct block_device {
	struct gendisk *bd_disk;
};
struct bvec_iter {
	u64 bi_sector;
	u32 bi_size;
};
struct bio {
	struct block_device *bi_bdev; /* since 5.12 */
	u32 bi_opf;
	u8 bi_status;
	struct bvec_iter bi_iter;
};
struct request {
	struct request_queue *q;
	struct bio *bio;
	u32 cmd_flags;
	u32 __data_len;
	u64 __sector;
};
struct request___rq_disk { /* until 5.16 */
	struct gendisk *rq_disk;
};

/* --- network -------------------------------------------------------------------------------- */
struct net_device {
	int ifindex;
	char name[16];
};
struct sk_buff {
	unsigned int len;
	struct net_device *dev;
	__be16 protocol;
	__u16 network_header; /* from head */
	unsigned char *head, *data;
};

#pragma clang attribute pop

#endif
