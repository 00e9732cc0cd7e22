/* A slow disk, for LD_PRELOAD: each sync leaves a byte in the file SLOW_SYNC_WITNESS and then takes 0.4 s. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void linger(void) {
    const struct timespec nap = {0, 400000000};
    int witness = open(getenv("SLOW_SYNC_WITNESS"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (witness >= 0) {
        if (write(witness, "s", 1) < 0) abort();
        close(witness);
    }
    nanosleep(&nap, 0);
}

int fdatasync(int fd) {
    linger();
    return (int)syscall(SYS_fdatasync, fd);
}

int fsync(int fd) {
    linger();
    return (int)syscall(SYS_fsync, fd);
}
