/* Shifts the wall clock of the processes that preload this, and no other clock.

   The file named by DRILL_WALL_CLOCK holds the offset as a 64-bit number of nanoseconds.
   It is mapped, so that whoever writes there moves the clock of running processes. Monotonic
   clocks, and the times of files, stay the kernel's. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define BILLION 1000000000LL

static const volatile int64_t *offset;

__attribute__((constructor)) static void map_offset(void)
{
    const char *path = getenv("DRILL_WALL_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED)
        offset = mapped;
}

static int64_t shifted(clockid_t clock)
{
    struct timespec now;
    syscall(SYS_clock_gettime, clock, &now);
    return now.tv_sec * BILLION + now.tv_nsec + (offset ? *offset : 0);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
        return (int)syscall(SYS_clock_gettime, clock, now);
    int64_t moment = shifted(clock);
    now->tv_sec = moment / BILLION;
    now->tv_nsec = moment % BILLION;
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    (void)zone;
    int64_t moment = shifted(CLOCK_REALTIME);
    now->tv_sec = moment / BILLION;
    now->tv_usec = moment % BILLION / 1000;
    return 0;
}

time_t time(time_t *where)
{
    time_t now = shifted(CLOCK_REALTIME) / BILLION;
    if (where)
        *where = now;
    return now;
}
