// Which open file each descriptor number of each process stands for.
//
// A number leads to a descriptor of the program, and that to an open file description, which dup and fork share. What
// a fork copied becomes a descriptor of the program only when the child uses it: as a dup by the parent at the fork.
#include "calls/calls.h"

#include <string.h>

enum { MOST_FORKS = 64 }; // between a descriptor and the one it was copied from

int32_t description_new(struct calls *calls, int32_t inode, uint8_t left)
{
    struct description *description = PUSH(calls, descriptions);

    *description = (struct description){
        .inode = inode,
        .start = NO_INT64,
        .moved = NO_INT64,
        .late = NOBODY,
        .checked_path = NO_STRING,
        .left = left,
    };
    return (int32_t)calls->nr_descriptions - 1;
}

int32_t descriptor_new(struct calls *calls, int32_t description)
{
    struct descriptor *descriptor = PUSH(calls, descriptors);

    *descriptor = (struct descriptor){.description = description, .number = NOBODY};
    return (int32_t)calls->nr_descriptors - 1;
}

struct description *description_of(struct calls *calls, int32_t descriptor)
{
    return &calls->descriptions[calls->descriptors[descriptor].description];
}

// The file; of one that was opened before the recording and whose path nobody told, one without a name.
int32_t description_inode(struct calls *calls, struct description *description)
{
    if (description->inode == NOBODY)
        description->inode = names_unnamed(calls, TYPE_UNKNOWN, ORIGIN_START);
    description->inode = names_find(calls, description->inode);
    return description->inode;
}

// What a call that succeeded, or failed as it does on this kind of thing only, shows.
void description_is(struct calls *calls, int32_t number, uint8_t left)
{
    struct description *description = &calls->descriptions[number];

    if (left == LEFT_NOT) {
        if (description->left == LEFT_UNKNOWN)
            description->left = LEFT_NOT;
    } else if (description->left == LEFT_NOT || description->left == LEFT_UNKNOWN) {
        description->left = left;
        if (description->inode != NOBODY && !calls->inodes[description->inode].left)
            calls->inodes[description->inode].left = left;
    }
}

void descriptor_is(struct calls *calls, int32_t descriptor, uint8_t left)
{
    description_is(calls, calls->descriptors[descriptor].description, left);
}

// The file that the descriptor is open on; NOBODY where it is none.
int32_t descriptor_inode(struct calls *calls, int32_t descriptor)
{
    struct description *description = description_of(calls, descriptor);

    return description->left == LEFT_NOT || description->left == LEFT_UNKNOWN ? description_inode(calls, description)
                                                                              : NOBODY;
}

static bool starts(const uint8_t *text, size_t length, const char *word)
{
    return length >= strlen(word) && !memcmp(text, word, strlen(word));
}

// What the recording itself says that a descriptor is open on. `kind` is NO_CODE where only the text is there.
uint8_t kind_of_path(struct calls *calls, uint32_t path, uint8_t kind)
{
    static const uint8_t LEFT_OF_KIND[] = {LEFT_NOT,  LEFT_NOT,    LEFT_MEMFD, LEFT_DEVICE, LEFT_DEVICE,
                                           LEFT_PIPE, LEFT_SOCKET, LEFT_ANON,  LEFT_ANON};
    const uint8_t *text;
    size_t length;

    if (!text_of(calls, path, &text, &length))
        return LEFT_UNKNOWN;
    if (starts(text, length, "/memfd:"))
        return LEFT_MEMFD;
    if (starts(text, length, "/dev/ashmem"))
        return LEFT_ASHMEM;
    if (starts(text, length, "/dev/shm/"))
        return LEFT_MEMORY;
    if (kind != NO_CODE && kind > FD_KIND_DELETED && kind <= FD_KIND_OTHER)
        return LEFT_OF_KIND[kind];
    if (starts(text, length, "/dev/"))
        return LEFT_DEVICE;
    if (starts(text, length, "/proc/") || starts(text, length, "/sys/"))
        return LEFT_PROC;
    if (length && *text == '/')
        return LEFT_NOT;
    if (starts(text, length, "pipe:"))
        return LEFT_PIPE;
    if (starts(text, length, "socket:") || (length && *text >= 'A' && *text <= 'Z'))
        return LEFT_SOCKET;
    return LEFT_ANON;
}

// --- tables ---------------------------------------------------------------------------------------------------------

int32_t fd_table_new(struct calls *calls)
{
    struct fd_table *table = PUSH(calls, tables);

    *table = (struct fd_table){.users = 1, .parent = NOBODY, .fork = NOBODY};
    return (int32_t)calls->nr_tables - 1;
}

static int32_t table_of(const struct calls *calls, int32_t thread)
{
    return calls->processes[calls->threads[thread].process].table;
}

static uint64_t *slot_of(struct calls *calls, int32_t table, int32_t fd)
{
    return calls_slot(calls, &calls->tables[table].entries, 0, (uint32_t)fd);
}

static int32_t entry_new(struct calls *calls, struct entry made)
{
    struct entry *entry = PUSH(calls, entries);

    *entry = made;
    return (int32_t)calls->nr_entries - 1;
}

static int32_t entry_at(const struct calls *calls, int32_t table, int32_t fd)
{
    uint64_t value = map_value(&calls->tables[table].entries, 0, (uint32_t)fd);

    return value < FIRST_ENTRY ? NOBODY : (int32_t)(value - FIRST_ENTRY);
}

// Gives an entry that a fork copied a descriptor of its own, which the parent makes at the fork.
static int32_t use_entry(struct calls *calls, int32_t entry)
{
    while (calls->entries[entry].descriptor == NOBODY) {
        int32_t oldest = entry;
        const struct fork *fork;
        struct operation *dup;
        int32_t from;

        while (calls->entries[calls->entries[oldest].from].descriptor == NOBODY)
            oldest = calls->entries[oldest].from;
        fork = &calls->forks[calls->entries[oldest].fork];
        from = calls->entries[calls->entries[oldest].from].descriptor;
        calls->entries[oldest].descriptor = descriptor_new(calls, calls->descriptors[from].description);
        dup = calls_insert(calls, fork->row, fork->thread, DUP, RANK_DUP);
        dup->descriptor = from;
        dup->descriptor2 = calls->entries[oldest].descriptor;
    }
    return calls->entries[entry].descriptor;
}

static void put_entry(struct calls *calls, int32_t table, int32_t fd, int32_t entry)
{
    *slot_of(calls, table, fd) = (uint64_t)entry + FIRST_ENTRY;
}

static int32_t copy_entry(struct calls *calls, int32_t entry, int32_t fork)
{
    struct entry copied = calls->entries[entry];

    if (copied.descriptor == NOBODY && copied.depth >= MOST_FORKS)
        use_entry(calls, entry);
    copied.depth = calls->entries[entry].descriptor == NOBODY ? (uint16_t)(copied.depth + 1) : 1;
    copied.descriptor = NOBODY;
    copied.from = entry;
    copied.fork = fork;
    return entry_new(calls, copied);
}

int32_t fd_table_copy(struct calls *calls, int32_t table, uint32_t row, int32_t thread)
{
    struct fork *fork = PUSH(calls, forks);
    int32_t number = (int32_t)calls->nr_forks - 1, copy = fd_table_new(calls);
    struct map entries;

    *fork = (struct fork){row, thread};
    calls->tables[copy].parent = table;
    calls->tables[copy].fork = number;
    entries = calls->tables[table].entries;
    for (size_t at = 0; at < entries.room; at++) {
        const struct map_slot *slot = &entries.slots[at];

        if (slot->value >= FIRST_ENTRY)
            put_entry(calls, copy, (int32_t)slot->key, copy_entry(calls, (int32_t)(slot->value - FIRST_ENTRY), number));
        else if (slot->value)
            *slot_of(calls, copy, (int32_t)slot->key) = CLOSED;
    }
    return copy;
}

// --- what was open before the recording -----------------------------------------------------------------------------

// A description that the program opens by an inserted operation, and an entry for it.
static int32_t entry_inserted(struct calls *calls, uint32_t row, int32_t thread)
{
    int32_t description = description_new(calls, NOBODY, LEFT_UNKNOWN);
    int32_t descriptor = descriptor_new(calls, description);

    calls->descriptions[description].position = NO_INT64;
    calls->descriptions[description].moved = 0;
    calls->descriptions[description].late = (int32_t)calls->nr_late;
    calls_insert(calls, row, thread, OPEN, RANK_OPEN)->descriptor = descriptor;
    return entry_new(calls, (struct entry){.descriptor = descriptor, .from = NOBODY, .thread = NOBODY});
}

static int32_t entry_before(struct calls *calls, int32_t table, int32_t fd, uint32_t row, int32_t thread)
{
    int32_t first = table, entry;

    // The processes that a fork separated have the number in common, as far as nobody used it otherwise.
    for (int forks = 0; forks < MOST_FORKS && calls->tables[first].parent != NOBODY &&
                        calls->tables[calls->tables[first].parent].users &&
                        !map_value(&calls->tables[calls->tables[first].parent].entries, 0, (uint32_t)fd);
         forks++) {
        const struct fork *fork = &calls->forks[calls->tables[first].fork];

        row = fork->row;
        thread = fork->thread;
        first = calls->tables[first].parent;
    }
    entry = entry_inserted(calls, row, thread);
    put_entry(calls, first, fd, entry);
    while (first != table) {
        int32_t child = table;

        while (calls->tables[child].parent != first)
            child = calls->tables[child].parent;
        entry = copy_entry(calls, entry, calls->tables[child].fork);
        put_entry(calls, child, fd, entry);
        first = child;
    }
    return entry;
}

static void tell(struct calls *calls, int32_t number, uint32_t path, uint8_t kind)
{
    struct description *description = &calls->descriptions[number];
    uint8_t left = kind_of_path(calls, path, kind);
    struct place place;
    uint32_t at;

    description->checked_path = path;
    if (left == LEFT_UNKNOWN)
        return;
    description_is(calls, number, left);
    description = &calls->descriptions[number];
    if (left != LEFT_NOT || description->inode != NOBODY || kind == FD_KIND_DELETED ||
        !names_walk(calls, ROOT, path, false, &place))
        return;
    names_confirm(calls, &place, TYPE_UNKNOWN);
    description->inode = place.inode;
    if (description->late == NOBODY)
        return;
    at = names_path(calls, place.dentry);
    calls->late[description->late].path = at;
    if (at == NO_STRING)
        description_is(calls, number, LEFT_NO_PATH);
}

// Whether the recording says that the descriptor is open on something else than what the calls led to.
static bool is_other(struct calls *calls, int32_t number, uint32_t path, uint8_t kind)
{
    struct description *description = &calls->descriptions[number];
    uint8_t left = kind_of_path(calls, path, kind);
    struct place place;

    if (left == LEFT_UNKNOWN || kind == FD_KIND_DELETED)
        return false;
    if (description->left != LEFT_UNKNOWN && (left == LEFT_NOT) != (description->left == LEFT_NOT))
        return left == LEFT_NOT ? description->left != LEFT_PIPE && description->left != LEFT_SOCKET : true;
    if (left != LEFT_NOT || description->inode == NOBODY || !names_walk(calls, ROOT, path, false, &place))
        return false;
    if (place.inode == names_find(calls, description->inode))
        return false;
    // A name of which nothing is known may be another one of the same file; a link or another mount leads there.
    return place.inode != NOBODY && calls->inodes[place.inode].origin != ORIGIN_UNKNOWN;
}

// The file that a descriptor of a process is open on; NOBODY where that is no file, or not known.
int32_t descriptor_leads_to(struct calls *calls, int32_t pid, int32_t fd)
{
    uint64_t number = map_value(&calls->process_numbers, 0, (uint32_t)pid);
    int32_t process = number ? (int32_t)number - 1 : calls->threads[calls->thread].process;
    int32_t entry = entry_at(calls, calls->processes[process].table, fd);
    struct description *description;

    if (entry == NOBODY || (!number && calls->processes[process].pid != pid))
        return NOBODY;
    while (calls->entries[entry].descriptor == NOBODY)
        entry = calls->entries[entry].from;
    description = description_of(calls, calls->entries[entry].descriptor);
    if (description->left != LEFT_NOT)
        return NOBODY;
    return description_inode(calls, description);
}

// Whether the number is open, and was seen being opened.
bool descriptor_was_opened(struct calls *calls, int32_t thread, int32_t fd)
{
    return entry_at(calls, table_of(calls, thread), fd) != NOBODY;
}

static bool descriptor_is_open(struct calls *calls, int32_t thread, int32_t fd)
{
    return fd >= 0 && map_value(&calls->tables[table_of(calls, thread)].entries, 0, (uint32_t)fd) != CLOSED;
}

// The descriptor of the program; `path` and `kind` are what the recording says of it. NOBODY where none is open.
int32_t descriptor_at(struct calls *calls, int32_t thread, uint32_t row, int32_t fd, uint32_t path, uint8_t kind)
{
    int32_t table = table_of(calls, thread), entry, descriptor, description;

    if (fd < 0)
        return NOBODY;
    entry = entry_at(calls, table, fd);
    if (entry == NOBODY && running_end_opener(calls, thread, fd))
        entry = entry_at(calls, table, fd);
    if (entry == NOBODY) {
        // What works although it was closed came to be in a way that is not recorded.
        if (!descriptor_is_open(calls, thread, fd) && path == NO_STRING && calls->in->failed[row] != 0)
            return NOBODY;
        entry = entry_before(calls, table, fd, row, thread);
    }
    descriptor = use_entry(calls, entry);
    description = calls->descriptors[descriptor].description;
    if (path != NO_STRING && path != calls->descriptions[description].checked_path) {
        if (is_other(calls, description, path, kind)) {
            descriptor_close(calls, thread, row, fd);
            descriptor = use_entry(calls, entry_before(calls, table, fd, row, thread));
            description = calls->descriptors[descriptor].description;
        }
        tell(calls, description, path, kind);
    }
    return descriptor;
}

// --- changes --------------------------------------------------------------------------------------------------------

void descriptor_closed(struct calls *calls, int32_t thread, int32_t fd)
{
    *slot_of(calls, table_of(calls, thread), fd) = CLOSED;
}

static void insert_close(struct calls *calls, int32_t thread, uint32_t row, int32_t entry)
{
    if (calls->entries[entry].descriptor != NOBODY)
        calls_insert(calls, row, thread, CLOSE, RANK_CLOSE)->descriptor = calls->entries[entry].descriptor;
}

// Closes what the number stands for, where no call of the recording does.
void descriptor_close(struct calls *calls, int32_t thread, uint32_t row, int32_t fd)
{
    int32_t entry = entry_at(calls, table_of(calls, thread), fd);

    if (entry == NOBODY)
        return;
    insert_close(calls, thread, row, entry);
    descriptor_closed(calls, thread, fd);
}

// Whether the entry is of a call whose end is not recorded, or rounded to its beginning, and whose thread has not gone
// on since: it may not have ended.
static bool is_opening(const struct calls *calls, int32_t entry, int32_t thread)
{
    const struct entry *made = &calls->entries[entry];

    return made->from == NOBODY && made->thread != NOBODY && made->thread != thread &&
           calls->threads[made->thread].row == made->row && calls->in->duration_ns[made->row] <= 0;
}

static void install(struct calls *calls, int32_t thread, uint32_t row, int32_t fd, int32_t entry)
{
    // Only dup2 gives out a number that is not closed; else a close is missing, or the order of the calls is not known.
    calls->conflicts +=
        entry_at(calls, table_of(calls, thread), fd) != NOBODY && call_type(calls->in->call[row])->step != STEP_DUP_TO;
    descriptor_close(calls, thread, row, fd);
    put_entry(calls, table_of(calls, thread), fd, entry);
}

void descriptor_install(struct calls *calls, int32_t thread, uint32_t row, int32_t fd, int32_t descriptor, bool cloexec)
{
    int32_t entry = entry_at(calls, table_of(calls, thread), fd);

    if (entry != NOBODY && is_opening(calls, entry, thread)) {
        struct thread *opening = &calls->threads[calls->entries[entry].thread];

        opening->late_fd = fd;
        opening->late_entry = entry;
        descriptor_closed(calls, thread, fd);
    }
    install(
        calls, thread, row, fd,
        entry_new(calls,
                  (struct entry){
                      .descriptor = descriptor, .from = NOBODY, .thread = thread, .row = row, .is_cloexec = cloexec}));
}

// The last call of a thread that goes on has ended.
void descriptor_install_late(struct calls *calls, int32_t thread, uint32_t row)
{
    int32_t entry = calls->threads[thread].late_entry;

    if (entry == NOBODY)
        return;
    calls->threads[thread].late_entry = NOBODY;
    install(calls, thread, row, calls->threads[thread].late_fd, entry);
}

// The number is open from now on, and how it came to be is not recorded: a descriptor that was received.
void descriptor_foreign(struct calls *calls, int32_t thread, uint32_t row, int32_t fd, uint32_t path, int64_t flags)
{
    int32_t entry;

    if (fd < 0)
        return;
    descriptor_close(calls, thread, row, fd);
    entry = entry_inserted(calls, row, thread);
    calls->entries[entry].is_cloexec = flags & FLAG_CLOEXEC;
    put_entry(calls, table_of(calls, thread), fd, entry);
    description_of(calls, calls->entries[entry].descriptor)->is_append = flags & FLAG_APPEND;
    tell(calls, calls->descriptors[calls->entries[entry].descriptor].description, path, NO_CODE);
}

void descriptor_cloexec(struct calls *calls, int32_t thread, int32_t fd, bool cloexec)
{
    int32_t entry = entry_at(calls, table_of(calls, thread), fd);

    if (entry != NOBODY)
        calls->entries[entry].is_cloexec = cloexec;
}

// Closes all numbers of a range, or those that are to be closed at exec, or sets that mark.
static void close_some(struct calls *calls, int32_t thread, uint32_t row, uint32_t first, uint32_t last, bool marked,
                       bool mark)
{
    struct map *entries = &calls->tables[table_of(calls, thread)].entries;

    for (size_t at = 0; at < entries->room; at++) {
        struct map_slot *slot = &entries->slots[at];
        int32_t entry = (int32_t)(slot->value - FIRST_ENTRY);

        if (slot->value < FIRST_ENTRY || slot->key < first || slot->key > last ||
            (marked && !calls->entries[entry].is_cloexec))
            continue;
        if (mark) {
            calls->entries[entry].is_cloexec = true;
            continue;
        }
        insert_close(calls, thread, row, entry);
        slot->value = CLOSED;
    }
}

void descriptors_close_range(struct calls *calls, int32_t thread, uint32_t row, uint32_t first, uint32_t last,
                             bool cloexec)
{
    close_some(calls, thread, row, first, last, false, cloexec);
}

void fd_table_exec(struct calls *calls, int32_t thread, uint32_t row)
{
    close_some(calls, thread, row, 0, UINT32_MAX, true, false);
}

void fd_table_release(struct calls *calls, int32_t thread, uint32_t row)
{
    struct fd_table *table = &calls->tables[table_of(calls, thread)];

    if (--table->users)
        return;
    close_some(calls, thread, row, 0, UINT32_MAX, false, false);
    map_free(&table->entries);
}
