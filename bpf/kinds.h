/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Kinds of records. Numbers and layouts are those of crates/formats/compact/README.md; a test of
 * the probe compares the two tables.
 */
#ifndef TRANSECT_KINDS_H
#define TRANSECT_KINDS_H

enum kind {
	PAD = 0,
	SYNC = 1,
	TIME = 2,
	LOST = 3,
	SWITCH = 4,
	SWITCH_FROM = 5,
	WAKING = 6,
	WAKEUP_NEW = 7,
	MIGRATE = 8,
	FORK = 9,
	EXEC = 10,
	EXIT = 11,
	NAME = 12,
	KVM_ENTRY = 13,
	KVM_EXIT = 14,
	KVM_EXIT_S = 15,
	KVM_EXIT_ENTRY = 16,
	KVM_EXIT_ENTRY_S = 17,
	KVM_HYPERCALL = 18,
	KVM_HYPERCALL_A = 19,
	MORE = 20,
	KVM_USERSPACE_EXIT = 21,
	KVM_HALT_POLL = 22,
	KVM_VCPU_WAKEUP = 23,
	KVM_PIO = 24,
	KVM_MMIO = 25,
	KVM_FAST_MMIO = 26,
	KVM_PAGE_FAULT = 27,
	KVM_PAGE_FAULT_L = 28,
	KVM_SET_IRQ = 29,
	KVM_MSI = 30,
	KVM_INJ_VIRQ = 31,
	KVM_TSC_OFFSET = 32,
	IRQ_ENTRY = 33,
	IRQ_EXIT = 34,
	IRQ = 35,
	SOFTIRQ_RAISE = 36,
	SOFTIRQ_ENTRY = 37,
	SOFTIRQ_EXIT = 38,
	SOFTIRQ = 39,
	SYS_ENTER = 40,
	SYS_EXIT = 41,
	SYS_EXIT_S = 42,
	SYSCALL = 43,
	SYSCALL_S = 44,
	BLOCK_INSERT = 45,
	BLOCK_ISSUE = 46,
	BLOCK_COMPLETE = 47,
	NET_XMIT = 48,
	NET_RECEIVE = 49,
	DEVICE_NAME = 50,
	WORK_START = 51,
	WORK_END = 52,
	CURRENT = 53,
	KVM_EXIT_R = 54,
	KVM_EXIT_ENTRY_R = 55,
	KVM_INJ_ENTRY = 56,
	WAKING_IN = 57,
	VECTOR_ENTRY = 58,
	VECTOR_EXIT = 59,
	VECTOR = 60,
	KVM_ACCEPT = 61,
	OTHER = 62,
};

/* OTHER's events by `what`, the low five bits of its payload (crates/formats/compact/src/other.rs). */
#define OTHER_BLOCK_INSERT 0
#define OTHER_BLOCK_ISSUE 1
#define OTHER_BLOCK_COMPLETE 2
#define OTHER_KVM_MMIO 3
#define OTHER_KVM_PIO 4
#define OTHER_KVM_INJ_VIRQ 5
#define OTHER_NET_PACKET 6
#define OTHER_WORK_QUEUE 7
#define OTHER_LOCK_BEGIN 8
#define OTHER_LOCK_END 9
#define OTHER_THROTTLE 10
#define OTHER_UNTHROTTLE 11
#define OTHER_RECLAIM_BEGIN 12
#define OTHER_RECLAIM_END 13
#define OTHER_STACK 14
#define WHAT_BITS 5

/* At which event a stack is taken (crates/model/src/stack.rs). */
enum stack_point { STACK_ISSUE, STACK_TRANSMIT, STACK_RECEIVE, STACK_ACCEPT, STACK_WAKE };

#endif
