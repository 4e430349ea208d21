/* Ends the process that preloads this by SIGKILL just before its N-th write to a disk.

   The file named by DRILL_KILL_POINT is mapped by all processes that preload this and whose command
   line contains DRILL_KILL_ROLE: they count together, so one of them is killed, once. A write is
   any call that changes a file or a folder, or makes a change last; standard streams do not count. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

struct shared {
    atomic_llong count;
    int64_t target;
    char hit[16];  /* the call before which somebody was killed */
    char path[472];
};

static struct shared *shared;

static int has_role(void)
{
    const char *role = getenv("DRILL_KILL_ROLE");
    char line[4096];
    int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? 0 : read(file, line, sizeof line - 1);
    if (file >= 0)
        close(file);
    if (!role || length <= 0)
        return 0;
    for (ssize_t index = 0; index < length; index++)
        if (!line[index])
            line[index] = ' ';
    line[length] = 0;
    return strstr(line, role) != NULL;
}

__attribute__((constructor)) static void map_shared(void)
{
    const char *path = getenv("DRILL_KILL_POINT");
    int file = path && has_role() ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED)
        shared = mapped;
}

static void count(const char *call, const char *path, int file)
{
    if (!shared || atomic_fetch_add(&shared->count, 1) + 1 != shared->target)
        return;
    strncpy(shared->hit, call, sizeof shared->hit - 1);
    if (path) {
        strncpy(shared->path, path, sizeof shared->path - 1);
    } else {
        char link[32] = "/proc/self/fd/";
        char digits[12];
        int length = 0, rest = file;
        do
            digits[length++] = (char)('0' + rest % 10);
        while (rest /= 10);
        char *end = link + strlen(link);
        while (length)
            *end++ = digits[--length];
        *end = 0;
        if (readlink(link, shared->path, sizeof shared->path - 1) < 0)
            shared->path[0] = 0;
    }
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

static int is_on_disk(int file)
{
    struct stat found;
    return file > 2 && !fstat(file, &found) && (S_ISREG(found.st_mode) || S_ISDIR(found.st_mode));
}

#define BY_FILE(type, name, parameters, arguments)                                                 \
    type name parameters                                                                           \
    {                                                                                              \
        static type (*real) parameters;                                                            \
        if (!real)                                                                                 \
            real = (type (*) parameters)dlsym(RTLD_NEXT, #name);                                   \
        if (shared && is_on_disk(file))                                                            \
            count(#name, NULL, file);                                                              \
        return real arguments;                                                                     \
    }

#define BY_PATH(type, name, parameters, arguments)                                                 \
    type name parameters                                                                           \
    {                                                                                              \
        static type (*real) parameters;                                                            \
        if (!real)                                                                                 \
            real = (type (*) parameters)dlsym(RTLD_NEXT, #name);                                   \
        count(#name, path, -1);                                                                    \
        return real arguments;                                                                     \
    }

BY_FILE(ssize_t, write, (int file, const void *data, size_t size), (file, data, size))
BY_FILE(ssize_t, writev, (int file, const struct iovec *data, int number), (file, data, number))
BY_FILE(ssize_t, pwrite, (int file, const void *data, size_t size, off_t at), (file, data, size, at))
BY_FILE(ssize_t, pwrite64, (int file, const void *data, size_t size, off_t at), (file, data, size, at))
BY_FILE(int, fsync, (int file), (file))
BY_FILE(int, fdatasync, (int file), (file))
BY_FILE(int, ftruncate, (int file, off_t size), (file, size))
BY_FILE(int, ftruncate64, (int file, off_t size), (file, size))
BY_PATH(int, rename, (const char *path, const char *to), (path, to))
BY_PATH(int, renameat, (int from, const char *path, int into, const char *to), (from, path, into, to))
BY_PATH(int, link, (const char *path, const char *to), (path, to))
BY_PATH(int, linkat, (int from, const char *path, int into, const char *to, int how), (from, path, into, to, how))
BY_PATH(int, unlink, (const char *path), (path))
BY_PATH(int, unlinkat, (int from, const char *path, int how), (from, path, how))
BY_PATH(int, rmdir, (const char *path), (path))
BY_PATH(int, mkdir, (const char *path, mode_t mode), (path, mode))
BY_PATH(int, mkdirat, (int from, const char *path, mode_t mode), (from, path, mode))
