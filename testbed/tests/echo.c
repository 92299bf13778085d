// A stand-in for an agent and its host: says its pid to whoever connects.
//   echo vsock PORT             (guest) listen; answer each connection with "pid N\n"
//   echo port NAME              (guest) answer every byte that comes over /sys/class/virtio-ports NAME
//   echo ask-vsock CID PORT     (host) connect, print the answer
//   echo ask-unix PATH          (host) connect, send a byte, print the answer
#include <dirent.h>
#include <fcntl.h>
#include <linux/vm_sockets.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void say_pid(int fd)
{
	char line[32];
	int length = snprintf(line, sizeof line, "pid %d\n", getpid());
	if (write(fd, line, length) != length)
		exit(1);
}

static int show(int fd)
{
	char line[32];
	ssize_t got = read(fd, line, sizeof line);
	return got > 0 && write(1, line, got) == got ? 0 : 1;
}

static int open_port(const char *wanted)
{
	DIR *ports = opendir("/sys/class/virtio-ports");
	struct dirent *entry;
	while (ports && (entry = readdir(ports))) {
		char path[512], name[128] = "";
		snprintf(path, sizeof path, "/sys/class/virtio-ports/%s/name", entry->d_name);
		FILE *file = fopen(path, "r");
		if (!file || !fgets(name, sizeof name, file))
			continue;
		fclose(file);
		name[strcspn(name, "\n")] = 0;
		snprintf(path, sizeof path, "/dev/%s", entry->d_name);
		if (!strcmp(name, wanted))
			return open(path, O_RDWR);
	}
	return -1;
}

int main(int argc, char **argv)
{
	struct sockaddr_vm vm = { .svm_family = AF_VSOCK };
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	if (argc == 3 && !strcmp(argv[1], "vsock")) {
		int listener = socket(AF_VSOCK, SOCK_STREAM, 0);
		vm.svm_cid = VMADDR_CID_ANY;
		vm.svm_port = atoi(argv[2]);
		if (bind(listener, (void *)&vm, sizeof vm) || listen(listener, 1))
			return 1;
		for (int peer; (peer = accept(listener, NULL, NULL)) >= 0; close(peer))
			say_pid(peer);
	} else if (argc == 3 && !strcmp(argv[1], "port")) {
		int fd = open_port(argv[2]);
		for (char byte; fd >= 0;)
			if (read(fd, &byte, 1) == 1)
				say_pid(fd);
			else
				usleep(10000); // nobody is connected
	} else if (argc == 4 && !strcmp(argv[1], "ask-vsock")) {
		int fd = socket(AF_VSOCK, SOCK_STREAM, 0);
		vm.svm_cid = atoi(argv[2]);
		vm.svm_port = atoi(argv[3]);
		return connect(fd, (void *)&vm, sizeof vm) || show(fd);
	} else if (argc == 3 && !strcmp(argv[1], "ask-unix")) {
		int fd = socket(AF_UNIX, SOCK_STREAM, 0);
		snprintf(un.sun_path, sizeof un.sun_path, "%s", argv[2]);
		return connect(fd, (void *)&un, sizeof un) || write(fd, "?", 1) != 1 || show(fd);
	}
	return 2;
}
