// Orders the operations, selects those to keep and fills the tables. An operation that only serves others is kept if
// one of them is.
#include "calls/output.h"

#include "calls/flags.h"
#include "calls/left.h"
#include "calls/texts.h"
#include "calls/types.h"

#include <stdlib.h>

enum { PERMISSIONS = 07777, PROTECTIONS = 15, ACCESS_MODES = 7 };
static const int64_t MOST_BYTES = INT64_C(1) << 30; // of one operation; Linux moves less than twice that

// Columns of tables operations, replay_files and replay_threads; test_replay_clean compares them with schemas/.
enum operation_column {
    OPERATION_NUMBER,
    OPERATION_TS_NS,
    OPERATION_DURATION_NS,
    OPERATION_THREAD,
    OPERATION_CALL,
    OPERATION_INSERTED,
    OPERATION_DESCRIPTOR,
    OPERATION_DESCRIPTOR2,
    OPERATION_FILE,
    OPERATION_FILE2,
    OPERATION_PATH,
    OPERATION_PATH2,
    OPERATION_FLAGS,
    OPERATION_REQUEST,
    OPERATION_MODE,
    OPERATION_OFFSET_BYTES,
    OPERATION_OFFSET2_BYTES,
    OPERATION_BYTES,
    OPERATION_FAILED,
    OPERATION_RESULT,
};

enum file_column { FILE_PATH, FILE_TYPE, FILE_NUMBER, FILE_SIZE_BYTES, FILE_SIZE_FROM, FILE_MODE, FILE_TARGET };

enum thread_column { THREAD_NUMBER, THREAD_PID, THREAD_TID };

static bool is_between(uint8_t call)
{
    return call == SENDFILE || call == SPLICE || call == COPY_FILE_RANGE;
}

static uint8_t left_of_descriptor(struct calls *calls, int32_t descriptor)
{
    const struct description *description = description_of(&calls->open, descriptor);

    if (description->left == LEFT_UNKNOWN)
        return calls->has_unknown ? LEFT_NOT : LEFT_UNKNOWN;
    if (description->left == LEFT_NOT && description->inode != NO_INDEX)
        return calls->files.inodes[inode_find(&calls->files, description->inode)].left;
    return description->left;
}

// Returns why the operation is omitted. All calls that show what its descriptors are have been processed.
static uint8_t left_of(struct calls *calls, const struct operation *operation)
{
    uint8_t first;

    if (operation->left)
        return operation->left;
    if (operation->descriptor != NO_INDEX) {
        first = left_of_descriptor(calls, operation->descriptor);
        if (first && is_between(operation->call) && !left_of_descriptor(calls, operation->descriptor2))
            return LEFT_NOT;
        return first;
    }
    return operation->inode == NO_INDEX ? (uint8_t)LEFT_NOT
                                        : calls->files.inodes[inode_find(&calls->files, operation->inode)].left;
}

// --- order ----------------------------------------------------------------------------------------------------------

// Inserts seeks for descriptors that were open before the recording at another position than 0.
static void insert_seeks(struct calls *calls)
{
    for (size_t n = 0; n < calls->open.nr_descriptions; n++) {
        const struct description *description = &calls->open.descriptions[n];
        struct operation open, *seek;

        if (description->inserted_open == NO_INDEX || description->start == NO_INT64 || !description->start)
            continue;
        open = calls->program.inserted[description->inserted_open];
        seek = operation_insert(&calls->program, open.row, open.thread, LSEEK, RANK_SEEK);
        seek->descriptor = open.descriptor;
        seek->offset = calls->open.descriptions[n].start;
    }
}

// Raises the least size of files that were open before the recording to what was read of them.
static void reach_sizes(struct calls *calls)
{
    for (size_t n = 0; n < calls->open.nr_descriptions; n++) {
        const struct description *description = &calls->open.descriptions[n];
        struct inode *inode;
        int64_t end;

        if (!description->reach || description->inode == NO_INDEX ||
            __builtin_add_overflow(description->reach, description->start == NO_INT64 ? 0 : description->start, &end))
            continue;
        inode = &calls->files.inodes[inode_find(&calls->files, description->inode)];
        if (end > inode->start_least)
            inode->start_least = end;
    }
}

static uint8_t type_of(const struct inode *inode)
{
    if (inode->type == TYPE_UNKNOWN)
        return inode->is_walked ? TYPE_DIRECTORY : TYPE_FILE;
    return inode->type == TYPE_SYMLINK && inode->target == NO_STRING ? (uint8_t)TYPE_FILE : inode->type;
}

static int64_t first_size(const struct inode *inode)
{
    return inode->start_size != NO_INT64 ? inode->start_size : inode->start_least;
}

static struct operation *insert_change(struct calls *calls, const struct change *change, uint8_t call)
{
    struct operation *operation = operation_insert(&calls->program, change->row, change->thread, call, RANK_NAME);

    operation->inode = change->inode;
    operation->path = change->path;
    return operation;
}

// Inserts the creation of a file with the size it had then. The call that created it is not recorded.
static void insert_file(struct calls *calls, const struct change *change)
{
    int32_t descriptor = descriptor_new(&calls->open, description_new(&calls->open, change->inode, LEFT_NOT));
    struct operation *operation = insert_change(calls, change, OPEN);

    calls->open.descriptors[descriptor].is_needed = true;
    operation->descriptor = descriptor;
    operation->flags = FLAG_CREAT | FLAG_WRONLY;
    if (first_size(&calls->files.inodes[change->inode])) {
        operation = operation_insert(&calls->program, change->row, change->thread, FTRUNCATE, RANK_NAME);
        operation->descriptor = descriptor;
        operation->bytes = first_size(&calls->files.inodes[change->inode]);
    }
    operation_insert(&calls->program, change->row, change->thread, CLOSE, RANK_NAME)->descriptor = descriptor;
}

// Inserts operations for the names that appeared or disappeared between the recorded calls.
static void insert_changes(struct calls *calls)
{
    for (size_t n = 0; n < calls->names.nr_changes; n++) {
        struct change change = calls->names.changes[n];
        const struct inode *inode;

        change.inode = inode_find(&calls->files, change.inode);
        if (change.inode == NO_INDEX)
            continue;
        inode = &calls->files.inodes[change.inode];
        if (change.is_gone)
            insert_change(calls, &change, type_of(inode) == TYPE_DIRECTORY ? RMDIR : UNLINK);
        else if (type_of(inode) == TYPE_DIRECTORY)
            insert_change(calls, &change, MKDIR);
        else if (type_of(inode) == TYPE_SYMLINK)
            insert_change(calls, &change, SYMLINK)->path2 = inode->target;
        else
            insert_file(calls, &change);
    }
}

static void fill_in_open(struct calls *calls, struct operation *open)
{
    const struct description *description = description_of(&calls->open, open->descriptor);

    open->flags = description->writes ? description->reads ? FLAG_RDWR : FLAG_WRONLY : 0;
    if (description->is_append)
        open->flags |= FLAG_APPEND;
    if (description->is_directory)
        open->flags = FLAG_DIRECTORY;
}

static bool comes_first(const struct operation *one, const struct operation *other)
{
    return one->row < other->row || (one->row == other->row && one->rank <= other->rank);
}

// Sorts the inserted operations by row and rank, in a stable way. They are nearly sorted.
static void sort_inserted(struct calls *calls)
{
    struct operation *spare = storage_allocate(&calls->storage, (calls->program.nr_inserted + 1) * sizeof(*spare)),
                     *from = calls->program.inserted, *to = spare;

    for (size_t width = 1; width < calls->program.nr_inserted; width *= 2) {
        for (size_t begin = 0; begin < calls->program.nr_inserted; begin += 2 * width) {
            size_t middle = begin + width < calls->program.nr_inserted ? begin + width : calls->program.nr_inserted;
            size_t end = middle + width < calls->program.nr_inserted ? middle + width : calls->program.nr_inserted;
            size_t left = begin, right = middle;

            for (size_t at = begin; at < end; at++)
                to[at] = left < middle && (right == end || comes_first(&from[left], &from[right])) ? from[left++]
                                                                                                   : from[right++];
        }
        spare = from;
        from = to;
        to = spare;
    }
    free(to);
    calls->program.inserted = from;
    calls->program.inserted_capacity = calls->program.nr_inserted;
}

static void merge(struct calls *calls)
{
    size_t next = 0, count = 0;

    calls->ordered = storage_allocate(&calls->storage, (calls->program.nr_operations + calls->program.nr_inserted + 1) *
                                                           sizeof(struct operation *));
    for (size_t n = 0; n < calls->program.nr_operations; n++) {
        while (next < calls->program.nr_inserted &&
               calls->program.inserted[next].row <= calls->program.operations[n].row)
            calls->ordered[count++] = &calls->program.inserted[next++];
        calls->ordered[count++] = &calls->program.operations[n];
    }
    while (next < calls->program.nr_inserted)
        calls->ordered[count++] = &calls->program.inserted[next++];
    calls->nr_ordered = count;
}

// --- arguments ------------------------------------------------------------------------------------------------------

static bool moves_bytes(uint8_t call)
{
    return (call >= READ && call <= COPY_FILE_RANGE) || call == MAPPED_READ || call == MAPPED_WRITE;
}

static bool has_offset(uint8_t call)
{
    return call == LSEEK || call == SYNC_FILE_RANGE || call == FALLOCATE || call == FADVISE || call == READAHEAD;
}

static bool has_length(uint8_t call)
{
    return has_offset(call) || moves_bytes(call) || call == TRUNCATE || call == FTRUNCATE || call == MMAP ||
           call == READLINK || call == GETDENTS;
}

static int64_t offset_of(const struct calls *calls, const struct operation *operation)
{
    int64_t recorded = calls->in->offset[operation->row];

    if (operation->is_inserted || !(has_offset(operation->call) || operation->call == MMAP))
        return operation->offset;
    return operation->call == MMAP && recorded == NO_INT64 ? 0 : recorded;
}

static int64_t length_of(const struct calls *calls, const struct operation *operation)
{
    const struct calls_input *in = calls->in;
    int64_t requested = in->bytes[operation->row], result = in->result[operation->row];
    bool is_one_sided;

    if (operation->bytes != NO_INT64 || operation->is_inserted || !has_length(operation->call) ||
        operation->call == LSEEK)
        return operation->bytes;
    if (requested == NO_INT64 && moves_bytes(operation->call) && result >= 0)
        return result;
    is_one_sided = operation->descriptor == NO_INDEX || operation->descriptor2 == NO_INDEX;
    return moves_bytes(operation->call) && is_one_sided && requested > MOST_BYTES ? MOST_BYTES : requested;
}

static bool is_in(int64_t value, int64_t least, int64_t most)
{
    return value >= least && value <= most;
}

static int32_t request_of(const struct calls *calls, const struct operation *operation)
{
    int64_t flags = calls->in->flags[operation->row];

    if (operation->is_inserted)
        return operation->call == LSEEK ? 0 : NO_INT32;
    if (operation->call == ACCESS && flags == NO_INT64)
        return 0; // F_OK, the most frequent mode
    if (operation->call == ACCESS)
        return is_in(flags, 0, ACCESS_MODES) ? (int32_t)flags : NO_INT32;
    if (operation->call == MMAP && calls->in->request[operation->row] != NO_INT32)
        return calls->in->request[operation->row] & PROTECTIONS;
    return operation->call == LSEEK || operation->call == FADVISE || operation->call == MMAP
               ? calls->in->request[operation->row]
               : NO_INT32;
}

static bool is_path(const struct calls *calls, uint32_t path)
{
    const uint8_t *text;
    size_t length;

    if (path == NO_STRING)
        return false;
    text = strings_text(calls->strings, path, &length);
    return text_is_path(text, length);
}

// Checks whether the recording has all that a replay of the operation needs, and a kernel can have carried it out.
static bool is_complete(struct calls *calls, const struct operation *operation)
{
    uint8_t call = operation->call;
    int64_t offset = offset_of(calls, operation), length = length_of(calls, operation);
    int32_t request = request_of(calls, operation);
    bool needs_length = has_length(call) && call != LSEEK && call != READLINK && call != GETDENTS;
    bool needs_offset = has_offset(call) || call == PREAD || call == PWRITE || call == PREADV || call == PWRITEV ||
                        call == MAPPED_READ || call == MAPPED_WRITE || call == MMAP;

    if (call == DUP && operation->descriptor2 == NO_INDEX && calls->in->failed[operation->row] != 1)
        return false;
    if ((length < 0 && (needs_length || length != NO_INT64)) || (needs_offset && offset == NO_INT64) ||
        (call != LSEEK && offset < 0 && offset != NO_INT64))
        return false;
    if (call != LSEEK && offset != NO_INT64 && length > 0 && __builtin_add_overflow(offset, length, &offset))
        return false;
    if (operation->offset2 != NO_INT64 &&
        (operation->offset2 < 0 || (length > 0 && __builtin_add_overflow(operation->offset2, length, &offset))))
        return false;
    if (moves_bytes(call) && calls->in->result[operation->row] > length)
        return false;
    if (operation->path != NO_STRING && !is_path(calls, operation->path))
        return false;
    if ((call == RENAME || call == LINK || call == SYMLINK) && !is_path(calls, operation->path2))
        return false;
    return call == LSEEK                       ? is_in(request, 0, 4)
           : call == ACCESS || call == FADVISE ? is_in(request, 0, 7)
           : call == MMAP                      ? request != NO_INT32
                                               : true;
}

// --- what is kept ---------------------------------------------------------------------------------------------------

static bool is_selected_process(const struct calls *calls, int32_t thread, const int32_t *pids, size_t nr_pids)
{
    int32_t pid = process_of(&calls->threads, thread)->pid;

    for (size_t n = 0; n < nr_pids; n++)
        if (pids[n] == pid)
            return true;
    return !nr_pids;
}

// Sets the pids of the selected processes where no row has them: the tid of the first thread is the pid.
static void name_processes(struct calls *calls, const int32_t *pids, size_t nr_pids)
{
    for (size_t n = 0; n < calls->threads.nr_threads; n++) {
        const struct thread *thread = &calls->threads.threads[n];

        for (size_t at = 0; at < nr_pids; at++)
            if (thread->tid == pids[at] && calls->threads.processes[thread->process].pid == NO_INT32)
                calls->threads.processes[thread->process].pid = thread->tid;
    }
}

static void need(struct calls *calls, int32_t descriptor)
{
    if (descriptor != NO_INDEX)
        calls->open.descriptors[descriptor].is_needed = true;
}

// Returns the descriptor that the operation creates.
static int32_t made_by(const struct operation *operation)
{
    return operation->call == OPEN ? operation->descriptor : operation->call == DUP ? operation->descriptor2 : NO_INDEX;
}

static int64_t result_of(const struct calls *calls, const struct operation *operation)
{
    const struct calls_input *in = calls->in;
    uint32_t row = operation->row;

    if (operation->is_inserted)
        return operation->call == LSEEK ? operation->offset : 0;
    if (in->failed[row] == 1 || in->result[row] == NO_INT64)
        return in->result[row];
    if (operation->call == LSEEK && call_type(in->call[row])->flags) // _llseek stores the position in memory
        return in->request[row] ? NO_INT64 : in->offset[row];
    return moves_bytes(operation->call) || operation->call == LSEEK || operation->call == GETDENTS ||
                   operation->call == READLINK
               ? in->result[row]
               : 0;
}

static bool ends_use(const struct operation *operation)
{
    return operation->descriptor != NO_INDEX && (operation->call == CLOSE || operation->call == MUNMAP ||
                                                 (operation->call == LSEEK && operation->offset >= 0));
}

// Decides which operations to keep, from the last to the first: one that only serves others is kept if one of them is.
static void decide(struct calls *calls, const int32_t *pids, size_t nr_pids)
{
    for (size_t n = calls->nr_ordered; n-- > 0;) {
        struct operation *operation = calls->ordered[n];
        int32_t made = made_by(operation);
        bool serves = operation->is_inserted, changes_names = operation->is_inserted && operation->rank == RANK_NAME;

        operation->left = left_of(calls, operation);
        if (!operation->left && !operation->is_inserted && !is_complete(calls, operation))
            operation->left = LEFT_UNSUPPORTED;
        if (!operation->is_inserted) {
            bool is_filtered = !is_selected_process(calls, operation->thread, pids, nr_pids);

            if (is_filtered && !operation->left) {
                operation->offset = operation->call == LSEEK ? result_of(calls, operation) : operation->offset;
                serves = operation->is_inserted = true;
            }
            calls->left[operation->row] = is_filtered ? (uint8_t)LEFT_FILTERED : operation->left;
        }
        if (operation->left)
            continue;
        if (serves && made != NO_INDEX && !calls->open.descriptors[made].is_needed)
            operation->left = LEFT_FILTERED;
        if (serves && made == NO_INDEX && !changes_names && !ends_use(operation))
            operation->left = LEFT_FILTERED;
        if (changes_names && !is_selected_process(calls, operation->thread, pids, nr_pids))
            operation->left = LEFT_FILTERED;
        if (operation->left || (serves && made == NO_INDEX))
            continue;
        need(calls, operation->descriptor);
        if (operation->call != DUP)
            need(calls, operation->descriptor2);
    }
}

static int32_t file_id(struct calls *calls, int32_t inode)
{
    struct inode *file;

    if (inode == NO_INDEX)
        return NO_INT32;
    file = &calls->files.inodes[inode_find(&calls->files, inode)];
    if (file->id == NO_INDEX)
        file->id = (int32_t)calls->nr_files++;
    return file->id;
}

static int32_t descriptor_id(const struct calls *calls, int32_t descriptor)
{
    return descriptor == NO_INDEX || calls->open.descriptors[descriptor].id == NO_INDEX
               ? NO_INT32
               : calls->open.descriptors[descriptor].id;
}

static int32_t inode_of_operation(struct calls *calls, int32_t descriptor, int32_t inode)
{
    return descriptor == NO_INDEX ? inode : description_inode(&calls->open, description_of(&calls->open, descriptor));
}

// Sets the files of an operation. A side that is not a file has no descriptor.
static void settle(struct calls *calls, struct operation *operation)
{
    if (is_between(operation->call)) {
        if (left_of_descriptor(calls, operation->descriptor))
            operation->descriptor = NO_INDEX;
        if (left_of_descriptor(calls, operation->descriptor2))
            operation->descriptor2 = NO_INDEX;
    }
    operation->inode = inode_of_operation(calls, operation->descriptor, operation->inode);
    operation->inode2 = inode_of_operation(calls, operation->descriptor2, operation->inode2);
    if (operation->call == OPEN && operation->is_inserted && operation->flags == NO_INT64)
        fill_in_open(calls, operation);
    if (operation->call == OPEN && operation->path == NO_STRING)
        operation->path = names_unnamed_path(&calls->names, inode_find(&calls->files, operation->inode));
}

static bool is_usable(const struct calls *calls, int32_t descriptor)
{
    return calls->open.descriptors[descriptor].id != NO_INDEX && !calls->open.descriptors[descriptor].is_closed;
}

// Checks whether the operands are open, by an operation that is kept. Mappings outlive their descriptors.
static bool is_open(struct calls *calls, const struct operation *operation)
{
    int32_t descriptor = operation->descriptor, descriptor2 = operation->descriptor2;

    if (is_between(operation->call))
        return (left_of_descriptor(calls, descriptor) || is_usable(calls, descriptor)) &&
               (left_of_descriptor(calls, descriptor2) || is_usable(calls, descriptor2));
    if (descriptor == NO_INDEX)
        return true;
    if (operation->call >= MUNMAP && operation->call <= MAPPED_WRITE)
        return calls->open.descriptors[descriptor].id != NO_INDEX && calls->open.descriptors[descriptor].is_mapped;
    return is_usable(calls, descriptor);
}

static void assign_ids(struct calls *calls)
{
    size_t count = 0;

    for (size_t n = 0; n < calls->nr_ordered; n++) {
        struct operation *operation = calls->ordered[n];
        int32_t made = made_by(operation);
        struct thread *thread = &calls->threads.threads[operation->thread];

        if (operation->left)
            continue;
        if (operation->is_inserted && made == NO_INDEX && !is_open(calls, operation))
            continue;
        if (made != NO_INDEX && (operation->call == OPEN || is_usable(calls, operation->descriptor)))
            calls->open.descriptors[made].id = (int32_t)calls->nr_numbered++;
        else if (!is_open(calls, operation)) { // one thread used it while another one closed it
            calls->left[operation->row] = LEFT_UNKNOWN;
            continue;
        }
        if (operation->call == MMAP)
            calls->open.descriptors[operation->descriptor].is_mapped = true;
        if (operation->call == CLOSE)
            calls->open.descriptors[operation->descriptor].is_closed = true;
        settle(calls, operation);
        file_id(calls, operation->inode);
        file_id(calls, operation->inode2);
        if (thread->id == NO_INDEX)
            thread->id = (int32_t)calls->nr_numbered_threads++;
        calls->ordered[count++] = operation;
    }
    calls->nr_ordered = count;
}

size_t output_finish(struct calls *calls, const int32_t *pids, size_t nr_pids)
{
    name_processes(calls, pids, nr_pids);
    reach_sizes(calls);
    insert_seeks(calls);
    insert_changes(calls);
    sort_inserted(calls);
    merge(calls);
    for (size_t row = 0; row < calls->in->rows; row++) // rows of other processes that are not operations
        if (nr_pids && calls->left[row]) {
            int32_t thread = calls->row_threads[row];

            if (!is_selected_process(calls, thread, pids, nr_pids))
                calls->left[row] = LEFT_FILTERED;
        }
    decide(calls, pids, nr_pids);
    assign_ids(calls);
    return calls->nr_ordered;
}

// --- tables ---------------------------------------------------------------------------------------------------------

// Returns the flags that the call has. Those of calls on paths are in the operation, the others in the row.
static int64_t flags_of(const struct calls *calls, const struct operation *operation)
{
    enum { ROW = 1 << 30, AT = 0x7f00 };
    static const uint32_t TAKEN[NO_CALL] = {
        [OPEN] = 0x7fffc3,
        [PREADV] = ROW | 0x1ff,
        [PWRITEV] = ROW | 0x1ff,
        [SPLICE] = ROW | 0xf,
        [SYNC_FILE_RANGE] = ROW | 7,
        [FALLOCATE] = ROW | 0xff,
        [MMAP] = ROW | 0x3fffff,
        [MSYNC] = ROW | 7,
        [STAT] = AT,
        [LSTAT] = AT,
        [RENAME] = 7,
        [CHMOD] = AT,
        [UTIMENS] = AT,
    };
    uint32_t taken = TAKEN[operation->call];
    int64_t flags = taken & ROW ? calls->in->flags[operation->row] : operation->flags;

    return !taken || flags == NO_INT64 ? NO_INT64 : flags & (taken & ~(uint32_t)ROW);
}

static int32_t mode_of(const struct calls *calls, const struct operation *operation)
{
    int32_t mode = calls->in->mode[operation->row];
    bool asks = (operation->call == OPEN && (operation->flags & FLAG_CREAT)) || operation->call == MKDIR ||
                operation->call == CHMOD || operation->call == FCHMOD;

    return asks && !operation->is_inserted && mode != NO_INT32 ? mode & PERMISSIONS : NO_INT32;
}

static void append_operation(struct calls *calls, struct table *table, const struct operation *operation)
{
    const struct calls_input *in = calls->in;
    size_t row = table_row(table);
    bool is_file2 = operation->descriptor2 != NO_INDEX || operation->inode2 != NO_INDEX;

    put_int64(table, OPERATION_NUMBER, row, (int64_t)row);
    put_int64(table, OPERATION_TS_NS, row, in->ts_ns[operation->row] - in->ts_ns[0]);
    put_int64(table, OPERATION_DURATION_NS, row, operation->is_inserted ? NO_INT64 : in->duration_ns[operation->row]);
    put_int32(table, OPERATION_THREAD, row, calls->threads.threads[operation->thread].id);
    put_code(table, OPERATION_CALL, row, operation->call);
    put_code(table, OPERATION_INSERTED, row, operation->is_inserted);
    put_int32(table, OPERATION_DESCRIPTOR, row, descriptor_id(calls, operation->descriptor));
    put_int32(table, OPERATION_DESCRIPTOR2, row, descriptor_id(calls, operation->descriptor2));
    put_int32(table, OPERATION_FILE, row, file_id(calls, operation->inode));
    if (is_file2)
        put_int32(table, OPERATION_FILE2, row, file_id(calls, operation->inode2));
    put_uint32(table, OPERATION_PATH, row, operation->path);
    put_uint32(table, OPERATION_PATH2, row, operation->path2);
    put_int64(table, OPERATION_FLAGS, row, flags_of(calls, operation));
    put_int32(table, OPERATION_REQUEST, row, request_of(calls, operation));
    put_int32(table, OPERATION_MODE, row, mode_of(calls, operation));
    put_int64(table, OPERATION_OFFSET_BYTES, row, offset_of(calls, operation));
    put_int64(table, OPERATION_OFFSET2_BYTES, row, operation->offset2);
    put_int64(table, OPERATION_BYTES, row, length_of(calls, operation));
    put_code(table, OPERATION_FAILED, row, operation->is_inserted ? 0 : in->failed[operation->row]);
    put_int64(table, OPERATION_RESULT, row, result_of(calls, operation));
}

// Checks whether the inode is a file that must exist at the start.
static bool is_population(struct calls *calls, int32_t index)
{
    const struct inode *inode = &calls->files.inodes[index],
                       *itself = &calls->files.inodes[inode_find(&calls->files, index)];

    return index != ROOT && inode->origin == ORIGIN_START && !inode->left &&
           (type_of(inode) == TYPE_DIRECTORY || itself->id != NO_INDEX);
}

static void append_population(struct calls *calls, struct table *table, int32_t index, uint32_t path)
{
    const struct inode *inode = &calls->files.inodes[index],
                       *itself = &calls->files.inodes[inode_find(&calls->files, index)];
    uint8_t type = type_of(itself);
    size_t row = table_row(table);

    put_uint32(table, FILE_PATH, row, path);
    put_code(table, FILE_TYPE, row, type_of(inode) == TYPE_DIRECTORY ? (uint8_t)TYPE_DIRECTORY : type);
    put_int32(table, FILE_MODE, row, itself->mode);
    if (type == TYPE_SYMLINK)
        put_uint32(table, FILE_TARGET, row, itself->target);
    if (type != TYPE_FILE || type_of(inode) == TYPE_DIRECTORY)
        return;
    put_int32(table, FILE_NUMBER, row, itself->id == NO_INDEX ? NO_INT32 : itself->id);
    put_int64(table, FILE_SIZE_BYTES, row, first_size(itself));
    put_code(table, FILE_SIZE_FROM, row,
             itself->start_size != NO_INT64 ? itself->size_from
             : itself->start_least          ? (uint8_t)SIZE_FROM_READS
                                            : (uint8_t)SIZE_FROM_NOTHING);
}

static bool append_populations(struct calls *calls, struct table *table)
{
    for (size_t n = 0; n < calls->files.nr_inodes; n++) {
        uint32_t path;

        if (!is_population(calls, (int32_t)n))
            continue;
        path = names_first_path(&calls->names, (int32_t)n);
        if (path == NO_STRING) {
            calls->names.conflicts++;
            continue;
        }
        if (table_is_full(table))
            return false;
        append_population(calls, table, (int32_t)n, path);
    }
    return true;
}

API void calls_count(struct calls *calls, struct calls_counts *counts)
{
    *counts = (struct calls_counts){.operations = calls->nr_ordered,
                                    .threads = calls->nr_numbered_threads,
                                    .conflicts = calls->names.conflicts + calls->open.conflicts,
                                    .unnamed = calls->names.nr_unnamed};
    for (size_t n = 0; n < calls->files.nr_inodes; n++)
        counts->files += is_population(calls, (int32_t)n);
}

API bool calls_tables(struct calls *calls, struct table *operations, struct table *files, struct table *threads)
{
    if (setjmp(calls->storage.exhausted))
        return false;
    for (size_t n = 0; n < calls->nr_ordered && !table_is_full(operations); n++)
        append_operation(calls, operations, calls->ordered[n]);
    for (size_t n = 0; n < calls->threads.nr_threads && !table_is_full(threads); n++) {
        const struct thread *thread = &calls->threads.threads[n];
        size_t row;

        if (thread->id == NO_INDEX)
            continue;
        row = table_row(threads);
        put_int32(threads, THREAD_NUMBER, row, thread->id);
        put_int32(threads, THREAD_PID, row, calls->threads.processes[thread->process].pid);
        put_int32(threads, THREAD_TID, row, thread->tid);
    }
    return append_populations(calls, files);
}
