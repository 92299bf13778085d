// PID 1 of every guest of the testbed: mounts, modules, agent, workloads.
// One static program instead of a shell script because under nested emulation each fork+exec costs
// tens of milliseconds, and because guests must boot in seconds.
//
// Kernel command line:
//   testbed.name=NAME                   said in the "ready" mark
//   testbed.marks=console               there is no port for marks
//   testbed.address=A.B.C.D             the address of eth0, in a network of 256
//   testbed.workload=MODE:key=val+MODE  started after the agent, each a process of /bin/workload
//   testbed.agent_kill_port=N           the agent is killed once, when somebody connects to this vsock port (it
//                                       is started again at once: this is how a test provokes a reconnect)
// Files of the initramfs:
//   /modules.list      modules in the order in which they must be loaded, one path a line
//   /bin/agent         optional: started, and started again whenever it ends
//   /etc/agent.args    its arguments, one a line
// Marks ("transect-guest: ...") go to the virtio-serial port "testbed.marks"; without one, to the console.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/vm_sockets.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int marks = 1;
static char cmdline[4096];

static void mark(const char *format, ...)
{
	char line[1024];
	int head = snprintf(line, sizeof line, "transect-guest: ");
	va_list args;
	va_start(args, format);
	int body = vsnprintf(line + head, sizeof line - head - 1, format, args);
	va_end(args);
	int length = head + body;
	if (length > (int)sizeof line - 2)
		length = sizeof line - 2;
	line[length++] = '\n';
	if (write(marks, line, length) != length && marks != 1)
		(void)!write(1, line, length);
}

static void read_file(const char *path, char *into, size_t room)
{
	into[0] = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	ssize_t got = read(fd, into, room - 1);
	close(fd);
	if (got < 0)
		got = 0;
	while (got > 0 && (into[got - 1] == '\n' || into[got - 1] == ' '))
		got--;
	into[got] = 0;
}

// The value of a command line parameter in a static buffer, or "" when it is not given.
static const char *parameter(const char *key)
{
	static char value[2048];
	value[0] = 0;
	size_t length = strlen(key);
	for (char *at = cmdline; (at = strstr(at, key)); at += length)
		if ((at == cmdline || at[-1] == ' ') && at[length] == '=') {
			size_t size = strcspn(at + length + 1, " ");
			if (size >= sizeof value)
				size = sizeof value - 1;
			memcpy(value, at + length + 1, size);
			value[size] = 0;
			break;
		}
	return value;
}

static void mount_all(void)
{
	static const char *const table[][3] = {
		{ "proc", "/proc", "proc" },
		{ "sysfs", "/sys", "sysfs" },
		{ "devtmpfs", "/dev", "devtmpfs" },
		{ "tmpfs", "/run", "tmpfs" },
		{ "tmpfs", "/tmp", "tmpfs" },
		{ "tracefs", "/sys/kernel/tracing", "tracefs" },
		{ "debugfs", "/sys/kernel/debug", "debugfs" },
		{ "cgroup2", "/sys/fs/cgroup", "cgroup2" },
	};
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		mkdir(table[i][1], 0755);
		if (mount(table[i][0], table[i][1], table[i][2], 0, NULL) && errno != EBUSY)
			mark("mount %s failed: %s", table[i][1], strerror(errno));
	}
}

static void load_modules(void)
{
	FILE *list = fopen("/modules.list", "re");
	char path[256];
	while (list && fgets(path, sizeof path, list)) {
		path[strcspn(path, "\n")] = 0;
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST))
			mark("module %s failed: %s", path, strerror(errno));
		if (fd >= 0)
			close(fd);
	}
	if (list)
		fclose(list);
}

// Ports appear a moment after their driver: the control queue handshake is asynchronous.
static int open_port(const char *wanted)
{
	for (int tries = 0; tries < 500; tries++, usleep(10000)) {
		DIR *ports = opendir("/sys/class/virtio-ports");
		struct dirent *entry;
		int fd = -1;
		while (ports && fd < 0 && (entry = readdir(ports))) {
			char path[512], name[128];
			snprintf(path, sizeof path, "/sys/class/virtio-ports/%s/name", entry->d_name);
			read_file(path, name, sizeof name);
			if (strcmp(name, wanted))
				continue;
			snprintf(path, sizeof path, "/dev/%s", entry->d_name);
			fd = open(path, O_RDWR | O_CLOEXEC);
		}
		if (ports)
			closedir(ports);
		if (fd >= 0)
			return fd;
	}
	return -1;
}

static void run_busybox(char *const argv[])
{
	pid_t pid = fork();
	if (!pid) {
		execv("/bin/busybox", argv);
		_exit(127);
	}
	int status = -1;
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		mark("%s failed: 0x%x", argv[0], status);
}

// A para-virtual card appears a moment after its driver.
static void raise_network(void)
{
	static char address[64];
	snprintf(address, sizeof address, "%s", parameter("testbed.address"));
	if (!*address)
		return;
	for (int tries = 0; tries < 500 && access("/sys/class/net/eth0", F_OK); tries++)
		usleep(10000);
	run_busybox((char *[]){ "ifconfig", "lo", "127.0.0.1", "up", NULL });
	run_busybox((char *[]){ "ifconfig", "eth0", address, "netmask", "255.255.255.0", "up", NULL });
}

static pid_t start_agent(void)
{
	if (access("/bin/agent", X_OK))
		return -1;
	pid_t pid = fork();
	if (pid)
		return pid;
	static char text[4096];
	char *argv[64] = { "transect-agent" };
	int argc = 1;
	read_file("/etc/agent.args", text, sizeof text);
	for (char *arg = strtok(text, "\n"); arg && argc < 63; arg = strtok(NULL, "\n"))
		argv[argc++] = arg;
	execv("/bin/agent", argv);
	_exit(127);
}

static pid_t start_workload(char *spec)
{
	pid_t pid = fork();
	if (pid)
		return pid;
	char *argv[32] = { "workload" };
	int argc = 1;
	for (char *arg = strtok(spec, ":"); arg && argc < 31; arg = strtok(NULL, ":"))
		argv[argc++] = arg;
	dup2(marks, 1);
	execv("/bin/workload", argv);
	_exit(127);
}

static void start_workloads(void)
{
	static char all[2048];
	snprintf(all, sizeof all, "%s", parameter("testbed.workload"));
	char *next = all;
	for (char *spec; next && *next;) {
		spec = next;
		next = strchr(spec, '+');
		if (next)
			*next++ = 0;
		char copy[sizeof all];
		snprintf(copy, sizeof copy, "%s", spec);
		pid_t pid = start_workload(copy);
		mark("workload started pid=%d %s", (int)pid, spec);
	}
}

static long uptime_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_BOOTTIME, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// Where the order to kill the agent comes; -1 if none will.
static int listen_for_order(void)
{
	struct sockaddr_vm address = { .svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_ANY };
	address.svm_port = atol(parameter("testbed.agent_kill_port"));
	if (!address.svm_port)
		return -1;
	int fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 1))
		mark("vsock port %u failed: %s", address.svm_port, strerror(errno));
	return fd;
}

// Reaps for ever; the agent is started again when it ends, workloads are not.
static void supervise(pid_t agent, int order)
{
	pid_t killer = -1;
	if (agent > 0 && order >= 0 && !(killer = fork())) {
		// The connection ends with this process: who gives the order sees that it is carried out.
		if (accept(order, NULL, NULL) >= 0)
			kill(agent, SIGKILL);
		_exit(0);
	}
	for (;;) {
		int status;
		pid_t pid = wait(&status);
		if (pid < 0) {
			pause();
		} else if (pid == agent) {
			mark("agent ended status=0x%x uptime_ms=%ld", status, uptime_ms());
			usleep(200000);
			agent = start_agent();
			mark("agent started pid=%d", (int)agent);
		} else if (pid != killer) {
			mark("workload ended pid=%d status=0x%x", (int)pid, status);
		}
	}
}

int main(void)
{
	mount_all();
	read_file("/proc/cmdline", cmdline, sizeof cmdline);
	load_modules();
	if (strcmp(parameter("testbed.marks"), "console")) {
		int port = open_port("testbed.marks");
		if (port >= 0)
			marks = port;
	}
	setenv("PATH", "/bin", 1);
	raise_network();
	pid_t agent = start_agent();
	if (agent > 0)
		mark("agent started pid=%d", (int)agent);
	int order = listen_for_order();
	char name[128];
	snprintf(name, sizeof name, "%s", parameter("testbed.name"));
	mark("ready name=%s vcpus=%ld uptime_ms=%ld", name, sysconf(_SC_NPROCESSORS_ONLN), uptime_ms());
	start_workloads();
	supervise(agent, order);
}
