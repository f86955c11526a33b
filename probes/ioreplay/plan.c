#define _GNU_SOURCE
#include "ioreplay/plan.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/complain.h"
#include "common/utf8.h"
#include "common/words.h"
#include "ioreplay/moves.h"

/* Beside the program's own: what the process has anyway. */
#define OTHER_DESCRIPTORS 64

/* What a call takes for a moment to find its paths, in each thread. */
#define CALL_DESCRIPTORS 2

static int64_t moved_by(const struct replay_operation *operation)
{
    if (operation->failed != 1 && operation->result != RECORD_NULL_INT64)
        return operation->result;
    return operation->failed == 1 || operation->bytes < 0 ? 0 : operation->bytes;
}

/* What a program tells may be more than any number holds. */
static int64_t add(int64_t sum, int64_t bytes)
{
    return __builtin_add_overflow(sum, bytes, &sum) ? INT64_MAX : sum;
}

static void add_operation(struct replay_plan *plan, const struct replay_operation *operation, int64_t *open_now)
{
    struct replay_moved moved = replay_moved(operation, moved_by(operation));

    plan->operations[operation->call]++;
    plan->read = add(plan->read, moved.read);
    plan->written = add(plan->written, moved.written);
    if (operation->call == CALL_FALLOCATE && operation->bytes > 0)
        plan->allocated = add(plan->allocated, operation->bytes);
    *open_now += operation->call == CALL_OPEN && operation->descriptor != REPLAY_NONE;
    *open_now += operation->call == CALL_DUP && operation->descriptor2 != REPLAY_NONE;
    *open_now -= operation->call == CALL_CLOSE;
    if (*open_now > plan->descriptors)
        plan->descriptors = *open_now;
}

static void add_file(struct replay_plan *plan, const struct replay_file *file, bool *seen)
{
    plan->directories += file->kind == KIND_DIRECTORY;
    plan->links += file->kind == KIND_SYMLINK;
    if (file->kind != KIND_FILE || (file->file >= 0 && seen[file->file]))
        return;
    if (file->file >= 0)
        seen[file->file] = true;
    plan->files++;
    plan->files_bytes = add(plan->files_bytes, file->size_bytes);
}

int replay_plan_make(struct replay_plan *plan, const struct replay_program *program)
{
    int32_t most = 0;
    int64_t open_now = 0;
    bool *seen;

    *plan = (struct replay_plan){0};
    for (uint32_t index = 0; index < program->nr_files; index++)
        if (program->files[index].file > most)
            most = program->files[index].file;
    seen = calloc((size_t)most + 1, sizeof *seen);
    if (!seen)
        return complain("no memory for %" PRIu32 " files", program->nr_files);
    for (uint32_t index = 0; index < program->nr_files; index++)
        add_file(plan, &program->files[index], seen);
    free(seen);
    for (uint32_t number = 0; number < program->nr_operations; number++)
        add_operation(plan, &program->operations[number], &open_now);
    return 0;
}

/* Root may raise what others may not exceed. */
static void raise_limit(rlim_t wanted)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit))
        return;
    if (limit.rlim_max < wanted && setrlimit(RLIMIT_NOFILE, &(struct rlimit){wanted, wanted}) == 0)
        return;
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){limit.rlim_max, limit.rlim_max});
}

/*
 * Makes the kernel's table of open files as large as it will be. Once there are threads it grows only after all
 * processors have passed a point where none looks into it (synchronize_rcu in fs/file.c): milliseconds, which an open
 * among the operations would seem to take.
 */
static void grow_table(rlim_t files)
{
    int last = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, (int)files - 1);

    if (last >= 0)
        close(last);
}

int replay_plan_allow_descriptors(const struct replay_plan *plan, uint32_t nr_threads)
{
    rlim_t needed = (rlim_t)plan->descriptors + OTHER_DESCRIPTORS;
    rlim_t wanted = needed + (rlim_t)nr_threads * CALL_DESCRIPTORS;
    struct rlimit limit;

    raise_limit(wanted);
    if (getrlimit(RLIMIT_NOFILE, &limit))
        return 0;
    if (limit.rlim_cur < needed)
        return complain("the program has %" PRId64 " files open at once, and this process may have %" PRIu64
                        "; raise the limit to %" PRIu64 " (ulimit -n)",
                        plan->descriptors, (uint64_t)limit.rlim_cur, (uint64_t)needed);
    grow_table(wanted < limit.rlim_cur ? wanted : limit.rlim_cur);
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
    fprintf(out, ", %" PRId64 " directories, %" PRId64 " links\n", plan->directories, plan->links);
    words_print_bytes(out, "bytes           ", plan->read);
    words_print_bytes(out, " read, ", plan->written);
    fputs(" written\n", out);
    words_print_bytes(out, "room needed     at most ", add(add(plan->files_bytes, plan->written), plan->allocated));
    fputs(", and what the filesystem needs for itself\n\noperations\n", out);
    for (int call = 0; call < REPLAY_CALLS; call++)
        if (plan->operations[call])
            fprintf(out, "  %-15s %10" PRId64 "\n", replay_call_names[call], plan->operations[call]);
    return fflush(out) || ferror(out) ? -1 : 0;
}
