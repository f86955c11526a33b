// A program of a fake phone: notes when it began and ended, by CLOCK_BOOTTIME, and takes as long as DELAY (ns) says.
#include <stdio.h>
#include <string.h>
#include <time.h>

#define DELAY "/data/local/tmp/delay"
#define LOG   "/data/local/tmp/log"

static long long now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_BOOTTIME, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(int argc, char **argv)
{
    long long begin = now(), delay = 0;
    FILE *file = fopen(DELAY, "r");
    struct timespec until;

    if (!file || fscanf(file, "%lld", &delay) != 1)
        return 1;
    fclose(file);
    until.tv_sec = (begin + delay) / 1000000000;
    until.tv_nsec = (begin + delay) % 1000000000;
    clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &until, NULL);
    file = fopen(LOG, "a");
    if (!file)
        return 1;
    fprintf(file, "%s %lld %lld\n", argc > 1 ? argv[1] : "", begin, now());
    return fclose(file) != 0;
}
