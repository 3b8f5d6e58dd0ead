/* Loaded into a program by LD_PRELOAD, it sets the program's clock off by
   MAILROOM_TEST_CLOCK_SHIFT seconds. Clocks that only measure spans stay as they are,
   as they do where a machine's clock is wrong. */

#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t shift(void)
{
    const char *seconds = getenv("MAILROOM_TEST_CLOCK_SHIFT");
    return seconds ? (time_t)strtoll(seconds, NULL, 10) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += shift();
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec precise;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &precise);
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *copy)
{
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (copy)
        *copy = precise.tv_sec;
    return precise.tv_sec;
}
