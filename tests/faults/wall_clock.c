/* Preloaded into a broker: shifts the wall clock by the number of milliseconds in the file $WALL_CLOCK_SHIFT,
 * which a test may change at any time. The monotonic clock is left alone, as it is when somebody sets the clock.
 *
 *     cc -shared -fPIC -o wall_clock.so wall_clock.c
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *shift_ms;

__attribute__((constructor)) static void map_shift(void) {
    const char *path = getenv("WALL_CLOCK_SHIFT");
    int fd = path == NULL ? -1 : open(path, O_RDONLY);
    if (fd < 0) return;
    void *mapped = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED) shift_ms = mapped;
    close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && shift_ms != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t nanoseconds = time->tv_nsec + *shift_ms % 1000 * 1000000;
        time->tv_sec += *shift_ms / 1000 + (nanoseconds >= 1000000000) - (nanoseconds < 0);
        time->tv_nsec = (nanoseconds + 1000000000) % 1000000000;
    }
    return result;
}
