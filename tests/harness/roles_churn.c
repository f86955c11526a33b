#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files.h"
#include "roles.h"

#define NAME_BYTES 64
#define FILES      3
#define CREATE_NEW (O_RDWR | O_CREAT | O_EXCL)

// Forks a child with the id of one that has ended; with any id if `wanted` is 0 or another process has it by now.
static pid_t child_with(pid_t wanted)
{
    struct clone_args args = {.exit_signal = SIGCHLD, .set_tid = (uint64_t)(uintptr_t)&wanted, .set_tid_size = 1};
    pid_t child = wanted ? (pid_t)syscall(SYS_clone3, &args, sizeof(args)) : fork();
    if (child < 0 && errno == EEXIST)
        child = fork();
    must(child >= 0, "a process with an id of its own");
    return child;
}

// Leaves data in a different state for each process: dirty, written back, never written back, or read.
static void live(struct role *role, int number)
{
    char path[NAME_BYTES], other[NAME_BYTES];
    snprintf(path, sizeof(path), "churn/file%d", number % FILES);
    snprintf(other, sizeof(other), "churn/kept%d", number % FILES);
    struct file file = file_open(path, CREATE_NEW);
    file_append(&file, 1 + role_random(role, 3 * PAGE_BYTES));
    if (number % 4 == 1 || number % 4 == 3)
        file_sync(&file);
    if (number % 4 == 1) {
        file_forget(&file);
        file_read(&file, 2 * PAGE_BYTES);
    }
    if (number % 4 == 2)
        file_append(&file, 1 + role_random(role, PAGE_BYTES));
    file_close(&file);
    if (number % 8 < 6)
        file_unlink(path);
    else
        file_rename(path, other);
}

void role_churn(struct role *role, int rounds)
{
    pid_t id = 0;
    for (int i = 0; i < 8 * rounds; i++) {
        char comm[NAME_BYTES];
        snprintf(comm, sizeof(comm), "churn.%d", i);
        pid_t child = child_with(id);
        if (child == 0) {
            oplog_begin_child(comm);
            live(role, i);
            oplog_end();
            _exit(0);
        }
        int status;
        must(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, comm);
        role_random(role, 2); // the next process leaves another state
        id = child;
    }
}
