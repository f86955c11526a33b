// An fd leads to a descriptor of the program, and that to an open file description, which dup and fork
// share. An fd that a fork copied gets a descriptor of the program only when the child uses it: by a dup of the
// parent at the fork.
#include "calls/open_files.h"

#include "calls/left.h"
#include "calls/types.h"

#include <stdlib.h>

enum { CLOSED = 1, FIRST_ENTRY = 2 }; // values in the map of a table

enum { MOST_FORKS = 64 }; // between a descriptor and the one it was copied from

void open_files_free(struct open_files *open)
{
    for (size_t n = 0; n < open->nr_tables; n++)
        map_free(&open->tables[n].entries);
    free(open->descriptions);
    free(open->descriptors);
    free(open->entries);
    free(open->tables);
    free(open->forks);
}

int32_t description_new(struct open_files *open, int32_t inode, uint8_t left)
{
    struct description *description = PUSH(open, descriptions);

    *description = (struct description){
        .inode = inode,
        .start = NO_INT64,
        .moved = NO_INT64,
        .inserted_open = NO_INDEX,
        .checked_path = NO_STRING,
        .left = left,
    };
    return (int32_t)open->nr_descriptions - 1;
}

int32_t descriptor_new(struct open_files *open, int32_t description)
{
    struct descriptor *descriptor = PUSH(open, descriptors);

    *descriptor = (struct descriptor){.description = description, .id = NO_INDEX};
    return (int32_t)open->nr_descriptors - 1;
}

struct description *description_of(const struct open_files *open, int32_t descriptor)
{
    return &open->descriptions[open->descriptors[descriptor].description];
}

int32_t description_inode(struct open_files *open, struct description *description)
{
    if (description->inode == NO_INDEX)
        description->inode = inode_new(open->files, TYPE_UNKNOWN, ORIGIN_START);
    description->inode = inode_find(open->files, description->inode);
    return description->inode;
}

void description_is(struct open_files *open, int32_t index, uint8_t left)
{
    struct description *description = &open->descriptions[index];

    if (left == LEFT_NOT) {
        if (description->left == LEFT_UNKNOWN)
            description->left = LEFT_NOT;
    } else if (description->left == LEFT_NOT || description->left == LEFT_UNKNOWN) {
        description->left = left;
        if (description->inode != NO_INDEX && !open->files->inodes[description->inode].left)
            open->files->inodes[description->inode].left = left;
    }
}

void descriptor_is(struct open_files *open, int32_t descriptor, uint8_t left)
{
    description_is(open, open->descriptors[descriptor].description, left);
}

int32_t descriptor_inode(struct open_files *open, int32_t descriptor)
{
    struct description *description = description_of(open, descriptor);

    return description->left == LEFT_NOT || description->left == LEFT_UNKNOWN ? description_inode(open, description)
                                                                              : NO_INDEX;
}

// --- tables ---------------------------------------------------------------------------------------------------------

int32_t fd_table_new(struct open_files *open)
{
    struct fd_table *table = PUSH(open, tables);

    *table = (struct fd_table){.users = 1, .parent = NO_INDEX, .fork = NO_INDEX};
    return (int32_t)open->nr_tables - 1;
}

static int32_t table_of(const struct open_files *open, int32_t thread)
{
    return process_of(open->threads, thread)->table;
}

static uint64_t *slot_of(struct open_files *open, int32_t table, int32_t fd)
{
    return storage_slot(open->storage, &open->tables[table].entries, 0, (uint32_t)fd);
}

static int32_t entry_new(struct open_files *open, struct entry made)
{
    struct entry *entry = PUSH(open, entries);

    *entry = made;
    return (int32_t)open->nr_entries - 1;
}

static int32_t entry_at(const struct open_files *open, int32_t table, int32_t fd)
{
    uint64_t value = map_value(&open->tables[table].entries, 0, (uint32_t)fd);

    return value < FIRST_ENTRY ? NO_INDEX : (int32_t)(value - FIRST_ENTRY);
}

// Gives an entry that a fork copied a descriptor of its own, by a dup of the parent at the fork.
static int32_t use_entry(struct open_files *open, int32_t entry)
{
    while (open->entries[entry].descriptor == NO_INDEX) {
        int32_t oldest = entry;
        const struct fork *fork;
        struct operation *dup;
        int32_t from;

        while (open->entries[open->entries[oldest].from].descriptor == NO_INDEX)
            oldest = open->entries[oldest].from;
        fork = &open->forks[open->entries[oldest].fork];
        from = open->entries[open->entries[oldest].from].descriptor;
        open->entries[oldest].descriptor = descriptor_new(open, open->descriptors[from].description);
        dup = operation_insert(open->program, fork->row, fork->thread, DUP, RANK_DUP);
        dup->descriptor = from;
        dup->descriptor2 = open->entries[oldest].descriptor;
    }
    return open->entries[entry].descriptor;
}

static void set_entry(struct open_files *open, int32_t table, int32_t fd, int32_t entry)
{
    *slot_of(open, table, fd) = (uint64_t)entry + FIRST_ENTRY;
}

static int32_t copy_entry(struct open_files *open, int32_t entry, int32_t fork)
{
    struct entry copied = open->entries[entry];

    if (copied.descriptor == NO_INDEX && copied.depth >= MOST_FORKS)
        use_entry(open, entry);
    copied.depth = open->entries[entry].descriptor == NO_INDEX ? (uint16_t)(copied.depth + 1) : 1;
    copied.descriptor = NO_INDEX;
    copied.from = entry;
    copied.fork = fork;
    return entry_new(open, copied);
}

int32_t fd_table_copy(struct open_files *open, int32_t table, uint32_t row, int32_t thread)
{
    struct fork *fork = PUSH(open, forks);
    int32_t fork_index = (int32_t)open->nr_forks - 1, copy = fd_table_new(open);
    struct map entries;

    *fork = (struct fork){row, thread};
    open->tables[copy].parent = table;
    open->tables[copy].fork = fork_index;
    entries = open->tables[table].entries;
    for (size_t at = 0; at < entries.room; at++) {
        const struct map_slot *slot = &entries.slots[at];

        if (slot->value >= FIRST_ENTRY)
            set_entry(open, copy, (int32_t)slot->key,
                      copy_entry(open, (int32_t)(slot->value - FIRST_ENTRY), fork_index));
        else if (slot->value)
            *slot_of(open, copy, (int32_t)slot->key) = CLOSED;
    }
    return copy;
}

// --- what was open before the recording -----------------------------------------------------------------------------

// Inserts an open, and creates its description and an entry for it.
static int32_t entry_inserted(struct open_files *open, uint32_t row, int32_t thread)
{
    int32_t description = description_new(open, NO_INDEX, LEFT_UNKNOWN);
    int32_t descriptor = descriptor_new(open, description);

    open->descriptions[description].position = NO_INT64;
    open->descriptions[description].moved = 0;
    open->descriptions[description].inserted_open = (int32_t)open->program->nr_inserted;
    operation_insert(open->program, row, thread, OPEN, RANK_OPEN)->descriptor = descriptor;
    return entry_new(open, (struct entry){.descriptor = descriptor, .from = NO_INDEX, .thread = NO_INDEX});
}

static int32_t entry_before(struct open_files *open, int32_t table, int32_t fd, uint32_t row, int32_t thread)
{
    int32_t first = table, entry;

    // The fd was open before the processes were separated by forks, unless one of them used it otherwise.
    for (int forks = 0; forks < MOST_FORKS && open->tables[first].parent != NO_INDEX &&
                        open->tables[open->tables[first].parent].users &&
                        !map_value(&open->tables[open->tables[first].parent].entries, 0, (uint32_t)fd);
         forks++) {
        const struct fork *fork = &open->forks[open->tables[first].fork];

        row = fork->row;
        thread = fork->thread;
        first = open->tables[first].parent;
    }
    entry = entry_inserted(open, row, thread);
    set_entry(open, first, fd, entry);
    while (first != table) {
        int32_t child = table;

        while (open->tables[child].parent != first)
            child = open->tables[child].parent;
        entry = copy_entry(open, entry, open->tables[child].fork);
        set_entry(open, child, fd, entry);
        first = child;
    }
    return entry;
}

int32_t descriptor_leads_to(struct open_files *open, int32_t thread, int32_t pid, int32_t fd)
{
    uint64_t value = map_value(&open->threads->process_numbers, 0, (uint32_t)pid);
    int32_t process = value ? (int32_t)value - 1 : open->threads->threads[thread].process;
    int32_t entry = entry_at(open, open->threads->processes[process].table, fd);
    struct description *description;

    if (entry == NO_INDEX || (!value && open->threads->processes[process].pid != pid))
        return NO_INDEX;
    while (open->entries[entry].descriptor == NO_INDEX)
        entry = open->entries[entry].from;
    description = description_of(open, open->entries[entry].descriptor);
    if (description->left != LEFT_NOT)
        return NO_INDEX;
    return description_inode(open, description);
}

bool descriptor_was_opened(const struct open_files *open, int32_t thread, int32_t fd)
{
    return entry_at(open, table_of(open, thread), fd) != NO_INDEX;
}

bool descriptor_was_closed(const struct open_files *open, int32_t thread, int32_t fd)
{
    return map_value(&open->tables[table_of(open, thread)].entries, 0, (uint32_t)fd) == CLOSED;
}

int32_t descriptor_known(struct open_files *open, int32_t thread, int32_t fd)
{
    int32_t entry = entry_at(open, table_of(open, thread), fd);

    return entry == NO_INDEX ? NO_INDEX : use_entry(open, entry);
}

int32_t descriptor_before(struct open_files *open, int32_t thread, uint32_t row, int32_t fd)
{
    return use_entry(open, entry_before(open, table_of(open, thread), fd, row, thread));
}

// --- changes --------------------------------------------------------------------------------------------------------

void descriptor_closed(struct open_files *open, int32_t thread, int32_t fd)
{
    *slot_of(open, table_of(open, thread), fd) = CLOSED;
}

static void insert_close(struct open_files *open, int32_t thread, uint32_t row, int32_t entry)
{
    if (open->entries[entry].descriptor != NO_INDEX)
        operation_insert(open->program, row, thread, CLOSE, RANK_CLOSE)->descriptor = open->entries[entry].descriptor;
}

void descriptor_close(struct open_files *open, int32_t thread, uint32_t row, int32_t fd)
{
    int32_t entry = entry_at(open, table_of(open, thread), fd);

    if (entry == NO_INDEX)
        return;
    insert_close(open, thread, row, entry);
    descriptor_closed(open, thread, fd);
}

// Checks whether the call that created the entry may still be running: its duration is missing or rounded to 0, and its
// thread has made no other call since.
static bool is_opening(const struct open_files *open, int32_t entry, int32_t thread)
{
    const struct entry *made = &open->entries[entry];

    return made->from == NO_INDEX && made->thread != NO_INDEX && made->thread != thread &&
           open->threads->threads[made->thread].row == made->row && open->in->duration_ns[made->row] <= 0;
}

static void install(struct open_files *open, int32_t thread, uint32_t row, int32_t fd, int32_t entry)
{
    // Only dup2 returns an fd that is open. For other calls a close is missing, or the order of the calls is
    // unknown.
    open->conflicts +=
        entry_at(open, table_of(open, thread), fd) != NO_INDEX && call_type(open->in->call[row])->step != STEP_DUP_TO;
    descriptor_close(open, thread, row, fd);
    set_entry(open, table_of(open, thread), fd, entry);
}

void descriptor_install(struct open_files *open, int32_t thread, uint32_t row, int32_t fd, int32_t descriptor,
                        bool cloexec)
{
    int32_t entry = entry_at(open, table_of(open, thread), fd);

    if (entry != NO_INDEX && is_opening(open, entry, thread)) {
        struct thread *opening = &open->threads->threads[open->entries[entry].thread];

        opening->pending_fd = fd;
        opening->pending_entry = entry;
        descriptor_closed(open, thread, fd);
    }
    install(open, thread, row, fd,
            entry_new(
                open,
                (struct entry){
                    .descriptor = descriptor, .from = NO_INDEX, .thread = thread, .row = row, .is_cloexec = cloexec}));
}

// Installs the fd that the last call of the thread returned: it has ended, since the thread makes another call.
void descriptor_install_pending(struct open_files *open, int32_t thread, uint32_t row)
{
    int32_t entry = open->threads->threads[thread].pending_entry;

    if (entry == NO_INDEX)
        return;
    open->threads->threads[thread].pending_entry = NO_INDEX;
    install(open, thread, row, open->threads->threads[thread].pending_fd, entry);
}

int32_t descriptor_received(struct open_files *open, int32_t thread, uint32_t row, int32_t fd, bool cloexec)
{
    int32_t entry = entry_inserted(open, row, thread);

    open->entries[entry].is_cloexec = cloexec;
    set_entry(open, table_of(open, thread), fd, entry);
    return open->entries[entry].descriptor;
}

void descriptor_cloexec(struct open_files *open, int32_t thread, int32_t fd, bool cloexec)
{
    int32_t entry = entry_at(open, table_of(open, thread), fd);

    if (entry != NO_INDEX)
        open->entries[entry].is_cloexec = cloexec;
}

// Closes all fds of a range or, if `marked`, those marked close-on-exec. With `mark` it only sets that mark.
static void close_some(struct open_files *open, int32_t thread, uint32_t row, uint32_t first, uint32_t last,
                       bool marked, bool mark)
{
    struct map *entries = &open->tables[table_of(open, thread)].entries;

    for (size_t at = 0; at < entries->room; at++) {
        struct map_slot *slot = &entries->slots[at];
        int32_t entry = (int32_t)(slot->value - FIRST_ENTRY);

        if (slot->value < FIRST_ENTRY || slot->key < first || slot->key > last ||
            (marked && !open->entries[entry].is_cloexec))
            continue;
        if (mark) {
            open->entries[entry].is_cloexec = true;
            continue;
        }
        insert_close(open, thread, row, entry);
        slot->value = CLOSED;
    }
}

void descriptors_close_range(struct open_files *open, int32_t thread, uint32_t row, uint32_t first, uint32_t last,
                             bool cloexec)
{
    close_some(open, thread, row, first, last, false, cloexec);
}

void fd_table_exec(struct open_files *open, int32_t thread, uint32_t row)
{
    close_some(open, thread, row, 0, UINT32_MAX, true, false);
}

void fd_table_release(struct open_files *open, int32_t thread, uint32_t row)
{
    struct fd_table *table = &open->tables[table_of(open, thread)];

    if (--table->users)
        return;
    close_some(open, thread, row, 0, UINT32_MAX, false, false);
    map_free(&table->entries);
}
