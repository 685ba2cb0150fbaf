/* A device's clocks, steered from a file: loaded before the C library (LD_PRELOAD) into the processes of a rig.
 *
 * The wall clock, the boot clock and the kernel's word whether it is synchronised are what the file says; the id of
 * the boot is read from a file of the rig's. All of a process sees the same time, OpenSSL included. STEPPED_CLOCK
 * names the file, which is mapped: a step is seen at once. sim/local/stepped_clock.py writes it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

struct steering {
    int64_t wall_ns;     /* added to CLOCK_REALTIME */
    int64_t boot_ns;     /* added to CLOCK_BOOTTIME */
    int64_t is_synced;
};

static const struct steering standing = {0, 0, 1};
static const volatile struct steering *steering = (const volatile struct steering *)&standing;
static const char *boot_id;
static int (*real_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("STEPPED_CLOCK");
    boot_id = getenv("STEPPED_BOOT_ID");
    real_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    void *found = mmap(NULL, sizeof *steering, PROT_READ, MAP_SHARED, fd, 0);
    if (found != MAP_FAILED)
        steering = found;
    close(fd);
}

static void add(struct timespec *to, int64_t ns) {
    int64_t whole = (int64_t)to->tv_sec * 1000000000 + to->tv_nsec + ns;
    to->tv_sec = whole / 1000000000;
    to->tv_nsec = whole % 1000000000;
}

int clock_gettime(clockid_t clock, struct timespec *to) {
    if (real_gettime == NULL)
        real_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int code = real_gettime(clock, to);
    if (code == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        add(to, steering->wall_ns);
    if (code == 0 && clock == CLOCK_BOOTTIME)
        add(to, steering->boot_ns);
    return code;
}

time_t time(time_t *to) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (to != NULL)
        *to = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict to, void *restrict zone) {
    (void)zone;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    to->tv_sec = now.tv_sec;
    to->tv_usec = now.tv_nsec / 1000;
    return 0;
}

int adjtimex(struct timex *to) {
    (void)to;
    return steering->is_synced ? TIME_OK : TIME_ERROR;
}

/* Python 3.10 waits for locks until a time of the wall clock; the kernel, which keeps that time, has not stepped. */
int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
    static int (*real)(sem_t *, const struct timespec *);
    if (real == NULL)
        real = (int (*)(sem_t *, const struct timespec *))dlsym(RTLD_NEXT, "sem_timedwait");
    struct timespec true_until = *until;
    add(&true_until, -steering->wall_ns);
    return real(semaphore, &true_until);
}

static const char *instead_of(const char *path) {
    return boot_id != NULL && strcmp(path, "/proc/sys/kernel/random/boot_id") == 0 ? boot_id : path;
}

#define OPENS(name)                                                                    \
    int name(const char *path, int flags, ...) {                                       \
        static int (*real)(const char *, int, ...);                                    \
        if (real == NULL)                                                              \
            real = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #name);           \
        va_list rest;                                                                  \
        va_start(rest, flags);                                                         \
        int mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, int) : 0;            \
        va_end(rest);                                                                  \
        return real(instead_of(path), flags, mode);                                    \
    }

OPENS(open)
OPENS(open64)
