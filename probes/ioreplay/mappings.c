#include "ioreplay/replay.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>

struct mapping {
    struct mapping *next;
    char *memory;
    int64_t offset, bytes; /* in the file; multiples of a page */
    int protection;
};

/* Mappings of one descriptor, newest first. */
struct mapped {
    pthread_rwlock_t lock;
    struct mapping *first;
};

struct replay_mappings {
    int64_t page;
    uint32_t count;
    struct mapped *items[]; /* NULL: never mapped */
};

/* -- accesses beyond the end of the file ------------------------------------------------------------------------- */

/* Recovery point of this thread during an access that may fail. Volatile because only the signal handler reads it. */
static _Thread_local sigjmp_buf *volatile resume;

/* siglongjmp does not return from the handler, so the signal must be unblocked first. */
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

/* Touch a byte of each page, which is enough to fault it in. */
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

/* Read the memory, or write it if there is `data`. Returns -EFAULT after SIGBUS. */
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

/* -- look-up ---------------------------------------------------------------------------------------------------- */

/* Return the mapping that contains [offset, offset + bytes), or NULL. */
static struct mapping *find(const struct mapped *mapped, int64_t offset, int64_t bytes)
{
    struct mapping *mapping = mapped->first;
    while (mapping && (offset < mapping->offset || offset - mapping->offset > mapping->bytes ||
                       bytes > mapping->bytes - (offset - mapping->offset)))
        mapping = mapping->next;
    return mapping;
}

/* Round up to whole pages. Returns -1 if this is impossible. */
static int64_t to_pages(const struct replay_mappings *mappings, int64_t bytes)
{
    if (bytes <= 0 || bytes > INT64_MAX - mappings->page || (uint64_t)bytes > SIZE_MAX / 2)
        return -1;
    return (bytes + mappings->page - 1) / mappings->page * mappings->page;
}

/* -- operations --------------------------------------------------------------------------------------------------- */

/* PROT_EXEC becomes PROT_READ: it makes no difference to the file, and a mount may forbid it. */
static int protection_of(const struct replay_operation *operation)
{
    return (operation->request & (PROT_READ | PROT_WRITE)) | (operation->request & PROT_EXEC ? PROT_READ : 0);
}

/* Return MAP_ flags of a file mapping, without those that choose its address. MAP_LOCKED becomes MAP_POPULATE: the file
 * is read in the same way, but a program cannot lock the machine's memory. */
static int map_flags(int64_t generic)
{
    int flags = (int)generic & (MAP_SHARED | MAP_PRIVATE | MAP_POPULATE | MAP_NONBLOCK | MAP_NORESERVE);
    return generic & MAP_LOCKED ? flags | MAP_POPULATE : flags;
}

static int map(const struct replay_mappings *mappings, const struct replay_operation *operation, int file,
               struct mapping *made)
{
    int flags = operation->flags == RECORD_NULL_INT64 ? MAP_SHARED : map_flags(operation->flags);
    made->protection = protection_of(operation);
    made->offset = operation->offset_bytes;
    made->bytes = to_pages(mappings, operation->bytes);
    if (made->bytes < 0)
        return -EINVAL;
    made->memory = mmap(NULL, (size_t)made->bytes, made->protection, flags, file, made->offset);
    return made->memory == MAP_FAILED ? -errno : 0;
}

int replay_mappings_map(struct replay_mappings *mappings, const struct replay_operation *operation, int file)
{
    struct mapped *mapped = mappings->items[operation->descriptor];
    struct mapping *made = malloc(sizeof *made);
    if (!made)
        return -ENOMEM;
    int error = map(mappings, operation, file, made);
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

/* Unmap [skip, skip + bytes) of a mapping. A remaining part after it becomes `rest`, else `rest` is freed. */
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

/* Return the offset in a mapping of the page in which an operation starts. */
static int64_t skip_of(const struct replay_mappings *mappings, const struct mapping *mapping,
                       const struct replay_operation *operation)
{
    return (operation->offset_bytes - mapping->offset) / mappings->page * mappings->page;
}

static int64_t least(int64_t one, int64_t other)
{
    return one < other ? one : other;
}

static int unmap(const struct replay_mappings *mappings, struct mapped *mapped, struct mapping *mapping,
                 const struct replay_operation *operation)
{
    int64_t bytes = to_pages(mappings, operation->bytes), skip = skip_of(mappings, mapping, operation);
    struct mapping *rest = bytes < 0 ? NULL : malloc(sizeof *rest);
    if (!rest)
        return bytes < 0 ? -EINVAL : -ENOMEM;
    return cut(mapped, mapping, skip, least(bytes, mapping->bytes - skip), rest);
}

static int sync_part(const struct replay_mappings *mappings, const struct mapping *mapping,
                     const struct replay_operation *operation)
{
    int64_t skip = skip_of(mappings, mapping, operation);
    int flags = operation->flags == RECORD_NULL_INT64 ? MS_SYNC : (int)operation->flags;
    return msync(mapping->memory + skip, (size_t)least(operation->bytes, mapping->bytes - skip), flags) ? -errno : 0;
}

static int64_t do_within(const struct replay_mappings *mappings, struct mapped *mapped,
                         const struct replay_operation *operation, const struct replay_buffer *buffer)
{
    bool accesses = operation->call == CALL_MAPPED_READ || operation->call == CALL_MAPPED_WRITE;
    const char *data = operation->call == CALL_MAPPED_WRITE ? buffer->memory : NULL;
    struct mapping *mapping = find(mapped, operation->offset_bytes, accesses ? operation->bytes : 1);
    if (!mapping)
        return -EINVAL;
    if (operation->call == CALL_MUNMAP)
        return unmap(mappings, mapped, mapping, operation);
    if (operation->call == CALL_MSYNC)
        return sync_part(mappings, mapping, operation);
    if (!(mapping->protection & (data ? PROT_WRITE : PROT_READ | PROT_WRITE)))
        return -EACCES;
    return reach(mapping->memory + (operation->offset_bytes - mapping->offset), operation->bytes, mappings->page, data,
                 buffer->capacity);
}

int64_t replay_mappings_do(const struct replay_mappings *mappings, const struct replay_operation *operation,
                           const struct replay_buffer *buffer)
{
    struct mapped *mapped = mappings->items[operation->descriptor];
    if (operation->bytes == 0 && replay_shapes[operation->call].moves)
        return 0;
    if (!mapped)
        return -EINVAL;
    if (operation->call == CALL_MUNMAP)
        pthread_rwlock_wrlock(&mapped->lock);
    else
        pthread_rwlock_rdlock(&mapped->lock);
    int64_t result = do_within(mappings, mapped, operation, buffer);
    pthread_rwlock_unlock(&mapped->lock);
    return result;
}

/* -- all mappings ----------------------------------------------------------------------------------------------- */

struct replay_mappings *replay_mappings_make(const struct replay_program *program)
{
    struct replay_mappings *mappings =
        zeroed(1, sizeof *mappings + (size_t)program->nr_descriptors * sizeof *mappings->items);
    mappings->page = sysconf(_SC_PAGESIZE);
    mappings->count = program->nr_descriptors;
    for (uint32_t number = 0; number < program->nr_operations; number++) {
        const struct replay_operation *operation = &program->operations[number];
        if (operation->call == CALL_MMAP && !mappings->items[operation->descriptor]) {
            mappings->items[operation->descriptor] = zeroed(1, sizeof(struct mapped));
            pthread_rwlock_init(&mappings->items[operation->descriptor]->lock, NULL);
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
    for (uint32_t number = 0; number < mappings->count; number++)
        if (mappings->items[number])
            free_mapped(mappings->items[number]);
    free(mappings);
}
