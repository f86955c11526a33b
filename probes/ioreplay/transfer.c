#include "ioreplay/replay.h"

#include <sys/uio.h>

/* Alignment of memory and lengths for direct I/O on any device. */
#define ALIGNMENT 4096

/* Limit of all buffers together, but at least 64 KiB for each thread. */
#define BUFFERS_BYTES (INT64_C(512) << 20)
#define LEAST_BUFFER  (INT64_C(64) << 10)
#define MOST_BUFFER   (INT64_C(16) << 20)

/* -- memory ------------------------------------------------------------------------------------------------------- */

static int64_t rounded(int64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static bool uses_buffer(const struct replay_operation *operation)
{
    enum replay_moves moves = replay_moves(operation);
    return moves == MOVES_WRITTEN || (moves == MOVES_READ && operation->call != CALL_MAPPED_READ);
}

/* Return the buffer size of one operation: less than the bytes moved, but enough that IOV_MAX repetitions cover all of
 * them. */
static int64_t buffer_bytes_for(int64_t bytes, int64_t most)
{
    int64_t least = rounded(bytes / IOV_MAX + 1), capacity = rounded(bytes < most ? bytes : most);
    return capacity < least ? least : capacity;
}

/* The capacity is a multiple of a word. */
static void fill(struct replay_buffer *buffer, int64_t bytes)
{
    size_t end = bytes < (int64_t)buffer->capacity ? (size_t)bytes : buffer->capacity;
    for (size_t at = 0; at < end; at += sizeof(uint64_t)) {
        uint64_t word = rng_next(&buffer->rng);
        memcpy(buffer->memory + at, &word, sizeof word);
    }
}

void replay_buffer_prepare(struct replay_buffer *buffer, const struct replay_operation *operation)
{
    if (replay_moves(operation) == MOVES_WRITTEN)
        fill(buffer, replay_moves_bytes(operation));
}

/* -- calls -------------------------------------------------------------------------------------------------------- */

/* Build the vector for `bytes`: the same buffer repeated, at most IOV_MAX times because of buffer_bytes_for. */
static int pieces(const struct replay_buffer *buffer, int64_t bytes, struct iovec into[IOV_MAX])
{
    int count = 0;
    do {
        size_t piece = bytes < (int64_t)buffer->capacity ? (size_t)bytes : buffer->capacity;
        into[count++] = (struct iovec){buffer->memory, piece};
        bytes -= (int64_t)piece;
    } while (bytes > 0);
    return count;
}

/* Uses system calls directly: C libraries support the flags only since a few years and emulate some calls. The kernel
 * takes all arguments here as whole registers. */
static int64_t move_pieces(int file, bool writes, const struct iovec *list, int count, int64_t offset, int64_t flags)
{
    long low = (long)offset, high = (long)((uint64_t)offset >> 32), number = file, length = count;
    if (flags)
        return syscall(writes ? SYS_pwritev2 : SYS_preadv2, number, list, length, low, high, (int)flags);
    if (offset == RECORD_NULL_INT64)
        return writes ? writev(file, list, count) : readv(file, list, count);
    return syscall(writes ? SYS_pwritev : SYS_preadv, number, list, length, low, high);
}

/* Offset -1 selects the current position, but only in calls with flags (Linux 4.6). Without it RWF_ flags would not be
 * possible. */
static int64_t move_many(const struct replay_buffer *buffer, int file, bool writes, int64_t bytes, int64_t offset,
                         int64_t flags)
{
    struct iovec list[IOV_MAX];
    int count = pieces(buffer, bytes, list);
    int64_t result =
        or_errno(move_pieces(file, writes, list, count, flags && offset == RECORD_NULL_INT64 ? -1 : offset, flags));
    return result == -ENOSYS && flags ? -EOPNOTSUPP : result;
}

static int64_t move_one(const struct replay_buffer *buffer, int file, bool writes, int64_t bytes, int64_t offset)
{
    size_t size = (size_t)bytes;
    if (offset == RECORD_NULL_INT64)
        return or_errno(writes ? write(file, buffer->memory, size) : read(file, buffer->memory, size));
    return or_errno(writes ? pwrite(file, buffer->memory, size, offset) : pread(file, buffer->memory, size, offset));
}

static bool is_vector(const struct replay_operation *operation)
{
    return operation->call == CALL_READV || operation->call == CALL_WRITEV || operation->call == CALL_PREADV ||
           operation->call == CALL_PWRITEV;
}

int64_t replay_transfer(const struct replay_buffer *buffer, const struct replay_operation *operation, int file,
                        bool writes, int64_t offset)
{
    int64_t bytes = replay_moves_bytes(operation),
            flags = is_vector(operation) && operation->flags != RECORD_NULL_INT64 ? operation->flags : 0;
    if (is_vector(operation) || bytes > (int64_t)buffer->capacity)
        return move_many(buffer, file, writes, bytes, offset, flags);
    return move_one(buffer, file, writes, bytes, offset);
}

/* -- all threads -------------------------------------------------------------------------------------------------- */

/* Return the largest buffer that an operation of the thread needs. */
static int64_t buffer_bytes_of_thread(const struct replay_program *program, uint32_t thread, int64_t most)
{
    int64_t capacity = 0;
    for (uint32_t at = program->thread_first[thread]; at < program->thread_first[thread + 1]; at++) {
        const struct replay_operation *operation = &program->operations[program->thread_operations[at]];
        int64_t needed = uses_buffer(operation) ? buffer_bytes_for(replay_moves_bytes(operation), most) : 0;
        if (needed > capacity)
            capacity = needed;
    }
    return capacity;
}

static int64_t buffer_bytes_of_all(const struct replay_program *program, int64_t most)
{
    int64_t capacity = 0;
    for (uint32_t thread = 0; thread < program->nr_threads; thread++)
        capacity += buffer_bytes_of_thread(program, thread, most);
    return capacity;
}

size_t replay_buffer_most(const struct replay_program *program)
{
    int64_t most = MOST_BUFFER;
    while (most > LEAST_BUFFER && buffer_bytes_of_all(program, most) > BUFFERS_BYTES)
        most /= 2;
    return (size_t)most;
}

/* The memory is touched here, so that the first operation has no page faults. */
void replay_buffer_open(struct replay_buffer *buffer, const struct replay_program *program, uint32_t thread,
                        size_t most)
{
    buffer->capacity = (size_t)buffer_bytes_of_thread(program, thread, (int64_t)most);
    if (!buffer->capacity)
        return;
    buffer->memory = aligned(ALIGNMENT, buffer->capacity);
    rng_seed(&buffer->rng, (uint64_t)clock_now(CLOCK_REALTIME), rng_stream(RNG_PAYLOAD, thread));
}
