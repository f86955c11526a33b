#include "ioreplay/stop.h"

#include <signal.h>
#include <time.h>

#include "common/command.h"

static sigset_t awaited;
static bool requested;

static void wake(int number)
{
    (void)number;
}

void replay_stop_prepare(void)
{
    struct sigaction waking = {.sa_handler = wake};

    command_end_signals(&awaited);
    sigaddset(&awaited, REPLAY_NEWS);
    sigprocmask(SIG_BLOCK, &awaited, NULL);
    sigemptyset(&waking.sa_mask);
    sigaction(REPLAY_WAKE, &waking, NULL);
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
}

bool replay_stop_requested(int64_t wait_ns)
{
    struct timespec wait = {.tv_sec = wait_ns / 1000000000, .tv_nsec = wait_ns % 1000000000};
    int number = sigtimedwait(&awaited, NULL, &wait);

    if (number > 0 && number != REPLAY_NEWS)
        requested = true;
    return requested;
}
