// counting: a VMM of one file whose guest makes exactly the exits it is asked for.
//   counting [hypercalls=N] [port_writes=N] [halts=N] [vendor=amd|intel] [spin=N] [handle_us=N]
// With spin, the guest computes so many rounds before each port write. With handle_us, this program is busy for so long with
// each, by its own clock, and says every second for how long it was: "counting us=... n=... handled_us=...".
// Prints one JSON line with what was asked, what KVM_RUN returned to this program, and the vCPU thread.
//
// The guest is a few instructions of real-mode code: three counted loops (vmmcall or vmcall; out; hlt),
// then one store outside its memory, which ends it. There is no interrupt controller in the kernel,
// so a halt returns to this program like a port write does.
//
// Exact in kvm:kvm_exit:  SVM_EXIT_VMMCALL / VMCALL, SVM_EXIT_IOIO / IO_INSTRUCTION, SVM_EXIT_HLT / HLT.
// Not exact: page faults of the nested tables (first touch of the code page, the final store) and exits
// for interrupts of the host (SVM_EXIT_INTR / EXTERNAL_INTERRUPT), of which there are as many as there are.
#define _GNU_SOURCE
#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum {
	MEMORY_BYTES = 1 << 20, // guest physical 0..1 MiB; the store that ends the guest goes beyond
	CODE = 0x8000,
	HYPERCALL_NR = 1000, // Linux itself uses small numbers; KVM answers this one with -ENOSYS
	PORT = 0x10,
};

static uint8_t *code;

static void emit(const void *bytes, size_t length)
{
	memcpy(code, bytes, length);
	code += length;
}

static void die(const char *what)
{
	fprintf(stderr, "counting: %s: %s\n", what, strerror(errno));
	exit(1);
}

// mov ebx, times; body; dec ebx; jnz body   (nothing at all for 0 times)
static void emit_loop(uint32_t times, const void *body, size_t length)
{
	if (!times)
		return;
	emit("\x66\xbb", 2);
	emit(&times, 4);
	uint8_t *start = code;
	emit(body, length);
	emit("\x66\x4b", 2);
	int8_t back = start - (code + 2);
	emit("\x75", 1);
	emit(&back, 1);
}

static long asked(int argc, char **argv, const char *key)
{
	size_t length = strlen(key);
	for (int i = 1; i < argc; i++)
		if (!strncmp(argv[i], key, length) && argv[i][length] == '=')
			return atol(argv[i] + length + 1);
	return 0;
}

static int on_amd(void)
{
	unsigned a, b = 0, c, d;
	__get_cpuid(0, &a, &b, &c, &d);
	return b != signature_INTEL_ebx;
}

static int64_t now_us(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000ll + now.tv_nsec / 1000;
}

// Is busy with a port write, and says so every second.
static void handle(long handle_us)
{
	static int64_t from, handled;
	static long n;
	int64_t began = now_us(), now = began;
	if (!from)
		from = began;
	while (now < began + handle_us)
		now = now_us();
	handled += now - began;
	n++;
	if (now < from + 1000000)
		return;
	printf("counting us=%ld n=%ld handled_us=%ld\n", (long)(now - from), n, (long)handled);
	fflush(stdout);
	from = now;
	handled = n = 0;
}

int main(int argc, char **argv)
{
	long hypercalls = asked(argc, argv, "hypercalls"), port_writes = asked(argc, argv, "port_writes"),
	     halts = asked(argc, argv, "halts"), spin = asked(argc, argv, "spin"), handle_us = asked(argc, argv, "handle_us");
	int amd = on_amd();
	prctl(PR_SET_NAME, "counting");

	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (kvm < 0)
		die("/dev/kvm");
	int vm = ioctl(kvm, KVM_CREATE_VM, 0);
	if (vm < 0)
		die("KVM_CREATE_VM");
	ioctl(vm, KVM_SET_TSS_ADDR, 0xfffbd000); // Intel wants one for real mode
	uint8_t *memory = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct kvm_userspace_memory_region region = { .memory_size = MEMORY_BYTES, .userspace_addr = (uintptr_t)memory };
	if (memory == MAP_FAILED || ioctl(vm, KVM_SET_USER_MEMORY_REGION, &region))
		die("memory");
	int vcpu = ioctl(vm, KVM_CREATE_VCPU, 0);
	if (vcpu < 0)
		die("KVM_CREATE_VCPU");
	long run_bytes = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	struct kvm_run *run = mmap(NULL, run_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, vcpu, 0);
	if (run == MAP_FAILED)
		die("kvm_run");

	code = memory + CODE;
	uint32_t number = HYPERCALL_NR;
	uint8_t call[9] = { 0x66, 0xb8, 0, 0, 0, 0, 0x0f, 0x01, amd ? 0xd9 : 0xc1 };
	memcpy(call + 2, &number, 4);
	emit_loop(hypercalls, call, sizeof call);         // mov eax, nr; vmmcall | vmcall
	uint8_t spins[12] = "\x66\xb9....\x66\x49\x75\xfc\xe6"; // mov ecx, spin; dec ecx; jnz; out PORT, al
	uint32_t rounds = spin;
	memcpy(spins + 2, &rounds, 4);
	spins[11] = PORT;
	if (spin)
		emit_loop(port_writes, spins, sizeof spins);
	else
		emit_loop(port_writes, "\xe6\x10", 2);    // out PORT, al
	emit_loop(halts, "\xf4", 1);                      // hlt
	emit("\xa2\x00\x00", 3);                          // mov [ds:0], al: ds begins beyond the memory
	struct kvm_sregs sregs;
	if (ioctl(vcpu, KVM_GET_SREGS, &sregs))
		die("KVM_GET_SREGS");
	sregs.cs.base = 0;
	sregs.cs.selector = 0;
	sregs.ds.base = 2 * MEMORY_BYTES;
	if (ioctl(vcpu, KVM_SET_SREGS, &sregs))
		die("KVM_SET_SREGS");
	struct kvm_regs regs = { .rip = CODE, .rflags = 2, .rsp = 0x7000 };
	if (ioctl(vcpu, KVM_SET_REGS, &regs))
		die("KVM_SET_REGS");

	long io = 0, hlt = 0, mmio = 0;
	while (!mmio) {
		if (ioctl(vcpu, KVM_RUN, 0)) {
			if (errno == EINTR || errno == EAGAIN)
				continue;
			die("KVM_RUN");
		}
		switch (run->exit_reason) {
		case KVM_EXIT_IO:
			io += run->io.port == PORT;
			if (handle_us)
				handle(handle_us);
			break;
		case KVM_EXIT_HLT:
			hlt++;
			break;
		case KVM_EXIT_MMIO:
			mmio++;
			break;
		default:
			fprintf(stderr, "counting: unexpected KVM exit reason %u\n", run->exit_reason);
			return 1;
		}
	}
	printf("{\"vendor\":\"%s\",\"hypercalls\":%ld,\"hypercall_nr\":%d,\"port_writes\":%ld,\"halts\":%ld,"
	       "\"seen_port_writes\":%ld,\"seen_halts\":%ld,\"pid\":%d}\n",
	       amd ? "amd" : "intel", hypercalls, HYPERCALL_NR, port_writes, halts, io, hlt, getpid());
	return io != port_writes || hlt != halts;
}
