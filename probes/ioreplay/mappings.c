#define _GNU_SOURCE
#include "ioreplay/mappings.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ioreplay/flags.h"

struct mapping {
    struct mapping *next;
    char *memory;
    int64_t offset, bytes; /* in the file; whole pages */
    int protection;
};

/* Of one descriptor, the newest first. */
struct mapped {
    pthread_rwlock_t lock;
    struct mapping *first;
};

struct replay_mappings {
    int64_t page;
    uint32_t count;
    struct mapped *items[]; /* NULL: never mapped */
};

/* -- memory that the file does not reach -------------------------------------------------------------------------- */

/* Where this thread goes on if the access fails that it is about to make. Only the handler reads it, which compilers do
 * not know of. */
static _Thread_local sigjmp_buf *volatile resume;

/* Where it jumps it does not return: the signal, which is blocked here, must be let through again. */
static void handle(int number)
{
    sigset_t handled;

    if (!resume) {
        signal(number, SIG_DFL);
        return;
    }
    sigemptyset(&handled);
    sigaddset(&handled, number);
    pthread_sigmask(SIG_UNBLOCK, &handled, NULL);
    siglongjmp(*resume, 1);
}

static void catch_bus_errors(void)
{
    struct sigaction action = {.sa_handler = handle};

    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}

/* A byte of each page is enough to bring it in. */
static void touch(const volatile char *memory, int64_t bytes, int64_t page)
{
    for (int64_t at = 0; at < bytes; at += page)
        (void)memory[at];
    (void)memory[bytes - 1];
}

static void fill(char *memory, int64_t bytes, const char *data, size_t size)
{
    for (int64_t at = 0; at < bytes; at += (int64_t)size)
        memcpy(memory + at, data, bytes - at < (int64_t)size ? (size_t)(bytes - at) : size);
}

/* Reads, or writes where there is `data`. */
static int64_t reach(char *memory, int64_t bytes, int64_t page, const char *data, size_t size)
{
    sigjmp_buf here;

    if (sigsetjmp(here, 0)) {
        resume = NULL;
        return -EFAULT;
    }
    resume = &here;
    atomic_signal_fence(memory_order_seq_cst);
    if (data)
        fill(memory, bytes, data, size);
    else
        touch(memory, bytes, page);
    atomic_signal_fence(memory_order_seq_cst);
    resume = NULL;
    return bytes;
}

/* -- finding ------------------------------------------------------------------------------------------------------ */

static struct mapped *mapped_by(struct replay_mappings *mappings, int32_t descriptor)
{
    return descriptor < 0 ? NULL : mappings->items[descriptor];
}

/* The mapping that has all of [offset, offset + bytes), or NULL. */
static struct mapping *find(const struct mapped *mapped, int64_t offset, int64_t bytes)
{
    struct mapping *mapping = mapped->first;

    while (mapping && (offset < mapping->offset || offset - mapping->offset > mapping->bytes ||
                       bytes > mapping->bytes - (offset - mapping->offset)))
        mapping = mapping->next;
    return mapping;
}

/* Bytes up to the end of their last page, or -1. */
static int64_t to_pages(const struct replay_mappings *mappings, int64_t bytes)
{
    if (bytes <= 0 || bytes > INT64_MAX - mappings->page || (uint64_t)bytes > SIZE_MAX / 2)
        return -1;
    return (bytes + mappings->page - 1) / mappings->page * mappings->page;
}

/* -- operations --------------------------------------------------------------------------------------------------- */

/* Executable or not is nothing to the file, and a mount may forbid it. */
static int protection_of(const struct replay_operation *operation)
{
    int asked = operation->request == RECORD_NULL_INT32 ? PROT_READ : operation->request;

    return (asked & (PROT_READ | PROT_WRITE)) | (asked & PROT_EXEC ? PROT_READ : 0);
}

static int map_flags_of(const struct replay_operation *operation)
{
    return operation->flags == RECORD_NULL_INT64 ? MAP_SHARED : replay_map_flags(operation->flags);
}

static int map(struct replay_mappings *mappings, const struct replay_operation *operation, int file,
               struct mapping *into)
{
    int64_t bytes = to_pages(mappings, operation->bytes);
    int protection = protection_of(operation);
    void *memory;

    if (bytes < 0)
        return -EINVAL;
    memory = mmap(NULL, (size_t)bytes, protection, map_flags_of(operation), file, operation->offset_bytes);
    if (memory == MAP_FAILED)
        return -errno;
    *into = (struct mapping){NULL, memory, operation->offset_bytes, bytes, protection};
    return 0;
}

int replay_mappings_map(struct replay_mappings *mappings, const struct replay_operation *operation, int file)
{
    struct mapped *mapped = mapped_by(mappings, operation->descriptor);
    struct mapping *made = malloc(sizeof *made);
    int error;

    if (!made)
        return -ENOMEM;
    error = map(mappings, operation, file, made);
    if (error) {
        free(made);
        return error;
    }
    pthread_rwlock_wrlock(&mapped->lock);
    made->next = mapped->first;
    mapped->first = made;
    pthread_rwlock_unlock(&mapped->lock);
    return 0;
}

static void remove_from(struct mapped *mapped, struct mapping *mapping)
{
    struct mapping **link = &mapped->first;

    while (*link != mapping)
        link = &(*link)->next;
    *link = mapping->next;
    free(mapping);
}

/* Takes [skip, skip + bytes) out of a mapping; what is behind it becomes `rest`, or else that is freed. */
static int cut(struct mapped *mapped, struct mapping *mapping, int64_t skip, int64_t bytes, struct mapping *rest)
{
    int64_t behind = mapping->bytes - skip - bytes;

    if (munmap(mapping->memory + skip, (size_t)bytes)) {
        int error = errno;

        free(rest);
        return -error;
    }
    if (behind) {
        *rest = *mapping;
        rest->memory += skip + bytes;
        rest->offset += skip + bytes;
        rest->bytes = behind;
        mapping->next = rest;
    } else {
        free(rest);
    }
    mapping->bytes = skip;
    if (!skip)
        remove_from(mapped, mapping);
    return 0;
}

static int unmap(const struct replay_mappings *mappings, struct mapped *mapped,
                 const struct replay_operation *operation)
{
    int64_t bytes = to_pages(mappings, operation->bytes);
    struct mapping *mapping = bytes < 0 ? NULL : find(mapped, operation->offset_bytes, 1);
    struct mapping *rest = mapping ? malloc(sizeof *rest) : NULL;
    int64_t skip, left;

    if (!rest)
        return mapping ? -ENOMEM : -EINVAL;
    skip = (operation->offset_bytes - mapping->offset) / mappings->page * mappings->page;
    left = mapping->bytes - skip;
    return cut(mapped, mapping, skip, bytes < left ? bytes : left, rest);
}

int replay_mappings_unmap(struct replay_mappings *mappings, const struct replay_operation *operation)
{
    struct mapped *mapped = mapped_by(mappings, operation->descriptor);
    int result;

    if (!mapped)
        return -EINVAL;
    pthread_rwlock_wrlock(&mapped->lock);
    result = unmap(mappings, mapped, operation);
    pthread_rwlock_unlock(&mapped->lock);
    return result;
}

static int sync_part(const struct replay_mappings *mappings, const struct mapping *mapping,
                     const struct replay_operation *operation)
{
    int64_t skip = (operation->offset_bytes - mapping->offset) / mappings->page * mappings->page;
    int64_t bytes = operation->bytes, left = mapping->bytes - skip;
    int flags = operation->flags == RECORD_NULL_INT64 ? MS_SYNC : (int)operation->flags;

    return msync(mapping->memory + skip, (size_t)(bytes < left ? bytes : left), flags) ? -errno : 0;
}

int replay_mappings_sync(struct replay_mappings *mappings, const struct replay_operation *operation)
{
    struct mapped *mapped = mapped_by(mappings, operation->descriptor);
    const struct mapping *mapping;
    int result = -EINVAL;

    if (!mapped || operation->bytes < 0)
        return result;
    pthread_rwlock_rdlock(&mapped->lock);
    mapping = find(mapped, operation->offset_bytes, 1);
    if (mapping)
        result = sync_part(mappings, mapping, operation);
    pthread_rwlock_unlock(&mapped->lock);
    return result;
}

static int64_t access_mapped(struct replay_mappings *mappings, const struct replay_operation *operation,
                             const char *data, size_t size)
{
    struct mapped *mapped = mapped_by(mappings, operation->descriptor);
    const struct mapping *mapping;
    int64_t result = -EINVAL;

    if (!mapped || operation->bytes <= 0)
        return operation->bytes ? result : 0;
    pthread_rwlock_rdlock(&mapped->lock);
    mapping = find(mapped, operation->offset_bytes, operation->bytes);
    if (mapping && !(mapping->protection & (data ? PROT_WRITE : PROT_READ | PROT_WRITE)))
        result = -EACCES;
    else if (mapping)
        result = reach(mapping->memory + (operation->offset_bytes - mapping->offset), operation->bytes, mappings->page,
                       data, size);
    pthread_rwlock_unlock(&mapped->lock);
    return result;
}

int64_t replay_mappings_read(struct replay_mappings *mappings, const struct replay_operation *operation)
{
    return access_mapped(mappings, operation, NULL, 0);
}

int64_t replay_mappings_write(struct replay_mappings *mappings, const struct replay_operation *operation,
                              const char *data, size_t size)
{
    return access_mapped(mappings, operation, data, size);
}

/* -- all of them -------------------------------------------------------------------------------------------------- */

static int prepare(struct replay_mappings *mappings, int32_t descriptor)
{
    struct mapped *mapped;

    if (descriptor < 0 || mappings->items[descriptor])
        return 0;
    mapped = calloc(1, sizeof *mapped);
    if (!mapped)
        return -1;
    pthread_rwlock_init(&mapped->lock, NULL);
    mappings->items[descriptor] = mapped;
    return 0;
}

struct replay_mappings *replay_mappings_make(const struct replay_program *program)
{
    struct replay_mappings *mappings =
        calloc(1, sizeof *mappings + (size_t)program->nr_descriptors * sizeof *mappings->items);

    if (!mappings)
        return NULL;
    mappings->page = sysconf(_SC_PAGESIZE);
    mappings->count = program->nr_descriptors;
    for (uint32_t number = 0; number < program->nr_operations; number++) {
        const struct replay_operation *operation = &program->operations[number];

        if (operation->call == CALL_MMAP && prepare(mappings, operation->descriptor)) {
            replay_mappings_free(mappings);
            return NULL;
        }
    }
    catch_bus_errors();
    return mappings;
}

static void free_mapped(struct mapped *mapped)
{
    while (mapped->first) {
        munmap(mapped->first->memory, (size_t)mapped->first->bytes);
        remove_from(mapped, mapped->first);
    }
    pthread_rwlock_destroy(&mapped->lock);
    free(mapped);
}

void replay_mappings_free(struct replay_mappings *mappings)
{
    for (uint32_t number = 0; mappings && number < mappings->count; number++)
        if (mappings->items[number])
            free_mapped(mappings->items[number]);
    free(mappings);
}
