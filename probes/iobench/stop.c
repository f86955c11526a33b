#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "common/errors.h"
#include "iobench/workers.h"

/* In memory shared with worker processes, because a signal reaches only one process. */
static atomic_bool *stopping;

static void stop(int number)
{
    (void)number;
    atomic_store(stopping, true);
}

/* Return whether to respect nohup. */
static bool is_nohup(int number)
{
    struct sigaction before;

    return number == SIGHUP && sigaction(number, NULL, &before) == 0 && before.sa_handler == SIG_IGN;
}

int workers_catch_signals(void)
{
    static const int endings[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = stop};
    void *memory = mmap(NULL, sizeof *stopping, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return print_error("no memory for signals: %s", strerror(errno));
    stopping = memory;
    sigemptyset(&action.sa_mask);
    for (size_t index = 0; index < sizeof endings / sizeof *endings; index++)
        if (!is_nohup(endings[index]))
            sigaction(endings[index], &action, NULL);
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    return 0;
}

bool bench_stopping(void)
{
    return stopping && atomic_load(stopping);
}
