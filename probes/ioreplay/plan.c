#include "ioreplay/replay.h"

#include <sys/resource.h>

#include "common/utf8.h"
#include "common/words.h"

/* Descriptors of the process itself. */
#define OTHER_DESCRIPTORS 64

/* Descriptors that each thread uses for a moment to find paths. */
#define CALL_DESCRIPTORS 2

static int64_t most_open(const struct replay_program *program)
{
    int64_t open_now = 0, most = 0;
    for (uint32_t number = 0; number < program->nr_operations; number++) {
        const struct replay_operation *operation = &program->operations[number];
        open_now += operation->call == CALL_OPEN && operation->descriptor != REPLAY_NONE;
        open_now += operation->call == CALL_DUP && operation->descriptor2 != REPLAY_NONE;
        open_now -= operation->call == CALL_CLOSE;
        if (open_now > most)
            most = open_now;
    }
    return most;
}

void replay_plan_make(struct replay_plan *plan, const struct replay_program *program)
{
    *plan = (struct replay_plan){.descriptors = most_open(program)};
    for (uint32_t index = 0; index < program->nr_files; index++)
        plan->files += replay_is_file(&program->files[index]);
    plan->files_bytes = program->is_device ? replay_target_needs(program) : replay_files_bytes(program);
}

int replay_plan_allow_descriptors(const struct replay_plan *plan, uint32_t nr_threads)
{
    rlim_t needed = (rlim_t)plan->descriptors + OTHER_DESCRIPTORS;
    rlim_t wanted = needed + (rlim_t)nr_threads * CALL_DESCRIPTORS;
    struct rlimit limit;
    /* Raise the soft limit, and as root also the hard limit. */
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max >= wanted || setrlimit(RLIMIT_NOFILE, &(struct rlimit){wanted, wanted}) < 0)
        files_allow_most();
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < needed)
        return print_error("the program has %" PRId64 " files open at once, and this process may have %" PRIu64
                           "; raise the limit to %" PRIu64 " (ulimit -n)",
                           plan->descriptors, (uint64_t)limit.rlim_cur, (uint64_t)needed);
    /* Grow the kernel's table of open files in advance. With several threads, growing waits for a grace period
     * (synchronize_rcu in fs/file.c). This takes milliseconds and would be measured in an open of the program. */
    close_file(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, (int)(wanted < limit.rlim_cur ? wanted : limit.rlim_cur) - 1));
    return 0;
}

int replay_plan_print(FILE *out, const struct replay_plan *plan, const struct replay_program *program, const char *name)
{
    fputs("program         ", out);
    utf8_print(out, name);
    fprintf(out, ", sha256 %s\n", program->sha256);
    fprintf(out, "                %.3f s, %" PRIu32 " threads, %" PRIu32 " operations, %" PRIu32 " of them inserted\n",
            (double)program->duration_ns / 1e9, program->nr_threads, program->nr_operations, program->nr_inserted);
    fprintf(out, "dependencies    %" PRIu32 "\n", program->nr_dependencies);
    fprintf(out, "descriptors     %" PRId64 " at once\n", plan->descriptors);
    fprintf(out, "made before     %" PRId64 " files", plan->files);
    words_print_bytes(out, " of ", plan->files_bytes);
    fprintf(out, " and %" PRId64 " other names\n", program->nr_files - plan->files);
    return fflush(out) || ferror(out) ? -1 : 0;
}
