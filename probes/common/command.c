#include "common/command.h"

void command_end_signals(sigset_t *signals)
{
    struct sigaction hang_up;
    sigemptyset(signals);
    sigaddset(signals, SIGINT);
    sigaddset(signals, SIGTERM);
    if (sigaction(SIGHUP, NULL, &hang_up) < 0 || hang_up.sa_handler != SIG_IGN)
        sigaddset(signals, SIGHUP);
}

bool command_is_runnable(const char *word)
{
    if (strchr(word, '/'))
        return access(word, X_OK) == 0;
    const char *path = getenv("PATH");
    char *places = format("%s", path ? path : "/bin:/usr/bin");
    bool found = false;
    for (char *rest, *place = strtok_r(places, ":", &rest); place && !found; place = strtok_r(NULL, ":", &rest)) {
        char *program = format("%s/%s", place, word);
        found = access(program, X_OK) == 0;
        free(program);
    }
    free(places);
    return found;
}

static _Noreturn void become(char *const *words, const sigset_t *mask, int failed)
{
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvp(words[0], words);
    int error = errno;
    write_all(failed, &error, sizeof error);
    _exit(127);
}

/* The close-on-exec pipe reports an error of exec; end of file on it means that the command started. */
pid_t command_start(char *const *words, const sigset_t *mask)
{
    int failed[2], error = 0;
    if (pipe2(failed, O_CLOEXEC) < 0) {
        print_error("pipe: %s", strerror(errno));
        return 0;
    }
    pid_t child = fork();
    if (child == 0)
        become(words, mask, failed[1]);
    close(failed[1]);
    if (child < 0)
        error = errno;
    else if (read(failed[0], &error, sizeof error) < (ssize_t)sizeof error)
        error = 0;
    close(failed[0]);
    if (error == 0)
        return child;
    if (child > 0)
        waitpid(child, NULL, 0);
    print_error("%s: %s; the command cannot be run", words[0], strerror(error));
    return 0;
}
