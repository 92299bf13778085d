// SPDX-License-Identifier: GPL-2.0
/*
 * Interrupts of x86 that are no line of a device (arch/x86/include/asm/trace/irq_vectors.h): the CPU's own
 * timer, and what CPUs ask of one another. One class of events, whose argument is the vector. The order is
 * that of the codes in the record (crates/model/src/interrupt.rs, VectorSource::ALL).
 */

enum vector_source {
	LOCAL_TIMER, RESCHEDULE, CALL_FUNCTION, CALL_FUNCTION_SINGLE, IRQ_WORK, X86_PLATFORM_IPI, THERMAL_APIC,
	THRESHOLD_APIC, DEFERRED_ERROR_APIC, SPURIOUS_APIC, ERROR_APIC,
};

#define VECTOR_PROGRAMS(event, source)                 \
	SEC("tp_btf/" #event "_entry")                 \
	int BPF_PROG(event##_entry, int vector)        \
	{                                              \
		if (!wanted_here())                    \
			return 0;                      \
		return log_vector_entry(vector, source); \
	}                                              \
	SEC("tp_btf/" #event "_exit")                  \
	int BPF_PROG(event##_exit, int vector)         \
	{                                              \
		if (!wanted_here())                    \
			return 0;                      \
		return log_vector_exit(vector, source);  \
	}

VECTOR_PROGRAMS(local_timer, LOCAL_TIMER)
VECTOR_PROGRAMS(reschedule, RESCHEDULE)
VECTOR_PROGRAMS(call_function, CALL_FUNCTION)
VECTOR_PROGRAMS(call_function_single, CALL_FUNCTION_SINGLE)
VECTOR_PROGRAMS(irq_work, IRQ_WORK)
VECTOR_PROGRAMS(x86_platform_ipi, X86_PLATFORM_IPI)
VECTOR_PROGRAMS(thermal_apic, THERMAL_APIC)
VECTOR_PROGRAMS(threshold_apic, THRESHOLD_APIC)
VECTOR_PROGRAMS(deferred_error_apic, DEFERRED_ERROR_APIC)
VECTOR_PROGRAMS(spurious_apic, SPURIOUS_APIC)
VECTOR_PROGRAMS(error_apic, ERROR_APIC)
