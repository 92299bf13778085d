// steady: keeps code patched that starting and ending VMs and counters would patch each time.
//   steady
// Comes back once that is so; a child stays for ever. Run while there is one CPU (host-init.sh says why).
//
// Linux 6.1 patches these places when the first user of each comes and when the last one goes:
//   preempt_notifier_key   any VM                                    virt/kvm/kvm_main.c, kvm_create_vm
//   kvm_has_noapic_vcpu    a vCPU without an APIC in the kernel      arch/x86/kvm/lapic.c, kvm_create_lapic
//   apic_sw_disabled       a vCPU whose APIC is not yet enabled      arch/x86/kvm/lapic.c, kvm_lapic_set_reg
//   perf_sched_events      a counter that follows a task             kernel/events/core.c, account_event
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static int must(int result, const char *what)
{
	if (result >= 0)
		return result;
	fprintf(stderr, "steady: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int keep_vm(int kvm, int with_apic)
{
	int vm = must(ioctl(kvm, KVM_CREATE_VM, 0), "KVM_CREATE_VM");
	if (with_apic)
		must(ioctl(vm, KVM_CREATE_IRQCHIP, 0), "KVM_CREATE_IRQCHIP");
	int vcpu = must(ioctl(vm, KVM_CREATE_VCPU, 0), "KVM_CREATE_VCPU");
	// A mapping keeps a VM as a descriptor does, but nobody who looks for VMs finds it: it is no guest.
	if (mmap(NULL, sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, vcpu, 0) == MAP_FAILED)
		must(-1, "mmap of a vCPU");
	close(vcpu);
	return vm;
}

static void keep_counter(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
	};
	must(syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC), "perf_event_open");
}

int main(void)
{
	int kvm = must(open("/dev/kvm", O_RDWR | O_CLOEXEC), "/dev/kvm");
	int done[2];
	must(pipe(done), "pipe");
	// All of it belongs to the child: a VM is of the process that made it.
	if (must(fork(), "fork") == 0) {
		setsid();
		int without_apic = keep_vm(kvm, 0), with_apic = keep_vm(kvm, 1);
		close(without_apic);
		close(with_apic);
		close(kvm);
		keep_counter();
		must(write(done[1], "", 1), "write");
		close(done[0]);
		close(done[1]);
		for (;;)
			pause();
	}
	close(done[1]);
	char byte;
	return read(done[0], &byte, 1) == 1 ? 0 : 1;
}
