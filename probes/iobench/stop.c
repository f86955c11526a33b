#include "common/command.h"
#include "iobench/bench.h"

/* In memory shared with worker processes, because a signal reaches only one process. */
static atomic_bool *stopping;

static void stop(int number)
{
    (void)number;
    atomic_store(stopping, true);
}

int workers_catch_signals(void)
{
    struct sigaction action = {.sa_handler = stop};
    sigset_t ends;
    void *memory = mmap(NULL, sizeof *stopping, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return print_error("no memory for signals: %s", strerror(errno));
    stopping = memory;
    sigemptyset(&action.sa_mask);
    command_end_signals(&ends);
    for (int number = 1; number <= SIGTERM; number++)
        if (sigismember(&ends, number) == 1)
            sigaction(number, &action, NULL);
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    return 0;
}

bool bench_stopping(void)
{
    return stopping && atomic_load(stopping);
}
