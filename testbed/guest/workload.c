// workload: what guests (and hosts) of the testbed do. Every mode prints exactly what it did.
//   workload MODE [key=value]...
//   hog       threads=1 seconds=0        busy threads (0 = for ever)
//   periodic  period_ms=10 work_us=500 report_ms=1000 reports=0
//                                        wakes at absolute times, does a fixed amount of work, and
//                                        reports how late it woke and when it was done
//   idle                                 sleeps for ever
//   mix       rounds=1                   pingpong, sleep, disk (where there is one), getppid, cpu
//   pingpong | sleep | getppid | cpu     one of these alone: n=100 (sleep: us=2000 each)
//   disk      n=100 read=0 depth=1       writes blocks of 4 KiB to the first disk, "depth" at a time; then reads so many;
//                                        reports how long the writes took
//   serve     port=7777 report_ms=1000 reply=0 work_us=0
//                                        UDP: works for each datagram, sends it back (cut or filled up to
//                                        "reply" bytes), reports how many, and how long it worked
//   ask       to=A.B.C.D port=7777 bytes=256 seconds=10 think_us=0 wait_ms=200
//                                        UDP: asks, waits for the answer (wait_ms at most), asks again
//   load      to=A.B.C.D port=7777 bytes=256 rate=100 seconds=5 warm_ms=1000
//                                        UDP: asks at a fixed rate, whatever comes back; reports the rate of
//                                        answers and how long they took, from when it is warm
//   trace     events=sched,irq seconds=5 to=/dev/xvda clock=x86-tsc kb=8192 port=0
//                                        traces this kernel, then writes tracefs' text to a file or disk;
//                                        with a port, once a UDP datagram has come there
//   fifo      period_ms=50 duty=40 priority=10
//                                        a real-time thread that runs "duty" percent of each period by its own clock
//   lock      hold_us=20000 kind=futex   two threads, on CPUs 0 and 1: "holder" holds a lock and works, "waiter" waits
//                                        for it, in turn; kind=pipe: the lock is a byte in a pipe
//   reclaim   limit_mib=32               uses more memory than the "memory.max" of a control group of its own, of pages
//                                        that the kernel can drop; reports the group's "memory.pressure"
//   sh        run=COMMAND                busybox sh -c COMMAND (spaces written as '_')
// Every mode takes after_ms=N: sleep first; and after_port=N: wait until somebody connects to this vsock port.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/vm_sockets.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int argc_;
static char **argv_;

static const char *text(const char *key, const char *otherwise)
{
	size_t length = strlen(key);
	for (int i = 2; i < argc_; i++)
		if (!strncmp(argv_[i], key, length) && argv_[i][length] == '=')
			return argv_[i] + length + 1;
	return otherwise;
}

static long number(const char *key, long otherwise)
{
	const char *given = text(key, NULL);
	return given ? atol(given) : otherwise;
}

static int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void sleep_until(int64_t at_ns)
{
	struct timespec t = { at_ns / 1000000000, at_ns % 1000000000 };
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

static uint64_t spin(uint64_t iterations)
{
	volatile uint64_t x = 1;
	for (uint64_t i = 0; i < iterations; i++)
		x = x * 6364136223846793005ull + 1;
	return x;
}

// One line per write: several processes share the port.
static void say(const char *line)
{
	char all[512];
	int length = snprintf(all, sizeof all, "transect-guest: %s\n", line);
	if (write(1, all, length) != length)
		_exit(3);
}

static void *hog_thread(void *until)
{
	int64_t until_ns = *(int64_t *)until;
	prctl(PR_SET_NAME, "hog");
	while (!until_ns || now_ns() < until_ns)
		spin(1000000);
	return NULL;
}

static int hog(void)
{
	static int64_t until_ns;
	long threads = number("threads", 1), seconds = number("seconds", 0);
	if (seconds)
		until_ns = now_ns() + seconds * 1000000000;
	pthread_t id;
	char line[128];
	snprintf(line, sizeof line, "hog threads=%ld seconds=%ld", threads, seconds);
	say(line);
	for (long i = 1; i < threads; i++)
		if (pthread_create(&id, NULL, hog_thread, &until_ns))
			return 1;
	hog_thread(&until_ns);
	say("hog done");
	return 0;
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return x < y ? -1 : x > y;
}

// Iterations of spin() per microsecond, from the lower quartile of many short rounds: a round in which the vCPU was
// preempted must not make the work look smaller, nor one in which a para-virtual clock stood still make it look huge.
static uint64_t spins_per_us_x1000(void)
{
	enum { ROUNDS = 40 };
	int64_t took[ROUNDS];
	for (int i = 0; i < ROUNDS; i++) {
		int64_t start = now_ns();
		spin(20000);
		took[i] = now_ns() - start;
	}
	qsort(took, ROUNDS, sizeof *took, by_value);
	int64_t quartile = took[ROUNDS / 4] > 0 ? took[ROUNDS / 4] : 1;
	return 20000ull * 1000 * 1000 / quartile;
}

enum { MOST = 20000 };

static int periodic(void)
{
	static int64_t late[MOST], done[MOST];
	int64_t period = number("period_ms", 10) * 1000000, report = number("report_ms", 1000) * 1000000;
	long work_us = number("work_us", 500), reports = number("reports", 0);
	uint64_t rate = spins_per_us_x1000(), iterations = work_us * rate / 1000;
	prctl(PR_SET_NAME, "periodic");
	char line[400];
	snprintf(line, sizeof line, "periodic period_us=%ld work_us=%ld iterations=%lu", (long)(period / 1000), work_us,
		 (unsigned long)iterations);
	say(line);
	for (long round = 1; !reports || round <= reports; round++) {
		int64_t from = now_ns(), due = from;
		long n = 0, missed = 0;
		while (n < MOST && (n == 0 || now_ns() - from < report)) {
			due += period;
			sleep_until(due);
			late[n] = now_ns() - due;
			spin(iterations);
			int64_t end = now_ns();
			done[n++] = end - due;
			for (; end > due + period; missed++)
				due += period;
		}
		qsort(late, n, sizeof *late, by_value);
		qsort(done, n, sizeof *done, by_value);
		snprintf(line, sizeof line,
			 "lateness n=%ld missed=%ld late_us p50=%ld p90=%ld p99=%ld max=%ld done_us p50=%ld p99=%ld max=%ld", n,
			 missed, (long)(late[n / 2] / 1000), (long)(late[n * 9 / 10] / 1000), (long)(late[n * 99 / 100] / 1000),
			 (long)(late[n - 1] / 1000), (long)(done[n / 2] / 1000), (long)(done[n * 99 / 100] / 1000),
			 (long)(done[n - 1] / 1000));
		say(line);
	}
	return 0;
}

static int pingpong(long n)
{
	int there[2], back[2], status;
	char x = 0;
	if (pipe(there) || pipe(back))
		return 1;
	pid_t child = fork();
	if (!child) {
		prctl(PR_SET_NAME, "pong");
		for (long i = 0; i < n; i++)
			if (read(there[0], &x, 1) != 1 || write(back[1], &x, 1) != 1)
				_exit(1);
		_exit(0);
	}
	prctl(PR_SET_NAME, "ping");
	for (long i = 0; i < n; i++)
		if (write(there[1], &x, 1) != 1 || read(back[0], &x, 1) != 1)
			return 1;
	waitpid(child, &status, 0);
	for (int i = 0; i < 2; i++) {
		close(there[i]);
		close(back[i]);
	}
	char line[128];
	snprintf(line, sizeof line, "pingpong n=%ld status=%d", n, status);
	say(line);
	return status;
}

static int sleeps(long n)
{
	long us = number("us", 2000);
	int64_t from = now_ns();
	for (long i = 0; i < n; i++)
		usleep(us);
	char line[96];
	snprintf(line, sizeof line, "sleep n=%ld us=%ld took_us=%ld", n, us, (long)((now_ns() - from) / 1000));
	say(line);
	return 0;
}

static int getppids(long n)
{
	for (long i = 0; i < n; i++)
		syscall(SYS_getppid);
	char line[64];
	snprintf(line, sizeof line, "getppid n=%ld", n);
	say(line);
	return 0;
}

static int cpu(long n)
{
	spin((uint64_t)n * 10000);
	char line[64];
	snprintf(line, sizeof line, "cpu iterations=%ld", n * 10000);
	say(line);
	return 0;
}

// One of the threads that keep so many requests of a disk under way.
struct asker {
	int fd, writes;
	long first, n, step, done;
	int64_t *took_ns;
};

static void *ask_disk(void *what)
{
	struct asker *asker = what;
	char *block = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (long i = asker->first; i < asker->n; i += asker->step) {
		off_t at = (i * 17 % 1024) * 4096;
		int64_t begun = now_ns();
		ssize_t got = asker->writes ? pwrite(asker->fd, block, 4096, at) : pread(asker->fd, block, 4096, at);
		asker->took_ns[i] = now_ns() - begun;
		asker->done += got == 4096;
	}
	return NULL;
}

static long ask_disk_by(int fd, int writes, long n, long depth, int64_t *took_ns)
{
	struct asker askers[64];
	pthread_t ids[64];
	long done = 0;
	for (long i = 0; i < depth; i++) {
		askers[i] = (struct asker){ fd, writes, i, n, depth, 0, took_ns };
		if (depth > 1 && pthread_create(&ids[i], NULL, ask_disk, &askers[i]))
			return -1;
	}
	if (depth == 1)
		ask_disk(&askers[0]);
	for (long i = 0; i < depth; i++) {
		if (depth > 1)
			pthread_join(ids[i], NULL);
		done += askers[i].done;
	}
	return done;
}

static int disk(long n)
{
	int fd = open("/dev/vda", O_RDWR | O_DIRECT);
	if (fd < 0)
		fd = open("/dev/xvda", O_RDWR | O_DIRECT);
	if (fd < 0)
		return 0;
	long reads = number("read", 0), depth = number("depth", 1);
	if (depth < 1 || depth > 64 || n > 1000000 || reads > 1000000)
		return 2;
	int64_t *took_ns = calloc(n > reads ? n : reads, sizeof *took_ns);
	if ((n || reads) && !took_ns)
		return 1;
	char line[192];
	long done = ask_disk_by(fd, 1, n, depth, took_ns), p50 = 0, p99 = 0;
	if (done > 0) {
		qsort(took_ns, n, sizeof *took_ns, by_value);
		p50 = took_ns[(n + 1) / 2 - 1], p99 = took_ns[(n * 99 + 99) / 100 - 1];
	}
	long was_read = ask_disk_by(fd, 0, reads, depth, took_ns);
	close(fd);
	snprintf(line, sizeof line, "disk n=%ld done=%ld read=%ld depth=%ld p50_ns=%ld p99_ns=%ld", n, done, was_read, depth, p50,
		 p99);
	say(line);
	return done != n || was_read != reads;
}

static int mix(void)
{
	long rounds = number("rounds", 1), bad = 0;
	for (long i = 0; i < rounds; i++)
		bad |= pingpong(200) | sleeps(20) | disk(30) | getppids(200) | cpu(200);
	say(bad ? "mix failed" : "mix done");
	return bad != 0;
}

// A UDP socket for "port", its waits bounded so that reports come while nothing else does.
static int udp(struct sockaddr_in *address, long port)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	long wait_ms = number("wait_ms", 200);
	struct timeval wait = { wait_ms / 1000, wait_ms % 1000 * 1000 };
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
	*address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port) };
	return fd;
}

static char datagram[65536];

static int serve(void)
{
	struct sockaddr_in address;
	int fd = udp(&address, number("port", 7777));
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address))
		return 1;
	long reply = number("reply", 0), work_us = number("work_us", 0);
	uint64_t iterations = work_us ? work_us * spins_per_us_x1000() / 1000 : 0;
	if (reply < 0 || reply > (long)sizeof datagram - 1000)
		return 1;
	say("serve ready");
	int64_t report = number("report_ms", 1000) * 1000000, from = now_ns(), worked = 0;
	for (long n = 0;;) {
		socklen_t size = sizeof address;
		ssize_t got = recvfrom(fd, datagram, sizeof datagram, 0, (struct sockaddr *)&address, &size);
		if (got >= 0) {
			int64_t since = now_ns();
			if (iterations)
				spin(iterations);
			worked += now_ns() - since;
			if (reply)
				got = reply;
			n += sendto(fd, datagram, got, 0, (struct sockaddr *)&address, size) == got;
		}
		int64_t took = now_ns() - from;
		if (took < report)
			continue;
		char line[128];
		snprintf(line, sizeof line, "served n=%ld us=%ld worked_us=%ld", n, (long)(took / 1000), (long)(worked / 1000));
		if (n)
			say(line);
		from += took;
		n = worked = 0;
	}
}

static int ask(void)
{
	struct sockaddr_in address;
	int fd = udp(&address, number("port", 7777));
	long bytes = number("bytes", 256), think = number("think_us", 0), n = 0, lost = 0;
	if (fd < 0 || !inet_aton(text("to", ""), &address.sin_addr) || bytes < 8 || bytes > 65000 ||
	    connect(fd, (struct sockaddr *)&address, sizeof address))
		return 1;
	int64_t from = now_ns(), until = from + number("seconds", 10) * 1000000000;
	for (int64_t question = 0; now_ns() < until; question++) {
		memcpy(datagram, &question, sizeof question);
		int64_t answer = -1;
		// Answers to questions that were given up may still come: they are not this one's.
		if (send(fd, datagram, bytes, 0) == bytes)
			while (answer != question && recv(fd, datagram, sizeof datagram, 0) == bytes)
				memcpy(&answer, datagram, sizeof answer);
		if (answer == question)
			n++;
		else
			lost++;
		if (think)
			usleep(think);
	}
	char line[160];
	snprintf(line, sizeof line, "asked n=%ld lost=%ld us=%ld bytes=%ld", n, lost, (long)((now_ns() - from) / 1000), bytes);
	say(line);
	return n == 0;
}

// What "load" has seen since it is warm.
enum { MOST_ANSWERS = 1000000 };
static int64_t took_ns[MOST_ANSWERS];
static long answers;

// A datagram carries when it was sent. Takes all answers that are there.
static void take_answers(int fd, int64_t warm)
{
	while (recv(fd, datagram, sizeof datagram, MSG_DONTWAIT) >= (ssize_t)sizeof(int64_t)) {
		int64_t sent, now = now_ns();
		memcpy(&sent, datagram, sizeof sent);
		if (now >= warm && answers < MOST_ANSWERS)
			took_ns[answers++] = now - sent;
	}
}

// Open loop, as httperf: a question is due every 1/rate seconds, however slow the answers are. Who comes late asks
// at once for all that are due.
static int load(void)
{
	struct sockaddr_in address;
	int fd = udp(&address, number("port", 7777)), room = 8 << 20;
	long bytes = number("bytes", 256), rate = number("rate", 100), asked = 0, refused = 0;
	if (fd < 0 || !inet_aton(text("to", ""), &address.sin_addr) || bytes < 8 || bytes > 65000 || rate < 1 ||
	    connect(fd, (struct sockaddr *)&address, sizeof address))
		return 1;
	// Not the asker's room for answers is to be measured.
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
	int64_t from = now_ns(), warm = from + number("warm_ms", 1000) * 1000000, until = from + number("seconds", 5) * 1000000000;
	int64_t period = 1000000000 / rate, due = from;
	for (int64_t now = from; now < until; now = now_ns()) {
		if (now >= due) {
			memcpy(datagram, &now, sizeof now);
			int sent = send(fd, datagram, bytes, MSG_DONTWAIT) == bytes;
			asked += sent && now >= warm;
			refused += !sent;
			due += period;
		}
		take_answers(fd, warm);
		int64_t left = due - now_ns();
		struct timespec wait = { left / 1000000000, left % 1000000000 };
		struct pollfd readable = { fd, POLLIN, 0 };
		if (left > 0)
			ppoll(&readable, 1, &wait, NULL);
	}
	int64_t us = (now_ns() - warm) / 1000, sum = 0;
	qsort(took_ns, answers, sizeof *took_ns, by_value);
	for (long i = 0; i < answers; i++)
		sum += took_ns[i] / 1000;
	char line[256];
	snprintf(line, sizeof line, "load rate=%ld asked=%ld refused=%ld answered=%ld us=%ld mean_us=%ld p50_us=%ld p99_us=%ld", rate,
		 asked, refused, answers, (long)us, answers ? (long)(sum / answers) : 0, answers ? (long)(took_ns[answers / 2] / 1000) : 0,
		 answers ? (long)(took_ns[answers * 99 / 100] / 1000) : 0);
	say(line);
	return answers == 0;
}

static int write_text(const char *file, const char *value)
{
	int fd = open(file, O_WRONLY);
	int good = fd >= 0 && write(fd, value, strlen(value)) == (ssize_t)strlen(value);
	if (fd >= 0)
		close(fd);
	if (!good)
		fprintf(stderr, "workload: cannot write %s to %s: %s\n", value, file, strerror(errno));
	return !good;
}

static int put_text(const char *file, const char *value)
{
	char path[512];
	snprintf(path, sizeof path, "/sys/kernel/tracing/%s", file);
	return write_text(path, value);
}

// Whole blocks, because a disk may take nothing else; the rest of the last one is zeros.
static long copy_to(const char *to)
{
	int in = open("/sys/kernel/tracing/trace", O_RDONLY), out = open(to, O_WRONLY | O_CREAT, 0644);
	long all = 0;
	for (ssize_t got = 1; in >= 0 && out >= 0 && got > 0;) {
		size_t filled = 0;
		while (filled < sizeof datagram && (got = read(in, datagram + filled, sizeof datagram - filled)) > 0)
			filled += got;
		size_t whole = (filled + 4095) / 4096 * 4096;
		memset(datagram + filled, 0, whole - filled);
		if (write(out, datagram, whole) != (ssize_t)whole)
			return -1;
		all += filled;
	}
	return out >= 0 && !fsync(out) ? all : -1;
}

static int wait_for_datagram(long port)
{
	struct sockaddr_in address;
	int fd = udp(&address, port);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address))
		return 1;
	say("trace waits");
	while (recv(fd, datagram, sizeof datagram, 0) < 0)
		;
	return close(fd);
}

static int trace(void)
{
	char events[512], file[300], line[128];
	snprintf(events, sizeof events, "%s", text("events", "sched,irq"));
	snprintf(line, sizeof line, "%ld", number("kb", 8192));
	if (number("port", 0) && wait_for_datagram(number("port", 0)))
		return 1;
	int bad = put_text("trace_clock", text("clock", "x86-tsc")) | put_text("buffer_size_kb", line);
	for (char *event = strtok(events, ","); event; event = strtok(NULL, ",")) {
		snprintf(file, sizeof file, "events/%s/enable", event);
		bad |= put_text(file, "1");
	}
	say(bad ? "trace failed" : "trace started");
	sleep_until(now_ns() + number("seconds", 5) * 1000000000);
	bad |= put_text("tracing_on", "0") | put_text("events/enable", "0");
	long bytes = copy_to(text("to", "/dev/xvda"));
	snprintf(line, sizeof line, "trace done bytes=%ld", bytes);
	say(line);
	return bad | (bytes < 0);
}

static int64_t own_cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int fifo(void)
{
	struct sched_param priority = { .sched_priority = number("priority", 10) };
	int64_t period = number("period_ms", 50) * 1000000, report = number("report_ms", 1000) * 1000000;
	int64_t part = period * number("duty", 40) / 100, due = now_ns(), from = due, had = own_cpu_ns();
	if (sched_setscheduler(0, SCHED_FIFO, &priority))
		return 1;
	prctl(PR_SET_NAME, "fifo");
	say("fifo ready");
	for (;;) {
		due += period;
		for (int64_t until = own_cpu_ns() + part; own_cpu_ns() < until;)
			spin(20000);
		sleep_until(due);
		int64_t now = now_ns();
		if (now - from < report)
			continue;
		char line[96];
		snprintf(line, sizeof line, "fifo us=%ld ran_us=%ld", (long)((now - from) / 1000), (long)((own_cpu_ns() - had) / 1000));
		say(line);
		from = now;
		had = own_cpu_ns();
	}
}

// The lock of "lock": a mutex, or a byte in a pipe that its owner takes out.
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int token[2] = { -1, -1 };
// Turns that the holder has begun and the waiter has had. Each spins for the other's, so that the holder never sleeps.
static atomic_long begun, done;

static void take_lock(void)
{
	char byte;
	if (token[0] < 0)
		pthread_mutex_lock(&mutex);
	else if (read(token[0], &byte, 1) != 1)
		_exit(4);
}

static void give_lock(void)
{
	if (token[0] < 0)
		pthread_mutex_unlock(&mutex);
	else if (write(token[1], "x", 1) != 1)
		_exit(4);
}

static void stay_on(int cpu, const char *name)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	prctl(PR_SET_NAME, name);
	if (sched_setaffinity(0, sizeof set, &set))
		_exit(5);
}

static void *hold(void *iterations)
{
	stay_on(1, "holder");
	int64_t report = number("report_ms", 1000) * 1000000, from = now_ns(), held = 0;
	for (long turn = 1, n = 0;; turn++) {
		take_lock();
		int64_t since = now_ns();
		begun = turn;
		spin(*(uint64_t *)iterations);
		held += now_ns() - since;
		give_lock();
		while (done < turn)
			;
		n++;
		int64_t took = now_ns() - from;
		if (took < report)
			continue;
		char line[96];
		snprintf(line, sizeof line, "lock n=%ld us=%ld held_us=%ld", n, (long)(took / 1000), (long)(held / 1000));
		say(line);
		from += took;
		n = held = 0;
	}
	return NULL;
}

static int lock(void)
{
	static uint64_t iterations;
	iterations = number("hold_us", 20000) * spins_per_us_x1000() / 1000;
	if (!strcmp(text("kind", "futex"), "pipe") && (pipe(token) || write(token[1], "x", 1) != 1))
		return 1;
	pthread_t id;
	if (pthread_create(&id, NULL, hold, &iterations))
		return 1;
	stay_on(0, "waiter");
	for (long turn = 1;; turn++) {
		while (begun < turn)
			;
		take_lock();
		done = turn;
		give_lock();
	}
}

// Microseconds in which some thread of the group waited for memory: Documentation/accounting/psi.rst.
static long stalled_us(void)
{
	char pressure[256] = "";
	int fd = open("/sys/fs/cgroup/squeezed/memory.pressure", O_RDONLY);
	if (fd < 0 || read(fd, pressure, sizeof pressure - 1) <= 0)
		return -1;
	close(fd);
	const char *total = strstr(pressure, "total=");
	return total ? atol(total + 6) : -1;
}

// Pages that MADV_FREE has marked are dropped by reclaim without any I/O.
static int reclaim(void)
{
	enum { CHUNK = 1 << 20 };
	long limit = number("limit_mib", 32) << 20, all = 4 * limit, report = number("report_ms", 1000) * 1000;
	char value[32], line[96];
	snprintf(value, sizeof value, "%ld", limit);
	if (write_text("/sys/fs/cgroup/cgroup.subtree_control", "+memory") || mkdir("/sys/fs/cgroup/squeezed", 0755) ||
	    write_text("/sys/fs/cgroup/squeezed/memory.max", value) || write_text("/sys/fs/cgroup/squeezed/cgroup.procs", "0"))
		return 1;
	prctl(PR_SET_NAME, "squeezed");
	char *memory = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return 1;
	say("reclaim ready");
	int64_t from = now_ns();
	long stalled = stalled_us(), pages = 0;
	for (long at = 0;; at = (at + CHUNK) % all) {
		for (long page = 0; page < CHUNK; page += 4096, pages++)
			memory[at + page] = 1;
		if (madvise(memory + at, CHUNK, MADV_FREE))
			return 1;
		long took = (now_ns() - from) / 1000;
		if (took < report)
			continue;
		long now = stalled_us();
		snprintf(line, sizeof line, "reclaim pages=%ld us=%ld stalled_us=%ld", pages, took, now - stalled);
		say(line);
		from += (int64_t)took * 1000;
		stalled = now;
		pages = 0;
	}
}

static int shell(void)
{
	char *run = strdup(text("run", "true"));
	for (char *c = run; *c; c++)
		if (*c == '_')
			*c = ' ';
	dup2(1, 2);
	execl("/bin/busybox", "sh", "-c", run, (char *)NULL);
	return 127;
}

static int wait_for_order(long port)
{
	struct sockaddr_vm address = { .svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_ANY, .svm_port = port };
	int fd = socket(AF_VSOCK, SOCK_STREAM, 0), peer = -1;
	if (fd >= 0 && !bind(fd, (struct sockaddr *)&address, sizeof address) && !listen(fd, 1))
		peer = accept(fd, NULL, NULL);
	return peer < 0 || close(peer) || close(fd);
}

int main(int argc, char **argv)
{
	argc_ = argc;
	argv_ = argv;
	const char *mode = argc > 1 ? argv[1] : "";
	long after_ms = number("after_ms", 0), n = number("n", 100);
	if (number("after_port", 0) && wait_for_order(number("after_port", 0)))
		return 1;
	if (after_ms)
		sleep_until(now_ns() + after_ms * 1000000);
	if (!strcmp(mode, "hog"))
		return hog();
	if (!strcmp(mode, "periodic"))
		return periodic();
	if (!strcmp(mode, "mix"))
		return mix();
	if (!strcmp(mode, "pingpong"))
		return pingpong(n);
	if (!strcmp(mode, "sleep"))
		return sleeps(n);
	if (!strcmp(mode, "getppid"))
		return getppids(n);
	if (!strcmp(mode, "cpu"))
		return cpu(n);
	if (!strcmp(mode, "disk"))
		return disk(n);
	if (!strcmp(mode, "serve"))
		return serve();
	if (!strcmp(mode, "ask"))
		return ask();
	if (!strcmp(mode, "load"))
		return load();
	if (!strcmp(mode, "trace"))
		return trace();
	if (!strcmp(mode, "fifo"))
		return fifo();
	if (!strcmp(mode, "lock"))
		return lock();
	if (!strcmp(mode, "reclaim"))
		return reclaim();
	if (!strcmp(mode, "sh"))
		return shell();
	if (!strcmp(mode, "idle"))
		for (;;)
			pause();
	fprintf(stderr, "workload: unknown mode '%s'\n", mode);
	return 2;
}
